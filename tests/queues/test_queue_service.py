"""Servers and workers as real processes, over NATS and over PostgreSQL alone: what a client sees of them."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any

import pytest

from accord.core.receipt import verify
from accord.stores.postgres import PostgresStore
from tests.queues.fleet import (
    EVENTS,
    LIMIT_S,
    Place,
    Process,
    ask,
    events,
    numbers,
    ops,
    path_of,
    read,
    request,
    running,
    stream,
    text_of,
    until_runs,
)

PLAIN = json.dumps({"supported_events": [], "prefers_markdown": False})


@dataclass(slots=True)
class Fleet:
    """Two servers and two workers."""

    place: Place
    servers: tuple[Process, Process]
    workers: tuple[Process, Process]


@pytest.fixture(scope="module")
def loop() -> Generator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module", params=["nats", "postgres"])
def fleet(request: pytest.FixtureRequest, new_place: Callable[[str], Place], loop: asyncio.Runner) -> Generator[Fleet]:
    place = new_place(request.param)
    servers = Process(place, "s1", "serve"), Process(place, "s2", "serve")
    workers = Process(place, "w1", "worker"), Process(place, "w2", "worker")
    around = running(*servers, *workers)
    loop.run(around.__aenter__())
    yield Fleet(place, servers, workers)
    loop.run(around.__aexit__(None, None, None))


@pytest.fixture
def within(loop: asyncio.Runner) -> Callable[[Callable[[], Awaitable[None]]], None]:
    async def bounded(run: Callable[[], Awaitable[None]]) -> None:
        await asyncio.wait_for(run(), LIMIT_S)

    return lambda run: loop.run(bounded(run))


Within = Callable[[Callable[[], Awaitable[None]]], None]


async def receipt_of(server: Process, made: dict[str, Any]) -> dict[str, Any]:
    """The receipt of a turn, as soon as there is one; the caller bounds the wait."""
    while True:
        async with server.client() as http, http.get(f"{path_of(made)}/receipt") as response:
            if response.status == 200:
                return await response.json()
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("agent", ["safe", "never"])
def test_an_answer_is_the_same_as_json_and_as_events(fleet: Fleet, within: Within, agent: str):
    async def run() -> None:
        packets = await stream(fleet.servers[0], request("count 5 5", agent))
        assert (text_of(packets), ops(packets)[-1]) == (numbers(5), "close")
        status, answer = await ask(fleet.servers[1], request("count 5 5", agent))
        assert (status, answer["output"]["text"]) == (200, numbers(5))

    within(run)


def test_a_stream_is_resumed_at_another_server_and_read_by_others_meanwhile(fleet: Fleet, within: Within):
    first, second = fleet.servers
    made = request("count 60 20")

    async def run() -> None:
        got: list[tuple[int, dict[str, Any]]] = []
        async with first.client() as http, http.post("/v1/assist", json=made, headers=EVENTS) as response:
            async for each in events(response):
                got.append(each)
                if len(got) == 5:
                    break
        other = asyncio.create_task(read(first, made))
        got += await read(second, made, after=got[-1][0])
        assert text_of(got) == numbers(60)
        assert await other == await read(first, made) == await read(second, made) == got

    within(run)


def test_ids_of_packets_strictly_increase_within_a_run(fleet: Fleet, within: Within):
    """As in langgraph#8112, where a run's event ids started again."""

    async def run() -> None:
        made = request("show 30 1")
        packets = await stream(fleet.servers[0], made)
        assert [number for number, _ in packets] == list(range(1, len(packets) + 1))
        for after in range(len(packets)):
            assert await read(fleet.servers[1], made, after=after) == packets[after:]

    within(run)


def test_a_stream_that_is_joined_again_keeps_the_view_of_its_reader(fleet: Fleet, within: Within):
    """As in langgraph#7778, where a rejoined stream lost its filter."""
    first, second = fleet.servers
    made, plain = request("show 40 20"), {"accord-capabilities": PLAIN}

    async def run() -> None:
        sending = asyncio.create_task(stream(first, made))
        await until_runs(fleet.place, made)
        got: list[tuple[int, dict[str, Any]]] = []
        async with second.client() as http, http.get(path_of(made), headers={**EVENTS, **plain}) as response:
            async for each in events(response):
                got.append(each)
                if len(got) == 4:
                    break
        got += await read(first, made, after=got[-1][0], headers=plain)
        assert "**" in text_of(await sending)
        assert "**" not in text_of(got)
        assert got == await read(second, made, headers=plain)

    within(run)


def test_a_replay_never_doubles_an_answer(fleet: Fleet, within: Within):
    """As in cloudflare/agents#1742, where a resumed stream had the answer twice."""

    async def run() -> None:
        made = request("count 20 2")
        packets = await stream(fleet.servers[0], made)
        assert await stream(fleet.servers[0], made) == await stream(fleet.servers[1], made) == packets
        status, answer = await ask(fleet.servers[1], made)
        assert (status, answer["output"]["text"]) == (200, numbers(20))
        assert fleet.place.runs()["safe", made["request_id"]] == 1
        later = request("hello", session=made["context"]["session_id"])
        history = text_of(await stream(fleet.servers[1], later)).split()[0]
        again = text_of(await stream(fleet.servers[0], later)).split()[0]
        assert history == again

    within(run)


def test_stop_is_not_disconnect(fleet: Fleet, within: Within):
    """As in vercel/ai#15091: a client that leaves stops nothing; one that cancels does, in another process."""
    first, second = fleet.servers
    left, cancelled = request("count 25 20"), request("count 5000 20")

    async def run() -> None:
        async with first.client() as http, http.post("/v1/assist", json=left, headers=EVENTS) as response:
            await anext(events(response))
        reading = asyncio.create_task(stream(first, cancelled))
        await until_runs(fleet.place, cancelled)
        async with second.client() as http, http.delete(path_of(cancelled)) as response:
            assert response.status == 202, await response.text()
        packets = await reading
        assert ops(packets)[-1] == "close"
        assert len(packets) < 500
        assert (await receipt_of(second, cancelled))["outcome"]["status"] == "cancelled"
        assert text_of(await read(second, left)) == numbers(25)

    within(run)


def test_an_absent_reader_does_not_stall_the_producer(fleet: Fleet, within: Within):
    """As in deer-flow#1403, where a run waited for a reader that had gone."""

    async def run() -> None:
        made = request("count 3000 0")
        async with fleet.servers[0].client() as http, http.post("/v1/assist", json=made, headers=EVENTS) as response:
            await anext(events(response))
        assert (await receipt_of(fleet.servers[1], made))["outcome"]["status"] == "done"
        assert text_of(await read(fleet.servers[1], made)) == numbers(3000)

    within(run)


def test_a_request_that_is_sent_to_two_servers_at_once_runs_once(fleet: Fleet, within: Within):
    async def run() -> None:
        made = [request("count 10 5", "never") for _ in range(5)]
        sent = [stream(server, each) for each in made for server in (*fleet.servers, *fleet.servers)]
        for packets in await asyncio.gather(*sent):
            assert text_of(packets) == numbers(10)
        assert [fleet.place.runs()["never", each["request_id"]] for each in made] == [1] * 5

    within(run)


def test_errors_of_a_request_are_those_of_a_service_without_a_queue(fleet: Fleet, within: Within):
    async def run() -> None:
        made = request("count 1 1")
        await stream(fleet.servers[0], made)
        made["payload"]["query"] = "count 2 1"
        assert (await ask(fleet.servers[1], made))[0] == 409
        image = request("hi", content=[{"type": "image", "data": "aGk=", "mimeType": "image/png"}])
        status, problem = await ask(fleet.servers[0], image)
        assert (status, problem["code"]) == (422, "content_unsupported")
        assert not fleet.place.runs()["safe", image["request_id"]]
        packets = await stream(fleet.servers[0], request("raise"))
        assert ops(packets)[-2:] == ["error", "close"]
        assert packets[-2][1]["p"]["code"] == "agent_failed"
        assert "SECRET" not in json.dumps(packets)

    within(run)


def test_every_turn_has_one_receipt_in_an_unbroken_chain(fleet: Fleet, within: Within):
    async def run() -> None:
        made = [request("count 3 1", session="chain") for _ in range(12)]
        await asyncio.gather(*(stream(fleet.servers[number % 2], each) for number, each in enumerate(made)))
        store = PostgresStore(fleet.place.database)
        await store.open()
        chain = [json.loads(record.body) for record in await store.receipts("chain")]
        await store.close()
        assert verify(chain).ok
        assert sorted(each["request_id"] for each in chain) == sorted(each["request_id"] for each in made)

    within(run)
