"""When a reader gets the packets: late, from the store, with none left out; and early, whatever the agent waits for."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from accord.agent import Turn, Yielded
from accord.run import Sessions
from accord.run.recent import RECENT
from accord.stores.memory import MemoryStore
from accord.wire.packet import ClosePacket, DeltaPacket
from tests.run.playing import asking, engine, read_turn, within


@pytest.mark.parametrize("packets", range(RECENT - 1, RECENT + 4))
@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_late_reader_gets_every_packet(packets: int, after: int):
    async def count(_: Turn) -> AsyncIterator[Yielded]:
        for number in range(packets - 1):  # the last one is the close
            yield f"{number} "

    async def run() -> None:
        store = MemoryStore()
        await store.open()
        turn = await Sessions(engine(count), store).begin(asking())
        everything = [kept.seq async for kept in read_turn(turn)]
        assert everything == list(range(1, len(everything) + 1))
        assert [kept.seq async for kept in read_turn(turn, after)] == everything[after:]
        await store.close()

    within(run)


@pytest.mark.parametrize("waits_in", ["its next item", "its clean-up after a close", "its clean-up after a failure"])
def test_a_reader_gets_what_was_made_while_the_agent_waits(waits_in: str):
    async def run() -> None:
        is_read = asyncio.Event()

        async def waiting(_: Turn) -> AsyncIterator[Yielded]:
            try:
                yield "made"
                if waits_in == "its next item":
                    await is_read.wait()
                elif waits_in == "its clean-up after a close":
                    yield ClosePacket()
                else:
                    raise ValueError
            finally:
                await is_read.wait()

        store = MemoryStore()
        await store.open()
        turn = await Sessions(engine(waiting), store).begin(asking())
        bodies: list[str] = []
        async for kept in read_turn(turn):
            bodies.append(kept.body)
            is_read.set()
        assert bodies[0] == DeltaPacket(p="made").to_json()
        assert bodies[-1] == ClosePacket().to_json()
        await store.close()

    within(run)
