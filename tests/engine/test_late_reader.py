"""A late reader: packets that have left the turn's memory are read from the store, with none left out."""

from collections.abc import AsyncIterator

import pytest

from accord.agent import Turn, Yielded
from accord.engine import Sessions
from accord.engine.live import RECENT
from accord.stores.memory import MemoryStore
from tests.engine.playing import asking, engine, read_turn, within


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
