"""A store in memory, for tests, demos and services that must not store anything on disk: SQLite without a file.

It has the same contract as the other stores, except that its data is lost when it is closed. Statements run at once, on
the thread of the event loop: they take microseconds, and passing them to a thread would take longer.
"""

import sqlite3
from dataclasses import dataclass
from threading import Lock
from typing import Final

from accord.extras import naming_extra

with naming_extra("accord.stores.memory"):
    from sqlalchemy import Connection, NullPool, create_engine

from accord.errors import StoreError
from accord.stores import liveness
from accord.stores.failure import raise_store_errors
from accord.stores.heartbeats import HeartbeatConnection
from accord.stores.prepared import driver_of
from accord.stores.rules import CLOSED
from accord.stores.schema import METADATA
from accord.stores.sql import P, SqlStore, Statement, T


def _connect() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)


_ENGINE: Final = create_engine("sqlite+pysqlite://", creator=_connect, poolclass=NullPool)
"""Keeps no connections, only what SQLAlchemy learns of types."""


class MemoryStore(SqlStore):
    """Sessions in this process's memory. Every call runs to its end without yielding, so each is atomic."""

    def __init__(self) -> None:
        super().__init__()
        self._connection: Connection | None = None
        self._lock: Final = Lock()
        """Held during each statement: heartbeats come from a thread."""

    async def open(self) -> None:
        """Make the store ready."""
        if self._connection is None:
            self._connection = _ENGINE.connect()
            METADATA.create_all(self._connection)
            driver_of(self._connection).execute("PRAGMA foreign_keys=ON")

    async def close(self) -> None:
        """Free the memory, and refuse further calls."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    async def probe(self) -> None:
        """Return if the store is open. No other version can have changed its schema."""
        await self.write(liveness.probe)

    async def read(self, statement: Statement[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a statement that only reads."""
        return self.run(statement, *args, **kwargs)

    async def write(self, statement: Statement[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a statement that writes, in a transaction."""
        return self.run(statement, *args, **kwargs)

    def run(self, statement: Statement[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a statement in a transaction, in any thread."""
        with self._lock, raise_store_errors("The store in memory", sqlite3.Error):
            if self._connection is None:
                raise StoreError(CLOSED)
            driver = driver_of(self._connection)
            driver.execute("BEGIN")
            try:
                result = statement(self._connection, *args, **kwargs)
                driver.execute("COMMIT")
            finally:
                driver.rollback()  # does nothing after a commit
                self._connection.rollback()  # a statement that used SQLAlchemy made it begin a transaction
        return result

    def heartbeat(self) -> HeartbeatConnection:
        """Writes heartbeats on the store's one connection."""
        return _MemoryHeartbeat(self)


@dataclass(frozen=True, slots=True)
class _MemoryHeartbeat:
    store: MemoryStore

    def beat(self, runner: str) -> None:
        self.store.run(liveness.beat, runner)

    def close(self) -> None:
        pass
