"""Turns that another process runs: their readers get every packet once and in order, whatever becomes of the news."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.agent import Turn, Yielded
from accord.ports import RunNews
from accord.ports.queue import Receive
from accord.run import Links, Run, Sessions, StoredRun, followers
from accord.run.followers import Follower
from accord.run.packet_log import decode_news, encode_news
from accord.stores.memory import MemoryStore
from accord.wire.session import PacketRecord
from tests.laws import examples
from tests.run.playing import asking, engine, read_turn, within

CHECK_S = 0.02


@dataclass
class Wire:
    """What connects the channels below: some messages are lost, repeated or late."""

    random: Random
    lossy: bool
    receivers: list[tuple[str, Receive]] = field(default_factory=list[tuple[str, Receive]])
    sent: int = 0


@dataclass
class WireChannel:
    """A channel between objects of one process."""

    wire: Wire
    max_bytes: int = 200
    is_connected: bool = True

    async def open(self) -> None:
        """Nothing is to be connected."""

    async def close(self) -> None:
        """Nothing is to be disconnected."""

    def publish(self, topic: str, payload: bytes) -> None:
        wire, loop = self.wire, asyncio.get_running_loop()
        assert len(payload) <= self.max_bytes
        wire.sent += 1
        copies = wire.random.choice([0, 0, 1, 1, 1, 2]) if wire.lossy else 1
        for _ in range(copies):
            for of, receive in wire.receivers:
                if of == topic:
                    loop.call_later(wire.random.choice([0, 0, 0.001]) if wire.lossy else 0, receive, payload)

    def subscribe(self, topic: str, receive: Receive) -> Callable[[], None]:
        self.wire.receivers.append((topic, receive))
        return lambda: self.wire.receivers.remove((topic, receive))

    def on_gap(self, lost: Callable[[], None]) -> None:
        """This wire does not notice that it loses messages."""


def words(count: int, random: Random) -> Callable[[Turn], AsyncIterator[Yielded]]:
    async def run(turn: Turn) -> AsyncIterator[Yielded]:
        del turn
        for number in range(count):
            yield f"{number} " * random.choice([1, 1, 20])
            for _ in range(random.choice([0, 1, 5])):
                await asyncio.sleep(0)

    return run


async def stored(store: MemoryStore, request_id: str) -> list[PacketRecord]:
    return await store.packets(request_id, after_seq=0, limit=10_000)


@pytest.mark.parametrize("lossy", [False, True], ids=["all news arrives", "news is lost, repeated and late"])
@settings(max_examples=examples(15), deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(0, 150), readers=st.integers(1, 4))
def test_every_reader_in_another_process_gets_what_is_stored(lossy: bool, seed: int, count: int, readers: int):
    random = Random(seed)  # noqa: S311 - a test

    async def run() -> None:
        wire, store = Wire(random, lossy), MemoryStore()
        await store.open()
        runs = Sessions(engine(words(count, random)), store, links=Links(WireChannel(wire)))
        reads = Sessions(engine(words(0, random)), store, links=Links(WireChannel(wire)))

        async def read(after: int, slow: bool) -> list[PacketRecord]:
            for _ in range(random.randint(0, 40)):
                await asyncio.sleep(0)
            turn = await reads.find(str(asking().request_id), "u")
            assert isinstance(turn, StoredRun)
            got: list[PacketRecord] = []
            async for packet in read_turn(turn, after):
                got.append(packet)
                if slow:
                    await asyncio.sleep(0)
            return got

        live = await runs.begin(asking())
        assert isinstance(live, Run)
        starts = [random.choice([0, 0, random.randint(0, count)]) for _ in range(readers)]
        everything = await asyncio.gather(*(read(after, random.random() < 0.3) for after in starts))
        await live.task
        kept = await stored(store, live.request_id)
        for after, got in zip(starts, everything, strict=True):
            assert [(packet.seq, packet.body) for packet in got] == [tuple(each) for each in kept[after:]]
        assert wire.receivers == [each for each in wire.receivers if not each[0].startswith("packets.")]
        await reads.drain(0)
        await runs.drain(0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(followers, "CHECK_S", CHECK_S)
        within(run)


def test_a_turn_that_nobody_else_follows_is_not_announced():
    async def run() -> None:
        random = Random(1)  # noqa: S311 - a test
        wire, store = Wire(random, lossy=False), MemoryStore()
        await store.open()
        sessions = Sessions(engine(words(50, random)), store, links=Links(WireChannel(wire)))
        turn = await sessions.begin(asking())
        assert len([packet async for packet in read_turn(turn)]) == 51
        assert wire.sent == 0
        await sessions.drain(0)

    within(run)


def test_news_waits_for_a_slow_reader_in_a_bounded_amount():
    async def run() -> None:
        follower = Follower("r", lambda _: None)
        for number in range(1, 10 * followers.MAX_WAITING):
            follower.put(RunNews(number, number, ['"x"']))
            assert follower.waiting <= followers.MAX_WAITING
        assert await follower.next() is None or follower.waiting
        large = "x" * (followers.MAX_WAITING_BYTES // 2 + 1)
        follower.put(RunNews(1, 1, [large]))
        follower.put(RunNews(2, 2, [large]))
        assert await follower.next() is None

    within(run)


def news_of(first: int, packets: list[str], is_over: bool) -> RunNews:
    return RunNews(first, first + len(packets) - 1, packets, is_over)


NEWS = st.builds(
    news_of,
    st.integers(1, 10**9),
    st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), min_size=1), max_size=5),
    st.booleans(),
)


@given(news=NEWS)
def test_news_is_read_as_it_was_written(news: RunNews):
    assert decode_news(encode_news(news, 10**6)) == news


@given(news=NEWS)
def test_news_that_does_not_fit_says_what_is_to_be_read(news: RunNews):
    short = decode_news(encode_news(news, 0))
    assert short == RunNews(news.first_seq, news.last_seq, None, news.is_over)


@given(payload=st.binary(max_size=60))
def test_any_bytes_are_read_as_news_or_as_nothing(payload: bytes):
    news = decode_news(payload)
    assert news.packets is None or len(news.packets) == news.last_seq - news.first_seq + 1
