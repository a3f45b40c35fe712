"""A store for several machines: PostgreSQL through asyncpg. Needs the extra `accord-agents[postgres]`.

Each call is one transaction on a pooled connection. It returns when the server has flushed it, whatever the server's
default is; PostgreSQL lets many commits share one flush.
"""

import asyncio
from typing import Final

from accord.extras import naming_extra

with naming_extra("accord.stores.postgres"):
    from asyncpg import InterfaceError, PostgresError  # pyright: ignore[reportMissingTypeStubs]
    from sqlalchemy import URL, make_url
    from sqlalchemy.exc import ArgumentError
    from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from accord.errors import StoreConflictError, StoreError, UsageError
from accord.stores import liveness
from accord.stores.failure import FailureLog, raise_store_errors, run_to_completion
from accord.stores.heartbeats import HeartbeatConnection
from accord.stores.migrate import migrate
from accord.stores.rules import CLOSED
from accord.stores.sql import P, SqlStore, Statement, T

DRIVER: Final = "postgresql+asyncpg"
POOL_SIZE: Final = 10
CONNECT_TIMEOUT_S: Final = 10
COMMAND_TIMEOUT_S: Final = 60


class PostgresStore(SqlStore):
    """Sessions in a PostgreSQL database, given as `postgresql://user:password@host/database`."""

    def __init__(self, url: str, *, pool_size: int = POOL_SIZE) -> None:
        super().__init__()
        try:
            self._url: Final = make_url(url).set(drivername=DRIVER)
        except (ArgumentError, ValueError):
            raise UsageError("The store's address is not valid; use postgresql://user:password@host/database") from None
        self._name: Final = f"PostgreSQL {self._url.host or ''}/{self._url.database or ''}"
        self._pool_size: Final = pool_size
        self._engine: AsyncEngine | None = None
        self._failures: Final = FailureLog()

    async def open(self) -> None:
        """Connect, and bring the schema up to date."""
        if self._engine is not None:
            return
        self._engine = _make_engine(self._url, self._pool_size)
        try:
            await run_to_completion(self._run(migrate))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close all connections."""
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.dispose()

    async def read(self, statement: Statement[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a statement that only reads."""
        return await self._logged(statement, *args, **kwargs)

    async def write(self, statement: Statement[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a statement that writes; returns when its transaction is flushed."""
        return await run_to_completion(self._logged(statement, *args, **kwargs))

    async def _logged(self, statement: Statement[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            result = await self._run(statement, *args, **kwargs)
        except StoreConflictError:
            raise
        except StoreError as error:
            self._failures.failed(error)
            raise
        self._failures.worked()
        return result

    def heartbeat(self) -> HeartbeatConnection:
        """A separate connection for the thread that sends heartbeats."""
        return _PostgresHeartbeat(self._url, self._name)

    async def _run(self, statement: Statement[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._engine is None:
            raise StoreError(CLOSED)
        # While connecting, the driver's errors come as they are.
        with raise_store_errors(self._name, PostgresError, InterfaceError):
            async with self._engine.begin() as connection:
                return await connection.run_sync(statement, *args, **kwargs)


class _PostgresHeartbeat:
    """Writes heartbeats on a separate connection, with an event loop that runs during a heartbeat only."""

    def __init__(self, url: URL, name: str) -> None:
        self._url: Final = url
        self._name: Final = name
        self._runner: asyncio.Runner | None = None
        self._engine: AsyncEngine | None = None

    def beat(self, runner: str) -> None:
        """Write that this process is alive."""
        self._runner = self._runner or asyncio.Runner()
        with raise_store_errors(self._name, PostgresError, InterfaceError):
            self._runner.run(self._beat(runner))

    def close(self) -> None:
        """Close the connection."""
        runner, self._runner = self._runner, None
        engine, self._engine = self._engine, None
        if runner is not None:
            with runner:
                if engine is not None:
                    runner.run(engine.dispose())

    async def _beat(self, runner: str) -> None:
        self._engine = self._engine or _make_engine(self._url, 1)
        async with asyncio.timeout(CONNECT_TIMEOUT_S), self._engine.begin() as connection:
            await connection.run_sync(liveness.beat, runner)


def _make_engine(url: URL, pool_size: int) -> AsyncEngine:
    return create_async_engine(
        url,
        pool_size=pool_size,
        max_overflow=0,
        pool_pre_ping=True,  # a connection that died in the pool must not fail a turn
        connect_args={
            "timeout": CONNECT_TIMEOUT_S,
            "command_timeout": COMMAND_TIMEOUT_S,
            "server_settings": {"synchronous_commit": "on", "application_name": "accord"},
        },
    )
