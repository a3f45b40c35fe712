"""A store that fails while a turn runs or ends: readers get an error at once, and the turn ends when the store is back."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from accord.backends.scripted import Pause
from accord.core.receipt import verify
from accord.errors import RefusedError, StoreError
from accord.ports import PacketBatch, RunEnd, RunStart
from accord.run import Sessions, StoredRun
from accord.stores.memory import MemoryStore
from accord.wire.packet import StreamPacket
from accord.wire.session import RunRecord, SessionRecord, StoredState
from tests.run.playing import read_turn, respond
from tests.run.test_sessions import read, request, sessions, text_of, within


class Away(MemoryStore):
    """A store that can be away, before it writes or after: then the confirmation of what it wrote is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.is_away = False
        self.loses: set[str] = set()

    async def begin_turn(self, session: SessionRecord, turn: RunRecord, **limits: Any) -> RunStart:
        begun = await super().begin_turn(session, turn, **limits)
        self._lose("begin")
        return begun

    async def append_packets(self, new: PacketBatch) -> None:
        self._refuse()
        await super().append_packets(new)
        self._lose("append")

    async def end_turn(self, ending: RunEnd) -> bool:
        self._refuse()
        ended = await super().end_turn(ending)
        self._lose("end")
        return ended

    async def turn(self, request_id: str) -> RunRecord | None:
        self._refuse()
        return await super().turn(request_id)

    def _refuse(self) -> None:
        if self.is_away:
            raise StoreError("away")

    def _lose(self, what: str) -> None:
        if what in self.loses:
            self.loses.remove(what)
            raise StoreError("the confirmation was lost")


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(10):
        while not await condition():  # noqa: ASYNC110 - a store tells nobody
            await asyncio.sleep(0.01)


async def ended(store: MemoryStore, number: int = 1) -> RunRecord:
    async def is_over() -> bool:
        turn = await MemoryStore.turn(store, str(UUID(int=number)))
        return turn is not None and turn.state is not StoredState.RUNNING

    await until(is_over)
    turn = await MemoryStore.turn(store, str(UUID(int=number)))
    assert turn is not None
    return turn


def test_an_end_that_could_not_be_written_is_written_when_the_store_is_back_and_nothing_is_lost():
    store = Away()
    made, _ = sessions(store, "one ", "two")

    async def run() -> None:
        turn = await made.begin(request())
        store.is_away = True
        with pytest.raises(StoreError) as caught:
            await asyncio.wait_for(made.collect_output(turn), 1)
        assert (caught.value.code, caught.value.severity) == ("unavailable", "transient")
        assert made.running == 0
        await asyncio.sleep(0.2)  # some attempts fail
        store.is_away = False
        assert (await ended(store)).state is StoredState.DONE
        assert text_of(await read(made, request())) == "0 before. one two"
        assert (await made.receipt(turn.request_id)).outcome.status == "done"

    within(store, run)


def test_packets_that_could_not_be_written_end_the_turn_when_the_store_is_back():
    store = Away()
    made, _ = sessions(store, "one ", Pause(0.01), "two ", Pause(30), "never")

    async def run() -> None:
        turn = await made.begin(request())
        packets = read_turn(turn)
        await anext(packets)
        store.is_away = True
        with pytest.raises(StoreError):
            _ = [kept async for kept in packets]
        found = await made.store.session("s")
        assert found is not None
        store.is_away = False
        assert (await ended(store)).state is StoredState.FAILED
        last = [StreamPacket.parse(kept.body) for kept in await read(made, request())][-2:]
        assert [packet.op for packet in last] == ["error", "close"]
        assert (last[0].p.code, last[0].p.severity) == ("unavailable", "transient")
        assert (await made.receipt(turn.request_id)).outcome.code == "unavailable"
        assert not await made.cancel(turn)

    within(store, run)


def test_a_refusal_that_could_not_be_written_is_unavailable_and_written_when_the_store_is_back():
    store = Away()
    made, backend = sessions(store, "never")
    refused = request(content=[{"type": "image", "data": "aGk=", "mimeType": "image/png"}])

    async def run() -> None:
        store.is_away = True
        for _ in range(2):
            with pytest.raises(StoreError):
                await made.begin(refused)
        assert made.running == 0
        store.is_away = False
        assert (await ended(store)).state is StoredState.REFUSED
        with pytest.raises(RefusedError, match="does not support image content"):
            await made.begin(refused)
        chain = [json.loads(record.body) for record in await store.receipts("s")]
        assert [receipt["outcome"]["status"] for receipt in chain] == ["refused"]
        assert backend.orders == []

    within(store, run)


def test_an_end_whose_confirmation_was_lost_counts_and_is_not_written_twice():
    store = Away()
    made, _ = sessions(store, "one ", "two")
    store.loses = {"end"}

    async def run() -> None:
        with pytest.raises(StoreError):
            await respond(made, request())
        assert (await ended(store)).state is StoredState.DONE
        assert text_of(await read(made, request())) == "0 before. one two"
        await made.drain(5)
        assert len(await store.receipts("s")) == 1

    within(store, run)


def test_packets_whose_confirmation_was_lost_are_followed_by_the_end():
    store = Away()
    made, _ = sessions(store, "one ", Pause(0.01), "two ", Pause(30), "never")
    store.loses = {"append"}

    async def run() -> None:
        kept = await read(made, request())
        assert [record.seq for record in kept] == list(range(1, len(kept) + 1))
        packets = [StreamPacket.parse(record.body) for record in kept]
        assert [packet.op for packet in packets[-2:]] == ["error", "close"]
        assert packets[-2].p.code == "unavailable"
        assert (await ended(store)).state is StoredState.FAILED

    within(store, run)


def test_a_beginning_whose_confirmation_was_lost_leaves_no_turn_that_runs_for_ever():
    store = Away()
    made, backend = sessions(store, "never")
    store.loses = {"begin"}

    async def run() -> None:
        with pytest.raises(StoreError):
            await made.begin(request())
        again = await made.begin(request())
        assert isinstance(again, StoredRun)
        collected = await made.collect_output(again)
        assert collected.error is not None
        assert (collected.error.code, collected.error.severity) == ("unavailable", "transient")
        assert backend.orders == []

    within(store, run)


def test_several_turns_end_when_the_store_is_back_and_make_one_chain():
    store = Away()
    made, _ = sessions(store, "ok")

    async def run() -> None:
        turns = [await made.begin(request(number)) for number in range(1, 9)]
        store.is_away = True
        told = await asyncio.gather(*(made.collect_output(turn) for turn in turns), return_exceptions=True)
        assert {type(each) for each in told} == {StoreError}
        store.is_away = False
        for number in range(1, 9):
            assert (await ended(store, number)).state is StoredState.DONE
        chain = [json.loads(record.body) for record in await store.receipts("s")]
        assert len(chain) == 8
        assert verify(chain).ok

    within(store, run)


def test_a_turn_that_another_process_ended_is_unavailable_to_its_readers_as_in_the_store():
    store = MemoryStore()
    made, _ = sessions(store, "one ", Pause(0.05), "two ", Pause(0.05), "three")
    other, _ = sessions(store, "never", lease_s=0)

    async def run() -> None:
        turn = await made.begin(request())
        packets = read_turn(turn)
        seen = [await anext(packets)]
        assert await other.recover() == 1
        seen += [kept async for kept in packets]
        assert seen == await store.packets(turn.request_id, after_seq=0, limit=99)
        last = [StreamPacket.parse(kept.body) for kept in seen][-2:]
        assert [packet.op for packet in last] == ["error", "close"]
        assert (last[0].p.code, last[0].p.severity) == ("unavailable", "transient")
        assert (await made.receipt(turn.request_id)).outcome.code == "unavailable"
        await made.drain(5)
        assert len(await store.receipts("s")) == 1

    within(store, run)


def test_the_whole_answer_of_a_turn_that_another_process_ended_is_unavailable():
    store = MemoryStore()
    made, _ = sessions(store, "one ", Pause(0.05), "two")
    other, _ = sessions(store, "never", lease_s=0)

    async def run() -> None:
        waiting = asyncio.create_task(respond(made, request()))
        await until(lambda: is_running(made))
        assert await other.recover() == 1
        with pytest.raises(StoreError) as caught:
            await waiting
        assert (caught.value.code, caught.value.severity) == ("unavailable", "transient")

    within(store, run)


async def is_running(made: Sessions) -> bool:
    return made.running == 1


def test_a_process_does_not_recover_what_it_runs_itself():
    store = MemoryStore()
    made, _ = sessions(store, "one ", Pause(0.05), "two", lease_s=0.001)

    async def run() -> None:
        reading = asyncio.create_task(read(made, request()))
        while not reading.done():
            assert await made.recover() == 0
            await asyncio.sleep(0.005)
        assert text_of(await reading) == "0 before. one two"

    within(store, run)
