"""Stored turns: begun once, stored packet by packet, ended with their messages and their receipt.

One request id is one turn, in every process and for ever: it runs once, and a repeated request reads its packets. A
process sends heartbeats while it runs turns; other processes end the turns of one that sent none for the length of a
lease. An end that the store could not write is tried again. A turn can be cancelled through any process. The store is
known as a Protocol only.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from time import monotonic
from typing import Any, Final
from uuid import UUID, uuid4
from weakref import WeakMethod

from pydantic_core import from_json

from accord.core.receipt import Sign, seal_members
from accord.core.summarise import response_metrics
from accord.engine.engine import Engine
from accord.engine.live import PAGE, LiveTurn
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
from accord.errors import ErrorCode, InvalidMessageError, Problem, RefusedError, StoreConflictError, StoreError
from accord.ports import HISTORY_BYTES, PacketBatch, PermissionChannel, SessionStore, TurnEnd, TurnStart
from accord.wire.conversation import ChatMessage, Role
from accord.wire.packet import ClosePacket, ErrorPacket
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

    `sign` signs each receipt.
    """

    def __init__(
        self,
        engine: Engine,
        store: SessionStore,
        rules: SessionRules | None = None,
        *,
        on_turn_ended: Callable[[Mapping[str, Any]], None] | None = None,
        sign: Sign | None = None,
    ) -> None:
        self.engine: Final = engine
        self.store: Final = store
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

    def is_running(self, request_id: str) -> bool:
        """Whether this process runs this turn."""
        return request_id in self._live

    async def begin(
        self, request: ServiceRequest, *, permits: PermissionChannel | None = None
    ) -> LiveTurn | StoredTurn:
        """The turn of this request, begun now unless its id is known; raises `RefusedError` if it may not begin.

        `permits` sends the agent's permission requests to the client that began the turn; later readers only read.
        """
        shape = record_request(request.payload)
        record = self._new_record(request, shape)
        if live := self._live.get(record.request_id):
            _check_same_request(live.record, record)
            return live
        limit = self._rules.concurrent_turns
        if limit is not None and len(self._live) + len(self._beginning) >= limit:
            raise RefusedError(TOO_MANY, ErrorCode.UNAVAILABLE, {"limit": limit})
        self._beginning.append(record.request_id)
        try:
            start = await self._start_in_store(request, record)
            if start.existing is not None:
                _check_same_request(start.existing, record)
                return self._live.get(record.request_id) or self._stored_turn(start.existing)
            return self._run(request, shape, record, start, permits)
        finally:
            self._beginning.remove(record.request_id)

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

    async def collect(self, turn: LiveTurn | StoredTurn) -> ServiceResponse:
        """The whole answer of a turn; raises the error that ended its stream, if one did."""
        collected = await turn.whole()
        if collected.error is not None:
            raise error_from_stream(collected.error)
        if isinstance(turn, LiveTurn) and turn.receipt is not None:
            request_id, receipt = turn.running.request.request_id, turn.receipt
        else:
            request_id, receipt = UUID(turn.request_id), from_json((await self._receipt_record(turn.request_id)).body)
        return ServiceResponse.trusted(
            request_id=request_id,
            created_at=datetime.fromisoformat(receipt["created_at"]),
            output=collected.output,
            metrics=response_metrics(receipt),
        )

    async def receipt(self, request_id: str) -> Receipt:
        """The receipt of a turn that is over."""
        return Receipt.parse((await self._receipt_record(request_id)).body)

    async def _receipt_record(self, request_id: str) -> ReceiptRecord:
        record = await self.store.receipt(request_id)
        if record is None:
            raise RefusedError("This turn has no receipt yet: it still runs", ErrorCode.NOT_FOUND, {})
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
        return StoredTurn(self.store, record, recover=self.recover, stop_unread_after_s=unread_s)

    async def _start_in_store(self, request: ServiceRequest, record: TurnRecord) -> TurnStart:
        declared = request.payload.capabilities
        session = SessionRecord(
            session_id=record.session_id,
            owner=record.owner,
            agent=self.engine.agent.name,
            capabilities=declared,
            negotiated=describe_negotiation(self.engine, declared),
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

    def _run(
        self,
        request: ServiceRequest,
        shape: dict[str, Any],
        record: TurnRecord,
        start: TurnStart,
        permits: PermissionChannel | None,
    ) -> LiveTurn:
        capabilities = start.session.capabilities  # of an earlier request, if this one declares none
        if request.payload.capabilities != capabilities:
            payload = request.payload.model_copy(update={"capabilities": capabilities})
            request = request.model_copy(update={"payload": payload})
        running = self.engine.begin(request, start.history, permits=permits)
        end = partial(self._end, shape, start.last_receipt_hash)
        live = self._live[record.request_id] = LiveTurn(
            running,
            record,
            self.store,
            end=end,
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
        ids = {"context.session_id": request.context.session_id, "context.user.id": request.context.user.id}
        if wrong := [field for field, value in ids.items() if not is_id(value)]:
            expected = f"1 to {MAX_ID_CHARS} characters, none of them U+0000"
            raise InvalidMessageError("ServiceRequest", [Problem(field, expected) for field in wrong])
        return TurnRecord(
            request_id=str(request.request_id),
            session_id=request.context.session_id,
            owner=request.context.user.id,
            runner=self._runner,
            request_digest=shape["digest"],
            created_at=self.engine.clock.now(),
        )

    async def _end(self, shape: dict[str, Any], previous: str | None, live: LiveTurn, last: PacketBatch) -> None:
        running, now = live.running, self.engine.clock.now()
        messages = [ChatMessage.trusted(role=Role.USER, content=running.request.payload.query, timestamp=now)]
        if answer := running.answer_text:
            messages.append(ChatMessage.trusted(role=Role.ASSISTANT, content=answer, timestamp=now))
        ending = TurnEnd(last, STATE_BY_OUTCOME[outcome_of(running).status], now, messages)
        content = partial(receipt_content, running, self.engine, shape, now)
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


def _check_same_request(known: TurnRecord, record: TurnRecord) -> None:
    if known.owner != record.owner:
        raise RefusedError(NO_REQUEST, ErrorCode.NOT_FOUND, {})  # as for every other access to another user's request
    if (known.session_id, known.request_digest) != (record.session_id, record.request_digest):
        raise RefusedError(USED_BEFORE, ErrorCode.REQUEST_CONFLICT, {"request_id": record.request_id})
