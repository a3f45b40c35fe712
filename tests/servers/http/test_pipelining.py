"""Many requests on one connection without waiting for answers: bounded memory, and other clients are served."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

from accord.agent import Agent, Turn, Yielded
from accord.servers.http.app import Application
from accord.servers.http.connection import MAX_PIPELINED
from tests.servers.process import accord_serve, healthy_in
from tests.servers.raw import post, wired
from tests.servers.transports import body, make_service, within

HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def echo(turn: Turn) -> AsyncIterator[Yielded]:
    yield turn.text


async def slow_at_first(turn: Turn) -> AsyncIterator[Yielded]:
    if turn.text == "question 1":
        await asyncio.sleep(1.2)
    yield turn.text


def posts(count: int) -> list[bytes]:
    return [post(json.dumps(body(number, f"question {number}")).encode()) for number in range(1, count + 1)]


def test_21_mb_of_pipelined_requests_take_little_memory_while_others_are_served(tmp_path: Path):
    async def run() -> None:
        async with accord_serve(tmp_path) as served:
            await healthy_in(served.address)
            before_mb = served.memory_mb()
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(HEALTH * (21 * 1024 * 1024 // len(HEALTH)))
            slowest_s = max([await healthy_in(served.address) for _ in range(20)])
            answered = await _rest(reader)
            writer.transport.abort()
            assert served.memory_mb("VmHWM") - before_mb < 50
            assert slowest_s < 2
            assert answered.count(b"HTTP/1.1 200") <= MAX_PIPELINED + 1

    within(run)


async def _rest(reader: asyncio.StreamReader) -> bytes:
    """Everything until the connection ends, properly or not."""
    received = bytearray()
    try:
        while data := await reader.read(65536):
            received += data
    except ConnectionError:
        pass
    return bytes(received)


def test_as_many_requests_as_may_wait_are_all_answered():
    async def run() -> None:
        async with wired(Application(make_service(Agent(echo)))) as port, port.wire() as wire:
            await wire.send(b"".join(posts(MAX_PIPELINED + 1)))
            for number in range(1, MAX_PIPELINED + 2):
                assert (await wire.answer()).json()["output"]["text"] == f"question {number}"
            await wire.send(posts(1)[0])
            assert (await wire.answer()).status == 200

    within(run)


def test_one_request_more_is_refused_after_the_others_were_answered():
    async def run() -> None:
        async with wired(Application(make_service(Agent(echo)))) as port, port.wire() as wire:
            await wire.send(b"".join(posts(MAX_PIPELINED + 2)))
            for number in range(1, MAX_PIPELINED + 2):
                assert (await wire.answer()).json()["output"]["text"] == f"question {number}"
            refused = await wire.answer()
            assert (refused.status, refused.json()["code"]) == (429, "rate_limit_exceeded")
            assert f"More than {MAX_PIPELINED} requests" in refused.json()["detail"]
            assert refused.headers["connection"] == "close"
            assert await wire.rest() == b""

    within(run)


def test_headers_that_could_not_be_read_yet_are_not_late():
    async def run() -> None:
        service = make_service(Agent(slow_at_first), header_timeout_s=1.0)
        async with wired(Application(service)) as port, port.wire() as wire:
            first, second, third = posts(3)
            await wire.send(first + second + third[:30])
            assert (await wire.answer()).status == 200
            await wire.send(third[30:])
            for number in (2, 3):
                assert (await wire.answer()).json()["output"]["text"] == f"question {number}"

    within(run)
