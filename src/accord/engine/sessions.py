"""Stored turns: begun once, stored packet by packet, ended with their messages and their receipt.

One request id is one turn, in every process and for ever: it runs once, and a repeated request reads its packets. A
request that is not admitted is a turn, too, with a receipt and without a run of its agent. Any client that may see a
turn can read it, while it runs or later, in the view of what it can show itself (`views.py`). A
process sends heartbeats while it runs turns; other processes end the turns of one that sent none for the length of a
lease. An end that the store could not write is tried again. A turn can be cancelled through any process. The store is
known as a Protocol only.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from time import monotonic
from typing import Any, Final
from uuid import UUID, uuid4
from weakref import WeakMethod

from pydantic_core import from_json

from accord.core.output.packets import OutputCollector, find_event
from accord.core.receipt import Sign, seal_members
from accord.core.summarise import response_metrics
from accord.engine.admit import Rejection, SentContent, unknown_agent
from accord.engine.dispatch import Dispatcher
from accord.engine.engine import Engine, RunningTurn
from accord.engine.live import PAGE, LiveTurn, stored_packets
from accord.engine.receipt import (
    STATE_BY_OUTCOME,
    ReceiptContent,
    describe_negotiation,
    interrupted_content,
    outcome_of,
    receipt_content,
    record_request,
)
from accord.engine.recovery import HeartbeatThread, UnwrittenEnds
from accord.engine.stored import StoredTurn
from accord.engine.views import Reader, View, ViewBatch
from accord.errors import ErrorCode, InvalidMessageError, Problem, RefusedError, StoreConflictError, StoreError
from accord.ports import HISTORY_BYTES, PacketBatch, PermissionChannel, SessionStore, TurnEnd, TurnStart
from accord.wire.adaptation import AdaptationReport
from accord.wire.conversation import ChatMessage, Role
from accord.wire.packet import ClosePacket, DeltaPacket, ErrorPacket, StreamPacket
from accord.wire.problem import error_from_stream, stream_error
from accord.wire.receipt import Receipt
from accord.wire.request import ServiceRequest, ServiceResponse
from accord.wire.session import MAX_ID_CHARS, ReceiptRecord, SessionRecord, TurnRecord, TurnState, is_id

MAX_SEALINGS: Final = 100
"""How often a receipt is sealed again when other turns of its session end first."""
CANCEL_POLL_S: Final = 1.0
"""How often a process with running turns looks for cancellations that other processes requested."""
BEATS_PER_LEASE: Final = 3

INTERRUPTED: Final = "The service was stopped in the middle of this turn"
TOO_MANY: Final = "Too many turns are running"
NO_RECEIPT: Final = "This turn has no receipt yet: it still runs"
NO_REQUEST: Final = "There is no such request here"
USED_BEFORE: Final = (
    "This request id was used before, for another request: use a new request_id (a random UUID) for every new request, "
    "and the same one only to send the same request again"
)


@dataclass(frozen=True, slots=True)
class SessionRules:
    """Limits of stored turns.

    A turn gets the last `history` messages that fit into `history_bytes`. A user who has stored `quota_bytes` cannot
    begin more turns. A turn without readers is stopped after `stop_unread_after_s`, if given. A process that sent no
    heartbeat for `lease_s` is assumed to be dead, and its turns are ended.
    """

    history: int = 200
    history_bytes: int = HISTORY_BYTES
    quota_bytes: int | None = None
    concurrent_turns: int | None = None
    stop_unread_after_s: float | None = None
    lease_s: float = 15.0


class Sessions:
    """An engine whose turns are stored. `on_turn_ended` gets the members of each receipt, once it is stored.

    `others` are the engines of further agents by name, which answer the requests that name them. `sign` signs each
    receipt.
    """

    def __init__(  # noqa: PLR0913 - the parts that are handed in
        self,
        engine: Engine,
        store: SessionStore,
        rules: SessionRules | None = None,
        *,
        others: Mapping[str, Engine] | None = None,
        on_turn_ended: Callable[[Mapping[str, Any]], None] | None = None,
        sign: Sign | None = None,
    ) -> None:
        self.engine = engine
        self.store: Final = store
        self.engines: Mapping[str, Engine] = {**(others or {}), engine.agent.name: engine}
        """Every engine by the name of its agent."""
        self._rules: Final = rules or SessionRules()
        self._on_turn_ended: Final = on_turn_ended
        self._sign: Final = sign
        self._runner: Final = uuid4().hex
        self._beginning: Final[list[str]] = []
        self._live: Final[dict[str, LiveTurn]] = {}
        self._unwritten: Final = UnwrittenEnds()
        self._timer: asyncio.TimerHandle | None = None
        self._polling: asyncio.Task[None] | None = None
        self._loop_ran_at = monotonic()
        is_alive = WeakMethod(self._is_alive)  # the thread must not keep sessions alive that are no longer used
        self._heartbeat: Final = HeartbeatThread(
            store,
            self._runner,
            every_s=self._rules.lease_s / BEATS_PER_LEASE,
            is_needed=lambda: (check := is_alive()) is not None and check(),
        )

    @property
    def running(self) -> int:
        """The number of turns that run in this process."""
        return len(self._live)

    def use_backends(self, dispatcher: Dispatcher) -> None:
        """Begin turns with other backends from now on; those that run keep the ones that they began with."""
        made = {id(each): each.with_dispatcher(dispatcher) for each in (self.engine, *self.engines.values())}
        self.engine, self.engines = made[id(self.engine)], {name: made[id(e)] for name, e in self.engines.items()}

    def is_running(self, request_id: str) -> bool:
        """Whether this process runs this turn."""
        return request_id in self._live

    async def begin(
        self,
        request: ServiceRequest,
        *,
        sent: SentContent | None = None,
        permits: PermissionChannel | None = None,
        streams: bool = True,
        on_start: Callable[[], None] | None = None,
    ) -> LiveTurn | StoredTurn:
        """The turn of this request, begun now unless its id is known; raises `RefusedError` if it may not run.

        `sent` is the content as the client sent it, if the request does not hold it. `permits` sends the agent's
        permission requests to the client that began the turn; later readers only read. Without `streams`, the client
        waits for the whole answer. `on_start` is called if the turn is begun now, also if it is refused at once.
        """
        engine, rejection = self._admit(request, sent)
        shape = record_request(request.payload, sent if rejection is not None else None)
        record = self._new_record(request, shape)
        if live := self._live.get(record.request_id):
            return await self._join(live, record, rejection)
        limit = self._rules.concurrent_turns
        if limit is not None and len(self._live) + len(self._beginning) >= limit:
            raise RefusedError(TOO_MANY, ErrorCode.UNAVAILABLE, {"limit": limit})
        self._beginning.append(record.request_id)
        try:
            start = await self._start_in_store(engine, request, record)
            if start.existing is not None:
                existing = self._live.get(record.request_id) or self._stored_turn(start.existing)
                return await self._join(existing, record, rejection)
            running = RunningTurn(engine, request, start.history, permits, rejection, streams=streams)
            if on_start is not None:
                on_start()
            live = self._run(running, shape, record, start)
        finally:
            self._beginning.remove(record.request_id)
        return await self._join(live, record, rejection) if rejection is not None else live

    def _admit(self, request: ServiceRequest, sent: SentContent | None) -> tuple[Engine, Rejection | None]:
        """The engine for this request, and why the request may not run, if it may not."""
        named = request.context.agent
        if named is None:
            return self.engine, self.engine.admission.decide(request, sent)
        engine = self.engines.get(named.id) or self.engines.get(named.name)
        if engine is not None:
            return engine, engine.admission.decide(request, sent)
        return self.engine, unknown_agent(named, self.engines)

    async def _join(
        self, turn: LiveTurn | StoredTurn, record: TurnRecord, rejection: Rejection | None
    ) -> LiveTurn | StoredTurn:
        """The turn that this request already has; raises its error if it was refused."""
        known = turn.record
        if known.owner != record.owner:
            raise RefusedError(NO_REQUEST, ErrorCode.NOT_FOUND, {})  # as for every access to another user's request
        if (known.session_id, known.request_digest) != (record.session_id, record.request_digest):
            raise RefusedError(USED_BEFORE, ErrorCode.REQUEST_CONFLICT, {"request_id": record.request_id})
        if rejection is not None and isinstance(turn, StoredTurn) and not turn.is_over:
            await self.collect_output(turn)  # another process refuses it right now, and has not stored that yet
        await self.raise_if_refused(turn)
        return turn

    async def raise_if_refused(self, turn: LiveTurn | StoredTurn) -> None:
        """Raise the error of a turn that was not admitted, once its receipt is stored."""
        if isinstance(turn, LiveTurn):
            if turn.running.rejection is not None:
                await turn.whole()
                raise turn.running.rejection.error
        elif turn.record.state is TurnState.REFUSED:
            raise error_from_stream((await self.collect_output(turn)).error or stream_error(StoreError(NO_RECEIPT)))

    async def find(self, request_id: str, owner: str | None) -> LiveTurn | StoredTurn | None:
        """The turn of this id, if it belongs to this owner; an owner of None may see every turn."""
        found = self._live.get(request_id)
        if found is None:
            record = await self.store.turn(request_id)
            if record is None:
                return None
            found = self._live.get(request_id) or self._stored_turn(record)
        return found if owner in (None, found.record.owner) else None

    async def cancel(self, turn: LiveTurn | StoredTurn) -> bool:
        """Stop a turn; False if it is over. Another process that runs it notices within `CANCEL_POLL_S`."""
        if isinstance(turn, LiveTurn) and not turn.is_over:
            turn.cancel()
            return True
        return await self.store.request_cancel(turn.request_id)

    def read(
        self, turn: LiveTurn | StoredTurn, after: int = 0, reader: Reader | None = None
    ) -> AsyncGenerator[ViewBatch, None]:
        """The packets of a turn after this number, to its end, in the view of this reader.

        Without a reader, in the view of the client that sent the request.
        """
        return turn.read(after, self._own_view(turn, reader))

    async def collect(self, turn: LiveTurn | StoredTurn, reader: Reader | None = None) -> ServiceResponse:
        """The whole answer of a turn; raises the error that ended its stream, if one did."""
        view = self._own_view(turn, reader)
        collected = await self.collect_output(turn, view)
        if collected.error is not None:
            error = error_from_stream(collected.error)
            error.ended_turn = True
            raise error
        if isinstance(turn, LiveTurn) and turn.receipt is not None:
            request_id, receipt = turn.running.request.request_id, turn.receipt
        else:
            request_id, receipt = UUID(turn.request_id), from_json((await self._receipt_record(turn.request_id)).body)
        metrics = response_metrics(receipt)
        if view is not None:
            metrics["adaptation"] = view.adapter.report_json()["totals"]
        return ServiceResponse.trusted(
            request_id=request_id,
            created_at=datetime.fromisoformat(receipt["created_at"]),
            output=collected.output,
            metrics=metrics,
        )

    async def collect_output(self, turn: LiveTurn | StoredTurn, view: View | None = None) -> OutputCollector:
        """Everything that a view has of a turn, once the turn is over."""
        if view is None and isinstance(turn, LiveTurn):
            return await turn.whole()
        collected = OutputCollector()
        async with aclosing(turn.read(0, view)) as batches:
            async for batch in batches:
                for record in batch.packets:
                    collected.feed(StreamPacket.parse(record.body))
        return collected

    async def report(self, turn: LiveTurn | StoredTurn, reader: Reader | None = None) -> AdaptationReport | None:
        """The adaptation report of a view, of a running turn as far as it goes; None if the turn has none."""
        view = self._own_view(turn, reader)
        if view is None:
            if isinstance(turn, LiveTurn):
                return turn.view.adapter.report
            if turn.is_over:
                return (await self.receipt(turn.request_id)).adaptation
            view = self.engine.new_view(turn.record.capabilities)
        stored = await self.store.turn(turn.request_id)
        packets = stored_packets(self.store, turn.request_id, stored.last_seq if stored else 0)
        async with aclosing(view.read(packets)) as batches:
            async for _ in batches:
                pass
        return view.adapter.report

    async def item(self, request_id: str, item_id: str) -> dict[str, Any] | None:
        """The event that a notice names, as the agent made it; None if the turn has no such event."""
        stored = await self.store.turn(request_id)
        packets: list[StreamPacket] = []
        async with aclosing(stored_packets(self.store, request_id, stored.last_seq if stored else 0)) as pages:
            async for page in pages:
                parsed = (StreamPacket.parse(record.body) for record in page)
                packets += [packet for packet in parsed if not isinstance(packet, DeltaPacket)]
        return find_event(packets, item_id)

    def _own_view(self, turn: LiveTurn | StoredTurn, reader: Reader | None) -> View | None:
        """The view of a reader; None if that is the one of the client that sent the request."""
        if reader is None or reader.declared == turn.record.capabilities:
            return None
        return self.engine.new_view(reader.declared)

    async def receipt(self, request_id: str) -> Receipt:
        """The receipt of a turn that is over."""
        return Receipt.parse((await self._receipt_record(request_id)).body)

    async def _receipt_record(self, request_id: str) -> ReceiptRecord:
        record = await self.store.receipt(request_id)
        if record is None:
            raise RefusedError(NO_RECEIPT, ErrorCode.NOT_FOUND, {})
        return record

    async def drain(self, seconds: float) -> None:
        """Wait up to so many seconds for the turns of this process, then cancel those that still run.

        Ends that the store cannot write in that time are left to other processes.
        """
        until = monotonic() + seconds
        if self._live:
            await asyncio.wait([turn.task for turn in self._live.values()], timeout=seconds)
        left = list(self._live.values())
        for turn in left:
            turn.cancel()
        if left:
            await asyncio.wait([turn.task for turn in left])
        await self._unwritten.drain(max(0.0, until - monotonic()))
        self._heartbeat.stop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def recover(self) -> int:
        """End the turns of dead processes, and rows of this process without a running turn; returns how many.

        Their packets stay; an error and a close are added, so that readers get a stream that ends. Several processes
        may do so at the same time.
        """
        ended, lease_s = 0, self._rules.lease_s
        while left := await self.store.abandoned(lease_s, runner=self._runner, limit=PAGE):
            for turn in left:
                ended += await self._interrupt(turn)
        for turn in await self.store.running(self._runner):
            # A beginning whose confirmation was lost leaves such a row, and so does a defect of Accord.
            if not any(turn.request_id in known for known in (self._beginning, self._live, self._unwritten)):
                ended += await self._interrupt(turn)
        return ended

    def _stored_turn(self, record: TurnRecord) -> StoredTurn:
        unread_s = self._rules.stop_unread_after_s
        new_view = partial(self.engine.new_view, record.capabilities)
        return StoredTurn(self.store, record, new_view=new_view, recover=self.recover, stop_unread_after_s=unread_s)

    async def _start_in_store(self, engine: Engine, request: ServiceRequest, record: TurnRecord) -> TurnStart:
        declared = request.payload.capabilities
        session = SessionRecord(
            session_id=record.session_id,
            owner=record.owner,
            agent=engine.agent.name,
            capabilities=declared,
            negotiated=describe_negotiation(engine, declared),
            created_at=record.created_at,
            updated_at=record.created_at,
        )
        try:
            rules = self._rules
            return await self.store.begin_turn(
                session,
                record,
                history=rules.history,
                history_bytes=rules.history_bytes,
                quota_bytes=rules.quota_bytes,
            )
        except StoreConflictError:
            raise RefusedError(
                "This session belongs to another user; use another session_id", ErrorCode.FORBIDDEN, {}
            ) from None

    def _run(self, running: RunningTurn, shape: dict[str, Any], record: TurnRecord, start: TurnStart) -> LiveTurn:
        live = self._live[record.request_id] = LiveTurn(
            running,
            record,
            self.store,
            new_view=partial(self.engine.new_view, record.capabilities),
            end=partial(self._end, shape, start.last_receipt_hash),
            forget=self._forget,
            stop_unread_after_s=self._rules.stop_unread_after_s,
        )
        self._heartbeat.start()
        if self._timer is None:
            self._poll_later()
        return live

    def _forget(self, turn: LiveTurn) -> None:
        self._live.pop(turn.request_id, None)
        if turn.is_end_unwritten:
            self._unwritten.add(turn)

    def _new_record(self, request: ServiceRequest, shape: dict[str, Any]) -> TurnRecord:
        """The turn's record at its beginning; raises `InvalidMessageError` if an id of the context is not usable."""
        session_id, owner, conversation_id = (
            request.context.session_id,
            request.context.user.id,
            request.payload.conversation_id,
        )
        if not (is_id(session_id) and is_id(owner) and (conversation_id is None or is_id(conversation_id))):
            ids = {"context.session_id": session_id, "context.user.id": owner}
            if conversation_id is not None:
                ids["payload.conversation_id"] = conversation_id
            expected = f"1 to {MAX_ID_CHARS} characters, none of them U+0000"
            wrong = [Problem(field, expected) for field, value in ids.items() if not is_id(value)]
            raise InvalidMessageError("ServiceRequest", wrong)
        return TurnRecord(
            request_id=str(request.request_id),
            session_id=session_id,
            owner=owner,
            runner=self._runner,
            request_digest=shape["digest"],
            created_at=self.engine.clock.now(),
            capabilities=request.payload.capabilities,
            conversation_id=conversation_id,
        )

    async def _end(self, shape: dict[str, Any], previous: str | None, live: LiveTurn, last: PacketBatch) -> None:
        running, now = live.running, self.engine.clock.now()
        messages = (
            []
            if running.rejection is not None
            else [ChatMessage.trusted(role=Role.USER, content=running.request.payload.query, timestamp=now)]
        )
        if answer := running.answer_text:
            messages.append(ChatMessage.trusted(role=Role.ASSISTANT, content=answer, timestamp=now))
        state = TurnState.REFUSED if running.rejection is not None else STATE_BY_OUTCOME[outcome_of(running).status]
        ending = TurnEnd(last, state, now, messages)
        report = (await live.exact_view(last)).adapter.report_json()
        content = partial(receipt_content, running, report, shape, now)
        live.receipt = await self._seal_and_end(ending, content, previous)

    async def _seal_and_end(
        self, ending: TurnEnd, content_after: Callable[[str | None], ReceiptContent], previous: str | None
    ) -> Mapping[str, Any]:
        """End a turn in the store, with a receipt that follows the session's last one; returns its members."""
        for _ in range(MAX_SEALINGS):
            content = content_after(previous)
            sealed = seal_members(content.encoded, self._sign)
            members = content.members
            ending.receipt = ReceiptRecord(
                request_id=members["request_id"],
                session_id=members["session_id"],
                body=sealed.json,
                hash=sealed.hash,
                previous_hash=previous,
            )
            if await self.store.end_turn(ending):
                if self._on_turn_ended is not None:
                    self._on_turn_ended(members)
                return members
            previous = await self.store.last_receipt_hash(members["session_id"])
        raise StoreError("Too many turns of this session end at the same time; try again")

    async def _interrupt(self, turn: TurnRecord) -> int:
        """End a turn that no process runs; returns 1, or 0 if it was already ended or deleted."""
        now = self.engine.clock.now()
        packets = [ErrorPacket(p=stream_error(StoreError(INTERRUPTED))), ClosePacket()]
        last = PacketBatch(turn.request_id, turn.last_seq + 1, [packet.to_json() for packet in packets])
        session = await self.store.session(turn.session_id)
        if session is None:
            return 0
        content = partial(interrupted_content, turn, session, INTERRUPTED, now)
        previous = await self.store.last_receipt_hash(turn.session_id)
        try:
            await self._seal_and_end(TurnEnd(last, TurnState.FAILED, now), content, previous)
        except StoreConflictError:  # another process was faster
            return 0
        return 1

    def _is_alive(self) -> bool:
        """Whether this process has turns and its event loop runs; called by the thread that sends heartbeats."""
        return bool(self._live or self._unwritten) and monotonic() - self._loop_ran_at < self.engine.limits.turn_s

    def _poll_later(self) -> None:
        self._loop_ran_at = monotonic()
        self._timer = asyncio.get_running_loop().call_later(CANCEL_POLL_S, self._poll)

    def _poll(self) -> None:
        self._timer = None
        if self._live:
            if self._polling is None or self._polling.done():
                self._polling = asyncio.create_task(self._cancel_requested())
            self._poll_later()

    async def _cancel_requested(self) -> None:
        """Cancel the turns of this process whose cancellation another process requested."""
        try:
            requested = await self.store.cancel_requests(self._runner)
        except StoreError:
            return  # the next poll tries again
        for request_id in requested:
            if (turn := self._live.get(request_id)) is not None:
                turn.cancel()
