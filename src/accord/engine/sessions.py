"""Turns that are remembered: begun once, kept packet by packet, ended with their messages and their receipt.

What a client has seen is on disk: a packet goes out only after the store has it. A turn makes packets while the store
is still writing the ones before, so that many of them share one write; how many may be made ahead is bounded, and so a
client that does not read still stops its own backend. It knows the store only as a Protocol.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from accord.core.canonicalise import digest
from accord.core.seal import seal
from accord.engine.account import receipt_body, turn_state
from accord.engine.engine import Engine, RunningTurn
from accord.errors import ErrorCode, RefusedError, StoreError
from accord.ports import SessionStore
from accord.wire.chat import ChatMessage, Role
from accord.wire.packet import ClosePacket, ErrorPacket
from accord.wire.problem import stream_error
from accord.wire.receipt import Receipt
from accord.wire.request import ServiceRequest
from accord.wire.session import PacketRecord, ReceiptRecord, SessionRecord, TurnRecord, TurnState

AHEAD: Final = 64
HISTORY: Final = 200
PAGE: Final = 500
SEALINGS: Final = 100
REMEMBERED: Final = 10_000

INTERRUPTED: Final = "The service was stopped in the middle of this turn"

_NO_MORE: Final = object()


@dataclass(frozen=True, slots=True)
class Settled:
    """A session as it holds for a turn, and whether the store has it so."""

    record: SessionRecord
    is_new: bool = False
    is_changed: bool = False


class Sessions:
    """An engine whose turns are remembered."""

    def __init__(self, engine: Engine, store: SessionStore, *, history: int = HISTORY) -> None:
        self.engine: Final = engine
        self.store: Final = store
        self._history: Final = history
        self._chain_ends: Final[dict[str, str]] = {}

    async def packets(self, request: ServiceRequest) -> AsyncGenerator[PacketRecord, None]:
        """The packets of this request, numbered from 1: run now, or given again if it was run before."""
        session, record = await self._session(request), self.record(request)
        known = await self._begin(session, record)
        if known is not None:
            _same_request(known, record)
            async for kept in self._kept(known.request_id):
                yield kept
            return
        async with aclosing(self._run(request, session)) as fresh:
            async for kept in fresh:
                yield kept

    async def recover(self) -> int:
        """End the turns that a killed process left running; gives how many. For the start, before any turn is begun.

        Their packets stay. An error and a close are added, so that whoever asks again gets a stream that ends.
        """
        now = self.engine.clock.now()
        ended = 0
        while left := await self.store.unfinished(now, limit=PAGE):
            for turn in left:
                told = [ErrorPacket(p=stream_error(StoreError(INTERRUPTED))), ClosePacket()]
                await self.store.append_packets(
                    turn.request_id, turn.last_seq + 1, [packet.to_json() for packet in told]
                )
                await self.store.end_turn(turn.request_id, TurnState.FAILED, now)
                ended += 1
        return ended

    async def _session(self, request: ServiceRequest) -> Settled:
        """The session as it will be, with the capabilities that hold for its life."""
        context, declared, now = request.context, request.payload.capabilities, self.engine.clock.now()
        found = await self.store.session(context.session_id)
        if found is None:
            fresh = SessionRecord(
                session_id=context.session_id,
                owner=context.user.id,
                agent=self.engine.agent.name,
                capabilities=declared,
                created_at=now,
                updated_at=now,
            )
            return Settled(fresh, is_new=True, is_changed=True)
        if found.owner != context.user.id:
            raise RefusedError("This session belongs to somebody else", ErrorCode.FORBIDDEN, {})
        if declared in (None, found.capabilities):
            return Settled(found)
        renewed = found.model_copy(update={"capabilities": declared, "updated_at": now})
        return Settled(renewed, is_changed=True)

    async def _begin(self, session: Settled, record: TurnRecord) -> TurnRecord | None:
        """Begin the turn; a session that is new or changed is written together with it, in one flush."""
        if not session.is_changed:
            return await self.store.begin_turn(record)
        _, known = await asyncio.gather(self.store.put_session(session.record), self.store.begin_turn(record))
        return known

    def record(self, request: ServiceRequest) -> TurnRecord:
        """What is kept of this request from its beginning."""
        return TurnRecord(
            request_id=str(request.request_id),
            session_id=request.context.session_id,
            owner=request.context.user.id,
            request_digest=digest(request.dump()),
            created_at=self.engine.clock.now(),
        )

    async def _kept(self, request_id: str) -> AsyncIterator[PacketRecord]:
        after = 0
        while page := await self.store.packets(request_id, after_seq=after, limit=PAGE):
            for kept in page:
                yield kept
            after = page[-1].seq

    async def _run(self, request: ServiceRequest, session: Settled) -> AsyncGenerator[PacketRecord, None]:
        session_id = session.record.session_id
        history = [] if session.is_new else await self.store.history(session_id, limit=self._history)
        running = self.engine.begin(_with_capabilities(request, session.record.capabilities), history)
        try:
            async for kept in self._written(running):
                yield kept
        finally:
            # Also when the reader went away: what was begun is ended, and its receipt says how.
            await asyncio.shield(self._end(running))

    async def _written(self, running: RunningTurn) -> AsyncIterator[PacketRecord]:
        """The packets, each only after it is on disk."""
        ahead: asyncio.Queue[Any] = asyncio.Queue(AHEAD)
        making = asyncio.create_task(_make(running, ahead))
        seq = 0
        try:
            while (batch := await _next_batch(ahead)) and batch[0] is not _NO_MORE:
                packets = [packet.to_json() for packet in batch if packet is not _NO_MORE]
                await self.store.append_packets(str(running.request.request_id), seq + 1, packets)
                for body in packets:
                    seq += 1
                    yield PacketRecord(seq=seq, body=body)
                if batch[-1] is _NO_MORE:
                    break
            await making
        finally:
            making.cancel()
            await asyncio.gather(making, return_exceptions=True)

    async def _end(self, running: RunningTurn) -> None:
        request, state, now = running.request, turn_state(running), self.engine.clock.now()
        said = [
            ChatMessage(role=Role.USER, content=request.payload.query, timestamp=now),
            *([ChatMessage(role=Role.ASSISTANT, content=running.said, timestamp=now)] if running.said else []),
        ]
        session_id = request.context.session_id
        previous = self._chain_ends.pop(session_id, None) or await self.store.last_receipt_hash(session_id)
        for _ in range(SEALINGS):
            receipt = seal(receipt_body(running, self.engine, previous=previous, now=now))
            running.receipt = receipt
            if await self.store.end_turn(
                str(request.request_id), state, now, messages=said, receipt=_receipt_record(receipt)
            ):
                self._remember_end(session_id, receipt.hash)
                return
            previous = await self.store.last_receipt_hash(session_id)
        raise RefusedError("Too many turns of this session end at once", ErrorCode.UNAVAILABLE, {})

    def _remember_end(self, session_id: str, receipt_hash: str) -> None:
        """Where the session's chain ends now; the store says so if another process went on with it."""
        self._chain_ends[session_id] = receipt_hash
        if len(self._chain_ends) > REMEMBERED:
            self._chain_ends.pop(next(iter(self._chain_ends)))


async def _make(running: RunningTurn, ahead: "asyncio.Queue[Any]") -> None:
    """Run the turn into the queue. Nothing more is put once it is cancelled: nobody reads then."""
    try:
        async with aclosing(running.packets()) as packets:
            async for packet in packets:
                await ahead.put(packet)
    except Exception:
        await ahead.put(_NO_MORE)
        raise
    await ahead.put(_NO_MORE)


async def _next_batch(ahead: "asyncio.Queue[Any]") -> list[Any]:
    """What is there now, at least one."""
    batch = [await ahead.get()]
    while not ahead.empty():
        batch.append(ahead.get_nowait())
    return batch


def _with_capabilities(request: ServiceRequest, capabilities: Any) -> ServiceRequest:
    payload = request.payload.model_copy(update={"capabilities": capabilities})
    return request.model_copy(update={"payload": payload})


def _same_request(known: TurnRecord, record: TurnRecord) -> None:
    if known.owner != record.owner:
        raise RefusedError("This request belongs to somebody else", ErrorCode.FORBIDDEN, {})
    if known.request_digest != record.request_digest:
        told = "This request id was used before, for another request"
        raise RefusedError(told, ErrorCode.REQUEST_CONFLICT, {"request_id": record.request_id})


def _receipt_record(receipt: Receipt) -> ReceiptRecord:
    return ReceiptRecord(
        request_id=receipt.request_id,
        session_id=receipt.session_id,
        body=receipt.to_json(),
        hash=receipt.hash,
        previous_hash=receipt.previous,
    )
