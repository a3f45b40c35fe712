"""Turns with large packets: what is made before it is stored, and what is held for readers, is limited in bytes."""

import asyncio
from collections.abc import AsyncIterator

from accord.agent import Agent, Turn, Yielded
from accord.ports import PacketBatch
from accord.run import Dispatcher, Engine, Sessions
from accord.run.recent import RECENT_BYTES
from accord.run.run import AHEAD, AHEAD_BYTES
from accord.stores.memory import MemoryStore
from accord.wire.session import PacketRecord
from tests.run.playing import read_turn, stream
from tests.run.test_sessions import request

LARGE, LARGEST = 10_000, 30_000
PACKETS = 200


class MeasuringStore(MemoryStore):
    """A store that notes how much it is given at once, and how often it is asked for packets."""

    def __init__(self) -> None:
        super().__init__()
        self.written_bytes: list[int] = []
        self.read_pages = 0

    async def append_packets(self, new: PacketBatch) -> None:
        self.written_bytes.append(sum(map(len, new.packets)))
        await asyncio.sleep(0)
        await super().append_packets(new)

    async def packets(
        self, request_id: str, *, after_seq: int, limit: int, max_bytes: int | None = None
    ) -> list[PacketRecord]:
        self.read_pages += 1
        return await super().packets(request_id, after_seq=after_seq, limit=limit, max_bytes=max_bytes)


async def flood(turn: Turn) -> AsyncIterator[Yielded]:
    """Many packets of as many characters as the question says, with nothing awaited between them."""
    for _ in range(PACKETS):
        yield "x" * int(turn.text)


def test_an_agent_that_never_waits_is_stored_in_bounded_steps_and_read_whole():
    async def run() -> None:
        store = MeasuringStore()
        await store.open()
        made = Sessions(Engine(Agent(flood), Dispatcher([])), store)
        packets = [kept async for kept in stream(made, request(query=str(LARGE)))]
        assert [kept.seq for kept in packets] == list(range(1, PACKETS + 2))
        assert max(store.written_bytes) <= AHEAD_BYTES + 2 * LARGE

    asyncio.run(asyncio.wait_for(run(), 30))


def test_a_reader_that_is_behind_gets_what_is_not_held_any_more_from_the_store():
    async def run() -> None:
        store = MeasuringStore()
        await store.open()
        turn = await Sessions(Engine(Agent(flood), Dispatcher([])), store).begin(request(query=str(LARGEST)))
        seen = 0
        async for kept in read_turn(turn):
            seen += 1
            assert kept.seq == seen
            await asyncio.sleep(0)
        assert seen == PACKETS + 1
        assert store.read_pages > 0

    assert AHEAD * LARGEST > RECENT_BYTES
    asyncio.run(asyncio.wait_for(run(), 30))
