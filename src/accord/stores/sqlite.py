"""The store that needs nothing: one SQLite file, safe under several processes of one machine.

Durability: a write-ahead log with `synchronous=FULL`. A commit returns after the log was flushed to the disk, so
what was acknowledged survives `kill -9` and a power cut. One thread writes, and all that wait share its commits;
the writing threads of several processes take turns (`write_lock.py`). Reads have connections of their own and never
wait. Not for network file systems, which cannot share the log.

Checkpoints are ours to start, not SQLite's: they are made with the write lock held. SQLite before 3.51.3 can, very
rarely, damage a file when one process resets the log while another one checkpoints without that lock. The log is
then written again from its beginning: flushing a file that does not grow takes half the time.

A file that is deleted or replaced while it is open would still take writes, which could never be read again. So its
identity is checked before and after each commit: nothing is acknowledged that is not in the file of that name.
"""

import asyncio
import logging
import sqlite3
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from accord.extras import naming_extra

with naming_extra("accord.stores.sqlite"):
    from sqlalchemy import Connection, NullPool, create_engine

from accord.errors import StoreConflictError, StoreError
from accord.ports import DeletionProgress
from accord.stores import liveness, statements
from accord.stores.failure import SQLITE, FailureLog, describe_failure, raise_store_errors
from accord.stores.heartbeats import HeartbeatConnection
from accord.stores.liveness import probe
from accord.stores.migrate import migrate
from accord.stores.prepared import driver_of
from accord.stores.rules import CLOSED
from accord.stores.sql import P, SqlStore, Statement, T
from accord.stores.write_lock import WriteLock
from accord.stores.writer import Writer
from accord.wire.session import DeletionCounts

BUSY_TIMEOUT_S: Final = 30.0
CHECKPOINT_TIMEOUT_MS: Final = 250
CHECKPOINT_ROWS: Final = 2_000
LOG_BYTES: Final = 16 * 1024 * 1024
READERS: Final = 2
NO_FILE: Final = "there is no such file"
NO_LOG: Final = "this file system cannot hold a write-ahead log; use a local disk"
GONE: Final = "the file was deleted or replaced while it was in use; put it back, or restart the service"
DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
INCREMENTAL: Final = 2
VACUUM_PAGES: Final = 16
VACUUM_S: Final = 0.01

LOGGER: Final = logging.getLogger("accord.stores")

# On macOS only `fullfsync` flushes to the disk itself; elsewhere it changes nothing.
_FOR_ALL: Final = ("synchronous=FULL", "fullfsync=ON")
# `secure_delete` overwrites deleted data, so that it does not stay in free pages. `auto_vacuum` lets a new file
# shrink; for an older file, `_make_incremental` arranges that.
_FOR_WRITING: Final = (
    *_FOR_ALL,
    f"auto_vacuum={INCREMENTAL}",
    "wal_autocheckpoint=0",
    f"journal_size_limit={LOG_BYTES}",
    "secure_delete=ON",
)
_FOR_READING: Final = (*_FOR_ALL, "query_only=ON")


@dataclass(frozen=True, slots=True)
class _Opened:
    """What an open store holds. There is a connection for each thread that reads, so that one is always free."""

    writer: Writer
    readers: ThreadPoolExecutor
    reading: deque[Connection]


class SqliteStore(SqlStore):
    """Sessions in one file. Its folder must exist, and so must the file unless the store may `create` it."""

    def __init__(self, path: Path, *, create: bool = True, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        super().__init__()
        self._path: Final = path
        self._create: Final = create
        self._busy_timeout_s: Final = busy_timeout_s
        self._checkpoint_at = CHECKPOINT_ROWS
        self._checkpoint_bytes = LOG_BYTES
        self._has_deleted = False
        self._is_damaged = False
        self._failures: Final = FailureLog()
        self._files: Final = tuple(path.with_name(path.name + end) for end in ("", "-wal", "-shm"))
        self._identity: tuple[tuple[int, int], ...] = ()
        self._lock: Final = WriteLock(path)
        """The lock of the writing thread."""
        self._opened: _Opened | None = None

    @property
    def commits(self) -> int:
        """The number of transactions since the store was opened."""
        return self._parts.writer.commits

    @property
    def _parts(self) -> _Opened:
        if self._opened is None:
            raise StoreError(CLOSED)
        return self._opened

    async def open(self) -> None:
        """Open the file and bring its schema up to date."""
        if self._opened is not None:
            return
        with raise_store_errors(str(self._path), sqlite3.Error):
            writing, reading = await asyncio.to_thread(self._connections)
        self._checkpoint_at, self._checkpoint_bytes = CHECKPOINT_ROWS, LOG_BYTES
        writer = Writer(
            writing,
            driver_of(writing),
            self._lock,
            lock_timeout_s=self._busy_timeout_s,
            check=self._check_identity,
            tidy=self._tidy,
        )
        readers = ThreadPoolExecutor(READERS, thread_name_prefix="accord-store-reader")
        self._opened = _Opened(writer, readers, deque(reading))

    async def close(self) -> None:
        """Finish the submitted writes and close the file."""
        if self._opened is None:
            return
        parts, self._opened = self._opened, None
        await asyncio.to_thread(parts.readers.shutdown)
        for connection in parts.reading:
            connection.close()
        await parts.writer.close()

    async def read(self, statement: Statement[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a statement that only reads, in a thread."""
        parts = self._parts

        def on_thread() -> T:
            connection = parts.reading.pop()
            try:
                return statement(connection, *args, **kwargs)
            finally:
                connection.rollback()  # ends the transaction that SQLAlchemy began, if the statement used it
                parts.reading.append(connection)

        with self._report_errors():
            return await asyncio.get_running_loop().run_in_executor(parts.readers, on_thread)

    async def write(self, statement: Statement[P, T], *args: P.args, **_: P.kwargs) -> T:
        """Run a statement that writes; returns when its transaction is flushed to the disk."""
        with self._report_errors():
            written = await self._parts.writer.submit(statement, *args)
        self._failures.worked()
        return written

    async def probe(self) -> None:
        """Return if the file can be written and is still the one that was opened."""
        await super().probe()
        if self._is_damaged:
            raise StoreError(f"{self._path}: {SQLITE['SQLITE_CORRUPT']}")

    async def _erase(
        self, hide: Callable[[Connection, T], int], which: T, progress: DeletionProgress | None
    ) -> DeletionCounts:
        deleted = await super()._erase(hide, which, progress)
        if deleted != DeletionCounts():
            # The write-ahead log still holds what was deleted: empty it, and return when that is done.
            self._has_deleted = True
            await self.write(probe)
            await self.write(probe)  # starts only after the log was emptied, which follows the first one
        return deleted

    def heartbeat(self) -> HeartbeatConnection:
        """A separate connection for the thread that sends heartbeats."""
        return _SqliteHeartbeat(self._path, self._busy_timeout_s)

    def _delete_some(self, connection: Connection) -> tuple[DeletionCounts, bool]:
        """Delete some hidden rows, and return their pages to the file system.

        Not all pages at the end: SQLite searches its list of free pages for each of them.
        """
        deleted, is_all = super()._delete_some(connection)
        return deleted, not _vacuum_some(driver_of(connection)) and is_all

    @contextmanager
    def _report_errors(self) -> Generator[None]:
        try:
            with raise_store_errors(str(self._path), sqlite3.Error):
                yield
        except StoreError as error:
            cause = getattr(error.__cause__, "orig", error.__cause__)
            # The first byte is the primary result code.
            self._is_damaged = self._is_damaged or getattr(cause, "sqlite_errorcode", 0) & 0xFF in DAMAGED
            if not isinstance(error, StoreConflictError):
                self._failures.failed(error)
            raise

    def _check_identity(self) -> None:
        """Raise `StoreError` if the store's files were deleted or replaced."""
        try:
            found = tuple(map(_identity, self._files))
        except OSError:
            found = ()
        if found != self._identity:
            raise StoreError(f"{self._path}: {GONE}")

    def _connections(self) -> tuple[Connection, list[Connection]]:
        """Prepare the file; returns a connection for writing, and some for reading."""
        if not self._create and not self._path.exists():
            raise StoreError(f"{self._path}: {NO_FILE}")
        engine = create_engine("sqlite+pysqlite://", creator=self._connect, poolclass=NullPool)
        with ExitStack() as opened:
            writing = opened.enter_context(engine.connect())
            with WriteLock(self._path) as lock:
                lock.acquire_within(self._busy_timeout_s)
                self._prepare(writing)
            reading = [opened.enter_context(engine.connect()) for _ in range(READERS)]
            for connection in reading:
                _set_pragmas(driver_of(connection), _FOR_READING)
                statements.session_of(connection, "")  # makes SQLite open the log and its index
            self._identity = tuple(map(_identity, self._files))
            opened.pop_all()
        return writing, reading

    def _connect(self) -> sqlite3.Connection:
        # Without an isolation level the driver begins no transactions by itself; the writer does.
        return sqlite3.connect(self._path, timeout=self._busy_timeout_s, isolation_level=None, check_same_thread=False)

    def _prepare(self, connection: Connection) -> None:
        _set_pragmas(driver_of(connection), _FOR_WRITING)
        if self._use_log(driver_of(connection)) != "wal":
            raise StoreError(f"{self._path}: {NO_LOG}")
        with connection.begin():  # commits, but does not begin
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            # Foreign keys are still off: a revision that replaces a table must not delete what refers to it.
            migrate(connection)
        _set_pragmas(driver_of(connection), ("foreign_keys=ON",))
        if _auto_vacuum(driver_of(connection)) != INCREMENTAL:
            self._make_incremental(driver_of(connection))

    def _make_incremental(self, driver: sqlite3.Connection) -> None:
        """Rewrite a file of an older version once, so that it can shrink when data is deleted."""
        LOGGER.warning("Compacting the session store once; this may take minutes")
        try:
            _set_pragmas(driver, (f"auto_vacuum={INCREMENTAL}",))
            driver.execute("VACUUM")
            driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.OperationalError as error:
            # The file still works.
            message = "The session store could not be compacted; the next start tries again"
            LOGGER.warning(message, extra={"fields": {"why": describe_failure(error)}})

    def _tidy(self, driver: sqlite3.Connection) -> None:
        """Checkpoint the log when it is long; if another connection prevents it, try again later."""
        log_bytes = self._files[1].stat().st_size
        is_long = driver.total_changes >= self._checkpoint_at or log_bytes > self._checkpoint_bytes
        if not is_long and not self._has_deleted:
            return
        self._checkpoint_at = driver.total_changes + CHECKPOINT_ROWS
        mode = "TRUNCATE" if self._has_deleted else "RESTART"
        driver.execute(f"PRAGMA busy_timeout={CHECKPOINT_TIMEOUT_MS}")
        self._lock.acquire()
        try:
            (is_busy, *_) = driver.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        finally:
            self._lock.release()
            driver.execute(f"PRAGMA busy_timeout={int(self._busy_timeout_s * 1000)}")
        self._checkpoint_bytes = LOG_BYTES + (log_bytes if is_busy else 0)
        self._has_deleted = self._has_deleted and bool(is_busy)

    def _use_log(self, driver: sqlite3.Connection) -> str:
        """The journal mode after requesting a write-ahead log. SQLite's busy timeout has no effect here."""
        give_up = monotonic() + self._busy_timeout_s
        while True:
            try:
                return driver.execute("PRAGMA journal_mode=WAL").fetchone()[0]
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or monotonic() > give_up:
                    raise
                sleep(0.01)


def _set_pragmas(driver: sqlite3.Connection, pragmas: tuple[str, ...]) -> None:
    for pragma in pragmas:
        driver.execute(f"PRAGMA {pragma}")


class _SqliteHeartbeat:
    """Writes heartbeats on a separate connection, opened with the first one."""

    def __init__(self, path: Path, busy_timeout_s: float) -> None:
        self._path: Final = path
        self._busy_timeout_s: Final = busy_timeout_s
        self._connection: Connection | None = None

    def beat(self, runner: str) -> None:
        """Write that this process is alive."""
        # Closed after each heartbeat, so that one that waited for too long does not hold the lock later.
        with raise_store_errors(str(self._path), sqlite3.Error), WriteLock(self._path) as lock:
            lock.acquire_within(self._busy_timeout_s)
            connection = self._connection = self._connection or self._open()
            driver = driver_of(connection)
            driver.execute("BEGIN IMMEDIATE")
            try:
                liveness.beat(connection, runner)
                driver.execute("COMMIT")
            finally:
                driver.rollback()  # does nothing after a commit

    def close(self) -> None:
        """Close the file."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _open(self) -> Connection:
        def connect() -> sqlite3.Connection:
            # Never creates the file: the store reports one that is gone.
            address = f"{self._path.absolute().as_uri()}?mode=rw"
            return sqlite3.connect(address, uri=True, timeout=self._busy_timeout_s, isolation_level=None)

        connection = create_engine("sqlite+pysqlite://", creator=connect, poolclass=NullPool).connect()
        _set_pragmas(driver_of(connection), _FOR_WRITING)
        return connection


def _identity(file: Path) -> tuple[int, int]:
    found = file.stat()
    return found.st_dev, found.st_ino


def _vacuum_some(driver: sqlite3.Connection) -> bool:
    """Return free pages to the file system for about `VACUUM_S`; whether there are more."""
    if _auto_vacuum(driver) != INCREMENTAL:
        return False
    until = monotonic() + VACUUM_S
    while (has_more := driver.execute("PRAGMA freelist_count").fetchone()[0] > 0) and monotonic() < until:
        driver.execute(f"PRAGMA incremental_vacuum({VACUUM_PAGES})").fetchall()  # one row for each page
    return has_more


def _auto_vacuum(driver: sqlite3.Connection) -> int:
    return driver.execute("PRAGMA auto_vacuum").fetchone()[0]
