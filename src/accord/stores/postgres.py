"""The store for more than one machine: PostgreSQL through asyncpg. Needs the extra `accord-agents[postgres]`.

Each call is one transaction on a pooled connection. It is acknowledged when the server has flushed it, whatever the
server's own default; that many commits share one flush is PostgreSQL's doing.
"""

from typing import Final

from asyncpg import InterfaceError, PostgresError  # pyright: ignore[reportMissingTypeStubs]
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from accord.errors import StoreError, UsageError
from accord.stores.failure import told_as_ours
from accord.stores.finished import finished
from accord.stores.migrate import migrate
from accord.stores.sql import P, SqlStore, Statement, T
from accord.stores.told import CLOSED

DRIVER: Final = "postgresql+asyncpg"
POOL_SIZE: Final = 10
CONNECT_TIMEOUT_S: Final = 10
COMMAND_TIMEOUT_S: Final = 60


class PostgresStore(SqlStore):
    """Sessions in a PostgreSQL database, given as `postgresql://user:password@host/database`."""

    def __init__(self, url: str, *, pool_size: int = POOL_SIZE) -> None:
        try:
            self._url: Final = make_url(url).set(drivername=DRIVER)
        except (ArgumentError, ValueError):
            raise UsageError("The store's address should look like postgresql://user@host/database") from None
        self._name: Final = f"PostgreSQL {self._url.host or ''}/{self._url.database or ''}"
        self._pool_size: Final = pool_size
        self._engine: AsyncEngine | None = None

    async def open(self) -> None:
        """Connect, and bring the schema up to date."""
        if self._engine is not None:
            return
        self._engine = create_async_engine(
            self._url,
            pool_size=self._pool_size,
            max_overflow=0,
            pool_pre_ping=True,  # a connection that died in the pool must not cost a turn
            connect_args={
                "timeout": CONNECT_TIMEOUT_S,
                "command_timeout": COMMAND_TIMEOUT_S,
                "server_settings": {"synchronous_commit": "on", "application_name": "accord"},
            },
        )
        try:
            await self.write(migrate)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Let go of all connections."""
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.dispose()

    async def read(self, statement: Statement[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the statement finds."""
        return await self._run(statement, *args, **kwargs)

    async def write(self, statement: Statement[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the statement returns, after its transaction was flushed."""
        return await finished(self._run(statement, *args, **kwargs))

    async def _run(self, statement: Statement[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._engine is None:
            raise StoreError(CLOSED)
        with told_as_ours(self._name, PostgresError, InterfaceError):  # as they are, while connecting
            async with self._engine.begin() as connection:
                return await connection.run_sync(statement, *args, **kwargs)
