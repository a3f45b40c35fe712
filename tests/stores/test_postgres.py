"""What the PostgreSQL store guarantees beyond the contract."""

import asyncio
from collections.abc import Iterator

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, text

from accord.errors import ErrorCode, StoreError, UsageError
from accord.ports import PacketBatch
from accord.stores import migrate
from accord.stores.postgres import PostgresStore
from accord.stores.schema import whole_schema
from tests.stores.postgres_server import PostgresServer, running_server
from tests.stores.records import a_receipt, a_session, a_turn, begun, ending, put


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


OF_THE_SCHEMA_BEFORE = (
    """
    INSERT INTO sessions (session_id, owner, agent, negotiated, created_at, updated_at, receipt_count, receipt_hash)
    VALUES ('s1', 'ada', 'demo', '{}', 1, 1, 1, :hash)
    """,
    """
    INSERT INTO turns (request_id, session_id, owner, request_digest, runner, state, created_at)
    VALUES ('r1', 's1', 'ada', 'd', 'p1', 'done', 1)
    """,
    "INSERT INTO receipts VALUES ('s1', 1, 'r1', :body, :hash, NULL)",
)


def _add_by_hand(connection: Connection, values: dict[str, str]) -> None:
    for statement in OF_THE_SCHEMA_BEFORE:
        connection.execute(text(statement), values)


async def test_a_database_of_the_schema_before_keeps_its_receipts(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
):
    url, first = postgres.make_database("before"), a_receipt("r1", None)
    with monkeypatch.context() as earlier:
        earlier.setattr(migrate, "HEAD", "0010")
        store = PostgresStore(url, pool_size=1)
        await store.open()

    await store.write(_add_by_hand, {"hash": first.hash, "body": first.body})
    await store.close()
    await store.open()
    assert await store.receipt("r1") == first
    second = a_receipt("r2", first.hash)
    assert (await store.begin_turn(a_session(), a_turn("r2"), history=0)).last_receipt_hash == first.hash
    assert await store.end_turn(ending("r2", receipt=second))
    assert await store.receipts("s1") == [first, second]
    assert await store.receipt("r2") == second
    await store.close()
