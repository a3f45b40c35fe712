"""Stores the receipts of model API calls behind their answers: many at a time, in the chain of their caller.

A call is answered before its receipt is stored, at most `FLUSH_AFTER_S` later; a process that is killed loses the
receipts of that time. The calls of one caller in one process are one session, so that no two processes extend the same
chain. While the store fails, receipts are kept and tried again; when there are too many, new calls are refused.
"""

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import Final

from accord.core.receipt import Sign, seal_members
from accord.engine.receipt import MODEL_API, ReceiptContent
from accord.errors import ErrorCode, RefusedError, StoreConflictError, StoreError
from accord.ports import SessionStore, WholeTurn
from accord.wire.session import ReceiptRecord, SessionRecord, TurnRecord, TurnState

FLUSH_AFTER_S: Final = 0.05
"""Receipts are gathered for so long: storing each alone costs more processor time than answering does."""
RETRY_AFTER_S: Final = 1.0
BATCH: Final = 200
"""How many receipts are sealed and stored at a time; the event loop waits while they are sealed."""
MAX_PENDING: Final = 5_000
MAX_SESSIONS: Final = 10_000
NOT_STORED: Final = "Receipts cannot be stored at the moment; try again later"

LOG: Final = logging.getLogger("accord.servers")


@dataclass(frozen=True, slots=True)
class EndedCall:
    """A call that is over: its receipt without the link to the one before it, and what is stored with it.

    The receipt names the session that `CallLog.session_of` returns for the owner.
    """

    request_id: str
    owner: str
    digest: str
    state: TurnState
    created_at: datetime
    ended_at: datetime
    content: ReceiptContent
    packets: tuple[str, ...] = ()


@dataclass(slots=True)
class _CallChain:
    """The session of a caller, and the hash of its last stored receipt."""

    session_id: str
    began_at: datetime
    last_hash: str | None = None


@dataclass(slots=True)
class CallLog:
    """The receipts that are not stored yet, and the chains that they continue."""

    store: SessionStore
    runner: str
    sign: Sign | None = None
    _pending: dict[str, EndedCall] = field(default_factory=dict[str, EndedCall])
    _chains: dict[str, _CallChain] = field(default_factory=dict[str, _CallChain])
    _task: asyncio.Task[None] | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def check_is_open(self) -> None:
        """Refuse a new call while too many receipts wait to be stored."""
        if len(self._pending) >= MAX_PENDING:
            raise RefusedError(NOT_STORED, ErrorCode.UNAVAILABLE, {"retry_after": 1})

    def add(self, call: EndedCall) -> None:
        """Store this call soon."""
        self._pending[call.request_id] = call
        if self._task is None:
            self._task = asyncio.create_task(self._flush_later())

    def session_of(self, owner: str) -> str:
        """The id of the session with this caller's calls in this process."""
        return _session_id(self.runner, owner)

    async def stored(self, request_id: str) -> None:
        """Return once this call is stored, if it is one of this process; raises `StoreError` if it cannot be."""
        if request_id in self._pending:
            await self.flush()

    async def flush(self) -> None:
        """Store all calls that have ended; raises `StoreError` if that fails."""
        async with self._lock:
            calls = list(self._pending.values())
            by_owner: dict[str, list[EndedCall]] = {}
            for call in calls:
                by_owner.setdefault(call.owner, []).append(call)
            for owner, ended in by_owner.items():
                for place in range(0, len(ended), BATCH):
                    batch = ended[place : place + BATCH]
                    await self._store(owner, batch)
                    for call in batch:
                        self._pending.pop(call.request_id, None)

    async def close(self) -> None:
        """Store what is left; what cannot be stored is logged as lost."""
        if self._task is not None:
            self._task.cancel()
        try:
            await self.flush()
        except StoreError as error:
            fields = {"receipts": len(self._pending), "why": error.message}
            LOG.error("Receipts of model calls could not be stored and are lost", extra={"fields": fields})

    async def _flush_later(self) -> None:
        wait_s = FLUSH_AFTER_S
        while self._pending:
            await asyncio.sleep(wait_s)
            try:
                await self.flush()
                wait_s = FLUSH_AFTER_S
            except StoreError as error:
                wait_s = RETRY_AFTER_S
                fields = {"receipts": len(self._pending), "why": error.message}
                LOG.error("Receipts of model calls could not be stored; trying again", extra={"fields": fields})
        self._task = None

    async def _store(self, owner: str, ended: list[EndedCall]) -> None:
        chain = self._chains.get(owner)
        if chain is None:
            session_id = self.session_of(owner)
            last_hash = await self.store.last_receipt_hash(session_id)
            if len(self._chains) >= MAX_SESSIONS:
                del self._chains[next(iter(self._chains))]
            chain = self._chains[owner] = _CallChain(session_id, ended[0].created_at, last_hash)
        session = SessionRecord(
            session_id=chain.session_id,
            owner=owner,
            agent=MODEL_API,
            created_at=chain.began_at,
            updated_at=ended[-1].ended_at,
        )
        turns, last_hash = list[WholeTurn](), chain.last_hash
        for call in ended:
            receipt = self._seal(call, chain.session_id, last_hash)
            last_hash = receipt.hash
            turns.append(WholeTurn(self._turn(call, chain.session_id), receipt, call.packets))
        try:
            await self.store.add_turns(session, turns)
        except StoreConflictError:
            # The session was deleted with its user, or an earlier write took place although its confirmation was lost.
            del self._chains[owner]
            for call in ended:
                if await self.store.turn(call.request_id) is not None:
                    self._pending.pop(call.request_id, None)
            raise
        chain.last_hash = last_hash

    def _turn(self, call: EndedCall, session_id: str) -> TurnRecord:
        return TurnRecord(
            request_id=call.request_id,
            session_id=session_id,
            owner=call.owner,
            request_digest=call.digest,
            runner=self.runner,
            state=call.state,
            last_seq=len(call.packets),
            created_at=call.created_at,
            ended_at=call.ended_at,
        )

    def _seal(self, call: EndedCall, session_id: str, previous: str | None) -> ReceiptRecord:
        members = call.content.encoded
        sealed = seal_members({**members, "previous": previous} if previous else members, self.sign)
        return ReceiptRecord(
            request_id=call.request_id,
            session_id=session_id,
            body=sealed.json,
            hash=sealed.hash,
            previous_hash=previous,
        )


@lru_cache(maxsize=MAX_SESSIONS)
def _session_id(runner: str, owner: str) -> str:
    return f"api-{runner[:16]}-{sha256(owner.encode()).hexdigest()[:16]}"
