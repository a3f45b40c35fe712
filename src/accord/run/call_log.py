"""Ends model API calls: settles each, tells observers, and stores its receipt behind the answer, with those of others.

A call is answered before its receipt is stored; `write_behind.py` says how long before. The calls of one caller in one
process on one day are a chain, and so is every `CHAIN_CALLS` of them: a chain is short enough to be verified in a
moment, expires as a whole, and is extended by one process only. While the store fails, receipts are kept and tried
again; when there are too many, new calls are refused.
"""

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import uuid4

from accord.core.receipt import Sign
from accord.errors import ErrorCode, RefusedError, StoreConflictError, StoreError
from accord.ports import Clock, SessionStore, SystemClock, WholeRun
from accord.run.endings import RunEnded
from accord.run.model_call import ModelCall
from accord.run.record import MODEL_API, STATE_BY_OUTCOME, ReceiptContent, call_outcome, ended_call, sealed_record
from accord.run.write_behind import WriteBehind
from accord.wire.receipt import OutcomeStatus
from accord.wire.session import RunRecord, SessionKind, SessionRecord, StoredState

BATCH: Final = 200
"""How many receipts are sealed and stored at a time; the event loop waits while they are sealed."""
MAX_PENDING: Final = 5_000
CHAIN_CALLS: Final = 1_000
CALL_RETENTION_DAYS: Final = 30
"""How long calls are kept unless the configuration says otherwise; conversations are kept until they are deleted."""
MAX_CHAINS: Final = 10_000
"""How many chains are kept open; the calls of further callers begin new ones."""
NOT_STORED: Final = "Receipts cannot be stored at the moment; try again later"

LOG: Final = logging.getLogger("accord.servers")


@dataclass(slots=True)
class CallChain:
    """A session of calls: how many it has, and the hash of its last stored receipt."""

    owner: str
    kind: SessionKind
    began_at: datetime
    session_id: str = field(default_factory=lambda: f"api-{uuid4().hex[:16]}")
    calls: int = 0
    last_hash: str | None = None


@dataclass(frozen=True, slots=True)
class EndedCall:
    """A call that is over: its receipt without the link to the one before it, and what is stored with it."""

    chain: CallChain
    record: RunRecord
    content: ReceiptContent
    packets: tuple[str, ...] = ()


@dataclass(slots=True)
class CallLog:
    """The receipts that are not stored yet, and the chains that they continue.

    A caller who has stored `quota_bytes` cannot make more calls. `on_call_ended` gets the members of each receipt.
    """

    store: SessionStore
    quota_bytes: int | None = None
    sign: Sign | None = None
    on_call_ended: RunEnded | None = None
    clock: Clock = field(default_factory=SystemClock)
    _pending: dict[str, EndedCall] = field(default_factory=dict[str, EndedCall])
    _chains: dict[tuple[str, SessionKind], CallChain] = field(default_factory=dict[tuple[str, SessionKind], CallChain])
    _below_quota: set[str] = field(default_factory=set[str])
    """The callers who have stored nothing since they were below the quota."""
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    writes: WriteBehind = field(init=False)

    def __post_init__(self) -> None:
        """Prepare to write."""
        self.writes = WriteBehind("Receipts of model calls", self.flush)

    def check_is_open(self) -> None:
        """Refuse a new call while too many receipts wait to be stored."""
        if len(self._pending) >= MAX_PENDING:
            raise RefusedError(NOT_STORED, ErrorCode.UNAVAILABLE, {"retry_after": 1})

    def end(self, call: ModelCall, *, is_complete: bool) -> None:
        """Settle a call that is over; its receipt is stored soon."""
        for record in call.work:
            record.is_left = call.failure is None and not is_complete
        call.costs.settle(call.work, answers=call.request.answers // len(call.work))
        now, total_ms = self.clock.now(), (self.clock.monotonic() - call.began_at) * 1_000
        outcome = call_outcome(call, is_complete=is_complete)
        is_refused = outcome.status is OutcomeStatus.REFUSED
        chain = self._next_chain(call.owner, SessionKind.RESPONSES if call.packets else SessionKind.CALLS, now)
        record = RunRecord(
            request_id=call.request_id,
            session_id=chain.session_id,
            owner=chain.owner,
            # A call is never repeated, since its id is new; the digest of its request is in the receipt.
            request_digest="",
            runner="",
            state=StoredState.REFUSED if is_refused else STATE_BY_OUTCOME[outcome.status],
            last_seq=len(call.packets),
            created_at=call.received_at,
            ended_at=now,
        )
        content = ended_call(call, outcome, chain.session_id, now, total_ms).content()
        self._pending[call.request_id] = EndedCall(chain, record, content, call.packets)
        self.writes.add()
        if self.on_call_ended is not None:
            self.on_call_ended(content.members)

    async def check_quota(self, owner: str) -> None:
        """Refuse a new call of a caller who has stored as much as the quota allows."""
        if self.quota_bytes is not None and owner not in self._below_quota:
            await self.store.check_quota(owner, self.quota_bytes)
            self._below_quota.add(owner)

    def _next_chain(self, owner: str, kind: SessionKind, now: datetime) -> CallChain:
        """The chain that takes this caller's next call, which is counted."""
        chain = self._chains.get((owner, kind))
        if chain is None or chain.calls >= CHAIN_CALLS or chain.began_at.date() != now.date():
            self._chains.pop((owner, kind), None)
            if len(self._chains) >= MAX_CHAINS:
                del self._chains[next(iter(self._chains))]
            chain = self._chains[owner, kind] = CallChain(owner, kind, now)
        chain.calls += 1
        return chain

    async def stored(self, request_id: str) -> None:
        """Return once this call is stored, if it is one of this process; raises `StoreError` if it cannot be."""
        if request_id in self._pending:
            await self.flush()

    async def flush(self) -> None:
        """Store all calls that have ended; raises `StoreError` if that fails."""
        async with self._lock:
            calls = list(self._pending.values())
            by_session: dict[str, list[EndedCall]] = {}
            for call in calls:
                by_session.setdefault(call.chain.session_id, []).append(call)
            for ended in by_session.values():
                for place in range(0, len(ended), BATCH):
                    batch = ended[place : place + BATCH]
                    await self._store(batch[0].chain, batch)
                    for call in batch:
                        self._pending.pop(call.record.request_id, None)

    async def close(self) -> None:
        """Store what is left; what cannot be stored is logged as lost."""
        try:
            await self.writes.close()
        except StoreError as error:
            fields = {"receipts": len(self._pending), "why": error.message}
            LOG.error("Receipts of model calls could not be stored and are lost", extra={"fields": fields})

    async def _store(self, chain: CallChain, calls: list[EndedCall]) -> None:
        session = SessionRecord(
            session_id=chain.session_id,
            owner=chain.owner,
            agent=MODEL_API,
            created_at=chain.began_at,
            updated_at=calls[-1].record.ended_at or chain.began_at,
            kind=chain.kind,
        )
        runs, last_hash = list[WholeRun](), chain.last_hash
        for call in calls:
            receipt = sealed_record(call.content, last_hash, self.sign)
            last_hash = receipt.hash
            runs.append(WholeRun(call.record, receipt, call.packets))
        try:
            await self.store.add_turns(session, runs)
        except RefusedError as error:  # the session is being deleted with its user
            raise StoreError(error.message) from None
        except StoreConflictError:
            # The session was deleted with its user, or an earlier write took place although its confirmation was lost.
            chain.last_hash = await self.store.last_receipt_hash(chain.session_id)
            for call in calls:
                if await self.store.turn(call.record.request_id) is not None:
                    self._pending.pop(call.record.request_id, None)
            raise
        chain.last_hash = last_hash
        self._below_quota.discard(chain.owner)
