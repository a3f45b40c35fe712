"""The Python clients against the real service: answers, streams, resuming, refusals."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from accord.agent import Agent, Turn, Yielded
from accord.backends.scripted import Pause
from accord.client import AsyncClient, Client
from accord.errors import RefusedError
from accord.servers.http.app import Application
from accord.stores.sqlite import SqliteStore
from accord.wire.adaptation import Rung
from accord.wire.packet import DeltaPacket
from accord.wire.request import ClientCapabilities
from tests.servers.transports import make_service, served, within

VOICE = ClientCapabilities(supported_events=[], prefers_markdown=False)


async def relay(turn: Turn) -> AsyncIterator[Yielded]:
    async for text in turn.ask():
        yield text


def test_an_answer_a_stream_and_the_paths_below_its_request():
    async def run() -> None:
        service = make_service(Agent(relay), "**Hel", "lo**")
        async with (
            served(Application(service)) as address,
            AsyncClient(address, user="u", capabilities=VOICE) as client,
        ):
            assert (await client.ask("hi")).output == {"text": "Hello"}
            stream = client.stream("hi")
            assert "".join([text async for text in stream.text()]) == "Hello"
            assert (await client.receipt(stream.request_id)).outcome.status == "done"
            report = await client.adaptation(stream.request_id)
            assert report.totals.get(Rung.NATIVE, 0) < report.total()
            again = [packet async for packet in client.resume(stream.request_id).packets()]
            assert "".join(packet.p for packet in again if isinstance(packet, DeltaPacket)) == "Hello"
            with pytest.raises(RefusedError, match="no such request"):
                await client.receipt("00000000-0000-0000-0000-000000000009")

    within(run)


def test_a_stream_goes_on_after_the_service_was_started_anew(tmp_path: Path):
    async def run() -> None:
        words = [step for number in range(6) for step in (f"{number} ", Pause(0.02))]
        first = make_service(Agent(relay), *words, store=SqliteStore(tmp_path / "a.db"))
        async with served(Application(first)) as address:
            async with AsyncClient(address, user="u", session_id="s") as client:
                stream = client.stream("hi")
                packets = stream.packets()
                begun = [await anext(packets), await anext(packets)]
                request_id, last = stream.request_id, stream.last_id
            await first.sessions.drain(20)
        second = make_service(Agent(relay), store=SqliteStore(tmp_path / "a.db"))
        async with served(Application(second)) as address, AsyncClient(address, user="u", session_id="s") as client:
            rest = [packet async for packet in client.resume(request_id, after=last or 0).packets()]
        texts = [packet.p for packet in (*begun, *rest) if isinstance(packet, DeltaPacket)]
        assert "".join(texts) == "0 1 2 3 4 5 "

    within(run)


def test_the_blocking_client_does_the_same():
    async def run() -> None:
        service = make_service(Agent(relay), "Hel", "lo")

        def block(address: str) -> tuple[str, str]:
            with Client(address, user="u") as client:
                return client.ask("hi").output["text"], "".join(client.stream("hi").text())

        async with served(Application(service)) as address:
            assert await asyncio.to_thread(block, address) == ("Hello", "Hello")

    within(run)
