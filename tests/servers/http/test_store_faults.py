"""The client on the service while the store fails: every turn is read in order, once, to its end or an error."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from accord.agent import Agent, Turn, Yielded
from accord.client import AsyncClient
from accord.errors import ErrorCode, ErrorSeverity, StoreError
from accord.run import SessionRules
from accord.servers.http.app import Application
from accord.stores.memory import MemoryStore
from accord.wire.packet import AnyPacket, ClosePacket, DeltaPacket, ErrorPacket
from tests.servers.serving_child import child
from tests.servers.transports import make_service, served, within
from tests.stores.postgres_server import running_server

WORDS = [f"{number} " for number in range(20)]


async def count(_: Turn) -> AsyncIterator[Yielded]:
    for word in WORDS:
        yield word
        await asyncio.sleep(0.005)


async def soon(_: float) -> None:
    """Wait for the next attempt, but not as long as a real client."""
    await asyncio.sleep(0.02)


class FailingStore(MemoryStore):
    """A store whose method of this name fails at these calls of it, counted from 1, before it does anything."""

    def __init__(self, method: str, at: range) -> None:
        super().__init__()
        self.failed = 0
        self._calls = 0
        works = getattr(self, method)

        async def fails(*args: Any, **named: Any) -> Any:
            self._calls += 1
            if self._calls in at:
                self.failed += 1
                raise StoreError("told to fail")
            return await works(*args, **named)

        setattr(self, method, fails)


def text_of(packets: list[AnyPacket]) -> str:
    return "".join(packet.p for packet in packets if isinstance(packet, DeltaPacket))


def check_end(packets: list[AnyPacket], whole: str) -> None:
    """A turn is the whole answer, or the beginning of it and a transient `unavailable`; then it is closed."""
    assert [at for at, packet in enumerate(packets) if isinstance(packet, ClosePacket)] == [len(packets) - 1]
    errors = [(at, packet.p) for at, packet in enumerate(packets) if isinstance(packet, ErrorPacket)]
    if errors:
        ((at, error),) = errors
        assert (at, error.code, error.severity) == (len(packets) - 2, ErrorCode.UNAVAILABLE, ErrorSeverity.TRANSIENT)
        assert whole.startswith(text_of(packets))
    else:
        assert text_of(packets) == whole


@pytest.mark.parametrize(
    ("method", "at"),
    [
        ("begin_turn", range(1, 4)),
        ("append_packets", range(1, 2)),
        ("append_packets", range(2, 3)),
        ("end_turn", range(1, 2)),
        ("packets", range(1, 2)),
        ("packets", range(2, 4)),
        ("turn", range(1, 3)),
        ("receipt", range(1, 2)),
    ],
)
def test_a_store_that_fails_for_a_moment_leaves_every_stream_readable(method: str, at: range):
    async def run() -> None:
        store = FailingStore(method, at)
        service = make_service(Agent(count), store=store, rules=SessionRules(lease_s=0.3))
        async with served(Application(service)) as address, AsyncClient(address, user="u", wait=soon) as client:
            stream = client.stream("hi")
            packets = [packet async for packet in stream.packets()]
            check_end(packets, "".join(WORDS))
            for _ in range(2):
                assert [packet async for packet in client.resume(stream.request_id).packets()] == packets
            assert (await client.receipt(stream.request_id)).request_id == stream.request_id
        assert store.failed == len(at)

    within(run)


@pytest.mark.parametrize("at", [range(2, 3), range(2, 40)], ids=["once", "for a while"])
def test_a_conversation_has_what_its_client_was_sent_of_a_turn_that_the_store_broke_off(at: range):
    async def recall(turn: Turn) -> AsyncIterator[Yielded]:
        if turn.text == "recall":
            yield "|".join(f"{message.role}:{message.content}" for message in turn.history)
            return
        async for word in count(turn):
            yield word

    async def run() -> None:
        service = make_service(Agent(recall), store=FailingStore("append_packets", at), rules=SessionRules(lease_s=0.3))
        async with served(Application(service)) as address, AsyncClient(address, user="u", wait=soon) as client:
            packets = [packet async for packet in client.stream("hi").packets()]
            text = text_of(packets)
            assert text
            assert text != "".join(WORDS)
            assert packets[-2].op == "error"
            recalled = [packet async for packet in client.stream("recall").packets()]
            assert text_of(recalled) == f"user:hi|assistant:{text}"

    within(run)


def test_turns_are_read_to_a_stated_end_while_postgresql_is_killed_and_started_again():
    async def ask(client: AsyncClient) -> tuple[str, list[AnyPacket]]:
        stream = client.stream("80")
        return stream.request_id, [packet async for packet in stream.packets()]

    async def run() -> None:
        async with child(server.make_database("accord")) as (_, address):
            clients = [AsyncClient(address, user="u", wait=soon, max_attempts=None) for _ in range(8)]
            try:
                asking = [asyncio.create_task(ask(client)) for client in clients]
                for _ in range(2):
                    await asyncio.sleep(0.3)
                    await asyncio.to_thread(server.stop)
                    await asyncio.to_thread(server.start)
                for request_id, packets in await asyncio.gather(*asking):
                    check_end(packets, "".join(f"{number} " for number in range(80)))
                    again = [packet async for packet in clients[0].resume(request_id).packets()]
                    assert again == packets
            finally:
                for client in clients:
                    await client.aclose()

    with running_server() as server:
        within(run)
