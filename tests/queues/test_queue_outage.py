"""PostgreSQL away for longer than a lease: nobody could send heartbeats, so nobody is taken for dead."""

import asyncio
from collections.abc import Iterator

import pytest

from accord.backends.scripted import ScriptedBackend
from accord.errors import StoreError
from accord.ports import QueuedWork
from accord.run import Dispatcher, Engine, SessionRules, Sessions
from accord.stores.postgres import PostgresStore
from tests.queues.agents import safe
from tests.stores.postgres_server import PostgresServer, running_server
from tests.stores.records import a_session, a_turn

LEASE_S = 1.0


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server of this test's own, since it is killed."""
    with running_server() as server:
        yield server


def test_processes_that_could_not_send_heartbeats_are_given_a_lease_to_send_the_next_one(server: PostgresServer):
    async def run() -> None:
        store = PostgresStore(server.make_database("outage"))
        await store.open()
        engine = Engine(safe, Dispatcher([ScriptedBackend("a", [["unused"]], {"streaming": "native"})]))
        sessions = Sessions(engine, store, SessionRules(lease_s=LEASE_S))
        await store.queue_turn(
            a_session("s", owner="u"),
            a_turn("r", "s", owner="u", runner=""),
            QueuedWork("safe", "{}", may_restart=True),
        )
        assert await store.claim(["safe"], runner="other", history=1, history_bytes=1) is not None
        heartbeat = store.heartbeat()
        await asyncio.to_thread(server.kill)
        with pytest.raises(StoreError):
            await sessions.recover()
        await asyncio.sleep(1.2 * LEASE_S)  # longer than a lease: this is the fault
        await asyncio.to_thread(server.start)
        while True:
            try:
                assert await sessions.recover() == 0
                break
            except StoreError:
                await asyncio.sleep(0.02)
        await asyncio.to_thread(heartbeat.beat, "other")
        assert await sessions.recover() == 0
        await asyncio.to_thread(heartbeat.close)
        async with asyncio.timeout(10):
            while not await sessions.recover():  # noqa: ASYNC110 - it is dead after all
                await asyncio.sleep(0.1)
        await sessions.drain(1)
        await store.close()

    async def bounded() -> None:
        await asyncio.wait_for(run(), 40)

    asyncio.run(bounded())
