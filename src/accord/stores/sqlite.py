"""The store that needs nothing: one SQLite file, safe under several processes of one machine.

Durability: a write-ahead log with `synchronous=FULL`. A commit returns after the log was flushed to the disk, so
what was acknowledged survives `kill -9` and a power cut. One thread writes, and all that wait share its commits;
reads have connections of their own and wait for nobody. Not for network file systems, which cannot share the log.

Checkpoints are ours to start, not SQLite's: they are made with the write lock held. SQLite before 3.51.3 can, very
rarely, damage a file when one process resets the log while another one checkpoints without that lock. The log is
then written again from its beginning: flushing a file that does not grow takes half the time.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

from sqlalchemy import Connection, Engine, QueuePool, create_engine, event

from accord.errors import StoreError
from accord.stores import statements
from accord.stores.failure import told_as_ours
from accord.stores.migrate import migrate
from accord.stores.sql import P, SqlStore, Statement, T, finished
from accord.stores.told import CLOSED
from accord.stores.writer import Writer
from accord.wire.session import Erased

BUSY_TIMEOUT_S: Final = 30.0
CHECKPOINT_TIMEOUT_MS: Final = 250
CHECKPOINT_ROWS: Final = 2_000
LOG_BYTES: Final = 16 * 1024 * 1024
READERS: Final = 2
NO_LOG: Final = "this file system cannot hold a write-ahead log"

# `fullfsync` is macOS's word for a flush that reaches the disk; elsewhere it changes nothing.
_FOR_ALL: Final = ("foreign_keys=ON", "synchronous=FULL", "fullfsync=ON")
# What is deleted is overwritten: a user's words do not stay behind in free pages.
_FOR_WRITING: Final = ("wal_autocheckpoint=0", f"journal_size_limit={LOG_BYTES}", "secure_delete=ON")
_FOR_READING: Final = ("query_only=ON",)


class SqliteStore(SqlStore):
    """Sessions in one file, which is made if it is not there; its folder must be."""

    def __init__(self, path: Path, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        self._path: Final = path
        self._busy_timeout_s: Final = busy_timeout_s
        self._checkpoint_at = CHECKPOINT_ROWS
        self._has_erased = False
        self._opened: tuple[Writer, Engine, ThreadPoolExecutor] | None = None

    @property
    def commits(self) -> int:
        """How many transactions were written since the store was opened."""
        return self._parts[0].commits

    @property
    def _parts(self) -> tuple[Writer, Engine, ThreadPoolExecutor]:
        if self._opened is None:
            raise StoreError(CLOSED)
        return self._opened

    async def open(self) -> None:
        """Open the file and bring its schema up to date."""
        if self._opened is not None:
            return
        with told_as_ours(str(self._path)):
            connection = await asyncio.to_thread(self._prepare)
        writer = Writer(connection, joined=statements.append_packets, tidy=self._tidy)
        readers = ThreadPoolExecutor(READERS, thread_name_prefix="accord-store-reader")
        self._opened = writer, self._engine("BEGIN", _FOR_READING, pool_size=READERS), readers

    async def close(self) -> None:
        """Finish what was handed over and let go of the file."""
        if self._opened is None:
            return
        (writer, engine, readers), self._opened = self._opened, None
        await asyncio.to_thread(readers.shutdown)
        engine.dispose()
        await writer.close()

    async def read(self, statement: Statement[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the statement finds among everything committed so far."""
        _, engine, readers = self._parts

        def on_thread() -> T:
            with engine.connect() as connection:
                return statement(connection, *args, **kwargs)

        with told_as_ours(str(self._path)):
            return await asyncio.get_running_loop().run_in_executor(readers, on_thread)

    async def write(self, statement: Statement[P, T], *args: P.args, **_: P.kwargs) -> T:
        """What the statement returns, after its transaction was flushed to the disk."""
        with told_as_ours(str(self._path)):
            return await finished(self._parts[0].submit(statement, *args))

    async def _in_steps(self, statement: Callable[[Connection, T, int], Erased], which: T) -> Erased:
        erased = await super()._in_steps(statement, which)
        # The log still has what was deleted: empty it, and return when that is done.
        self._has_erased = True
        await self.write(statements.probe)
        await self.write(statements.probe)  # begins when what follows the first one is done
        return erased

    def _prepare(self) -> Connection:
        """The writing connection to a file that is ready."""
        engine = self._engine("BEGIN IMMEDIATE", _FOR_WRITING, pool_size=1)
        connection = engine.connect()
        try:
            if self._use_log(connection) != "wal":
                raise StoreError(f"{self._path}: {NO_LOG}")
            with connection.begin():
                migrate(connection)
        except BaseException:
            connection.close()
            engine.dispose()
            raise
        return connection

    def _engine(self, begin: str, pragmas: tuple[str, ...], *, pool_size: int) -> Engine:
        def connect() -> sqlite3.Connection:
            # Without a level the driver begins nothing by itself; the "begin" event below does, and says how.
            opened = sqlite3.connect(
                self._path, timeout=self._busy_timeout_s, isolation_level=None, check_same_thread=False
            )
            for pragma in (*_FOR_ALL, *pragmas):
                opened.execute(f"PRAGMA {pragma}")
            return opened

        def begun(connection: Connection) -> None:
            connection.exec_driver_sql(begin)

        engine = create_engine(
            "sqlite+pysqlite://", creator=connect, poolclass=QueuePool, pool_size=pool_size, max_overflow=0
        )
        event.listen(engine, "begin", begun)
        return engine

    def _tidy(self, connection: Connection) -> None:
        """Move the log into the file when much was written; if somebody is in the way, try after as much again."""
        driver: Any = connection.connection.driver_connection
        if driver.total_changes < self._checkpoint_at and not self._has_erased:
            return
        self._checkpoint_at = driver.total_changes + CHECKPOINT_ROWS
        mode = "TRUNCATE" if self._has_erased else "RESTART"
        driver.execute(f"PRAGMA busy_timeout={CHECKPOINT_TIMEOUT_MS}")
        try:
            (is_busy, *_) = driver.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        finally:
            driver.execute(f"PRAGMA busy_timeout={int(self._busy_timeout_s * 1000)}")
        self._has_erased = self._has_erased and bool(is_busy)

    def _use_log(self, connection: Connection) -> str:
        """The journal mode after asking for a log. SQLite does not wait here, even if told to, so we do."""
        driver: Any = connection.connection.driver_connection
        give_up = monotonic() + self._busy_timeout_s
        while True:
            try:
                return driver.execute("PRAGMA journal_mode=WAL").fetchone()[0]
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or monotonic() > give_up:
                    raise
                sleep(0.01)
