"""Slots: at most so many calls of a backend at once, over all processes that share a store.

    take ── a slot is free ──────────────────────────────────────> the call runs ── release ──> the slot is free
      └──── none is ── try the other backends ── wait in the queue ──┘     after `wait_s`: `BackendBusyError`

The store keeps the calls that run and wait, of all processes, in the order in which they came. A call that waits looks
there again when a slot is freed in this process, when another process says so on the channel, and now and then. A
process that dies sends no heartbeats any more, so that its slots are free after `lease_s`.

Backends without a limit are never looked up in the store.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self
from uuid import uuid4

from accord.core.backoff import Jitter
from accord.errors import AccordError, BackendBusyError, StoreError
from accord.ports import Channel, SlotRecord, SlotStore
from accord.run.circuit import BackendAttempt, Circuits

TOPIC: Final = "slots"
"""Messages of this topic are names of backends of which a slot was freed."""
FIRST_LOOK_S: Final = 0.02
LAST_LOOK_S: Final = 0.5
"""The time until a call that waits looks into the store again, at first and at most; a half of it is random."""
CLOSE_S: Final = 5.0
"""How long closing waits for the store to free the last slots."""
RETRY_AFTER_S: Final = 1


class Slot:
    """One call of a limited backend, from when it is taken or waited for until it is released."""

    __slots__ = ("_is_open", "_slots", "record")

    def __init__(self, slots: "BackendSlots", record: SlotRecord) -> None:
        self.record: Final = record
        self._slots: Final = slots
        self._is_open = True

    def release(self) -> None:
        """Free the slot soon; a second call does nothing."""
        if self._is_open:
            self._is_open = False
            self._slots.free_soon(self.record)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


@dataclass(slots=True)
class _Queue:
    """The calls of this process that wait for one backend: the limit and the future of each."""

    waiting: dict[Slot, tuple[int, "asyncio.Future[Slot]"]] = field(
        default_factory=dict[Slot, tuple[int, "asyncio.Future[Slot]"]]
    )
    wake: asyncio.Event = field(default_factory=asyncio.Event)


class BackendSlots:
    """The slots that this process holds and waits for. One object for all backends, and for every configuration."""

    def __init__(
        self,
        store: SlotStore,
        *,
        lease_s: float = 15.0,
        wait_s: float = 10.0,
        jitter: Jitter = random.random,
    ) -> None:
        self._store: Final = store
        self._lease_s: Final = lease_s
        self._wait_s: Final = wait_s
        self._channel: Channel | None = None
        self._jitter: Final = jitter
        self._holder: Final = uuid4().hex
        self._here: Final[Counter[str]] = Counter()
        """How many calls of each backend this process has in the store."""
        self._queues: Final[dict[str, _Queue]] = {}
        self._watching: Final[set[asyncio.Task[None]]] = set()
        self._freed: list[SlotRecord] = []
        self._freeing: asyncio.Task[None] | None = None

    def connect(self, channel: Channel) -> None:
        """Announce slots that are freed here to other processes at once, and receive their announcements."""
        self._channel = channel
        channel.subscribe(TOPIC, self._freed_elsewhere)
        channel.on_gap(self._wake_all)

    async def take(self, backend: str, limit: int) -> Slot | BackendBusyError:
        """A slot of this backend if one is free now and no other call waits for it, or why not."""
        if self._here[backend] >= limit:
            return _skipped(backend, f"at its limit of {limit} concurrent calls")
        slot = self._new(backend)
        try:
            if await self._store.take_slot(slot.record, limit=limit, lease_s=self._lease_s):
                return slot
        except StoreError as error:
            slot.release()  # it may be stored all the same
            return _skipped(backend, f"its concurrent calls cannot be counted: {error.message}")
        except BaseException:
            slot.release()
            raise
        self._here[backend] -= 1
        return _skipped(backend, f"at its limit of {limit} concurrent calls")

    async def wait(self, limits: Mapping[str, int]) -> Slot:
        """Wait for a slot of any of these backends; raises `BackendBusyError` if none becomes free in time."""
        given: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        queued: list[Slot] = []
        won: Slot | None = None
        try:
            async with asyncio.timeout(self._wait_s):
                for backend, limit in limits.items():
                    slot = self._new(backend)
                    queued.append(slot)
                    await self._store.queue_slot(slot.record)
                    queue = self._watch(backend)
                    queue.waiting[slot] = limit, given
                    queue.wake.set()
                won = await given
                return won
        except TimeoutError:
            raise self._still_busy(limits) from None
        except StoreError as error:
            why = f"its concurrent calls cannot be counted: {error.message}"
            raise _busy(", ".join(limits), why) from error
        finally:
            for slot in queued:
                if (queue := self._queues.get(slot.record.backend)) is not None:
                    queue.waiting.pop(slot, None)
                if slot is not won:
                    slot.release()

    def free_soon(self, record: SlotRecord) -> None:
        """Free a slot in the background, together with others."""
        self._freed.append(record)
        if self._freeing is None or self._freeing.done():
            with suppress(RuntimeError):  # the event loop is gone: the lease frees it
                self._freeing = asyncio.get_running_loop().create_task(self._free())

    async def close(self) -> None:
        """Free what is to be freed, and stop the heartbeats."""
        if self._freeing is not None:
            await asyncio.wait([self._freeing], timeout=CLOSE_S)
            self._freeing.cancel()
        for task in self._watching:
            task.cancel()
        self._store.heartbeats.stop(self._holder)

    def _new(self, backend: str) -> Slot:
        self._here[backend] += 1
        self._store.heartbeats.start(self._holder, self._has_slots, lease_s=self._lease_s)
        return Slot(self, SlotRecord(backend, uuid4().hex, self._holder))

    def _has_slots(self) -> bool:
        return any(self._here.values())

    async def _free(self) -> None:
        pause_s = FIRST_LOOK_S
        while self._freed:
            batch, self._freed = self._freed, []
            try:
                await self._store.free_slots(batch)
            except StoreError:
                self._freed = batch + self._freed
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LAST_LOOK_S)
                continue
            for record in batch:
                self._here[record.backend] -= 1
            for backend in {record.backend for record in batch}:
                if (queue := self._queues.get(backend)) is not None:
                    queue.wake.set()
                if self._channel is not None:
                    self._channel.publish(TOPIC, backend.encode())

    def _freed_elsewhere(self, message: bytes) -> None:
        if (queue := self._queues.get(message.decode(errors="replace"))) is not None:
            queue.wake.set()

    def _wake_all(self) -> None:
        for queue in self._queues.values():
            queue.wake.set()

    def _watch(self, backend: str) -> _Queue:
        """The queue of this backend, which a task watches as long as calls wait in it."""
        queue = self._queues.get(backend)
        if queue is None:
            queue = self._queues[backend] = _Queue()
            task = asyncio.get_running_loop().create_task(self._watch_queue(backend, queue))
            self._watching.add(task)
            task.add_done_callback(self._watching.discard)
        return queue

    async def _watch_queue(self, backend: str, queue: _Queue) -> None:
        pause_s = FIRST_LOOK_S
        while queue.waiting:
            queue.wake.clear()
            most = max(limit for limit, _ in queue.waiting.values())
            held: Sequence[str] = ()
            with suppress(StoreError):  # the next look may succeed; the wait is bounded
                held = await self._store.held_slots(backend, limit=most, lease_s=self._lease_s)
            for slot, (limit, given) in [*queue.waiting.items()]:
                if slot.record.slot_id in held[:limit] and not given.done():
                    given.set_result(slot)
                    del queue.waiting[slot]
            try:
                async with asyncio.timeout(pause_s * (0.5 + 0.5 * self._jitter())):
                    await queue.wake.wait()
                pause_s = FIRST_LOOK_S
            except TimeoutError:
                pause_s = min(2 * pause_s, LAST_LOOK_S)
        del self._queues[backend]

    def _still_busy(self, limits: Mapping[str, int]) -> BackendBusyError:
        listed = " and ".join(map(str, limits.values()))
        why = f"at the limit of {listed} concurrent calls, and none ended within {self._wait_s:g} s; try again later"
        return _busy(", ".join(limits), why)


def _skipped(backend: str, why: str) -> BackendBusyError:
    return _busy(backend, f"skipped: {why}")


def _busy(backend: str, why: str) -> BackendBusyError:
    return BackendBusyError(f"{backend}: {why}", details={"backend": backend, "retry_after": RETRY_AFTER_S})


class LimitedAttempts:
    """The attempts of `Circuits.attempts`, each with a slot if its backend is limited: an asynchronous iterator.

    A backend that is at its limit is passed over. If no other one answers, a slot of those is waited for, before one
    that is down is tried after all. Raises `BackendBusyError` if nothing is left then. A backend that was passed over
    for another one is added to the failures, like one that is down.
    """

    __slots__ = ("_attempts", "_busy", "_circuits", "_failures", "_last_resort", "_limits", "_slots", "_unrecorded")

    def __init__(
        self,
        circuits: Circuits,
        slots: BackendSlots,
        limits: Mapping[str, int],
        backends: Sequence[str],
        failures: list[tuple[str, AccordError]],
    ) -> None:
        self._circuits: Final = circuits
        self._attempts: Final = circuits.attempts(backends, failures)
        self._slots: Final = slots
        self._limits: Final = limits
        self._failures: Final = failures
        self._busy: Final[list[str]] = []
        """The backends that were at their limit, and that no slot was waited for yet."""
        self._unrecorded: Final[dict[str, BackendBusyError]] = {}
        self._last_resort: BackendAttempt | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> BackendAttempt:
        """The next backend to try."""
        while True:
            attempt = self._last_resort or next(self._attempts, None)
            self._last_resort = None
            if self._busy and (attempt is None or attempt.is_last_resort):
                waited = await self._wait(attempt)
                if waited is not None:
                    return waited
            if attempt is None:
                raise StopAsyncIteration
            limit = self._limits.get(attempt.backend)
            if limit is not None:
                taken = await self._slots.take(attempt.backend, limit)
                if isinstance(taken, BackendBusyError):
                    self._busy.append(attempt.backend)
                    self._unrecorded[attempt.backend] = taken
                    continue
                attempt.slot = taken
            return self._chosen(attempt)

    async def _wait(self, last_resort: BackendAttempt | None) -> BackendAttempt | None:
        """The backend of the first slot that becomes free; None if none does and there is a last resort."""
        try:
            slot = await self._slots.wait({name: self._limits[name] for name in self._busy})
        except BackendBusyError:
            self._busy.clear()
            self._record()
            if last_resort is None:
                raise
            return None
        self._busy.remove(slot.record.backend)
        self._unrecorded.pop(slot.record.backend, None)
        self._last_resort = last_resort
        attempt = BackendAttempt(
            self._circuits, slot.record.backend, others=False, skipped=last_resort is not None, slot=slot
        )
        return self._chosen(attempt)

    def _chosen(self, attempt: BackendAttempt) -> BackendAttempt:
        attempt.others_wait = bool(self._busy)
        self._record()
        return attempt

    def _record(self) -> None:
        self._failures.extend(self._unrecorded.items())
        self._unrecorded.clear()
