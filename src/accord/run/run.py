"""One run: what executes for one request, from its admission to its end.

An item that the agent yields is accepted (its order, size and content), then appended, to be stored as the agent made
it and published in the view of the client that sent the request, whose report is part of the receipt. Any other view is
made by its reader (`views.py`). Nothing is queued in between: the agent's next item is asked for when that is done.

A packet is sent to a client only after it is stored. Packets are made while the store still writes earlier ones, so
that many share one write; the last ones are written together with the end of the run and its receipt, so that no
client sees a close without a stored receipt. A run is ahead of its readers by a limited amount: a client that does
not read stops its own backend. Without any reader the run goes on, or stops after a grace period in which no reader
came back, in this process or in another one. Kinds of backends are unknown here, and images are a Protocol.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, nullcontext
from math import inf
from types import AsyncGeneratorType
from typing import TYPE_CHECKING, Any, Final

from accord.agent import Turn, UserFacingError
from accord.agent_tasks import context_of_run
from accord.backends.upstream import CALLER
from accord.core.output.adapter import passes_text, text_report
from accord.core.output.packets import OutputCollector, PacketOrder, StreamStage
from accord.core.output.replay import ReplayFilter
from accord.core.sizes import RunSize, split_deltas
from accord.errors import (
    ERROR_FACTS,
    AccordError,
    AgentError,
    BackendError,
    EmulationError,
    ErrorCode,
    RefusedError,
    StoreConflictError,
    StoreError,
    TimedOutError,
    TurnCancelledError,
)
from accord.ports import PacketBatch, PermissionChannel, RunLog, SessionStore
from accord.run.admit import Rejection
from accord.run.agent_errors import AgentRaisedError, ContainBaseException, abandon, agent_failed, log_agent_error
from accord.run.costs import RunCosts
from accord.run.dispatch import RunQuestions, WorkRecord
from accord.run.limits import NOTHING_MORE, Ready, RunTimer, Wait
from accord.run.permissions import Permissions
from accord.run.recent import LiveReader, RecentPackets, SharedView
from accord.run.states import MAKING, OVER, TRANSITIONS, RunState
from accord.run.views import View, ViewBatch
from accord.wire.agent_work import PermissionRecord
from accord.wire.conversation import ChatMessage
from accord.wire.event import PresentationEvent
from accord.wire.packet import (
    ClosePacket,
    DeltaPacket,
    ErrorPacket,
    EventPacket,
    StreamError,
    StreamOpCode,
    StreamPacket,
    make_delta,
)
from accord.wire.problem import error_from_stream, stream_error
from accord.wire.request import ServiceRequest
from accord.wire.session import PacketRecord, RunRecord, StoredState

if TYPE_CHECKING:
    from accord.run.engine import Engine  # which makes runs

AHEAD: Final = 64
"""How many packets may be made before they are stored, and before the fastest reader has them."""
AHEAD_BYTES: Final = 256 * 1024
"""How much may be made before it is stored: many concurrent runs with large packets must not fill the memory."""
PART_BYTES: Final = 32 * 1024
"""A longer text becomes several packets, so that other runs go on while it is adapted: 24 MB of it take a minute."""
PLAIN_PACKETS: Final = 1_000
PLAIN_BYTES: Final = 500
"""How many packets of text, and how large each, may be made without a view: the first event has it made of them all."""
WHOLE: Final = inf
"""The position of a reader that waits for the end of the run only."""
STOP_S: Final = 0.5
"""How long an agent may take to clean up once its run is over, before the run ends without it."""
PAGE: Final = 500

NOT_STORED: Final = "The store failed in the middle of this turn"
ENDED_ELSEWHERE: Final = "Another process ended this turn, since this one seemed to be dead"
DELETED: Final = "This turn was deleted while it ran"
RUN_DIFFERS: Final = (
    "The process that ran this turn died. Another one ran the agent again, and its answer differs from what was sent "
    "already; send the request again with a new request_id"
)
CLOSE: Final = ClosePacket()

RUN_ERRORS: Final = (AgentError, BackendError, EmulationError, RefusedError, TimedOutError, TurnCancelledError)
"""Errors that end a run with their own code. Any other error that an agent raises is a defect of the agent, even one
of Accord's: a malformed tool that it passed to `ask` is not an invalid message of the client."""

End = Callable[["Run", PacketBatch], Awaitable[None]]


class Run:
    """One request while it executes; `states.py` draws what becomes of it.

    `start` runs it in tasks of its own and stores its packets. Without that it runs while its `packets` are iterated
    over. One with a `rejection` was not admitted: its agent does not run. Without `permits` it cannot ask for
    permission; without `streams`, backends need no streaming.
    """

    record: RunRecord
    task: asyncio.Task[None]
    """Done once it is over."""
    receipt: Mapping[str, Any] | None = None
    may_restart = False
    """Whether another process may run it again, from its start."""
    _log: RunLog
    _turn: Turn

    def __init__(  # noqa: PLR0913 - the request, and how it is answered
        self,
        engine: "Engine",
        request: ServiceRequest,
        history: Sequence[ChatMessage] = (),
        *,
        costs: RunCosts,
        permits: PermissionChannel | None = None,
        rejection: Rejection | None = None,
        streams: bool = True,
    ) -> None:
        self.costs: Final = costs
        self.engine: Final = engine
        self.request: Final = request
        self.request_id: Final = str(request.request_id)
        self.rejection: Final = rejection
        self.state = RunState.ADMITTED
        self.failure: AccordError | None = None
        self.agent_error: StreamError | None = None
        """The error packet that the agent itself sent, if it did."""
        self.first_packet_ms: float | None = None
        self._pending: list[str] = []
        """The packets that are not stored yet."""
        self._room: Final = asyncio.Event()
        self._began_at: Final = engine.clock.monotonic()
        self._history: Final = history
        self._timer: Final = RunTimer()
        self._order: Final = PacketOrder()
        self._size: Final = RunSize(engine.size_limits)
        self._questions: Final = RunQuestions(engine.dispatcher, engine.agent, self._timer, costs, streams)
        if rejection is not None and rejection.refusal is not None:
            self._questions.records.append(WorkRecord(outcome=rejection.refusal))
        self.work: Final[Sequence[WorkRecord]] = self._questions.records
        """A record of each question to a backend."""
        self._permissions: Final = Permissions(permits, self._timer, engine.clock)
        self._wait: Final = Wait(self._timer, "the agent", is_agent=True)
        self._items: Any = None
        """What the agent yields, while it is open."""
        self._last_packets: Sequence[StreamPacket] = ()
        """What the client gets for the error that ended the run."""

    def start(  # noqa: PLR0913 - its store, and what is done at its end
        self,
        record: RunRecord,
        store: SessionStore,
        *,
        log: RunLog,
        new_view: Callable[[], View],
        end: End,
        forget: Callable[["Run"], None],
        stop_unread_after_s: float | None,
        sent: Sequence[PacketRecord] = (),
        may_restart: bool = False,
    ) -> None:
        """Run it in tasks of its own. What `sent` holds was sent by a process that ran it before."""
        self.record = record
        self.may_restart = may_restart
        self._new_view = new_view
        self._store = store
        self._log = log
        self._end = end
        self._forget = forget
        self._broken: AccordError | None = None
        """Why packets could not be stored: what follows them is not sent."""
        self._last: PacketBatch | None = None
        self._texts: list[str] = []
        """Every text of the agent: the only place that keeps the answer."""
        self._is_view_exact = True
        """False once the store may have other packets than those that the view was made of."""
        self._made = self._pending_bytes = 0
        self._stored = RecentPackets()
        """The packets as the agent made them."""
        self._shared: SharedView | None = None
        """The view of the client that sent the request; None while that is what the agent made."""
        if not passes_text(record.capabilities) or self.engine.size_limits.packet_bytes < PART_BYTES:
            self._share_view()
        self._replay: ReplayFilter | None = None
        if sent:
            self._continue_after(sent)
        self._readers: list[LiveReader] = []
        self._grace_s = stop_unread_after_s
        self._unread_timer: asyncio.TimerHandle | None = None
        self._unread_check: asyncio.Task[None] | None = None
        self._is_write_due = False
        self._writing: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._adapting: asyncio.Lock | None = None
        # In a task of its own, which the agent's code may keep for as long as it likes: the run ends without it.
        self._making = asyncio.create_task(self._make(), context=context_of_run(self.request_id))
        self.task = asyncio.create_task(self._end_when_made())

    @property
    def permissions(self) -> Sequence[PermissionRecord]:
        """A record of each permission that the agent requested."""
        return self._permissions.records() if self._permissions.requests else ()

    @property
    def duration_ms(self) -> float:
        """How long it has been running."""
        return round((self.engine.clock.monotonic() - self._began_at) * 1_000, 3)

    @property
    def view(self) -> View:
        """The view of the client that sent the request, of what was made so far."""
        return (self._shared or self._share_view()).view

    @property
    def is_over(self) -> bool:
        """Whether this process is done with it, but for an end that the store may take later."""
        return self.state in OVER

    @property
    def is_end_unwritten(self) -> bool:
        """Whether it is over, but the store could not write its end."""
        return self.state is RunState.LOST and self._last is not None

    def cancel(self) -> bool:
        """Stop the agent and its backend; every reader's stream still ends with a close. False if they have ended."""
        if self.state not in MAKING:
            return False
        self._timer.cancel()
        self._room.set()
        return True

    def release(self) -> None:
        """Stop without ending the run: another process runs it again. What was not stored yet, no client has seen."""
        self.cancel()
        self._enter(RunState.RELEASED)

    def _enter(self, state: RunState) -> None:
        """Enter this state, if the table has such a transition."""
        if (self.state, state) in TRANSITIONS:
            self.state = state

    # Running the agent

    async def packets(self) -> AsyncGenerator[StreamPacket, None]:
        """The agent's packets, made while they are iterated over; ends with exactly one close.

        A failure becomes an error packet before it. A run that was started gives them to its log instead.
        """
        try:
            while (packet := await self._next()) is not None:
                parts = split_deltas((packet,), PART_BYTES)
                for part in parts:
                    self._permissions.packets_made += 1
                    yield part
                    if len(parts) > 1 and await self._pause():
                        break
        finally:
            await self._close_agent(is_failing=True)
            await self._close()
        for packet in self._last_packets:
            yield packet
        yield CLOSE
        self._enter(RunState.ENDING)
        self._enter(RunState.ENDED)

    async def _next(self) -> StreamPacket | None:
        """The packet of the agent's next item; None at its end, and once anything has ended the run."""
        limits, items = self.engine.limits, self._items
        try:
            if items is None:
                items = self._begin_agent()
            if (over := self._timer.over) is not None:
                raise over
            polled = self._wait.poll(anext(items, NOTHING_MORE))
            if isinstance(polled, Ready):
                item = polled[0]
            else:
                self._write_soon()
                seconds = limits.first_packet_s if self.first_packet_ms is None else limits.gap_s
                item = await self._wait.finish(seconds, polled)
            if item is not NOTHING_MORE and (packet := self._accept(item)).op is not StreamOpCode.CLOSE:
                return packet
            await self._close_agent()
            self._timer.raise_if_over()
        except Exception as error:  # noqa: BLE001 - whatever an agent raises ends its run, never the server
            await self._close_agent(is_failing=True)
            self._last_packets = self._end_with(error)
        return None

    def _begin_agent(self) -> Any:
        """Begin the agent, and return what it yields; raises the error of a request that may not run."""
        CALLER.set(self.request.context.user.id)
        self._timer.start(self.engine.limits.turn_s)
        if self.rejection is not None:
            raise self.rejection.error
        self._enter(RunState.RUNNING)
        self._turn = Turn(
            self.request,
            self._history,
            ask_backend=self._questions,
            clock=self.engine.clock,
            permissions=self._permissions,
        )
        try:
            self._items = self.engine.agent.run(self._turn)
        except Exception:
            raise
        except BaseException as error:  # nothing is awaited here, so that it is no cancellation of this task
            raise agent_failed(error) from error
        return self._items

    async def _close_agent(self, *, is_failing: bool = False) -> None:
        """Close the agent. An error on closing it ends the run, or is logged if another error ended it before."""
        items, self._items = self._items, None
        if items is None or (type(items) is AsyncGeneratorType and items.ag_frame is None):
            return  # it has ended, and closing it would do nothing
        self._write_soon()
        try:
            with ContainBaseException(agent_failed):
                await items.aclose()
        except Exception as error:
            if not is_failing:
                raise
            self._log_error("The agent failed while it was stopped", error)

    async def _pause(self) -> bool:
        """Let other runs go on while a long text is adapted; returns whether this one is over by now."""
        self._timer.arm()
        self._write_soon()
        await asyncio.sleep(0)
        return self._timer.over is not None

    async def _close(self) -> None:
        """Close what the agent left open, which may take a while."""
        if self._questions.records or self._permissions.requests:
            self._write_soon()
        await self._permissions.close()
        await self._questions.close()
        self._timer.close()

    def _end_with(self, error: Exception) -> list[StreamPacket]:
        """The packets for an error that ends the run; none if the agent has sent an error packet itself.

        A limit or a cancellation counts more than what the agent raises because of it.
        """
        if (over := self._timer.over) is not None and error is not over:
            self._log_error("The agent failed while it was stopped", error)
            error = over
        if isinstance(error, UserFacingError):
            event = self._turn.user_error(str(error), retryable=error.retryable, domain="tool")
            return [EventPacket(p=event.dump())]
        self.failure = failure = error if isinstance(error, RUN_ERRORS) else agent_failed(error)
        if isinstance(failure, AgentError):
            self._log_error("The agent failed", failure)
        return [ErrorPacket(p=stream_error(failure))] if self._order.stage is StreamStage.OPEN else []

    def _log_error(self, message: str, error: BaseException) -> None:
        raised = error.__cause__ or error if isinstance(error, AgentRaisedError) else error
        log_agent_error(message, raised, request_id=self.request_id, fields={"agent": self.engine.agent.name})

    def _accept(self, item: Any) -> StreamPacket:
        """The packet for an item that the agent yielded; raises `AgentError` if it may not come now."""
        packet = make_delta({"p": item}) if isinstance(item, str) else _to_packet(item)
        if packet.op is StreamOpCode.CLOSE:
            return packet
        self._size.add(packet)  # before the order: an error that is too large is not sent, so that one about it is
        if problem := self._order.take(packet.op):
            raise AgentError(f"The agent sent {problem}")
        if self.first_packet_ms is None:
            self.first_packet_ms = self.duration_ms
        if not isinstance(packet, DeltaPacket):
            self._note(packet)
        return packet

    def _note(self, packet: StreamPacket) -> None:
        """Note what a packet of the agent means for the run; raises `AgentError` for content it did not declare."""
        if isinstance(packet, EventPacket):
            is_forwarded = self._turn.is_forwarded(packet.p)
            self.engine.admission.check_event(packet.p, self.request_id, is_forwarded=is_forwarded)
        elif isinstance(packet, ErrorPacket):
            self.agent_error = packet.p
            self.failure = error_from_stream(packet.p)

    # Appending its packets

    async def _make(self) -> None:
        """Run the agent, and append what it makes."""
        try:
            while (packet := await self._next()) is not None:
                parts = split_deltas((packet,), PART_BYTES)
                for part in parts:
                    self._permissions.packets_made += 1
                    if type(part) is EventPacket and self.view.is_slow(part):
                        await self._take_in_thread(part)
                    else:
                        self._take(part)
                    if len(parts) > 1 and await self._pause():
                        break
                    if self._is_far_ahead():
                        await self._wait_for_room()
        finally:
            await self._close_agent(is_failing=True)
            await self._close()
        for packet in self._last_packets:
            self._take(packet)
        if self._replay is not None and self.state in MAKING:
            self._check_replay(self._replay)
        self._enter(RunState.ENDING)

    def _take(self, packet: StreamPacket) -> None:
        """Append a packet of the agent, or what is new of it, unless nothing that the agent sends counts any more."""
        if self.state in MAKING and self._broken is None:
            for part in (packet,) if self._replay is None else self._not_sent(packet, self._replay):
                self._append(part)

    def _not_sent(self, packet: StreamPacket, replay: ReplayFilter) -> Sequence[StreamPacket]:
        """The part of a packet that no process has sent before."""
        if type(packet) is ErrorPacket and not replay.differs:
            return (packet,)
        parts = replay.feed(packet)
        if replay.differs:
            self._timer.cancel()
        return parts

    def _check_replay(self, replay: ReplayFilter) -> None:
        """Fail if this run cannot continue what an earlier one has sent."""
        is_short = replay.is_behind and self.failure is None
        if is_short or replay.differs:
            self._fail(StoreError(RUN_DIFFERS))

    async def _take_in_thread(self, packet: StreamPacket) -> None:
        """Append a packet whose images may be re-encoded, while other runs go on."""
        self._timer.arm()
        self._write_soon()
        self._adapting = self._adapting or asyncio.Lock()
        async with self._adapting:
            if self.state in MAKING and self._broken is None:
                for part in (packet,) if self._replay is None else self._not_sent(packet, self._replay):
                    self._append(part, await self.view.feed_in_thread(part))

    def _append(self, packet: StreamPacket, adapted: Sequence[StreamPacket] | None = None) -> None:
        """Take one packet, to be stored as it is, and what is then published of it in the client's view.

        Both at once: a packet that was stored before its view was made would be published with the next one only.
        """
        body, shared = packet.to_json(), self._shared
        if shared is None and packet is not CLOSE:
            is_short_text = type(packet) is DeltaPacket and len(body) <= PLAIN_BYTES and self._made < PLAIN_PACKETS
            shared = None if is_short_text else self._share_view()
        if type(packet) is DeltaPacket:
            self._texts.append(packet.p)
        self._pending.append(body)
        self._pending_bytes += len(body)
        self._made += 1
        if shared is not None:
            shared.add(self._made, packet, body, adapted)

    def _share_view(self) -> SharedView:
        """Begin to adapt for the client that sent the request; so far, all that was made was text and its close."""
        shared = self._shared = SharedView(self._new_view(), self._texts, self._stored.last_seq, self._pending)
        if self._made > len(self._texts):
            shared.view.feed(CLOSE)
        return shared

    def _continue_after(self, sent: Sequence[PacketRecord]) -> None:
        """Continue a run of which another process has sent these packets."""
        packets = [StreamPacket.parse(record.body) for record in sent]
        self._replay = ReplayFilter(packets)
        shared = self._shared or self._share_view()
        for record, packet in zip(sent, packets, strict=True):
            self._texts.append(text_of(packet))
            shared.add(record.seq, packet, record.body)
        self._made = self._stored.last_seq = sent[-1].seq
        shared.publish(self._made, are_read=False)

    def _fail(self, failure: AccordError) -> None:
        """End the run with this error, after the packets that are still to be written."""
        self.failure = failure
        self._append(ErrorPacket(p=stream_error(failure)))

    def _is_far_ahead(self) -> bool:
        if self._broken is not None or self._timer.over is not None:
            return False
        if self._made - self._stored.last_seq >= AHEAD or self._pending_bytes >= AHEAD_BYTES:
            return True
        for reader in self._readers:
            if self._made - reader.seen < AHEAD:
                return False
        return bool(self._readers)

    async def _wait_for_room(self) -> None:
        self._timer.arm()
        while self._is_far_ahead():
            self._write_soon()
            self._room.clear()
            await self._room.wait()

    # Storing and ending

    def _write_soon(self) -> None:
        """Have the packets so far written while something is awaited; otherwise they are written with the end."""
        # Not at once: after an `asyncio.sleep(0)` of the agent, its next packet is written together with this one.
        if self._pending and self._writing is None and not self._is_write_due:
            self._is_write_due = True
            asyncio.get_running_loop().call_soon(self._begin_writing)

    def _begin_writing(self) -> None:
        self._is_write_due = False
        if self._pending and self.state is RunState.RUNNING:
            self._writing = asyncio.create_task(self._write())

    async def _write(self) -> None:
        try:
            while self._pending and self.state is RunState.RUNNING:
                bodies, self._pending_bytes = self._pending.copy(), 0
                await self._log.append(PacketBatch(self.request_id, self._stored.last_seq + 1, bodies))
                del self._pending[: len(bodies)]
                self._publish(bodies)
        except Exception as error:  # noqa: BLE001 - packets that were not stored must not be skipped
            self._broken = _to_store_error(error)
            self._timer.cancel()
        finally:
            self._writing = None
            self._room.set()

    def _publish(self, bodies: Sequence[str]) -> None:
        """Give stored packets to the readers; one that comes later finds them in the store."""
        shared, are_read = self._shared, False
        is_any_own = shared is None
        for reader in self._readers:
            is_any_own = is_any_own or reader.has_own_view
            are_read = are_read or reader.seen != WHOLE
        self._stored.add(bodies, are_read=are_read and is_any_own)
        if shared is not None:
            shared.publish(self._stored.last_seq, are_read=are_read)
        self._wake_readers()

    async def _end_when_made(self) -> None:
        """Write the end once every packet is made; this is the task of the run."""
        if self._grace_s and not self._readers and not self._making.done():
            self._start_unread_timer(self._grace_s)
        try:
            try:
                await self._until_made()
            except BaseException as error:  # noqa: BLE001
                # An agent's errors do not get here: this task was cancelled, or Accord itself failed.
                if self.state is not RunState.RELEASED:
                    self._fail(_to_run_error(error))
            self.costs.settle(self.work)
            await self.costs.keep_up()
            if self._writing is not None:
                await self._writing
            if self.state is RunState.RELEASED:
                self._pending.clear()  # a write that is due would follow the packets of the next process
                return
            if self._broken is not None:
                self._pending.clear()
                self._is_view_exact = False
                self._fail(StoreError(NOT_STORED))
            self._append(CLOSE)
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
        """Wait until every packet is made. An agent that does not end when the run is over is abandoned."""
        making = self._making
        try:
            try:
                await self._timer.until_over(making)
            except asyncio.CancelledError:  # the loop ends
                _uncancel()
                self._timer.cancel()
            self._room.set()
            if not making.done():
                await asyncio.wait((making,), timeout=STOP_S)
            async with self._adapting or nullcontext():  # Accord itself is at work, and uses the view
                pass
        finally:
            is_abandoned, is_complete = not making.done(), self.state is RunState.ENDING
            self._enter(RunState.ENDING)
        if is_abandoned:
            abandon(making, self.request_id, self.engine.agent.name)
            await self._close()
        elif not (making.cancelled() and is_complete):  # an agent may cancel its own task at its very end
            making.result()
        over = self._timer.over
        if self.state is RunState.ENDING and over is not None and (is_abandoned or self.failure is None):
            for packet in self._end_with(over):
                self._append(packet)

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
            if stored.state is not StoredState.RUNNING:
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
        self._enter(RunState.ENDED if self.rejection is None else RunState.REFUSED)

    async def adaptation(self, last: PacketBatch) -> tuple[dict[str, Any], str]:
        """The report on the view of the client that sent the request, of what is stored and these last packets.

        With it the text of these packets, before adaptation: what the conversation keeps.
        """
        if self._is_view_exact:
            if self._shared is None:
                return text_report(self.record.capabilities, len(self._texts)), "".join(self._texts)
            return self._shared.view.adapter.report_json(), "".join(self._texts)
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
        return view.adapter.report_json(), "".join(texts)

    # Readers

    def read(self, after: int = 0, view: View | None = None) -> AsyncGenerator[ViewBatch, None]:
        """The packets after this number in the view of the client that sent the request, or in another one.

        As many at a time as are stored, to the end of the run.
        """
        return self._read_shared_view(after) if view is None else self._read_own_view(view, after)

    async def _read_own_view(self, view: View, after: int) -> AsyncGenerator[ViewBatch, None]:
        reader = self._join(LiveReader(0, has_own_view=True))
        try:
            async with aclosing(view.read(self._stored_by(reader), after)) as batches:
                async for batch in batches:
                    yield batch
        finally:
            self._leave(reader)
        if self._broken is not None:
            raise self._broken

    async def _read_shared_view(self, after: int) -> AsyncGenerator[ViewBatch, None]:
        reader = self._join(LiveReader(0))
        try:
            is_read = False
            while not is_read:
                seen = self._stored.last_seq
                packets = self._viewed.after(after) if self._is_view_exact else None
                if packets is None:
                    # It is late, or the store may have other packets: make the view again until it has caught up.
                    own = self._new_view()
                    async with aclosing(own.read(self._stored_by(reader), after)) as batches:
                        async for batch in batches:
                            yield batch
                            after = max(after, own.seq)
                            if self._is_view_exact and self._viewed.after(after) is not None:
                                break
                        else:
                            is_read = True
                elif packets or seen > reader.seen:
                    yield ViewBatch(packets, seen)
                    # The reader came back for more, so it has read all of these.
                    after, reader.seen = packets[-1].seq if packets else after, seen
                    self._room.set()
                elif self.state in OVER:
                    is_read = True
                else:
                    await self._news.wait()
        finally:
            self._leave(reader)
        if self._broken is not None:
            raise self._broken

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
                elif self.state in OVER:
                    return
                else:
                    await self._news.wait()
        finally:
            reader.has_own_view = False

    async def whole(self) -> OutputCollector:
        """The whole answer, once the run is over and stored."""
        if self.state not in OVER:
            reader = self._join(LiveReader(WHOLE))
            try:
                while self.state not in OVER:
                    await self._news.wait()
            finally:
                self._leave(reader)
        if self._broken is not None:
            raise self._broken
        if self.state is RunState.LOST:
            raise StoreError(ENDED_ELSEWHERE)
        return OutputCollector(self._texts) if self._shared is None else self._shared.collected

    @property
    def _viewed(self) -> RecentPackets:
        """The last packets in the view of the client that sent the request."""
        return self._stored if self._shared is None else self._shared.recent

    def _join(self, reader: LiveReader) -> LiveReader:
        self._readers.append(reader)
        self._stop_unread_timer()
        return reader

    def _leave(self, reader: LiveReader) -> None:
        self._readers.remove(reader)
        self._room.set()
        if self._readers or self._grace_s is None or self.state in OVER:
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
        """Cancel the run, unless a client reads it through another process: then check again later."""
        grace_s = self._grace_s or 0.0
        try:
            is_read = await self._store.is_read(self.request_id, within_s=grace_s)
        except StoreError:
            is_read = True  # not known now: check again later
        if self._readers or self.state in OVER:
            return
        if is_read:
            self._start_unread_timer(grace_s)
        else:
            self.cancel()

    def _wake_readers(self) -> None:
        """Wake the readers that wait for more."""
        self._news.set()
        self._news.clear()


def _to_packet(item: Any) -> StreamPacket:
    if isinstance(item, PresentationEvent):
        return EventPacket(p=item.dump())
    if isinstance(item, DeltaPacket | ClosePacket):
        return item
    if isinstance(item, StreamPacket):
        # As it is stored: JSON writes a UUID, a tuple or a date in another form, and every view has to be the same.
        return StreamPacket.parse(item.to_json())
    raise AgentError(f"The agent yielded a {type(item).__name__}; expected text, an event or a packet")


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


def _to_run_error(error: BaseException) -> AccordError:
    """The error that ends a run whose own task was cancelled or failed."""
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
