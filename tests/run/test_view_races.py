"""Views in any order of events: a slow or failing store, and readers that come late, read slowly, leave and come back."""

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.agent import Turn, Yielded
from accord.errors import StoreError
from accord.ports import PacketBatch, RunEnd
from accord.run import Reader, Run, Sessions
from accord.stores.memory import MemoryStore
from accord.wire.packet import ClosePacket, DeltaPacket, StreamPacket
from accord.wire.session import PacketRecord
from tests.core.output import CLI, SOURCES, VOICE, event
from tests.laws import examples
from tests.run.playing import asking, within
from tests.run.test_views import CUSTOM, Declared, alone, find, report_of, sessions_of, stored_packets

SMALL = {"recent.RECENT": 8, "run.AHEAD": 4, "run.PAGE": 3, "run.PLAIN_PACKETS": 5}
"""Limits that turns of some dozen packets exceed again and again."""


async def ticks(count: int) -> None:
    """Let everything else run so many times."""
    for _ in range(count):
        await asyncio.sleep(0)


class Unsteady(MemoryStore):
    """A store that takes its time, and sometimes fails before or after it has written packets."""

    def __init__(self, random: Random, *, fails: bool) -> None:
        super().__init__()
        self._random, self._fails = random, fails

    async def append_packets(self, new: PacketBatch) -> None:
        await ticks(self._random.randint(0, 6))
        fails, writes = self._fails and self._random.random() < 0.03, self._random.random() < 0.5
        if not fails or writes:
            await super().append_packets(new)
        await ticks(self._random.randint(0, 3))
        if fails:
            raise StoreError("away")

    async def packets(self, request_id: str, **page: Any) -> list[PacketRecord]:
        await ticks(self._random.randint(0, 3))
        found = await super().packets(request_id, **page)
        await ticks(self._random.randint(0, 3))
        return found

    async def end_turn(self, ending: RunEnd) -> bool:
        await ticks(self._random.randint(0, 3))
        return await super().end_turn(ending)


def some_packets(random: Random) -> list[StreamPacket]:
    kinds = [DeltaPacket(p="**bold** text. "), DeltaPacket(p="A line\n\n"), event("citation_block", SOURCES)]
    kinds += [event("thought_trace", {"thought": "hm"}), event("poll", {"question": "?"})]
    return random.choices(kinds, k=random.randint(0, 80))


async def read_unsteadily(sessions: Sessions, random: Random, declared: Declared) -> list[PacketRecord]:
    """What a client gets that comes at some time, reads slowly, and disconnects in between or not at all."""
    seen, cut = list[PacketRecord](), random.choice([0, 0, 5, 20])
    pause = random.choice([0, 3, 20])
    await ticks(random.randint(0, 60))
    while True:
        batches = sessions.read(await find(sessions), len(seen), Reader(declared))
        try:
            async for batch in batches:
                seen += batch.packets
                await ticks(random.randint(0, pause))
                if 0 < cut <= len(seen):
                    break
            else:
                return seen
        except StoreError:
            await asyncio.sleep(0.01)  # a client tries again after a while
        await batches.aclose()
        cut = 0


async def check(random: Random, *, fails: bool) -> None:
    store = Unsteady(random, fails=fails)
    await store.open()
    packets, requester = some_packets(random), random.choice([None, VOICE, CLI])

    async def run(_: Turn) -> AsyncIterator[Yielded]:
        for packet in packets:
            yield packet
            await ticks(random.choice([0, 0, 0, 1, 2, 9]))

    sessions = sessions_of(run, store)
    turn = await sessions.begin(asking(capabilities=requester))
    assert isinstance(turn, Run)
    readers = [random.choice([None, VOICE, CLI, CUSTOM, requester]) for _ in range(5)]
    seen = await asyncio.gather(*(read_unsteadily(sessions, random, declared) for declared in readers))
    made = await stored_packets(store)
    if not fails:
        assert made == [*packets, ClosePacket()]
    assert seen == [alone(declared, made) for declared in readers]
    assert (await sessions.receipt(turn.request_id)).adaptation == report_of(requester, made)
    assert sessions.running == 0


@pytest.mark.parametrize("fails", [False, True], ids=["a slow store", "a failing store"])
def test_every_reader_gets_its_view_of_what_is_stored_in_any_order_of_events(fails: bool):
    @given(st.integers(0, 2**32))
    @settings(max_examples=examples(40))
    def law(seed: int) -> None:
        within(lambda: check(Random(seed), fails=fails))  # noqa: S311 - no secrets

    with pytest.MonkeyPatch.context() as patch:
        for name, value in SMALL.items():
            patch.setattr(f"accord.run.{name}", value)
        law()
