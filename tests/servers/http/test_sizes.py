"""Large, endless and too many answers over real HTTP: the client reads what it is sent, memory is bounded."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from accord.agent import Agent, Turn, Yielded
from accord.assembly.parts import build_engine
from accord.client import AsyncClient
from accord.config import load_config
from accord.core.sizes import MAX_PACKET_BYTES, SizeLimits
from accord.core.sse import MAX_EVENT_BYTES
from accord.errors import AccordError, ErrorCode, RefusedError
from accord.run import SessionRules
from accord.servers.http.app import Application
from accord.wire.packet import DeltaPacket, ErrorPacket
from accord.wire.request import ServiceRequest
from tests.servers.transports import body, make_service, served, within

LIMIT = 1024 * 1024
LINE = "é" * 400 + '"\n'


async def large(turn: Turn) -> AsyncIterator[Yielded]:
    yield LINE * int(turn.text)


def test_a_large_text_reaches_our_client_in_packets_that_it_takes():
    async def run() -> None:
        service = make_service(Agent(large))
        async with served(Application(service)) as address, AsyncClient(address, user="u") as client:
            packets = [packet async for packet in client.stream("30000").packets()]
        texts = [packet.p for packet in packets if isinstance(packet, DeltaPacket)]
        assert "".join(texts) == LINE * 30_000  # 24 MB
        assert len(texts) > 1
        assert all(len(json.dumps(text, ensure_ascii=False).encode()) <= SizeLimits().packet_bytes for text in texts)

    assert MAX_PACKET_BYTES < MAX_EVENT_BYTES
    within(run)


async def endless(turn: Turn) -> AsyncIterator[Yielded]:
    del turn
    while True:
        yield "x" * 1_000_000
        await asyncio.sleep(0)


def test_an_agent_without_an_end_fails_at_the_limit_of_a_turn():
    async def run() -> None:
        service = make_service(Agent(endless))
        async with served(Application(service)) as address, AsyncClient(address, user="u") as client:
            packets = [packet async for packet in client.stream("go").packets()]
        error = next(packet.p for packet in packets if isinstance(packet, ErrorPacket))
        assert error.code == ErrorCode.AGENT_FAILED
        assert "67108864 bytes that are allowed in one turn (limits.max_turn_bytes)" in error.message

    within(run)


TEXT = {"choices": [{"index": 0, "delta": {"content": "x" * 10_000}}]}
CALL = {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": "x" * 10_000}}]}}]}


@pytest.mark.parametrize(
    ("chunk", "sentence"),
    [(TEXT, "more than the 1048576 bytes that are allowed in one answer"), (CALL, "longer than 4194304 bytes")],
    ids=["text", "half a tool call"],
)
def test_an_endless_upstream_ends_with_an_error_before_it_has_sent_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: object, sentence: str
):
    monkeypatch.setattr("accord.backends.model.MAX_STREAM_BYTES", 4 * LIMIT)
    sent = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        event = f"data: {json.dumps(chunk)}\n\n".encode()
        with suppress(OSError):
            while True:
                writer.write(event)
                sent += len(event)
                await writer.drain()
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        config = tmp_path / "accord.toml"
        config.write_text(
            f'default_agent = "relay"\n[limits]\nmax_answer_bytes = {LIMIT}\n[[backends]]\nname = "endless"\n'
            f'kind = "openai"\nmodel = "gpt-4o"\nbase_url = "http://127.0.0.1:{port}/v1"\n'
        )
        engine = build_engine(load_config(str(config), environ={"ACCORD_KEY_ENDLESS": "k"}))
        async with server:
            with pytest.raises(AccordError) as caught:
                await engine.respond(ServiceRequest.model_validate(body()))
            for backend in engine.dispatcher.backends.values():
                await backend.aclose()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        assert sentence in caught.value.message
        assert caught.value.code is ErrorCode.BACKEND_FAILED
        assert sent < 64 * LIMIT

    within(run)


async def short(turn: Turn) -> AsyncIterator[Yielded]:
    yield f"{len(turn.history)} messages before"


def test_a_user_over_the_quota_gets_a_remedy_and_others_are_served():
    async def run() -> None:
        service = make_service(Agent(short), rules=SessionRules(quota_bytes=1))
        async with served(Application(service)) as address:
            async with AsyncClient(address, user="u") as client:
                await client.ask("one")
                with pytest.raises(RefusedError, match="delete sessions of this user, or") as caught:
                    await client.ask("two")
                assert (caught.value.code, caught.value.facts.http) == (ErrorCode.QUOTA_EXCEEDED, 403)
            async with AsyncClient(address, user="v") as client:
                await client.ask("one")

    within(run)


def test_a_turn_is_not_given_a_history_that_is_too_large():
    async def run() -> None:
        service = make_service(Agent(short), rules=SessionRules(history_bytes=2_000))
        async with (
            served(Application(service)) as address,
            AsyncClient(address, user="u", session_id="s") as client,
        ):
            given = [(await client.ask(text)).output["text"] for text in ("hi", "ho", "x" * 3_000, "hi")]
        assert given == [f"{count} messages before" for count in (0, 2, 4, 1)]

    within(run)
