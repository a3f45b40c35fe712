"""Backends with a limit: never more calls at once, others are tried first, and those that wait get slots in their order."""

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, select

from accord.backends.scripted import ScriptedBackend, ScriptedFault
from accord.errors import AccordError, BackendBusyError, BackendError, ErrorCode, StoreError
from accord.ports import SlotRecord, SystemClock
from accord.run.circuit import Circuits, CircuitSettings
from accord.run.costs import RunCosts
from accord.run.dispatch import Dispatcher, WorkRecord
from accord.run.limits import RunTimer
from accord.run.slots import BackendSlots, Slot
from accord.stores.memory import MemoryStore
from accord.stores.memory_slots import MemorySlots
from accord.stores.schema import runners
from accord.wire.keys import Payer
from accord.wire.manifest import CapabilityManifest
from accord.wire.work import AnyPiece, EndPiece, TextPiece, WorkOrder
from tests.backends.models.toy_server import order
from tests.linked_channel import ChannelHub
from tests.run.playing import STREAMS
from tests.servers.clock import run


def never() -> float:
    """As jitter, it makes the next look into the store come after hours: only an event can wake a call that waits."""
    return 1e6


class GatedBackend:
    """Answers with its name when the test opens the gate; counts how many calls run."""

    def __init__(self, name: str) -> None:
        self.name, self.manifest = name, CapabilityManifest.model_validate(STREAMS)
        self.gate, self.began = asyncio.Event(), asyncio.Event()
        self.running = self.most_running = self.calls = 0

    async def answer(self, order: WorkOrder) -> AsyncIterator[AnyPiece]:  # noqa: ARG002
        self.calls += 1
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        self.began.set()
        try:
            await self.gate.wait()
            yield TextPiece(text=self.name)
            yield EndPiece()
        finally:
            self.running -= 1

    async def probe(self) -> None:
        pass


def dispatcher(*backends: Any, limits: Mapping[str, int], slots: BackendSlots) -> Dispatcher:
    circuits = Circuits(SystemClock(), CircuitSettings(failures=1, pause_s=60.0))
    return Dispatcher(backends, concurrent=limits, slots=slots, circuits=circuits)


async def answer(by: Dispatcher, record: WorkRecord | None = None) -> str:
    async with aclosing(by.answer(order(), record or WorkRecord(), RunTimer(), RunCosts(None, Payer(), by))) as pieces:
        return "".join([piece.text async for piece in pieces if isinstance(piece, TextPiece)])


def summary(record: WorkRecord) -> list[tuple[str, str]]:
    return [(name, type(error).__name__) for name, error in record.failures]


async def rounds(count: int = 20) -> None:
    """Let other tasks run."""
    for _ in range(count):
        await asyncio.sleep(0)


async def take(slots: BackendSlots, limit: int = 1) -> Slot:
    slot = await slots.take("a", limit)
    assert isinstance(slot, Slot)
    return slot


def seen_runners(connection: Connection) -> Sequence[Any]:
    return connection.execute(select(runners.c.runner)).fetchall()


# Slots


def test_a_slot_is_free_again_for_a_new_call_once_it_was_released():
    async def ask() -> None:
        slots = BackendSlots(MemorySlots())
        first = await take(slots)
        busy = await slots.take("a", 1)
        assert isinstance(busy, BackendBusyError)
        assert busy.message == "a: skipped: at its limit of 1 concurrent calls"
        assert not isinstance(await slots.take("b", 1), BackendBusyError)
        first.release()
        first.release()
        await slots.close()
        await take(slots)

    run(ask())


def test_calls_of_this_process_that_wait_get_slots_in_their_order_as_soon_as_one_is_released():
    async def ask() -> None:
        slots, order_of_calls = BackendSlots(MemorySlots(), jitter=never), list[int]()
        first = await take(slots)

        async def wait(number: int) -> None:
            with await slots.wait({"a": 1}):
                order_of_calls.append(number)

        waiting = [asyncio.create_task(wait(number)) for number in range(5)]
        await rounds()
        assert order_of_calls == []
        assert isinstance(await slots.take("a", 1), BackendBusyError)
        first.release()
        await asyncio.gather(*waiting)
        assert order_of_calls == [0, 1, 2, 3, 4]

    run(ask())


@pytest.mark.parametrize("how", ["message", "gap", "looking"])
def test_a_call_that_waits_notices_a_slot_that_another_process_has_freed(how: str):
    async def ask() -> None:
        store, hub = MemorySlots(), ChannelHub()
        here, there = [BackendSlots(store, jitter=(lambda: 0.0) if how == "looking" else never) for _ in range(2)]
        there.connect(hub.channel())
        if how == "message":
            here.connect(hub.channel())
        taken = await take(here)
        waiting = asyncio.create_task(there.wait({"a": 1}))
        await rounds()
        taken.release()
        await rounds()
        if how == "gap":
            for lost in hub.lost:
                lost()
        (await waiting).release()
        await there.close()

    run(ask())


def test_messages_that_are_none_are_ignored():
    async def ask() -> None:
        hub = ChannelHub()
        slots = BackendSlots(MemorySlots(), wait_s=0.05)
        slots.connect(hub.channel())
        await take(slots)
        waiting = asyncio.create_task(slots.wait({"a": 1}))
        await rounds()
        for payload in (b"", b"\xff\xfe", b"unknown", b"a" * 8_000):
            hub.channel().publish("slots", payload)
        with pytest.raises(BackendBusyError):
            await waiting

    run(ask())


def test_a_call_that_waits_for_too_long_is_refused_and_leaves_its_place():
    async def ask() -> None:
        store = MemorySlots()
        slots = BackendSlots(store, wait_s=0.05)
        first = await take(slots)
        with pytest.raises(BackendBusyError) as caught:
            await slots.wait({"a": 1, "b": 0})
        expected = "a, b: at the limit of 1 and 0 concurrent calls, and none ended within 0.05 s; try again later"
        assert caught.value.message == expected
        assert (caught.value.code, caught.value.details["retry_after"]) == (ErrorCode.UNAVAILABLE, 1)
        first.release()
        await slots.close()
        assert await store.held_slots("a", limit=9, lease_s=9) == []

    run(ask())


class CancellingSlots(MemorySlots):
    """Cancels a task in the same round of the event loop in which it is given its slot."""

    task: asyncio.Task[Slot] | None = None

    async def held_slots(self, backend: str, *, limit: int, lease_s: float) -> list[str]:
        held = await super().held_slots(backend, limit=limit, lease_s=lease_s)
        if self.task is not None:
            asyncio.get_running_loop().call_soon(self.task.cancel)
        return held


@pytest.mark.parametrize("when", ["before", "with it"])
def test_a_call_that_is_cancelled_before_or_when_it_is_given_a_slot_does_not_keep_it(when: str):
    async def ask() -> None:
        store = CancellingSlots()
        slots = BackendSlots(store, jitter=never)
        first = await take(slots)
        waiting = asyncio.create_task(slots.wait({"a": 1}))
        await rounds()
        if when == "before":
            waiting.cancel()
        else:
            store.task = waiting
        first.release()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        store.task = None
        (await slots.wait({"a": 1})).release()

    run(ask())


class FailingSlots(MemorySlots):
    """Fails while `is_down`."""

    def __init__(self) -> None:
        super().__init__()
        self.is_down = False
        self.freed = 0

    async def queue_slot(self, slot: SlotRecord) -> None:
        self._check()
        await super().queue_slot(slot)

    async def free_slots(self, freed: Sequence[SlotRecord]) -> None:
        self._check()
        await super().free_slots(freed)

    def _check(self) -> None:
        if self.is_down:
            raise StoreError("the store is away")


def test_a_store_that_fails_counts_as_a_limit_and_slots_are_freed_when_it_is_back():
    async def ask() -> None:
        store = FailingSlots()
        slots = BackendSlots(store)
        first = await take(slots)
        store.is_down = True
        busy = await slots.take("a", 2)
        assert isinstance(busy, BackendBusyError)
        assert busy.message == "a: skipped: its concurrent calls cannot be counted: the store is away"
        with pytest.raises(BackendBusyError, match="a: its concurrent calls cannot be counted: the store is away"):
            await slots.wait({"a": 2})
        first.release()
        await rounds()
        store.is_down = False
        with await slots.wait({"a": 1}):
            pass

    run(ask())


def test_a_process_sends_heartbeats_as_long_as_it_holds_a_slot_and_no_longer():
    async def ask() -> None:
        store = MemoryStore()
        await store.open()
        slots = BackendSlots(store, lease_s=0.06)
        slot = await take(slots)
        while not await store.read(seen_runners):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        assert await store.held_slots("a", limit=1, lease_s=0.06) == [slot.record.slot_id]
        slot.release()
        while "accord-heartbeat" in [thread.name for thread in threading.enumerate()]:  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    run(ask())


@given(st.integers(1, 3), st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.booleans()), min_size=1, max_size=30))
def test_never_more_calls_run_at_once_than_the_limit_says_and_all_end(limit: int, calls: list[tuple[bool, int, bool]]):
    async def ask() -> None:
        store, hub = MemorySlots(), ChannelHub()
        processes = [BackendSlots(store) for _ in range(2)]
        for slots in processes:
            slots.connect(hub.channel())
        running = most = 0

        async def call(slots: BackendSlots, length: int) -> None:
            nonlocal running, most
            taken = await slots.take("a", limit)
            with taken if isinstance(taken, Slot) else await slots.wait({"a": limit}):
                running += 1
                most = max(most, running)
                try:
                    await rounds(length)
                finally:
                    running -= 1

        tasks = [asyncio.create_task(call(processes[which], length)) for which, length, _ in calls]
        await rounds(3)
        for task, (_, _, is_cancelled) in zip(tasks, calls, strict=True):
            if is_cancelled:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert running == 0
        assert most <= limit
        for slots in processes:
            await slots.close()
        assert await store.held_slots("a", limit=9, lease_s=9) == []

    run(ask())


# Backends with a limit


def test_a_backend_at_its_limit_is_passed_over_for_another_one_and_recorded():
    async def ask() -> None:
        first, second = GatedBackend("first"), ScriptedBackend("second", [["spare"]], STREAMS)
        by = dispatcher(first, second, limits={"first": 1}, slots=BackendSlots(MemorySlots()))
        running, record = asyncio.create_task(answer(by)), WorkRecord()
        await first.began.wait()
        assert await answer(by, record) == "spare"
        assert summary(record) == [("first", "BackendBusyError")]
        assert record.failures[0][1].message == "first: skipped: at its limit of 1 concurrent calls"
        first.gate.set()
        assert await running == "first"
        record = WorkRecord()
        async with asyncio.timeout(5):
            while await answer(by, record) != "first":
                record = WorkRecord()
                await asyncio.sleep(0)
        assert record.failures == []

    run(ask())


def test_without_another_backend_a_question_waits_and_its_receipt_has_no_fallback():
    async def ask() -> None:
        only = GatedBackend("only")
        by = dispatcher(only, limits={"only": 2}, slots=BackendSlots(MemorySlots(), jitter=never))
        records = [WorkRecord() for _ in range(6)]
        tasks = [asyncio.create_task(answer(by, record)) for record in records]
        await rounds()
        assert only.running == 2
        only.gate.set()
        assert await asyncio.gather(*tasks) == ["only"] * 6
        assert (only.calls, only.most_running) == (6, 2)
        assert [record.failures for record in records] == [[]] * 6

    run(ask())


def test_a_question_that_no_backend_has_a_slot_for_in_time_gets_a_transient_error():
    async def ask() -> None:
        first, second = GatedBackend("first"), GatedBackend("second")
        by = dispatcher(first, second, limits={"first": 1, "second": 1}, slots=BackendSlots(MemorySlots(), wait_s=0.05))
        running = [asyncio.create_task(answer(by)) for _ in range(2)]
        await asyncio.gather(first.began.wait(), second.began.wait())
        record = WorkRecord()
        with pytest.raises(BackendBusyError, match="first, second: at the limit of 1 and 1 concurrent") as caught:
            await answer(by, record)
        assert (caught.value.severity, caught.value.details["retry_after"]) == ("transient", 1)
        assert summary(record) == [("first", "BackendBusyError"), ("second", "BackendBusyError")]
        second.gate.set()
        assert sorted([await running[1]]) == ["second"]
        running[0].cancel()

    run(ask())


@pytest.mark.parametrize(
    ("fault", "failures"),
    [
        ("bad request", [("first", "BackendBusyError"), ("second", "BackendError")]),
        ("outage", [("first", "BackendBusyError"), ("second", "BackendError")]),
        ("down", [("second", "BackendSkippedError")]),
    ],
)
def test_a_slot_is_waited_for_when_all_others_have_failed(fault: str, failures: list[tuple[str, str]]):
    async def ask() -> None:
        first = GatedBackend("first")
        second = ScriptedBackend("second", [[ScriptedFault("no", retryable=fault != "bad request")]], STREAMS)
        by = dispatcher(first, second, limits={"first": 1}, slots=BackendSlots(MemorySlots(), jitter=never))
        if fault == "down":
            by.circuits.failed("second", BackendError("gone"))
        running, record = asyncio.create_task(answer(by)), WorkRecord()
        await first.began.wait()
        waiting = asyncio.create_task(answer(by, record))
        await rounds()
        first.gate.set()
        assert await asyncio.gather(running, waiting) == ["first", "first"]
        assert summary(record) == failures

    run(ask())


def test_a_backend_that_is_down_is_tried_after_all_if_no_slot_becomes_free():
    async def ask() -> None:
        first, second = GatedBackend("first"), ScriptedBackend("second", [["up again"]], STREAMS)
        by = dispatcher(first, second, limits={"first": 1}, slots=BackendSlots(MemorySlots(), wait_s=0.05))
        by.circuits.failed("second", BackendError("gone"))
        running, record = asyncio.create_task(answer(by)), WorkRecord()
        await first.began.wait()
        assert await answer(by, record) == "up again"
        assert summary(record) == [("second", "BackendSkippedError"), ("first", "BackendBusyError")]
        running.cancel()

    run(ask())


def test_if_the_first_backend_that_has_a_slot_again_fails_the_other_ones_are_waited_for():
    async def ask() -> None:
        first, second = GatedBackend("first"), GatedBackend("second")
        limits = {"first": 1, "second": 1}
        by = dispatcher(first, second, limits=limits, slots=BackendSlots(MemorySlots(), jitter=never))
        holding = [asyncio.create_task(answer(by)) for _ in range(2)]
        await asyncio.gather(first.began.wait(), second.began.wait())
        waiting = asyncio.create_task(answer(by, record := WorkRecord()))
        await rounds()

        async def fail(order: WorkOrder) -> AsyncIterator[AnyPiece]:  # noqa: ARG001
            raise BackendError("first: no", retryable=False)
            yield EndPiece()

        first.answer = fail
        first.gate.set()
        await holding[0]
        await rounds()
        second.gate.set()
        assert await waiting == "second"
        assert summary(record) == [("second", "BackendBusyError"), ("first", "BackendError")]
        await holding[1]

    run(ask())


@pytest.mark.parametrize("how", ["fails", "is closed", "is cancelled"])
def test_a_call_that_does_not_end_well_frees_its_slot(how: str):
    async def ask() -> None:
        first = GatedBackend("first")
        faulty = ScriptedBackend("first", [["half", ScriptedFault("no")]], STREAMS)
        backend = first if how == "is cancelled" else faulty
        store = MemorySlots()
        by = dispatcher(backend, limits={"first": 1}, slots=BackendSlots(store))
        pieces = by.answer(order(), WorkRecord(), RunTimer(), RunCosts(None, Payer(), by))
        if how == "is cancelled":
            task = asyncio.ensure_future(anext(pieces))
            await first.began.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        elif how == "is closed":
            await anext(pieces)
            assert await store.held_slots("first", limit=1, lease_s=9)
            await pieces.aclose()
        else:
            with pytest.raises(AccordError, match="no"):
                async for _ in pieces:
                    pass
        await by.slots.close()
        assert await store.held_slots("first", limit=1, lease_s=9) == []

    run(ask())


class UnusedSlots(MemorySlots):
    """Fails the test if it is used."""

    async def take_slot(self, slot: SlotRecord, *, limit: int, lease_s: float) -> bool:
        raise AssertionError((slot, limit, lease_s))


def test_a_backend_without_a_limit_is_not_looked_up():
    async def ask() -> None:
        free = ScriptedBackend("free", [["hello"]], STREAMS)
        by = dispatcher(free, limits={"other": 1}, slots=BackendSlots(UnusedSlots()))
        assert await answer(by) == "hello"

    run(ask())
