"""Each store in turn for the same test. Async tests have a time limit."""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from accord.ports import Store
from accord.stores.memory import MemoryStore
from accord.stores.postgres import PostgresStore
from accord.stores.schema import METADATA
from accord.stores.sqlite import SqliteStore
from tests.stores.postgres_server import PostgresServer, running_server

LIMIT_S = 30
MIGRATED = "migrated"


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given: dict[str, Any] = pyfuncitem.funcargs
    wanted = inspect.signature(pyfuncitem.obj).parameters
    runner: asyncio.Runner = given["runner"]
    runner.run(asyncio.wait_for(pyfuncitem.obj(**{name: given[name] for name in wanted}), LIMIT_S))
    return True


@pytest.fixture(autouse=True)
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with running_server() as server:
        migrated = PostgresStore(server.make_database(MIGRATED))
        with asyncio.Runner() as runner:
            runner.run(migrated.open())
            runner.run(migrated.close())
        yield server


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    """Makes a store; of the ones that last, another over the same data each time."""
    match request.param:
        case "memory":
            return MemoryStore
        case "sqlite":
            return lambda: SqliteStore(tmp_path / "sessions.sqlite3")
        case _:
            server: PostgresServer = request.getfixturevalue("postgres")
            runner: asyncio.Runner = request.getfixturevalue("runner")
            runner.run(empty(server.url(MIGRATED)))
            return lambda: PostgresStore(server.url(MIGRATED), pool_size=4)


async def empty(url: str) -> None:
    """Delete every row: a database of its own for each test would take ten times as long to copy and remove."""
    store = PostgresStore(url, pool_size=1)
    await store.open()
    await store.write(_delete_all)
    await store.close()


def _delete_all(connection: Connection) -> None:
    for table in reversed(METADATA.sorted_tables):
        connection.execute(table.delete())


@pytest.fixture
def store(new_store: Callable[[], Store], runner: asyncio.Runner) -> Iterator[Store]:
    store = new_store()
    runner.run(store.open())
    yield store
    runner.run(store.close())
