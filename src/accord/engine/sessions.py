"""Turns that are remembered: begun once, kept packet by packet, ended with their messages and their receipt.

The same request id is the same turn, for ever and in every process: it runs once, and whoever asks again reads along or
reads again. A process sends heartbeats while it runs turns; the turns of one that gave no sign of life for a lease are
ended by the others. An end that the store could not write is tried again until it is written. A turn can be cancelled
through any process. It knows the store only as a Protocol.
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

from accord.core.receipt import SealedReceipt, Sign, seal_members
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
from accord.engine.recovery import HeartbeatThread, UnendedTurns
from accord.engine.stored import StoredTurn
from accord.errors import ErrorCode, InvalidMessageError, Problem, RefusedError, StoreConflictError, StoreError
from accord.ports import HISTORY_BYTES, PacketBatch, PermissionChannel, SessionStore, TurnEnd, TurnStart
from accord.wire.conversation import ChatMessage, Role
from accord.wire.packet import ClosePacket, ErrorPacket
from accord.wire.problem import error_from_stream, stream_error
from accord.wire.receipt import Receipt
from accord.wire.request import ServiceRequest, ServiceResponse
from accord.wire.session import MAX_ID_CHARS, ReceiptRecord, SessionRecord, TurnRecord, TurnState, is_id

SEALINGS: Final = 100
CANCEL_POLL_S: Final = 1.0
"""How often a process with running turns looks whether another one wants some of them cancelled."""
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
    """How much history a turn is given, how many turns may run at once, and what becomes of one that nobody reads.

    A turn gets the last `history` messages that fit into `history_bytes`. With `quota_bytes`, a user who has stored as
    much begins no more turns.

    Without `stop_unread_after_s` a turn that nobody reads goes on. A process that gave no sign of life for `lease_s` is
    taken to be dead, and its turns are ended.
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
        self._unended: Final = UnendedTurns()
        self._timer: asyncio.TimerHandle | None = None
        self._polling: asyncio.Task[None] | None = None
        self._loop_ran_at = monotonic()
        is_alive = WeakMethod(self._is_alive)  # the thread must not keep sessions that nobody uses any more
        self._heartbeat: Final = HeartbeatThread(
            store,
            self._runner,
            every_s=self._rules.lease_s / BEATS_PER_LEASE,
            is_needed=lambda: (check := is_alive()) is not None and check(),
        )

    @property
    def running(self) -> int:
        """How many turns run in this process."""
        return len(self._live)

    def is_running(self, request_id: str) -> bool:
        """Whether this process runs this turn."""
        return request_id in self._live

    async def begin(
        self, request: ServiceRequest, *, permits: PermissionChannel | None = None
    ) -> LiveTurn | StoredTurn:
        """The turn of this request, begun now unless it was before; raises our error if it may not begin.

        Its agent asks whoever began it for permission, nobody else: who reads along later only reads.
        """
        shape = record_request(request.payload)
        record = self._record(request, shape)
        if live := self._live.get(record.request_id):
            _same_request(live.record, record)
            return live
        limit = self._rules.concurrent_turns
        if limit is not None and len(self._live) + len(self._beginning) >= limit:
            raise RefusedError(TOO_MANY, ErrorCode.UNAVAILABLE, {"limit": limit})
        self._beginning.append(record.request_id)
        try:
            begun = await self._begun(request, record)
            if begun.existing is not None:
                _same_request(begun.existing, record)
                return self._live.get(record.request_id) or self._kept(begun.existing)
            return self._run(request, shape, record, begun, permits)
        finally:
            self._beginning.remove(record.request_id)

    async def find(self, request_id: str, owner: str | None) -> LiveTurn | StoredTurn | None:
        """The turn of this id, if it is this owner's; None as owner is for whoever may see everything."""
        found = self._live.get(request_id)
        if found is None:
            record = await self.store.turn(request_id)
            if record is None:
                return None
            found = self._live.get(request_id) or self._kept(record)
        return found if owner in (None, found.record.owner) else None

    async def cancel(self, turn: LiveTurn | StoredTurn) -> bool:
        """Stop a turn, in whatever process it runs; False if it is over.

        Another process looks for such requests every `CANCEL_POLL_S`.
        """
        if isinstance(turn, LiveTurn) and not turn.is_over:
            turn.cancel()
            return True
        return await self.store.request_cancel(turn.request_id)

    async def collect(self, turn: LiveTurn | StoredTurn) -> ServiceResponse:
        """The whole answer of a turn; raises our error if its stream ends in one."""
        collected = await turn.whole()
        if collected.error is not None:
            raise error_from_stream(collected.error)
        if isinstance(turn, LiveTurn) and turn.receipt is not None:
            own, receipt = turn.running.request.request_id, turn.receipt
        else:
            own, receipt = UUID(turn.request_id), from_json((await self._receipt(turn.request_id)).body)
        return ServiceResponse.trusted(
            request_id=own,
            created_at=datetime.fromisoformat(receipt["created_at"]),
            output=collected.output,
            metrics=response_metrics(receipt),
        )

    async def receipt(self, request_id: str) -> Receipt:
        """The receipt of a turn that is over."""
        return Receipt.parse((await self._receipt(request_id)).body)

    async def _receipt(self, request_id: str) -> ReceiptRecord:
        kept = await self.store.receipt(request_id)
        if kept is None:
            raise RefusedError("This turn has no receipt yet", ErrorCode.NOT_FOUND, {})
        return kept

    async def drain(self, seconds: float) -> None:
        """Let the turns of this process end, for so long; then cancel them, which ends them properly.

        Ends that the store cannot write until then are left to the other processes.
        """
        until = monotonic() + seconds
        if self._live:
            await asyncio.wait([turn.task for turn in self._live.values()], timeout=seconds)
        left = list(self._live.values())
        for turn in left:
            turn.cancel()
        if left:
            await asyncio.wait([turn.task for turn in left])
        await self._unended.drain(max(0.0, until - monotonic()))
        self._heartbeat.stop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def recover(self) -> int:
        """End the turns whose process is dead, and those of this one that it does not run; gives how many.

        Their packets stay. An error and a close are added, so that whoever asks again gets a stream that ends. Safe to
        be done by several processes at once.
        """
        ended, lease_s = 0, self._rules.lease_s
        while left := await self.store.abandoned(lease_s, runner=self._runner, limit=PAGE):
            for turn in left:
                ended += await self._recovered(turn)
        for turn in await self.store.running(self._runner):
            # A beginning whose confirmation was lost leaves such a row, and so does an error of ours.
            if not any(turn.request_id in known for known in (self._beginning, self._live, self._unended)):
                ended += await self._recovered(turn)
        return ended

    def _kept(self, record: TurnRecord) -> StoredTurn:
        unread_s = self._rules.stop_unread_after_s
        return StoredTurn(self.store, record, recover=self.recover, stop_unread_after_s=unread_s)

    async def _begun(self, request: ServiceRequest, record: TurnRecord) -> TurnStart:
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
        begun: TurnStart,
        permits: PermissionChannel | None,
    ) -> LiveTurn:
        declared = _with_capabilities(request, begun.session.capabilities)
        running = self.engine.begin(declared, begun.history, permits=permits)
        end = partial(self._end, shape, begun.last_receipt_hash)
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
        if turn.is_unended:
            self._unended.add(turn)

    def _record(self, request: ServiceRequest, shape: dict[str, Any]) -> TurnRecord:
        """What is kept of this request from its beginning; raises our error if it names nobody, or no session."""
        _check_names(request)
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
        said = [ChatMessage.trusted(role=Role.USER, content=running.request.payload.query, timestamp=now)]
        if answer := running.answer_text:
            said.append(ChatMessage.trusted(role=Role.ASSISTANT, content=answer, timestamp=now))
        content = partial(receipt_content, running, self.engine, shape, now)
        ending = TurnEnd(last, STATE_BY_OUTCOME[outcome_of(running).status], now, said)
        live.receipt = await self._close(ending, content, previous)

    async def _close(
        self, ending: TurnEnd, told: Callable[[str | None], ReceiptContent], previous: str | None
    ) -> Mapping[str, Any]:
        """End a turn in the store, with a receipt that follows the session's last one."""
        for _ in range(SEALINGS):
            content = told(previous)
            ending.receipt = _receipt_record(seal_members(content.encoded, self._sign))
            if await self.store.end_turn(ending):
                if self._on_turn_ended is not None:
                    self._on_turn_ended(content.members)
                return content.members
            previous = await self.store.last_receipt_hash(ending.receipt.session_id)
        raise StoreError("Too many turns of this session end at once")

    async def _recovered(self, turn: TurnRecord) -> int:
        now = self.engine.clock.now()
        packets = [ErrorPacket(p=stream_error(StoreError(INTERRUPTED))), ClosePacket()]
        last = PacketBatch(turn.request_id, turn.last_seq + 1, [packet.to_json() for packet in packets])
        session = await self.store.session(turn.session_id)
        if session is None:
            return 0
        told = partial(interrupted_content, turn, session, INTERRUPTED, now)
        previous = await self.store.last_receipt_hash(turn.session_id)
        try:
            await self._close(TurnEnd(last, TurnState.FAILED, now), told, previous)
        except StoreConflictError:  # somebody else was quicker
            return 0
        return 1

    def _is_alive(self) -> bool:
        """Whether this process has turns and its event loop runs them; asked by the thread that sends heartbeats."""
        return bool(self._live or self._unended) and monotonic() - self._loop_ran_at < self.engine.limits.turn_s

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
        """Cancel the turns of this process that another one was asked to cancel."""
        try:
            requested = await self.store.cancel_requests(self._runner)
        except StoreError:
            return  # the next poll asks again
        for request_id in requested:
            if (turn := self._live.get(request_id)) is not None:
                turn.cancel()


def _with_capabilities(request: ServiceRequest, capabilities: Any) -> ServiceRequest:
    if request.payload.capabilities == capabilities:
        return request
    payload = request.payload.model_copy(update={"capabilities": capabilities})
    return request.model_copy(update={"payload": payload})


def _check_names(request: ServiceRequest) -> None:
    named = {"context.session_id": request.context.session_id, "context.user.id": request.context.user.id}
    wrong = [field for field, name in named.items() if not is_id(name)]
    if wrong:
        expected = f"1 to {MAX_ID_CHARS} characters, none of them U+0000"
        raise InvalidMessageError("ServiceRequest", [Problem(field, expected) for field in wrong])


def _same_request(known: TurnRecord, record: TurnRecord) -> None:
    if known.owner != record.owner:
        raise RefusedError(NO_REQUEST, ErrorCode.NOT_FOUND, {})  # as for every other look at another one's request
    if (known.session_id, known.request_digest) != (record.session_id, record.request_digest):
        raise RefusedError(USED_BEFORE, ErrorCode.REQUEST_CONFLICT, {"request_id": record.request_id})


def _receipt_record(sealed: SealedReceipt) -> ReceiptRecord:
    members = sealed.members
    return ReceiptRecord(
        request_id=members["request_id"],
        session_id=members["session_id"],
        body=sealed.json,
        hash=sealed.hash,
        previous_hash=members.get("previous"),
    )
