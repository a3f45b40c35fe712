"""Clients that stop reading or disconnect: their turns continue, and no task or memory is left behind."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import pytest

from accord.agent import Agent, Turn, Yielded
from accord.backends.scripted import Pause
from accord.servers.http.app import Application
from accord.servers.service import Service
from accord.wire.session import StoredState
from tests.servers.raw import REQUEST, Port, Wire, post, wired
from tests.servers.serving_child import LONG, child
from tests.servers.transports import body, make_service, within

PIECES = 1_000
MOST_GROWTH_KB = 30_000
PINGS = (b"\x89\xfd" + b"\x00" * 4 + b"p" * 125) * 8_000
EVENTS = "Accept: text/event-stream"
SHAKE = (
    b"GET /v1/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


async def pour(turn: Turn) -> AsyncIterator[Yielded]:
    """Ten megabytes, or a little."""
    for _ in range(PIECES if turn.text == "much" else 1):
        yield LONG


async def relay(turn: Turn) -> AsyncIterator[Yielded]:
    async for text in turn.ask():
        yield text


def frame(content: bytes) -> bytes:
    """A masked text frame; the mask is zero."""
    return b"\x81\xfe" + len(content).to_bytes(2) + b"\x00" * 4 + content


async def until(happened: Any) -> None:
    """Wait until it has; the caller limits the wait."""
    while not await happened():  # noqa: ASYNC110 - the store and the kernel tell nobody
        await asyncio.sleep(0.02)


async def is_done(service: Service, number: int) -> bool:
    turn = await service.sessions.store.turn(str(UUID(int=number)))
    return turn is not None and turn.state is StoredState.DONE


async def begin_sse(wire: Wire) -> None:
    await wire.send(post(json.dumps(body(1, "much")).encode(), EVENTS))


async def begin_json(wire: Wire) -> None:
    await wire.send(post(json.dumps(body(1, "much")).encode()))


async def begin_websocket(wire: Wire) -> None:
    await wire.send(SHAKE)
    await wire.reader.readuntil(b"\r\n\r\n")
    await wire.send(frame(json.dumps(body(1, "much")).encode()))


BEGINNINGS = {"events": begin_sse, "json": begin_json, "websocket": begin_websocket}


@pytest.mark.parametrize("transport", BEGINNINGS)
def test_a_client_that_does_not_read_is_disconnected_and_the_turn_continues(transport: str):
    async def run() -> None:
        service = make_service(Agent(pour), write_timeout_s=0.3)
        async with wired(Application(service)) as port, port.wire(limit=1_000) as wire:
            before = connections(port)
            await BEGINNINGS[transport](wire)
            wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await until(lambda: is_done(service, 1))

            async def is_alone() -> bool:
                return connections(port) < before

            await until(is_alone)
            assert (await port.ask(post(json.dumps(body(2)).encode()))).status == 200

    within(run)


def connections(port: Port) -> int:
    """How many connections the server has, as the kernel sees them: its own ends that are open."""
    listed = Path("/proc/self/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    ours = f":{port.number:04X}"
    return sum(1 for line in listed if line.split()[1].endswith(ours) and line.split()[3] in ("01", "08"))


def resident_kb(process: int) -> int:
    """How much memory a process holds."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


def test_stalled_readers_cost_bounded_memory(tmp_path: Path):
    async def run() -> None:
        async with child(tmp_path / "accord.db", 20.0) as (process, address), AsyncExitStack() as stack:
            port = Port(address, int(address.rpartition(":")[2]))
            assert (await port.ask(post(json.dumps(body(99, "1")).encode()))).status == 200
            before, most = resident_kb(process.pid), 0
            for number in range(1, 6):
                wire = await stack.enter_async_context(port.wire(limit=1_000))
                request = body(number, "flood", session=str(number))
                await wire.send(post(json.dumps(request).encode(), EVENTS))
            pinging = await stack.enter_async_context(port.wire(limit=1_000))
            await begin_websocket(pinging)
            for _ in range(40):
                pinging.writer.write(PINGS)
                await asyncio.sleep(0.05)
                most = max(most, resident_kb(process.pid) - before)
            assert (await port.ask(post(json.dumps(body(98, "1")).encode()))).status == 200
            # Each of the five streams would be 40 MB if it were held for its reader, and so would the answers to pings.
            assert most < MOST_GROWTH_KB

    within(run)


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_no_task_is_left_of_a_client_that_disconnected(accept: str, caplog: pytest.LogCaptureFixture):
    async def run() -> None:
        service = make_service(Agent(relay), "a", Pause(0.5), "b", heartbeat_s=0.05)
        async with wired(Application(service)) as port:
            async with port.wire() as wire:
                await wire.send(post(REQUEST, f"Accept: {accept}"))
                await until(lambda: is_begun(service))
            await until(lambda: is_done(service, 1))
            assert [task for task in asyncio.all_tasks() if "_wait_for_disconnect" in repr(task.get_coro())] == []
            assert [task for task in asyncio.all_tasks() if "run_asgi" in repr(task.get_coro())] == []

    with caplog.at_level(logging.WARNING):
        within(run)
    assert caplog.messages == []


async def is_begun(service: Service) -> bool:
    return service.sessions.running == 1


def test_a_websocket_that_breaks_during_a_write_causes_no_failure(caplog: pytest.LogCaptureFixture):
    async def run() -> None:
        service = make_service(Agent(pour))
        async with wired(Application(service)) as port:
            for ending in (b"\x83\x80abcd", b"\x88\x80abcd", b""):
                async with port.wire() as wire:
                    await begin_websocket(wire)
                    await wire.reader.readexactly(1_000)
                    await wire.send(ending)
            await until(lambda: is_done(service, 1))
            assert (await port.ask(post(json.dumps(body(2)).encode()))).status == 200

    with caplog.at_level(logging.ERROR):
        within(run)
    assert caplog.messages == []


def test_a_refused_websocket_leaves_no_error_in_the_log(caplog: pytest.LogCaptureFixture):
    async def run() -> None:
        async with (
            wired(Application(make_service(Agent(relay)))) as port,
            aiohttp.ClientSession(port.address) as client,
        ):
            with pytest.raises(aiohttp.WSServerHandshakeError, match="404"):
                await client.ws_connect("/v1/nothing")
            with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
                await client.ws_connect("/v1/ws", headers={"origin": "https://evil.example"})

    with caplog.at_level(logging.ERROR):
        within(run)
    assert caplog.messages == []
