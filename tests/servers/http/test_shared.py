"""Two `accord serve` processes over one store, on SQLite and on PostgreSQL: idle, blocked, stopped, cancelled, unread."""

import asyncio
import json
import signal
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import pytest

from tests.servers.http.test_restart import read_until
from tests.servers.process import (
    EVENTS,
    Packets,
    SharedProcess,
    address_of,
    numbers,
    ops,
    serve_shared_store,
    text_of,
)
from tests.servers.transports import body, events_of, within
from tests.servers.unruly_agent import RAISING, STEP_S
from tests.stores.postgres_server import running_server

LEASE_S = 1.5
GRACE_S = 0.6
NUMBERS = count(1)

Two = tuple[SharedProcess, SharedProcess]


def counting_for(seconds: float) -> int:
    """What to count to, so that it takes about so long."""
    return int(seconds / STEP_S)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def two(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """Two processes over one store, for all tests here: starting them takes longer than a test."""
    folder = tmp_path_factory.mktemp("shared")
    if request.param == "sqlite":
        yield from started(folder, str(folder / "accord.db"))
    else:
        with running_server() as server:
            yield from started(folder, server.make_database("shared"))


def started(folder: Path, store: str) -> Iterator[Two]:
    settings: dict[str, Any] = {"lease_s": LEASE_S, "unread": "stop", "unread_grace_s": GRACE_S}
    with (
        serve_shared_store(folder, store, "first", **settings) as first,
        serve_shared_store(folder, store, "second", **settings) as second,
    ):
        yield first, second


def test_a_process_that_was_idle_for_longer_than_its_lease_keeps_its_next_turn(two: Two):
    first, second = two
    before, after, steps = next(NUMBERS), next(NUMBERS), counting_for(1.2 * LEASE_S)

    async def run() -> None:
        assert text_of(await first.stream(before, f"count {counting_for(0.5 * LEASE_S)}")).endswith("end")  # it beats
        await asyncio.sleep(1.2 * LEASE_S)
        running = asyncio.create_task(first.stream(after, f"count {steps}"))
        await second.wait_for_turn(after)
        # Who reads a turn of another process looks for abandoned ones again and again.
        assert text_of(await second.read_turn(after)) == text_of(await running) == numbers(steps)
        assert (await second.receipt(after))["outcome"] == {"status": "done"}

    within(run)


def test_a_process_whose_event_loop_is_blocked_keeps_its_turns(two: Two):
    first, second = two
    counting, blocking = next(NUMBERS), next(NUMBERS)

    async def run() -> None:
        innocent = asyncio.create_task(first.stream(counting, "count 15"))
        await second.wait_for_turn(counting)
        blocked = asyncio.create_task(first.stream(blocking, f"block {1.5 * LEASE_S}", "t"))
        assert text_of(await second.read_turn(counting)) == text_of(await innocent) == numbers(15)
        assert text_of(await blocked) == "block end"
        assert (await second.receipt(blocking))["outcome"] == {"status": "done"}

    within(run)


CLOCK = """
CREATE SCHEMA shifted;
CREATE TABLE shifted.ahead AS SELECT interval '0' AS by;
CREATE FUNCTION shifted.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
    AS 'SELECT pg_catalog.clock_timestamp() + by FROM shifted.ahead';
ALTER DATABASE stepping SET search_path = shifted, pg_catalog;
"""


def test_a_step_of_the_databases_clock_ends_no_turn(tmp_path: Path):
    number, steps = next(NUMBERS), counting_for(6 * LEASE_S)

    async def run(address: str, first: SharedProcess, second: SharedProcess) -> None:
        database = await cast("Any", asyncpg).connect(address)
        try:
            running = asyncio.create_task(first.stream(number, f"count {steps}"))
            await second.wait_for_turn(number)
            elsewhere = asyncio.create_task(second.read_turn(number))  # looks for abandoned turns again and again
            for _ in range(4):
                await asyncio.sleep(1.2 * LEASE_S)
                await database.execute("UPDATE shifted.ahead SET by = by + make_interval(secs => $1)", 10 * LEASE_S)
            assert text_of(await elsewhere) == text_of(await running) == numbers(steps)
            assert (await second.receipt(number))["outcome"] == {"status": "done"}
        finally:
            await database.close()

    with running_server() as server:
        address = server.make_database("stepping")
        asyncio.run(prepare(address))
        with (
            serve_shared_store(tmp_path, address, "first", lease_s=LEASE_S) as first,
            serve_shared_store(tmp_path, address, "second", lease_s=LEASE_S) as second,
        ):
            within(lambda: run(address, first, second))


async def prepare(address: str) -> None:
    """Give the database a clock that a test can set."""
    database = await cast("Any", asyncpg).connect(address)
    await database.execute(CLOCK)
    await database.close()


def test_the_turns_of_a_process_that_stood_still_for_longer_than_its_lease_are_unavailable_everywhere(two: Two):
    first, second = two
    number, next_one = next(NUMBERS), next(NUMBERS)

    async def run() -> None:
        running = asyncio.create_task(first.stream(number, "count 1000"))
        await second.wait_for_turn(number)
        await first.stop_between_writes()
        try:
            elsewhere = await second.read_turn(number)
        finally:
            first.process.send_signal(signal.SIGCONT)
        assert ops(elsewhere)[-2:] == ["error", "close"]
        packets = await running
        assert packets == elsewhere
        error = packets[-2][1]["p"]
        assert (error["code"], error["severity"]) == ("unavailable", "transient")
        outcome = (await first.receipt(number))["outcome"]
        assert (outcome["status"], outcome["code"]) == ("failed", "unavailable")
        assert text_of(await first.stream(next_one, "count 3")) == numbers(3)

    within(run)


@pytest.mark.parametrize("transport", ["http", "websocket"])
def test_a_turn_is_cancelled_through_another_process(two: Two, transport: str):
    first, second = two
    number = next(NUMBERS)

    async def run() -> None:
        running = asyncio.create_task(first.stream(number, "count 1000"))
        await second.wait_for_turn(number)
        if transport == "http":
            assert await second.cancel(number) == 202
            packets = await asyncio.wait_for(running, 5)
        else:
            async with second.client() as client, client.ws_connect("/v1/ws") as socket:
                await socket.send_json({"cancel": body(number)["request_id"]})
                packets = await asyncio.wait_for(running, 5)
        assert ops(packets)[-2:] == ["error", "close"]
        assert packets[-2][1]["p"]["code"] == "cancelled"
        assert (await second.receipt(number))["outcome"]["status"] == "cancelled"
        assert [await served.cancel(number) for served in two] == [409, 409]

    within(run)


def test_a_turn_that_is_read_through_another_process_goes_on_and_stops_after_its_last_reader(two: Two):
    first, second = two
    number = next(NUMBERS)
    request, last = body(number, "count 1000"), counting_for(2 * GRACE_S)

    async def run() -> None:
        async with first.client() as client, client.post("/v1/assist", json=request, headers=EVENTS) as response:
            await read_until(response, b"id: 2\n")
        async with second.client() as client, client.get(address_of(number), headers=EVENTS) as response:
            await read_until(response, f"id: {last}\n".encode())
        rest = await read_later(second, number)
        assert (await second.receipt(number))["outcome"]["status"] == "cancelled"
        assert rest[-1][1]["op"] == "close"
        assert last < len(rest) < 1000

    within(run)


VIEWS: dict[str, dict[str, Any]] = {
    "voice": {"supported_events": [], "prefers_markdown": False},
    "custom": {"supported_events": ["user_error"], "prefers_markdown": False, "text_profile": "plain"},
}


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_that_is_cut_off_goes_on_through_another_process(two: Two, view: str):
    first, second = two
    number, alone = next(NUMBERS), next(NUMBERS)
    headers = {**EVENTS, "accord-capabilities": json.dumps(VIEWS[view])}

    async def read(served: SharedProcess, after: int, until: int | None = None) -> Packets:
        async with served.client() as client:
            resumed = {**headers, "last-event-id": str(after)}
            async with client.get(address_of(number), headers=resumed) as response:
                if until is None:
                    return events_of(await response.read())
                return events_of(await read_until(response, f"id: {until}\n".encode()))[: until - after]

    async def run() -> None:
        running = asyncio.create_task(first.stream(number, "show 20"))
        await second.wait_for_turn(number)
        begun = await read(second, 0, 4)
        went_on = await read(first, 4, 9)
        ended = await read(second, 9)
        assert "event" in ops(await running)  # the client that sent the request can show everything
        request = body(alone, "show 20", capabilities=VIEWS[view])
        async with first.client() as client, client.post("/v1/assist", json=request, headers=EVENTS) as response:
            expected = events_of(await response.read())
        assert "event" not in ops(expected)
        assert begun + went_on + ended == expected
        for served in two:
            assert await read(served, 0) == expected

    within(run)


async def read_later(served: SharedProcess, number: int) -> Packets:
    """A turn's packets once it is over; reading them before would keep it alive."""
    while (await served.receipt(number)).get("outcome") is None:  # noqa: ASYNC110 - nothing else tells
        await asyncio.sleep(0.05)
    return await served.read_turn(number)


LEFT_BEHIND = [f"{way} {kind}" for way in ("task", "callback") for kind in ("exit", "interrupt")] + ["stop"]


def test_no_agent_stops_the_service_or_a_stream_of_others(tmp_path: Path):
    async def run(served: SharedProcess) -> None:
        innocent = [asyncio.create_task(served.stream(100 + n, "count 60", f"s{n}")) for n in range(10)]
        await asyncio.sleep(0.2)
        for number, kind in enumerate(RAISING, start=1):
            packets = await served.stream(number, f"raise {kind}")
            assert ops(packets)[-2:] == ["error", "close"]
            assert packets[-2][1]["p"]["code"] == "agent_failed"
            assert (await served.receipt(number))["outcome"]["code"] == "agent_failed"
        for number, query in enumerate(LEFT_BEHIND, start=50):
            packets = await served.stream(number, query)
            assert ops(packets)[-1] == "close"
            assert "error" not in ops(packets)
        for packets in await asyncio.gather(*innocent):
            assert text_of(packets) == numbers(60)

    with serve_shared_store(tmp_path, str(tmp_path / "accord.db")) as served:
        within(lambda: run(served))
        assert served.process.poll() is None
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(10) == 0


UPGRADES = [
    ("one that only adds", "ALTER TABLE turns ADD COLUMN later TEXT", 200),
    ("one that renames", "ALTER TABLE turns RENAME COLUMN read_at TO seen_at", 503),
    ("one that needs a value", "ALTER TABLE turns ADD COLUMN needed INTEGER NOT NULL", 503),
]


@pytest.mark.parametrize(("statement", "status"), [row[1:] for row in UPGRADES], ids=[row[0] for row in UPGRADES])
def test_a_process_whose_store_a_newer_version_upgrades_goes_on_only_if_it_can(
    tmp_path: Path, statement: str, status: int
):
    async def run(address: str, process: SharedProcess) -> None:
        database = await cast("Any", asyncpg).connect(address)
        await database.execute(statement)
        await database.execute("UPDATE alembic_version SET version_num = '9999'")
        await database.close()
        async with process.client() as client, client.get("/health/ready") as response:
            assert response.status == status
        if status == 200:
            assert text_of(await process.stream(1, "count 3")) == numbers(3)
        else:
            assert "upgraded the store to schema 9999" in process.log.read_text()

    with running_server() as server:
        address = server.make_database("upgraded")
        with serve_shared_store(tmp_path, address) as process:
            within(lambda: run(address, process))
