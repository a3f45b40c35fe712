"""Workers as real processes, over NATS and over PostgreSQL alone: they start late, stop, die, and share fairly."""

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import pytest

from accord.stores.postgres import PostgresStore
from tests.queues.fleet import (
    EVENTS,
    Packets,
    Place,
    Process,
    ask,
    bounded,
    numbers,
    ops,
    path_of,
    read,
    request,
    restart_dead,
    running,
    stream,
    text_of,
    until_runs,
)

KINDS = pytest.mark.parametrize("kind", ["nats", "postgres"])


@KINDS
def test_turns_wait_for_a_worker_and_users_take_turns(new_place: Callable[[str], Place], kind: str):
    place = new_place(kind)
    server, worker = Process(place, "s", "serve"), Process(place, "w", "worker", turns=1)

    async def run() -> None:
        async with running(server):
            many = [request(f"count 1 1 a{number}", user="ada") for number in range(4)]
            sent: list[asyncio.Task[Packets]] = []
            for each in many:
                sent.append(asyncio.create_task(stream(server, each)))
                await until_known(server, each)
            sent.append(asyncio.create_task(stream(server, request("count 1 1 bob", user="bob"))))
            await until_waiting(place, 5)
            await worker.start()
            try:
                for packets in await asyncio.gather(*sent):
                    assert text_of(packets) == numbers(1)
            finally:
                await worker.kill()
            assert place.order().index("bob") <= 1

    bounded(run)


async def until_known(server: Process, made: dict[str, Any]) -> None:
    async with server.client() as http:
        while True:
            async with http.get(path_of(made), headers=EVENTS) as response:
                if response.status == 200:
                    return
            await asyncio.sleep(0.02)


async def until_waiting(place: Place, count: int) -> None:
    store = PostgresStore(place.database)
    await store.open()
    while (await store.waiting()).total < count:  # noqa: ASYNC110 - of another process
        await asyncio.sleep(0.02)
    await store.close()


@KINDS
def test_a_user_with_too_many_turns_is_refused_by_every_server(new_place: Callable[[str], Place], kind: str):
    place = new_place(kind)
    servers = [Process(place, f"s{number}", "serve", turns_per_caller=3) for number in (1, 2)]

    async def run() -> None:
        async with running(*servers):
            sent: list[asyncio.Task[Packets]] = []
            for number in range(3):
                made = request("count 1 1")
                sent.append(asyncio.create_task(stream(servers[number % 2], made)))
                await until_known(servers[0], made)
            for server in servers:
                status, problem = await ask(server, request("count 1 1"))
                assert (status, problem["code"]) == (429, "rate_limit_exceeded")
            other = asyncio.create_task(stream(servers[0], request("count 1 1", user="bob")))
            worker = Process(place, "w", "worker")
            async with running(worker):
                for packets in await asyncio.gather(*sent, other):
                    assert text_of(packets) == numbers(1)
                assert text_of(await stream(servers[1], request("count 1 1"))) == numbers(1)

    bounded(run)


@KINDS
def test_many_requests_at_once_do_not_pass_the_limit_of_a_user(new_place: Callable[[str], Place], kind: str):
    place = new_place(kind)
    servers = [Process(place, f"s{number}", "serve", turns_per_caller=3) for number in (1, 2)]

    async def run() -> None:
        async with running(*servers):
            sent = [asyncio.create_task(ask(servers[n % 2], request("count 1 1", session=f"s{n}"))) for n in range(12)]
            async with asyncio.timeout(20):
                while sum(each.done() for each in sent) < 9:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            async with running(Process(place, "w", "worker")):
                statuses = [status for status, _ in await asyncio.gather(*sent)]
            assert sorted(statuses) == [200] * 3 + [429] * 9

    bounded(run)


@KINDS
def test_a_worker_that_is_stopped_hands_its_turns_on_or_finishes_them(new_place: Callable[[str], Place], kind: str):
    place = new_place(kind)
    server = Process(place, "s", "serve")
    first, second = (Process(place, f"w{number}", "worker", drain_s=1.5) for number in (1, 2))
    # Long enough for the second worker to start meanwhile, on a slow machine too.
    long, short = request("count 240 40", "safe"), request("count 40 20", "never")

    async def run() -> None:
        async with running(server, first):
            sent = [asyncio.create_task(stream(server, each)) for each in (long, short)]
            await until_runs(place, long)
            await until_runs(place, short, "never")
            async with running(second):
                first.send(signal.SIGTERM)
                assert await first.ended(15) == 0
                continued, finished = await asyncio.gather(*sent)
            for packets, count in ((continued, 240), (finished, 40)):
                assert text_of(packets) == numbers(count)
                assert [number for number, _ in packets] == list(range(1, len(packets) + 1))
            assert place.runs()["safe", long["request_id"]] == 2
            assert place.runs()["never", short["request_id"]] == 1

    bounded(run)


@KINDS
def test_a_turn_of_a_dead_worker_continues_or_ends_with_a_transient_error(new_place: Callable[[str], Place], kind: str):
    place = new_place(kind)
    server, workers = Process(place, "s", "serve"), [Process(place, f"w{number}", "worker") for number in (1, 2)]

    async def run() -> None:
        async with running(server, *workers):
            made = request("die 20 20 1", "safe")
            packets = await stream(server, made)
            assert text_of(packets) == numbers(20)
            assert ops(packets) == ["delta"] * (len(packets) - 1) + ["close"]
            await restart_dead(workers)
            made = request("die 20 20 1", "never")
            packets = await stream(server, made)
            assert ops(packets)[-2:] == ["error", "close"]
            assert (packets[-2][1]["p"]["code"], packets[-2][1]["p"]["severity"]) == ("unavailable", "transient")
            assert numbers(20).startswith(text_of(packets))
            assert place.runs()["never", made["request_id"]] == 1
            assert await read(server, made) == packets

    bounded(run)
