"""A turn that runs in this process: its packets are stored, then published to its readers.

A packet is sent to a client only after it is stored. Packets are made while the store still writes earlier ones, so
that many share one write; the last ones are written together with the end of the turn and its receipt, so that no
client sees a close without a stored receipt. A turn runs ahead of its readers by a limited amount: a client that does
not read stops its own backend. Without any reader the turn goes on, or stops after a grace period in which no reader
came back, in this process or in another one.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from itertools import count
from math import inf
from typing import Any, Final

from accord.core.output.packets import OutputCollector
from accord.core.receipt import canonical_object
from accord.engine.engine import RunningTurn
from accord.engine.limits import Ready, poll
from accord.errors import ERROR_FACTS, AccordError, ErrorCode, StoreConflictError, StoreError, TurnCancelledError
from accord.ports import PacketBatch, SessionStore
from accord.wire.packet import ClosePacket, ErrorPacket
from accord.wire.problem import stream_error
from accord.wire.session import PacketRecord, TurnRecord, TurnState

AHEAD: Final = 64
"""How many packets may be made before they are stored, and before the fastest reader has them."""
AHEAD_BYTES: Final = 256 * 1024
"""How much may be made before it is stored: many concurrent turns with large packets must not fill the memory."""

RECENT: Final = 2 * AHEAD
RECENT_BYTES: Final = 1024 * 1024
"""How many packets, and how many bytes of them, readers get from memory instead of the store."""

NOT_STORED: Final = "The store failed in the middle of this turn"
ENDED_ELSEWHERE: Final = "Another process ended this turn, since this one seemed to be dead"
DELETED: Final = "This turn was deleted while it ran"
PAGE: Final = 500

CLOSE: Final = ClosePacket().to_json()

End = Callable[["LiveTurn", PacketBatch], Awaitable[None]]


class _LiveReader:
    """A reader of a running turn and the last packet it has read; `inf` if it waits for the end only."""

    __slots__ = ("seq",)

    def __init__(self, seq: float) -> None:
        self.seq = seq


class LiveTurn:
    """One running turn and its readers."""

    def __init__(  # noqa: PLR0913 - the running turn, its store, and what is done at its end
        self,
        running: RunningTurn,
        record: TurnRecord,
        store: SessionStore,
        *,
        end: End,
        forget: Callable[["LiveTurn"], None],
        stop_unread_after_s: float | None,
    ) -> None:
        self.running: Final = running
        self.record: Final = record
        self.request_id: Final = record.request_id
        self.last_seq = 0
        self.is_over = False
        self.receipt: Mapping[str, Any] | None = None
        self.collected: Final = OutputCollector()
        self._store: Final = store
        self._end: Final = end
        self._forget: Final = forget
        self._grace_s: Final = stop_unread_after_s
        self._unread_timer: asyncio.TimerHandle | None = None
        self._unread_check: asyncio.Task[None] | None = None
        self._last: PacketBatch | None = None
        self._is_ended_elsewhere = False
        self._broken: AccordError | None = None
        self._readers: Final[list[_LiveReader]] = []
        self._recent: Final[deque[PacketRecord]] = deque()
        self._recent_bytes = 0
        self._pending: list[str] = []
        self._pending_bytes = 0
        self._made = 0
        self._items_stored = 0
        self._is_write_due = False
        self._writing: asyncio.Task[None] | None = None
        self._news: Final = asyncio.Event()
        self._room: Final = asyncio.Event()
        self.task: Final = asyncio.create_task(self._run())
        if self._grace_s:
            self._start_unread_timer(self._grace_s)

    @property
    def is_end_unwritten(self) -> bool:
        """Whether it is over, but the store could not write its end."""
        return self.is_over and self._broken is not None and self._last is not None

    def cancel(self) -> None:
        """Stop the agent and its backend at once; every reader's stream still ends with a close."""
        self.running.cancel()
        self._room.set()

    async def batches(self, after: int = 0) -> AsyncGenerator[Sequence[PacketRecord], None]:
        """The packets after this number, as many at a time as are stored, to the end of the turn."""
        reader = self._join(after)
        try:
            while True:
                batch: Sequence[PacketRecord] = ()
                if after < self.last_seq:
                    if self._recent and self._recent[0].seq <= after + 1:
                        batch = [record for record in self._recent if record.seq > after]
                    else:
                        batch = await self._store.packets(self.request_id, after_seq=after, limit=PAGE)
                if batch:
                    yield batch
                    # The reader came back for more, so it has read all of these.
                    reader.seq = after = batch[-1].seq
                    self._room.set()
                elif self.is_over:
                    break
                else:
                    await self._news.wait()
        finally:
            self._leave(reader)
        self._raise_if_broken()

    async def whole(self) -> OutputCollector:
        """The whole answer, once the turn is over and stored."""
        if not self.is_over:
            reader = self._join(inf)
            try:
                while not self.is_over:
                    await self._news.wait()
            finally:
                self._leave(reader)
        self._raise_if_broken()
        if self._is_ended_elsewhere:
            raise StoreError(ENDED_ELSEWHERE)
        return self.collected

    async def write_end(self) -> None:
        """Write the last packets, the messages and the receipt; may be called again if it raises `StoreError`."""
        last = self._last
        if last is None:
            return
        try:
            await self._end(self, last)
        except StoreConflictError:
            # Either a write took place although its confirmation was lost, or another process has ended the turn.
            stored = await self._store.turn(self.request_id)
            self._recent.clear()
            if stored is None:
                self._last = None
                raise StoreError(DELETED) from None
            self.last_seq = stored.last_seq
            if stored.state is not TurnState.RUNNING:
                # Readers get what is stored.
                self._is_ended_elsewhere, self._broken = True, None
                return
            last.first_seq = stored.last_seq + 1
            await self._end(self, last)
        self._publish(last.packets)
        self._broken = None

    def _join(self, seq: float) -> _LiveReader:
        """Add a reader that has read the packets up to this number."""
        reader = _LiveReader(seq)
        self._readers.append(reader)
        self._stop_unread_timer()
        return reader

    def _leave(self, reader: _LiveReader) -> None:
        self._readers.remove(reader)
        self._room.set()
        if self._readers or self._grace_s is None or self.is_over:
            return
        if self._grace_s:
            self._start_unread_timer(self._grace_s)
        else:
            self.cancel()

    def _start_unread_timer(self, seconds: float) -> None:
        self._stop_unread_timer()
        self._unread_timer = asyncio.get_running_loop().call_later(seconds, self._check_unread)

    def _stop_unread_timer(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def _check_unread(self) -> None:
        self._unread_timer = None
        self._unread_check = asyncio.create_task(self._stop_if_unread())

    async def _stop_if_unread(self) -> None:
        """Cancel the turn, unless a client reads it through another process: then check again later."""
        grace_s = self._grace_s or 0.0
        try:
            is_read = await self._store.is_read(self.request_id, within_s=grace_s)
        except StoreError:
            is_read = True  # not known now: check again later
        if self._readers or self.is_over:
            return
        if is_read:
            self._start_unread_timer(grace_s)
        else:
            self.cancel()

    def _raise_if_broken(self) -> None:
        """Raise the error of a turn that could not be stored."""
        if self._broken is not None:
            raise self._broken

    async def _run(self) -> None:
        try:
            try:
                await self._make_packets()
            except BaseException as error:  # noqa: BLE001
                # An agent's errors do not get here: this task was cancelled, or Accord itself failed.
                self._fail(_to_turn_error(error))
            if self._writing is not None:
                await self._writing
            if self._broken is not None:
                self._pending.clear()
                self._fail(StoreError(NOT_STORED))
            rest, self._pending = [*self._pending, CLOSE], []
            self._last = self._new_batch(rest)
            await self.write_end()
        except Exception as error:  # noqa: BLE001 - whatever a store raises ends every reader's stream with a `StoreError`
            self._broken = _to_store_error(error)
        finally:
            self.is_over = True
            self._stop_unread_timer()
            self._forget(self)
            self._wake_readers()

    async def _make_packets(self) -> None:
        async with aclosing(self.running.packets()) as packets:
            while True:
                polled = poll(anext(packets, None))
                if isinstance(polled, Ready):
                    packet = polled.result
                else:
                    # The packets so far are written while this one is awaited; otherwise together with it.
                    self._write_soon()
                    packet = await polled
                if packet is None:
                    return
                if self._broken is None and type(packet) is not ClosePacket:
                    self.collected.feed(packet)
                    self._pending.append(body := packet.to_json())
                    self._pending_bytes += len(body)
                    self._made += 1
                    while self._is_far_ahead():
                        self._write_soon()
                        self._room.clear()
                        await self._room.wait()

    def _fail(self, failure: AccordError) -> None:
        """End the turn with this error, after the packets that are still to be written."""
        self.running.failure = failure
        packet = ErrorPacket(p=stream_error(failure))
        self.collected.feed(packet)
        self._pending.append(packet.to_json())

    def _is_far_ahead(self) -> bool:
        if self._broken is not None or self.running.is_cancelled:
            return False
        if self._made - self.last_seq >= AHEAD or self._pending_bytes >= AHEAD_BYTES:
            return True
        for reader in self._readers:
            if self._made - reader.seq < AHEAD:
                return False
        return bool(self._readers)

    def _write_soon(self) -> None:
        # Not at once: after an `asyncio.sleep(0)` of the agent, its next packet is written together with this one.
        if self._pending and self._writing is None and not self._is_write_due:
            self._is_write_due = True
            asyncio.get_running_loop().call_soon(self._begin_writing)

    def _begin_writing(self) -> None:
        self._is_write_due = False
        if self._pending and self._writing is None and not self.running.is_complete:
            self._writing = asyncio.create_task(self._write())

    async def _write(self) -> None:
        try:
            while self._pending:
                bodies, self._pending, self._pending_bytes = self._pending, [], 0
                await self._store.append_packets(self._new_batch(bodies))
                self._publish(bodies)
        except Exception as error:  # noqa: BLE001 - packets that were not stored must not be skipped
            self._broken = _to_store_error(error)
            self.running.cancel()
        finally:
            self._writing = None
            self._room.set()

    def _new_batch(self, bodies: Sequence[str]) -> PacketBatch:
        deferred = self.running.adapter.deferred
        if len(deferred) == self._items_stored:
            return PacketBatch(self.request_id, self.last_seq + 1, bodies)
        fresh = list(deferred.items())[self._items_stored :]
        self._items_stored = len(deferred)
        items = {item_id: canonical_object(event).decode() for item_id, event in fresh}
        return PacketBatch(self.request_id, self.last_seq + 1, bodies, items)

    def _publish(self, bodies: Sequence[str]) -> None:
        seq = self.last_seq
        self.last_seq += len(bodies)
        if all(reader.seq == inf for reader in self._readers):
            # No reader waits for packets; one that comes later finds these in the store.
            self._recent.clear()
            self._recent_bytes = 0
        else:
            self._recent.extend(map(PacketRecord, count(seq + 1), bodies))
            self._recent_bytes += sum(map(len, bodies))
            while self._recent_bytes > RECENT_BYTES or len(self._recent) > RECENT:
                self._recent_bytes -= len(self._recent.popleft().body)
        self._wake_readers()

    def _wake_readers(self) -> None:
        """Wake the readers that wait for more."""
        self._news.set()
        self._news.clear()


def _to_turn_error(error: BaseException) -> AccordError:
    """The error that ends a turn whose own task was cancelled or failed."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        while task is not None and task.uncancel():  # what is left to do has to be awaited
            pass
        return TurnCancelledError("The turn's task was cancelled")
    failure = AccordError(ERROR_FACTS[ErrorCode.INTERNAL].title)
    failure.__cause__ = error
    return failure


def _to_store_error(error: Exception) -> StoreError:
    """The error that readers get: always `unavailable`, since it may work later."""
    if isinstance(error, StoreError) and not isinstance(error, StoreConflictError):
        return error
    is_conflict = isinstance(error, StoreConflictError)
    failure = StoreError(ENDED_ELSEWHERE if is_conflict else f"The store failed ({type(error).__name__})")
    failure.__cause__ = error
    return failure
