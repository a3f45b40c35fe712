"""Turns that are remembered: begun once, kept packet by packet, ended with their messages and their receipt.

The same request id is the same turn, for ever and in every process: it runs once, and whoever asks again reads along or
reads again. A process that runs turns is heard of while it does; the turns of one that has gone silent are ended by
whoever notices. It knows the store only as a Protocol.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID, uuid4

from pydantic_core import from_json

from accord.core.collect import Collected
from accord.core.record import record_request
from accord.core.seal import Sealed, seal_members
from accord.engine.account import STATES, interrupted_members, negotiated_by, outcome_of, receipt_members
from accord.engine.engine import Engine
from accord.engine.live import PAGE, LiveTurn
from accord.errors import ErrorCode, InvalidMessageError, Problem, RefusedError, StoreConflictError, StoreError
from accord.ports import Append, Begun, Ending, Permits, SessionStore
from accord.wire.chat import ChatMessage, Role
from accord.wire.packet import ClosePacket, ErrorPacket, StreamPacket
from accord.wire.problem import failure_of, stream_error
from accord.wire.receipt import Receipt, ReceiptBody
from accord.wire.request import ServiceRequest
from accord.wire.response import ServiceResponse
from accord.wire.session import MAX_ID_CHARS, PacketRecord, ReceiptRecord, SessionRecord, TurnRecord, TurnState, is_id

SEALINGS: Final = 100
FIRST_LOOK_S: Final = 0.05
LAST_LOOK_S: Final = 1.0

Telling = Callable[[str | None], dict[str, Any]]
"""Tells what a receipt says that follows the one with this hash."""

INTERRUPTED: Final = "The service was stopped in the middle of this turn"
TOO_MANY: Final = "Too many turns are running"


@dataclass(frozen=True, slots=True)
class SessionRules:
    """How many messages a turn is told of, how many turns may run at once, and what becomes of one nobody reads.

    A process that has been silent for `lease_s` is taken to be dead, and its turns are ended.
    """

    history: int = 200
    at_once: int | None = None
    goes_on_unread: bool = True
    lease_s: float = 15.0


class KeptTurn:
    """A turn that is over, or that another process runs: it is read from the store."""

    def __init__(self, sessions: "Sessions", record: TurnRecord) -> None:
        self.request_id: Final = record.request_id
        self.record = record
        self._sessions: Final = sessions

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.record.state is not TurnState.RUNNING

    async def packets(self, after: int = 0) -> AsyncGenerator[PacketRecord, None]:
        """The packets that follow this number, to the end of the turn."""
        async with aclosing(self.batches(after)) as batches:
            async for batch in batches:
                for kept in batch:
                    yield kept

    async def batches(self, after: int = 0) -> AsyncGenerator[Sequence[PacketRecord], None]:
        """The same, page by page; looks again and again while the turn still runs elsewhere."""
        store, look_s = self._sessions.store, FIRST_LOOK_S
        while True:
            while page := await store.packets(self.request_id, after_seq=after, limit=PAGE):
                yield page
                after, look_s = page[-1].seq, FIRST_LOOK_S
            if self.is_over:
                return
            await asyncio.sleep(look_s)
            if look_s == LAST_LOOK_S:
                await self._sessions.recover()
            look_s = min(2 * look_s, LAST_LOOK_S)
            found = await store.turn(self.request_id)
            if found is None:
                return
            self.record = found

    async def whole(self) -> Collected:
        """The answer as a whole, once the turn is over."""
        collected = Collected()
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                for kept in batch:
                    collected.feed(StreamPacket.parse(kept.body))
        return collected


class Sessions:
    """An engine whose turns are remembered. `ended` is told what the receipt of each turn says, once it is kept."""

    def __init__(
        self,
        engine: Engine,
        store: SessionStore,
        rules: SessionRules | None = None,
        *,
        ended: Callable[[ReceiptBody], None] | None = None,
    ) -> None:
        self.engine: Final = engine
        self.store: Final = store
        self._rules: Final = rules or SessionRules()
        self._ended: Final = ended
        self._runner: Final = uuid4().hex
        self._live: Final[dict[str, LiveTurn]] = {}
        self._beat: asyncio.TimerHandle | None = None
        self._beating: asyncio.Task[None] | None = None

    @property
    def running(self) -> int:
        """How many turns run in this process."""
        return len(self._live)

    def is_running(self, request_id: str) -> bool:
        """Whether this process runs this turn."""
        return request_id in self._live

    async def begin(self, request: ServiceRequest, *, permits: Permits | None = None) -> LiveTurn | KeptTurn:
        """The turn of this request, begun now unless it was before; raises our error if it may not begin.

        Its agent asks whoever began it for permission, nobody else: who reads along later only reads.
        """
        shape = record_request(request.payload)
        record = self._record(request, shape)
        if live := self._live.get(record.request_id):
            _same_request(live.record, record)
            return live
        if self._rules.at_once is not None and len(self._live) >= self._rules.at_once:
            raise RefusedError(TOO_MANY, ErrorCode.UNAVAILABLE, {"limit": self._rules.at_once})
        begun = await self._begun(request, record)
        if begun.known is not None:
            _same_request(begun.known, record)
            return self._live.get(record.request_id) or KeptTurn(self, begun.known)
        return self._run(request, shape, record, begun, permits)

    async def find(self, request_id: str, owner: str | None) -> LiveTurn | KeptTurn | None:
        """The turn of this id, if it is this owner's; None as owner is for whoever may see everything."""
        found = self._live.get(request_id)
        if found is None:
            record = await self.store.turn(request_id)
            if record is None:
                return None
            found = self._live.get(request_id) or KeptTurn(self, record)
        return found if owner in (None, found.record.owner) else None

    async def packets(self, request: ServiceRequest) -> AsyncGenerator[PacketRecord, None]:
        """The packets of this request, numbered from 1: run now, or given again if it was run before."""
        turn = await self.begin(request)
        async with aclosing(turn.packets()) as packets:
            async for kept in packets:
                yield kept

    async def respond(self, request: ServiceRequest) -> ServiceResponse:
        """The whole answer at once; raises our error if the stream would have ended in one."""
        return await self.collect(await self.begin(request))

    async def collect(self, turn: LiveTurn | KeptTurn) -> ServiceResponse:
        """The whole answer of a turn; raises our error if its stream ends in one."""
        collected = await turn.whole()
        if collected.error is not None:
            raise failure_of(collected.error)
        if isinstance(turn, LiveTurn) and turn.sealed is not None:
            own, receipt = turn.running.request.request_id, turn.sealed.members
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
        """Let the turns of this process end, for so long; then cancel them, which ends them properly."""
        if self._live:
            await asyncio.wait([turn.task for turn in self._live.values()], timeout=seconds)
        left = list(self._live.values())
        for turn in left:
            turn.cancel()
        if left:
            await asyncio.wait([turn.task for turn in left])
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None

    async def recover(self) -> int:
        """End the turns whose process has gone silent; gives how many. Safe to be done by several at once.

        Their packets stay. An error and a close are added, so that whoever asks again gets a stream that ends.
        """
        now = self.engine.clock.now()
        ended = 0
        while left := await self.store.abandoned(now - timedelta(seconds=self._rules.lease_s), limit=PAGE):
            for turn in left:
                ended += await self._recovered(turn, now)
        return ended

    async def _begun(self, request: ServiceRequest, record: TurnRecord) -> Begun:
        declared = request.payload.capabilities
        session = SessionRecord(
            session_id=record.session_id,
            owner=record.owner,
            agent=self.engine.agent.name,
            capabilities=declared,
            negotiated=negotiated_by(self.engine, declared),
            created_at=record.created_at,
            updated_at=record.created_at,
        )
        try:
            return await self.store.begin_turn(session, record, history=self._rules.history)
        except StoreConflictError:
            raise RefusedError("This session belongs to somebody else", ErrorCode.FORBIDDEN, {}) from None

    def _run(
        self,
        request: ServiceRequest,
        shape: dict[str, Any],
        record: TurnRecord,
        begun: Begun,
        permits: Permits | None,
    ) -> LiveTurn:
        declared = _with_capabilities(request, begun.session.capabilities)
        running = self.engine.begin(declared, begun.history, permits=permits)
        end = partial(self._end, shape, begun.last_receipt_hash)
        live = self._live[record.request_id] = LiveTurn(
            running, record, self.store, end=end, forget=self._forget, goes_on=self._rules.goes_on_unread
        )
        if self._beat is None:
            self._beat_later()
        return live

    def _forget(self, request_id: str) -> None:
        self._live.pop(request_id, None)

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

    async def _end(self, shape: dict[str, Any], previous: str | None, live: LiveTurn, last: Append) -> None:
        running, now = live.running, self.engine.clock.now()
        said = [ChatMessage.trusted(role=Role.USER, content=running.request.payload.query, timestamp=now)]
        if answer := running.said:
            said.append(ChatMessage.trusted(role=Role.ASSISTANT, content=answer, timestamp=now))
        told = partial(receipt_members, running, self.engine, shape, now)
        live.sealed = await self._close(Ending(last, STATES[outcome_of(running).status], now, said), told, previous)

    async def _close(
        self, ending: Ending, told: Callable[[str | None], dict[str, Any]], previous: str | None
    ) -> Sealed:
        """End a turn in the store, with a receipt that follows the session's last one."""
        for _ in range(SEALINGS):
            sealed = seal_members(told(previous))
            ending.receipt = _receipt_record(sealed)
            if await self.store.end_turn(ending):
                if self._ended is not None:
                    self._ended(sealed.receipt)
                return sealed
            previous = await self.store.last_receipt_hash(sealed.members["session_id"])
        raise StoreError("Too many turns of this session end at once")

    async def _recovered(self, turn: TurnRecord, now: datetime) -> int:
        packets = [ErrorPacket(p=stream_error(StoreError(INTERRUPTED))), ClosePacket()]
        last = Append(turn.request_id, turn.last_seq + 1, [packet.to_json() for packet in packets])
        session = await self.store.session(turn.session_id)
        if session is None:
            return 0
        told = partial(interrupted_members, turn, session, INTERRUPTED, now)
        previous = await self.store.last_receipt_hash(turn.session_id)
        try:
            await self._close(Ending(last, TurnState.FAILED, now), told, previous)
        except StoreConflictError:  # somebody else was quicker
            return 0
        return 1

    def _beat_later(self) -> None:
        self._beat = asyncio.get_running_loop().call_later(self._rules.lease_s / 3, self._beat_now)

    def _beat_now(self) -> None:
        """While turns run, let it be known that this process is alive; a turn's beginning is a sign of life, too."""
        self._beat = None
        if self._live:
            self._beating = asyncio.create_task(self._send_beat())
            self._beat_later()

    async def _send_beat(self) -> None:
        try:
            await self.store.beat(self._runner, self.engine.clock.now())
        except StoreError:
            # The turns themselves will find out; the next beat tries again.
            return


def response_metrics(receipt: Mapping[str, Any]) -> dict[str, Any]:
    """What a `ServiceResponse` says of how it came about; the same whenever it is asked for."""
    adapted: Mapping[str, Any] = receipt.get("adaptation") or {"totals": {}}
    return {"duration_ms": receipt["timings"]["total_ms"], "adaptation": adapted["totals"]}


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
        raise RefusedError("This request belongs to somebody else", ErrorCode.FORBIDDEN, {})
    if (known.session_id, known.request_digest) != (record.session_id, record.request_digest):
        told = "This request id was used before, for another request"
        raise RefusedError(told, ErrorCode.REQUEST_CONFLICT, {"request_id": record.request_id})


def _receipt_record(sealed: Sealed) -> ReceiptRecord:
    members = sealed.members
    return ReceiptRecord(
        request_id=members["request_id"],
        session_id=members["session_id"],
        body=sealed.json,
        hash=sealed.hash,
        previous_hash=members.get("previous"),
    )
