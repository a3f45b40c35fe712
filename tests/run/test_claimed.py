"""Turns of the queue: claimed, run, restarted after their worker died, or given up. Each `Sessions` is a process."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from accord.agent import Agent, Turn, Yielded
from accord.queues.postgres import ChannelWorkQueue
from accord.run import Dispatcher, Engine, Links, Run, Sessions, StoredRun
from accord.run.run import RUN_DIFFERS
from accord.run.sessions import MAX_RUNS
from accord.stores.sqlite import SqliteStore
from accord.wire.packet import StreamOpCode, StreamPacket
from accord.wire.request import ServiceRequest
from accord.wire.session import StoredState
from tests.linked_channel import ChannelHub
from tests.run.playing import read_turn
from tests.stores.passing import let_pass

LEASE_S = 15.0
TEXT = "one two three four"


class Words:
    """An agent that yields words, and waits before each for as long as the test wants."""

    def __init__(self, *texts: str) -> None:
        self.runs = 0
        self._texts = texts or (TEXT,)
        self._stop_after: int | None = None
        self._go = asyncio.Event()

    def stop_after(self, words: int | None) -> None:
        self._stop_after = words
        self._go.set()

    async def __call__(self, turn: Turn) -> AsyncIterator[Yielded]:
        del turn
        text = self._texts[min(self.runs, len(self._texts) - 1)]
        self.runs += 1
        for number, word in enumerate(text.split()):
            while self._stop_after is not None and number >= self._stop_after:
                self._go.clear()
                await self._go.wait()
            yield f"{word} "


class Fleet:
    """A store, a server, and as many workers as a test asks for."""

    def __init__(self, store: SqliteStore, words: Words, restart: str) -> None:
        self.store, self.hub = store, ChannelHub()
        self._engine = Engine(Agent(words, name="words", restart=restart), Dispatcher([]))
        self.server = self.process()

    def process(self) -> Sessions:
        channel = self.hub.channel()
        return Sessions(self._engine, self.store, links=Links(channel, queue=ChannelWorkQueue(channel)))

    async def begin(self) -> StoredRun:
        turn = await self.server.begin(a_request())
        assert isinstance(turn, StoredRun)
        return turn

    async def run(self, worker: Sessions) -> Run:
        claimed = await worker.claim(["words"])
        assert claimed is not None
        return await worker.run_claimed(claimed)

    async def die(self, worker: Sessions, live: Run) -> None:
        """Stop a turn as `kill -9` does: nothing more is written, and no heartbeat is sent."""
        live.release()
        await asyncio.wait([live.task])
        await worker.drain(0)
        await let_pass(self.store, LEASE_S + 1)


def a_request() -> ServiceRequest:
    context = {"session_id": "s", "user": {"id": "u", "name": "U"}}
    return ServiceRequest.model_validate({"request_id": str(uuid4()), "context": context, "payload": {"query": "hi"}})


def played(tmp_path: Path, words: Words, restart: str, play: Callable[[Fleet], Awaitable[None]]) -> None:
    async def run() -> None:
        store = SqliteStore(tmp_path / "accord.db")
        await store.open()
        try:
            fleet = Fleet(store, words, restart)
            await play(fleet)
            await fleet.server.drain(0)
        finally:
            await store.close()

    asyncio.run(asyncio.wait_for(run(), 30))


async def whole(turn: StoredRun) -> tuple[str, Any]:
    """The text and the error of a turn, whose packets have consecutive numbers and end with one close."""
    records = [record async for record in read_turn(turn)]
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    packets = [StreamPacket.parse(record.body) for record in records]
    assert [packet.op for packet in packets].index(StreamOpCode.CLOSE) == len(packets) - 1
    error = next((packet.p for packet in packets if packet.op == "error"), None)
    return "".join(packet.p for packet in packets if packet.op == "delta"), error


async def seen(turn: StoredRun, words: int) -> None:
    """Wait until a reader has so many words."""
    reading = read_turn(turn)
    for _ in range(words):
        await anext(reading)
    await reading.aclose()


def test_a_turn_of_the_queue_is_run_by_a_worker_and_read_through_the_server(tmp_path: Path):
    async def play(fleet: Fleet) -> None:
        turn, worker = await fleet.begin(), fleet.process()
        live = await fleet.run(worker)
        assert (await whole(turn))[0].split() == TEXT.split()
        await live.task
        assert (await fleet.server.receipt(turn.request_id)).outcome.status == "done"
        assert (await fleet.store.waiting()).total == 0
        await worker.drain(0)

    played(tmp_path, Words(), "never", play)


@pytest.mark.parametrize("sent", [0, 1, 3])
def test_a_safe_turn_of_a_dead_worker_continues_after_what_was_sent(tmp_path: Path, sent: int):
    words = Words()

    async def play(fleet: Fleet) -> None:
        words.stop_after(sent)
        turn, first, second = await fleet.begin(), fleet.process(), fleet.process()
        reading = asyncio.create_task(whole(turn))
        live = await fleet.run(first)
        await seen(turn, sent)
        await fleet.die(first, live)
        assert await second.recover() == 1
        words.stop_after(None)
        await fleet.run(second)
        text, error = await reading
        assert (text.split(), error) == (TEXT.split(), None)
        assert words.runs == 2 or not sent  # one that has sent nothing may not even have begun
        await second.drain(1)

    played(tmp_path, words, "safe", play)


def test_a_repeated_run_that_differs_ends_with_a_transient_error(tmp_path: Path):
    words = Words(TEXT, "one two other words")

    async def play(fleet: Fleet) -> None:
        words.stop_after(3)
        turn, first, second = await fleet.begin(), fleet.process(), fleet.process()
        live = await fleet.run(first)
        await seen(turn, 3)
        await fleet.die(first, live)
        await second.recover()
        words.stop_after(None)
        await fleet.run(second)
        text, error = await whole(turn)
        assert (text.split(), error.message, error.severity) == (["one", "two", "three"], RUN_DIFFERS, "transient")
        await second.drain(1)

    played(tmp_path, words, "safe", play)


def test_a_turn_that_must_not_be_repeated_ends_with_its_worker(tmp_path: Path):
    words = Words()

    async def play(fleet: Fleet) -> None:
        words.stop_after(2)
        turn, first, second = await fleet.begin(), fleet.process(), fleet.process()
        live = await fleet.run(first)
        await seen(turn, 2)
        await fleet.die(first, live)
        assert await second.recover() == 1
        text, error = await whole(turn)
        assert (text.split(), error.severity, words.runs) == (["one", "two"], "transient", 1)
        assert await second.claim(["words"]) is None
        assert [topic for topic, _ in fleet.hub.sent if topic == "dead"] == ["dead"]

    played(tmp_path, words, "never", play)


def test_a_turn_of_which_every_worker_dies_is_given_up(tmp_path: Path):
    words = Words()

    async def play(fleet: Fleet) -> None:
        words.stop_after(1)
        turn = await fleet.begin()
        for _ in range(MAX_RUNS):
            worker = fleet.process()
            live = await fleet.run(worker)
            await seen(turn, 1)
            await fleet.die(worker, live)
            assert await fleet.server.recover() == 1
        text, error = await whole(turn)
        assert (text.split(), error.severity, words.runs) == (["one"], "transient", MAX_RUNS)
        assert await fleet.server.claim(["words"]) is None

    played(tmp_path, words, "safe", play)


def test_a_worker_that_is_given_its_own_turn_again_runs_it_once_more_and_to_its_end(tmp_path: Path):
    words = Words()

    async def play(fleet: Fleet) -> None:
        words.stop_after(2)
        turn, worker = await fleet.begin(), fleet.process()
        earlier = await fleet.run(worker)
        await seen(turn, 2)
        assert await fleet.store.queue_again(earlier.record)
        words.stop_after(None)
        again = await fleet.run(worker)
        assert ((await whole(turn))[0].split(), worker.is_running(turn.request_id)) == (TEXT.split(), not again.is_over)
        await again.task
        assert earlier.is_over
        stored = await fleet.store.turn(turn.request_id)
        assert stored is not None
        assert (stored.state, stored.epoch) == (StoredState.DONE, 2)
        assert await worker.recover() == 0
        await worker.drain(0)

    played(tmp_path, words, "safe", play)


def test_a_worker_that_stops_puts_back_what_may_be_restarted(tmp_path: Path):
    words = Words()

    async def play(fleet: Fleet) -> None:
        words.stop_after(2)
        turn, first, second = await fleet.begin(), fleet.process(), fleet.process()
        await fleet.run(first)
        await seen(turn, 2)
        await first.drain(0)
        words.stop_after(None)
        await fleet.run(second)
        assert (await whole(turn))[0].split() == TEXT.split()
        await second.drain(1)

    played(tmp_path, words, "safe", play)


def test_a_turn_that_is_cancelled_while_it_waits_never_runs(tmp_path: Path):
    words = Words()

    async def play(fleet: Fleet) -> None:
        turn, worker = await fleet.begin(), fleet.process()
        assert await fleet.server.cancel(turn)
        await fleet.run(worker)
        _, error = await whole(turn)
        assert (error.code, words.runs) == ("cancelled", 0)
        await worker.drain(1)

    played(tmp_path, words, "never", play)


def test_a_server_that_stops_sends_its_streams_to_their_end(tmp_path: Path):
    words = Words()

    async def play(fleet: Fleet) -> None:
        words.stop_after(2)
        turn, worker = await fleet.begin(), fleet.process()
        reading = asyncio.create_task(whole(turn))
        await fleet.run(worker)
        await seen(turn, 2)
        draining = asyncio.create_task(fleet.server.drain(20))
        await asyncio.sleep(0)
        assert not draining.done()
        words.stop_after(None)
        await draining
        assert (await reading)[0].split() == TEXT.split()
        await worker.drain(1)

    played(tmp_path, words, "never", play)
