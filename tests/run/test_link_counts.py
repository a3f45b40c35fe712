"""What goes wrong between processes is counted: turns that are restarted or given up, and news that does not come."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from accord.agent import Turn, Yielded
from accord.ports import LinkCounts, QueuedWork, WorkItem
from accord.run import Links, Sessions, StoredRun, followers
from accord.run.rules import SessionRules
from accord.stores.memory import MemoryStore
from accord.stores.sqlite import SqliteStore
from tests.linked_channel import ChannelHub
from tests.run.playing import asking, engine, read_turn, within
from tests.stores.records import a_session, a_turn


async def greet(turn: Turn) -> AsyncIterator[Yielded]:
    yield turn.text


class RecordingQueue:
    """A queue that notes what it is told."""

    counts_turns = False

    def __init__(self) -> None:
        self.announced: list[str] = []
        self.buried: list[str] = []

    def announce(self, agent: str, request_id: str) -> None:
        del agent
        self.announced.append(request_id)

    def bury(self, request_id: str, reason: str) -> None:
        del reason
        self.buried.append(request_id)

    async def receive(self, agents: Sequence[str], *, limit: int, timeout_s: float) -> Sequence[WorkItem]:
        del agents, limit, timeout_s
        return ()


@pytest.mark.parametrize(
    ("may_restart", "expected"), [(True, LinkCounts(restarted=1)), (False, LinkCounts(given_up=1))]
)
def test_a_turn_of_a_dead_worker_is_counted(tmp_path: Path, may_restart: bool, expected: LinkCounts):
    async def run() -> None:
        store, links = SqliteStore(tmp_path / "accord.db"), Links(queue=RecordingQueue())
        await store.open()
        work = QueuedWork("demo", "{}", may_restart=may_restart)
        await store.queue_turn(a_session("s1"), a_turn("r1", "s1", runner="", request_digest="0" * 64), work)
        await store.claim(["demo"], runner="dead", history=0, history_bytes=0)
        sessions = Sessions(engine(greet), store, SessionRules(lease_s=0.0), links=links)
        assert await sessions.recover() == 1
        assert links.counts == expected
        assert isinstance(links.queue, RecordingQueue)
        assert (links.queue.announced, links.queue.buried) == ((["r1"], []) if may_restart else ([], ["r1"]))
        await sessions.drain(0)
        await store.close()

    within(run)


def test_news_that_does_not_come_is_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(followers, "CHECK_S", 0.01)

    async def run() -> None:
        first_is_read = asyncio.Event()

        async def wait_for_reader(turn: Turn) -> AsyncIterator[Yielded]:
            yield turn.text
            await first_is_read.wait()

        store = MemoryStore()
        await store.open()
        links = Links(ChannelHub().channel())
        runs = Sessions(engine(wait_for_reader), store)  # without a channel, it tells nobody anything
        reads = Sessions(engine(greet), store, links=links)
        live = await runs.begin(asking())
        turn = await reads.find(live.request_id, None)
        assert isinstance(turn, StoredRun)
        async for _ in read_turn(turn):
            first_is_read.set()
        assert links.counts.late_news > 0
        await reads.drain(0)
        await runs.drain(0)

    within(run)
