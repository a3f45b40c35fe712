"""A turn that runs in this process: its packets are stored as the agent made them, then published to its readers.

The view of the client that sent the request is made here, once for all who read in it, since its report is part of the
receipt. Any other view is made by its reader.

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
from math import inf
from typing import Any, Final

from accord.agent_tasks import context_of_run
from accord.core.output.packets import OutputCollector
from accord.core.output.replay import ReplayFilter
from accord.errors import (
    ERROR_FACTS,
    AccordError,
    ErrorCode,
    StoreConflictError,
    StoreError,
    TurnCancelledError,
)
from accord.ports import PacketBatch, SessionStore, TurnLog
from accord.run.agent_errors import abandon
from accord.run.engine import RunningTurn
from accord.run.recent import LiveReader, RecentPackets
from accord.run.states import TRANSITIONS, RunState
from accord.run.views import View, ViewBatch
from accord.wire.packet import ClosePacket, DeltaPacket, ErrorPacket, StreamPacket
from accord.wire.problem import stream_error
from accord.wire.session import PacketRecord, TurnRecord, TurnState

AHEAD: Final = 64
"""How many packets may be made before they are stored, and before the fastest reader has them."""
AHEAD_BYTES: Final = 256 * 1024
"""How much may be made before it is stored: many concurrent turns with large packets must not fill the memory."""

WHOLE_TURN: Final = inf
"""The position of a reader that waits for the end of the turn only."""

STOP_S: Final = 0.5
"""How long an agent may take to clean up once its turn is over, before the turn ends without it."""

NOT_STORED: Final = "The store failed in the middle of this turn"
ENDED_ELSEWHERE: Final = "Another process ended this turn, since this one seemed to be dead"
DELETED: Final = "This turn was deleted while it ran"
RUN_DIFFERS: Final = (
    "The process that ran this turn died. Another one ran the agent again, and its answer differs from what was sent "
    "already; send the request again with a new request_id"
)
PAGE: Final = 500

CLOSE: Final = ClosePacket()

End = Callable[["LiveTurn", PacketBatch], Awaitable[None]]


class LiveTurn:
    """One running turn and its readers."""

    def __init__(  # noqa: PLR0913 - the running turn, its store, and what is done at its end
        self,
        running: RunningTurn,
        record: TurnRecord,
        store: SessionStore,
        *,
        log: TurnLog,
        new_view: Callable[[], View],
        end: End,
        forget: Callable[["LiveTurn"], None],
        stop_unread_after_s: float | None,
        sent: Sequence[PacketRecord] = (),
        may_restart: bool = False,
    ) -> None:
        self.may_restart: Final = may_restart
        """Whether another process may run it again, from its start."""
        self.state = RunState.ADMITTED
        self.running: Final = running
        self.record: Final = record
        self.request_id: Final = record.request_id
        self.receipt: Mapping[str, Any] | None = None
        self.collected: Final = OutputCollector()
        self.view: Final = new_view()
        self._new_view: Final = new_view
        self._store: Final = store
        self._log: Final = log
        self._end: Final = end
        self._forget: Final = forget
        self._grace_s: Final = stop_unread_after_s
        self._unread_timer: asyncio.TimerHandle | None = None
        self._unread_check: asyncio.Task[None] | None = None
        self._last: PacketBatch | None = None
        self._broken: AccordError | None = None
        """Why packets could not be stored: what follows them is not sent."""
        self._readers: Final[list[LiveReader]] = []
        self._stored: Final = RecentPackets()
        """The packets as the agent made them."""
        self._viewed: Final = RecentPackets()
        """The same in the view of the client that sent the request."""
        self._is_view_exact = True
        """False once the store may have other packets than those that the view was made of."""
        self._pending: list[str] = []
        self._pending_bytes = 0
        self._unpublished: Final[deque[tuple[int, str]]] = deque()
        """Packets of the view, each with the number of the packet that has to be stored first."""
        self._made = 0
        self._texts: Final[list[str]] = []
        self._replay: ReplayFilter | None = None
        if sent:
            self._continue_after(sent)
        self._is_write_due = False
        self._writing: asyncio.Task[None] | None = None
        self._news: Final = asyncio.Event()
        self._room: Final = asyncio.Event()
        self._adapting: Final = asyncio.Lock()
        # In a task of its own, which the agent's code may keep for as long as it likes: the turn ends without it.
        self._making: Final = asyncio.create_task(self._make_packets(), context=context_of_run(record.request_id))
        self.task: Final = asyncio.create_task(self._run())
        if self._grace_s:
            self._start_unread_timer(self._grace_s)

    @property
    def is_end_unwritten(self) -> bool:
        """Whether it is over, but the store could not write its end."""
        return self.state is RunState.LOST and self._last is not None

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be read of it from this process."""
        return self.state.is_over

    def cancel(self) -> bool:
        """Stop the agent and its backend; every reader's stream still ends with a close. False if they have ended."""
        if not self.state.can_stop:
            return False
        self.running.cancel()
        self._room.set()
        return True

    def release(self) -> None:
        """Stop without ending the turn: another process runs it again. What was not stored yet, no client has seen."""
        self.cancel()
        self._enter(RunState.RELEASED)

    async def read(self, after: int = 0, view: View | None = None) -> AsyncGenerator[ViewBatch, None]:
        """The packets after this number in the view of the client that sent the request, or in another one.

        As many at a time as are stored, to the end of the turn.
        """
        reader = self._join(LiveReader(0, has_own_view=view is not None))
        try:
            stored = self._stored_by(reader)
            batches = self._read_shared_view(reader, after) if view is None else view.read(stored, after)
            async with aclosing(batches):
                async for batch in batches:
                    yield batch
        finally:
            self._leave(reader)
        self._raise_if_broken()

    async def _read_shared_view(self, reader: LiveReader, after: int) -> AsyncGenerator[ViewBatch, None]:
        while True:
            seen = self._stored.last_seq
            packets = self._viewed.after(after) if self._is_view_exact else None
            if packets is None:
                # This reader is late, or the store may have other packets: make the view again until it has caught up.
                own = self._new_view()
                async with aclosing(own.read(self._stored_by(reader), after)) as batches:
                    async for batch in batches:
                        yield batch
                        after = max(after, own.seq)
                        if self._is_view_exact and self._viewed.after(after) is not None:
                            break
                    else:
                        return
            elif packets or seen > reader.seen:
                yield ViewBatch(packets, seen)
                # The reader came back for more, so it has read all of these.
                after, reader.seen = packets[-1].seq if packets else after, seen
                self._room.set()
            elif self.is_over:
                return
            else:
                await self._news.wait()

    async def _stored_by(self, reader: LiveReader) -> AsyncGenerator[Sequence[PacketRecord], None]:
        """The packets as the agent made them, from the first one on, as many at a time as are stored."""
        reader.has_own_view = True
        after = 0
        try:
            while True:
                batch = self._stored.after(after)
                if batch is None:
                    batch = await self._store.packets(self.request_id, after_seq=after, limit=PAGE)
                if batch:
                    yield batch
                    after = batch[-1].seq
                    reader.seen = max(reader.seen, after)
                    self._room.set()
                elif self.is_over:
                    return
                else:
                    await self._news.wait()
        finally:
            reader.has_own_view = False

    async def whole(self) -> OutputCollector:
        """The whole answer, once the turn is over and stored."""
        if not self.is_over:
            reader = self._join(LiveReader(WHOLE_TURN))
            try:
                while not self.is_over:
                    await self._news.wait()
            finally:
                self._leave(reader)
        self._raise_if_broken()
        if self.state is RunState.LOST:
            raise StoreError(ENDED_ELSEWHERE)
        return self.collected

    async def exact_view(self, last: PacketBatch) -> tuple[View, str]:
        """The view of the client that sent the request, of exactly the packets that are stored and these last ones.

        With it the text of these packets, before adaptation: what the conversation keeps.
        """
        if self._is_view_exact:
            return self.view, "".join(self._texts)
        view, texts = self._new_view(), list[str]()

        async def stored() -> AsyncGenerator[Sequence[PacketRecord], None]:
            async for page in stored_packets(self._store, self.request_id, last.first_seq - 1):
                texts.extend(text_of(StreamPacket.parse(record.body)) for record in page)
                yield page

        async with aclosing(view.read(stored())) as batches:
            async for _ in batches:
                pass
        for packet in map(StreamPacket.parse, last.packets):
            view.feed(packet)
            texts.append(text_of(packet))
        return view, "".join(texts)

    async def write_end(self) -> None:
        """Write the last packets, the messages and the receipt; may be called again if it raises `StoreError`."""
        if self._last is None:
            return
        last = await self._log.ending(self._last.packets)
        try:
            await self._end(self, last)
        except StoreConflictError:
            # Either a write took place although its confirmation was lost, or another process has ended the turn.
            stored = await self._store.turn(self.request_id)
            self._stored.clear()
            self._is_view_exact = False
            if stored is None:
                self._last = None
                raise StoreError(DELETED) from None
            self._stored.last_seq = stored.last_seq
            if stored.state is not TurnState.RUNNING:
                # Readers get what is stored.
                self._last = self._broken = None
                self._enter(RunState.LOST)
                return
            if stored.epoch != self.record.epoch:
                self._last = None
                raise StoreError(ENDED_ELSEWHERE) from None
            last = await self._log.ending(self._last.packets, stored.last_seq)
            await self._end(self, last)
        self._log.ended(last)
        self._publish(self._last.packets)
        self._broken = None
        self._enter(RunState.ENDED if self.running.rejection is None else RunState.REFUSED)

    def _join(self, reader: LiveReader) -> LiveReader:
        self._readers.append(reader)
        self._stop_unread_timer()
        return reader

    def _leave(self, reader: LiveReader) -> None:
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

    def _enter(self, state: RunState) -> bool:
        """Enter this state, unless the table has no such transition."""
        if (self.state, state) not in TRANSITIONS:
            return False
        self.state = state
        return True

    def _raise_if_broken(self) -> None:
        """Raise the error of a turn that could not be stored."""
        if self._broken is not None:
            raise self._broken

    async def _run(self) -> None:
        try:
            try:
                await self._until_made()
            except BaseException as error:  # noqa: BLE001
                # An agent's errors do not get here: this task was cancelled, or Accord itself failed.
                if self.state is not RunState.RELEASED:
                    self._fail(_to_turn_error(error))
            self.running.costs.settle(self.running.work)
            await self.running.costs.keep_up()
            if self._writing is not None:
                await self._writing
            if self.state is RunState.RELEASED:
                self._pending.clear()  # a write that is due would follow the packets of the next process
                return
            if self._broken is not None:
                self._pending.clear()
                self._is_view_exact = False
                self._fail(StoreError(NOT_STORED))
            self._add(CLOSE, self.view.feed(CLOSE))
            self._last = PacketBatch(self.request_id, self._stored.last_seq + 1, self._pending)
            self._pending = []
            await self.write_end()
        except Exception as error:  # noqa: BLE001 - whatever a store raises ends every reader's stream with a `StoreError`
            self._broken = _to_store_error(error)
            self._enter(RunState.LOST)
        finally:
            self._log.close()
            self._stop_unread_timer()
            self._forget(self)
            self._wake_readers()

    async def _until_made(self) -> None:
        """Wait until every packet is made. An agent that does not end when the turn is over is abandoned."""
        making, running = self._making, self.running
        try:
            self._enter(RunState.RUNNING)
            try:
                await running.until_over(making)
            except asyncio.CancelledError:  # the loop ends
                _uncancel()
                running.cancel()
            self._room.set()
            if not making.done():
                await asyncio.wait((making,), timeout=STOP_S)
            async with self._adapting:  # Accord itself is at work, and uses the view
                pass
        finally:
            is_abandoned = not making.done()
            self._enter(RunState.ENDING)
        if is_abandoned:
            abandon(making, self.request_id, running.engine.agent.name)
            await running.close()
        elif not (making.cancelled() and running.is_complete):  # an agent may cancel its own task at its very end
            making.result()
        if self.state is RunState.ENDING and (is_abandoned or running.failure is None):
            for packet in running.cut_off():
                self._add(packet, self.view.feed(packet))

    async def _make_packets(self) -> None:
        view = self.view
        # The packets so far are written while something is awaited; otherwise together with the end of the turn.
        async with aclosing(self.running.packets(self._write_soon)) as packets:
            async for packet in packets:
                if not self.state.can_stop:
                    return
                if not self._counts(packet):
                    continue
                for part in self._not_sent(packet):
                    if view.is_slow(part):
                        await self._add_in_thread(part)
                    else:
                        self._add(part, view.feed(part))
                    while self._is_far_ahead():
                        self._write_soon()
                        self._room.clear()
                        await self._room.wait()
        is_short = self._replay is not None and self._replay.is_behind and self.running.failure is None
        if (is_short or self._differs) and self.state.can_stop:
            self._fail(StoreError(RUN_DIFFERS))

    async def _add_in_thread(self, packet: StreamPacket) -> None:
        """Add a packet whose images may be re-encoded, while other turns run."""
        self._write_soon()
        async with self._adapting:
            if self.state.can_stop:
                self._add(packet, await self.view.feed_in_thread(packet))

    def _counts(self, packet: StreamPacket) -> bool:
        """Whether a packet of the run is one of the turn."""
        return self._broken is None and type(packet) is not ClosePacket and not self._differs

    @property
    def _differs(self) -> bool:
        return self._replay is not None and self._replay.differs

    def _continue_after(self, sent: Sequence[PacketRecord]) -> None:
        """Continue a turn of which another process has sent these packets."""
        packets = [StreamPacket.parse(record.body) for record in sent]
        self._replay = ReplayFilter(packets)
        for packet in packets:
            self._texts.append(text_of(packet))
            for each in self.view.feed(packet):
                self._viewed.last_seq += 1
                self.collected.feed(each)
        self._made = self._stored.last_seq = sent[-1].seq

    def _not_sent(self, packet: StreamPacket) -> Sequence[StreamPacket]:
        """The part of a packet that no process has sent before: all of it, unless the run is a repeated one."""
        if self._replay is None or type(packet) is ErrorPacket:
            return (packet,)
        parts = self._replay.feed(packet)
        if self._replay.differs:
            self.running.cancel()
        return parts

    def _add(self, packet: StreamPacket, adapted: Sequence[StreamPacket]) -> None:
        """Take one packet of the agent, to be stored as it is, and what is then published of it in the client's view.

        Both at once: a packet that was stored before its view was made would be published with the next one only.
        """
        self._pending.append(body := packet.to_json())
        self._pending_bytes += len(body)
        self._made += 1
        self._texts.append(text_of(packet))
        for each in adapted:
            self.collected.feed(each)
            self._unpublished.append((self._made, body if each is packet else each.to_json()))

    def _fail(self, failure: AccordError) -> None:
        """End the turn with this error, after the packets that are still to be written."""
        self.running.failure = failure
        packet = ErrorPacket(p=stream_error(failure))
        self._add(packet, self.view.feed(packet))

    def _is_far_ahead(self) -> bool:
        if self._broken is not None or self.running.is_over:
            return False
        if self._made - self._stored.last_seq >= AHEAD or self._pending_bytes >= AHEAD_BYTES:
            return True
        for reader in self._readers:
            if self._made - reader.seen < AHEAD:
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
                await self._log.append(PacketBatch(self.request_id, self._stored.last_seq + 1, bodies))
                self._publish(bodies)
        except Exception as error:  # noqa: BLE001 - packets that were not stored must not be skipped
            self._broken = _to_store_error(error)
            self.running.cancel()
        finally:
            self._writing = None
            self._room.set()

    def _publish(self, bodies: Sequence[str]) -> None:
        """Give stored packets to the readers; one that comes later finds them in the store."""
        self._stored.add(bodies, are_read=any(reader.has_own_view for reader in self._readers))
        viewed: list[str] = []
        while self._unpublished and self._unpublished[0][0] <= self._stored.last_seq:
            viewed.append(self._unpublished.popleft()[1])
        self._viewed.add(viewed, are_read=any(reader.seen != WHOLE_TURN for reader in self._readers))
        self._wake_readers()

    def _wake_readers(self) -> None:
        """Wake the readers that wait for more."""
        self._news.set()
        self._news.clear()


def text_of(packet: StreamPacket) -> str:
    """The text of a delta; nothing for other packets."""
    return packet.p if type(packet) is DeltaPacket else ""


async def stored_packets(
    store: SessionStore, request_id: str, last_seq: int
) -> AsyncGenerator[Sequence[PacketRecord], None]:
    """The packets of a turn up to this number, page by page."""
    after = 0
    while after < last_seq and (page := await store.packets(request_id, after_seq=after, limit=PAGE)):
        yield page[: last_seq - after]
        after = page[-1].seq


def _to_turn_error(error: BaseException) -> AccordError:
    """The error that ends a turn whose own task was cancelled or failed."""
    if isinstance(error, asyncio.CancelledError):
        _uncancel()
        return TurnCancelledError("The turn's task was cancelled")
    failure = AccordError(ERROR_FACTS[ErrorCode.INTERNAL].title)
    failure.__cause__ = error
    return failure


def _uncancel() -> None:
    """Forget that this task was cancelled: what is left to do has to be awaited."""
    task = asyncio.current_task()
    while task is not None and task.uncancel():
        pass


def _to_store_error(error: Exception) -> StoreError:
    """The error that readers get: always `unavailable`, since it may work later."""
    if isinstance(error, StoreError) and not isinstance(error, StoreConflictError):
        return error
    is_conflict = isinstance(error, StoreConflictError)
    failure = StoreError(ENDED_ELSEWHERE if is_conflict else f"The store failed ({type(error).__name__})")
    failure.__cause__ = error
    return failure
