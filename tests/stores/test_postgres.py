"""What the PostgreSQL store guarantees beyond the contract."""

import asyncio
from collections.abc import Iterator

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection

from accord.errors import ErrorCode, StoreError, UsageError
from accord.ports import PacketBatch
from accord.stores.postgres import PostgresStore
from accord.stores.schema import whole_schema
from tests.stores.postgres_server import PostgresServer, running_server
from tests.stores.records import a_session, begun, put


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


async def test_a_lost_database_is_reported_and_writing_continues_when_it_is_back(own_server: PostgresServer):
    store = PostgresStore(own_server.make_database("gone"))
    await store.open()
    await begun(store)
    own_server.stop()
    for call in (store.probe(), store.append_packets(PacketBatch("r1", 1, ["a"]))):
        with pytest.raises(StoreError, match=r"^PostgreSQL /gone: the database cannot be reached; ") as caught:
            await call
        assert caught.value.code is ErrorCode.UNAVAILABLE
    own_server.start()
    await store.append_packets(PacketBatch("r1", 1, ["a"]))
    assert len(await store.packets("r1", after_seq=0, limit=9)) == 1
    await store.close()


async def test_a_missing_database_is_reported_in_one_line(postgres: PostgresServer):
    with pytest.raises(StoreError) as caught:
        await PostgresStore(postgres.url("nowhere")).open()
    assert str(caught.value) == "PostgreSQL /nowhere: there is no such database; create it first"


async def test_a_missing_server_is_reported_in_one_line():
    with pytest.raises(StoreError) as caught:
        await PostgresStore("postgresql://ada:secret@127.0.0.1:1/accord").open()
    assert (
        str(caught.value)
        == "PostgreSQL 127.0.0.1/accord: the database cannot be reached; check its address and that it runs"
    )


@pytest.mark.parametrize("url", ["", "nonsense", "postgresql://host:port/x"])
def test_an_invalid_address_is_a_usage_error(url: str):
    with pytest.raises(UsageError, match="is not valid; use postgresql://"):
        PostgresStore(url)


async def test_many_stores_opened_at_once_make_one_schema(postgres: PostgresServer):
    url = postgres.make_database("at_once")
    stores = [PostgresStore(url, pool_size=1) for _ in range(6)]
    await asyncio.gather(*(store.open() for store in stores))
    told = await asyncio.gather(*(put(store, a_session()) for store in stores))
    assert [begun.existing for begun in told].count(None) == 1

    def differences(connection: Connection) -> list[object]:
        return compare_metadata(MigrationContext.configure(connection), whole_schema())

    def setting(connection: Connection) -> object:
        return connection.exec_driver_sql("SHOW synchronous_commit").scalar()

    assert await stores[0].read(differences) == []
    assert await stores[0].read(setting) == "on"
    for store in stores:
        await store.close()
