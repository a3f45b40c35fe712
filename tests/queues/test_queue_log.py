"""The log of packets in JetStream when answers are lost, when NATS is away, and when two workers have had a turn."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest

from accord.errors import StoreConflictError, StoreError
from accord.ports import PacketBatch, QueuedWork, RunNews
from accord.queues.nats.connection import NatsConnection, NatsSettings
from accord.queues.nats.log import JetStreamLog
from accord.queues.nats.work import NatsWorkQueue
from accord.stores.postgres import PostgresStore
from accord.wire.session import RunRecord
from tests.queues.nats_server import NatsServer, running_nats
from tests.stores.postgres_server import PostgresServer
from tests.stores.records import a_session, a_turn

LIMIT_S = 40
DELTAS = ['{"op":"delta","p":"a"}', '{"op":"delta","p":"b"}']
END = ['{"op":"error","p":{}}', '{"op":"close"}']


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with running_nats() as server:
        yield server


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> str:
    return postgres.make_database("log")


class Parts:
    """A store, a connection to NATS and the log over both."""

    def __init__(self, store: PostgresStore, connection: NatsConnection) -> None:
        self.store, self.connection = store, connection
        self.log = JetStreamLog(connection, store)

    async def claim(self, runner: str = "w1") -> RunRecord:
        """A new turn, given to this worker."""
        session = a_session(f"s-{uuid4()}", owner="u")
        turn = a_turn(str(uuid4()), session.session_id, owner="u", runner="")
        await self.store.queue_turn(session, turn, QueuedWork("safe", "{}", may_restart=True))
        return (await self.claim_again(runner)).turn

    async def claim_again(self, runner: str) -> Any:
        claimed = await self.store.claim(["safe"], runner=runner, history=1, history_bytes=1)
        assert claimed is not None
        return claimed

    async def take_over(self, turn: RunRecord, runner: str) -> RunRecord:
        """The turn under a new epoch: its worker is taken for dead."""
        claimed = await self.store.take_over(turn, 0.0, runner=runner)
        assert claimed is not None
        return claimed.turn


@asynccontextmanager
async def parts(server: NatsServer, database: str) -> AsyncGenerator[Parts]:
    store, connection = PostgresStore(database), NatsConnection(NatsSettings(server.url))
    await store.open()
    await connection.open()
    try:
        yield Parts(store, connection)
    finally:
        server.go_on()
        await connection.close()
        await store.close()


def bounded(server: NatsServer, database: str, test: Callable[[Parts], Awaitable[None]]) -> None:
    server.start_if_stopped()

    async def run() -> None:
        async with asyncio.timeout(LIMIT_S), parts(server, database) as made:
            await test(made)

    asyncio.run(run())


async def until(condition: Callable[[], bool], within_s: float = 10) -> None:
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.02)


def test_a_worker_that_comes_late_with_its_fence_cannot_publish_after_the_next_worker(
    server: NatsServer, database: str
):
    """It was given the turn, stood still, and the turn was given to another one before it had fenced the log."""

    async def test(made: Parts) -> None:
        first = await made.claim()
        late = await made.take_over(first, "w2")
        latest = await made.take_over(late, "w3")
        assert await made.log.fence(latest) == []
        await made.log.open_turn(latest, 0).append(PacketBatch(first.request_id, 1, DELTAS))
        with pytest.raises(StoreConflictError):
            await made.log.fence(late)

    bounded(server, database, test)


def test_an_earlier_worker_is_refused_after_the_fence_and_what_it_sent_before_is_kept(
    server: NatsServer, database: str
):
    async def test(made: Parts) -> None:
        first = await made.claim()
        log = made.log.open_turn(first, 0)
        await log.append(PacketBatch(first.request_id, 1, DELTAS[:1]))
        second = await made.take_over(first, "w2")
        assert await made.log.fence(second) == DELTAS[:1]
        with pytest.raises(StoreConflictError):
            await log.append(PacketBatch(first.request_id, 2, DELTAS[1:]))
        assert await made.log.unstored(first.request_id, 0) == [(1, DELTAS[0])]
        log.close()

    bounded(server, database, test)


def test_the_end_follows_packets_that_the_store_took_although_its_answer_was_lost(server: NatsServer, database: str):
    async def test(made: Parts) -> None:
        turn = await made.claim()
        log = made.log.open_turn(turn, 0)
        server.kill()
        await until(lambda: not made.connection.is_connected)
        # What the store does when its answer is lost.
        await made.store.append_packets(PacketBatch(turn.request_id, 1, DELTAS, turn.epoch))
        with pytest.raises(StoreConflictError):
            await log.append(PacketBatch(turn.request_id, 1, DELTAS))
        assert await log.ending(END, stored_seq=2) == PacketBatch(turn.request_id, 3, END, turn.epoch)
        log.close()

    bounded(server, database, test)


def test_the_end_follows_packets_that_jetstream_took_although_its_answer_came_too_late(
    server: NatsServer, database: str
):
    """Followers have got them. Neither JetStream nor the store has confirmed them."""

    async def test(made: Parts) -> None:
        turn = await made.claim()
        log = made.log.open_turn(turn, 0)
        server.pause()
        await made.store.close()
        with pytest.raises(StoreError):
            await log.append(PacketBatch(turn.request_id, 1, DELTAS))
        await made.store.open()
        server.go_on()
        assert await log.ending(END) == PacketBatch(turn.request_id, 1, [*DELTAS, *END], turn.epoch)
        log.close()

    bounded(server, database, test)


def test_a_turn_that_is_followed_while_nats_is_away_has_news_when_nats_is_back(server: NatsServer, database: str):
    async def test(made: Parts) -> None:
        turn = await made.claim()
        server.kill()
        await until(lambda: not made.connection.is_connected)
        news: list[RunNews] = []
        end = made.log.follow(turn.request_id, news.append)
        await asyncio.to_thread(server.start)
        await until(lambda: made.connection.is_connected)
        log = made.log.open_turn(turn, 0)
        await log.append(PacketBatch(turn.request_id, 1, DELTAS))
        await until(lambda: bool(news))
        assert news == [RunNews(1, 2, DELTAS)]
        log.close()
        end()

    bounded(server, database, test)


def test_a_turn_that_is_put_back_is_announced_again(server: NatsServer, database: str):
    async def test(made: Parts) -> None:
        queue, request_id = NatsWorkQueue(made.connection), str(uuid4())
        for _ in range(2):
            queue.announce("twice", request_id)
            (item,) = await queue.receive(["twice"], limit=1, timeout_s=3)
            await item.done()

    bounded(server, database, test)


def test_copying_goes_on_after_an_answer_of_the_store_was_lost(server: NatsServer, database: str):
    async def test(made: Parts) -> None:
        turn = await made.claim()
        log = made.log.open_turn(turn, 0)
        await log.append(PacketBatch(turn.request_id, 1, DELTAS))
        await made.store.append_packets(PacketBatch(turn.request_id, 1, DELTAS, turn.epoch))
        await log.append(PacketBatch(turn.request_id, 3, DELTAS))
        async with asyncio.timeout(5):
            while (found := await made.store.turn(turn.request_id)) and found.last_seq < 4:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        log.close()

    bounded(server, database, test)
