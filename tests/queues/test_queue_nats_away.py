"""Workers die while NATS is away: nobody waits for NATS who does not need it, and no turn is given up for it."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from accord.backends.scripted import ScriptedBackend
from accord.errors import StoreError
from accord.ports import PacketBatch
from accord.queues.nats.connection import NatsConnection, NatsSettings
from accord.queues.nats.log import JetStreamLog
from accord.queues.nats.work import NatsWorkQueue
from accord.run import Dispatcher, Engine, Links, SessionRules, Sessions
from accord.stores.postgres import PostgresStore
from accord.wire.request import ServiceRequest
from tests.queues.agents import never, safe
from tests.queues.fleet import EVENTS, Place, Process, events, numbers, ops, read, request, running, stream, text_of
from tests.queues.nats_server import NatsServer, running_nats
from tests.stores.postgres_server import PostgresServer

LIMIT_S = 50


@pytest.fixture
def nats() -> Iterator[NatsServer]:
    """A server of this test's own, since it is killed."""
    with running_nats() as server:
        yield server


@pytest.fixture
def place(
    postgres: PostgresServer,
    nats: NatsServer,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Place:
    made = Place(tmp_path, postgres.make_database(f"away_{abs(hash(request.node.nodeid))}"), nats.url)
    monkeypatch.setenv("ACCORD_TEST_RUNS", str(made.runs_file))
    return made


@dataclass(slots=True)
class Parts:
    """The sessions of a worker, and what they are made of."""

    sessions: Sessions
    store: PostgresStore
    connection: NatsConnection
    log: JetStreamLog


@asynccontextmanager
async def worker_parts(place: Place, lease_s: float = 0.0) -> AsyncGenerator[Parts]:
    """The sessions of a worker, in this process. To it, every other process is dead."""
    store, connection = PostgresStore(place.database), NatsConnection(NatsSettings(place.nats or ""))
    await store.open()
    await connection.open()
    engine = Engine(safe, Dispatcher([ScriptedBackend("a", [["unused"]], {"streaming": "native"})]))
    log = JetStreamLog(connection, store)
    links = Links(connection, log, NatsWorkQueue(connection))
    others = {"never": engine.with_agent(never)}
    sessions = Sessions(engine, store, SessionRules(lease_s=lease_s), others=others, links=links)
    try:
        yield Parts(sessions, store, connection, log)
    finally:
        await sessions.drain(5)
        await connection.close()
        await store.close()


async def claim_as_dead(parts: Parts, agent: str) -> str:
    """A turn whose worker has died after one packet, which the store does not have."""
    made = ServiceRequest.model_validate(request("count 3 1", agent))
    await parts.sessions.begin(made)
    claimed = await parts.store.claim([agent], runner=f"dead {agent}", history=1, history_bytes=1)
    assert claimed is not None
    log = parts.log.open_turn(claimed.turn, 0)
    await log.append(PacketBatch(str(made.request_id), 1, ['{"op":"delta","p":"0 "}']))
    log.close()
    return str(made.request_id)


async def until_away(parts: Parts) -> None:
    while parts.connection.is_connected:  # noqa: ASYNC110 - of another process
        await asyncio.sleep(0.02)


def test_a_turn_that_cannot_be_ended_now_does_not_keep_others_from_being_restarted(place: Place, nats: NatsServer):
    async def run() -> None:
        async with asyncio.timeout(LIMIT_S), worker_parts(place) as parts:
            sessions = parts.sessions
            await claim_as_dead(parts, "never")
            await claim_as_dead(parts, "safe")
            nats.kill()
            await until_away(parts)
            with pytest.raises(StoreError):
                await sessions.recover()
            assert (await parts.store.waiting()).total == 1

    asyncio.run(run())


def test_a_turn_that_is_restarted_while_nats_is_away_continues_when_it_is_back(place: Place, nats: NatsServer):
    async def run() -> None:
        async with asyncio.timeout(LIMIT_S), worker_parts(place) as parts:
            sessions = parts.sessions
            request_id = await claim_as_dead(parts, "safe")
            nats.kill()
            await until_away(parts)
            await sessions.recover()
            claimed = await sessions.claim(["safe"])
            assert claimed is not None
            starting = asyncio.create_task(sessions.run_claimed(claimed))
            await asyncio.wait([starting], timeout=2)
            await sessions.recover()  # it is not taken for a turn that nobody runs
            assert not starting.done()
            await asyncio.to_thread(nats.start)
            await (await starting).task
            found = await sessions.store.packets(request_id, after_seq=0, limit=100)
            assert "".join(body for _, body in found).count('"0 "') == 1
            turn = await sessions.store.turn(request_id)
            assert turn is not None
            assert (turn.state, turn.epoch) == ("done", claimed.turn.epoch)

    asyncio.run(run())


def test_readers_do_not_wait_for_nats_when_the_worker_of_another_turn_has_died(place: Place, nats: NatsServer):
    agents = {name: f"tests.queues.agents:{name}" for name in ("safe", "never")}

    async def run() -> None:
        server = Process(place, "s", "serve")
        dying = Process(place, "w1", "worker", agents={"never": agents["never"]})
        living = Process(place, "w2", "worker", agents={"safe": agents["safe"]})
        lost, kept = request("count 2000 20", "never"), request("count 120 50", "safe")
        async with running(server, dying, living):
            async with server.client() as http:
                async with http.post("/v1/assist", json=lost, headers=EVENTS) as response:
                    await anext(events(response))
                async with http.post("/v1/assist", json=kept, headers=EVENTS) as response:
                    packets = events(response)
                    got = [await anext(packets)]
                    nats.kill()
                    await dying.kill()
                    got += [each async for each in packets]
            assert text_of(got) == numbers(120)
            assert ops(got)[-1] == "close"
            assert [number for number, _ in got] == list(range(1, len(got) + 1))
            await asyncio.to_thread(nats.start)
            ended = await read(server, lost)
            assert ops(ended)[-2:] == ["error", "close"]
            assert ended[-2][1]["p"]["severity"] == "transient"
            assert text_of(await stream(server, request("count 3 1", "safe"))) == numbers(3)

    async def bounded() -> None:
        await asyncio.wait_for(run(), LIMIT_S)

    asyncio.run(bounded())


def test_nobody_follows_a_turn_that_nobody_reads(place: Place):
    async def run() -> None:
        async with asyncio.timeout(LIMIT_S), worker_parts(place, lease_s=15.0) as parts:
            sessions = parts.sessions
            for number in range(20):
                made = ServiceRequest.model_validate(request("count 3 1"))
                turn = await sessions.begin(made)
                claimed = await sessions.claim(["safe"])
                assert claimed is not None
                live = await sessions.run_claimed(claimed)
                if number % 2:
                    async with aclosing(turn.read()) as batches:
                        assert await anext(batches)  # and leaves
                await live.task
                del turn, live, claimed
            assert not sessions._followers._followers  # pyright: ignore[reportPrivateUsage] - a leak is seen nowhere else
            assert not sessions._followers._ends  # pyright: ignore[reportPrivateUsage]

    asyncio.run(run())
