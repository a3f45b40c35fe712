"""Calls of model APIs in the store: each that lasts as running, and each that is over with its receipt.

    begin ── older than `WRITTEN_AFTER_S`: written as running ──> end: settled, reported ── written with its receipt

A call is answered before its receipt is stored, with those of others; `write_behind.py` says how long before. One whose
process was killed is ended by another process, as a turn is. The calls of one caller in one process on one day are a
chain, and so is every `CHAIN_CALLS` of them: a chain is short enough to be verified in a moment, and expires as a
whole. While the store fails, receipts are kept and tried again; when there are too many, new calls are refused.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple
from uuid import uuid4

from accord.errors import ErrorCode, RefusedError, StoreConflictError, StoreError
from accord.ports import WholeRun
from accord.run.model_call import ModelCall
from accord.run.record import MODEL_API, STATE_BY_OUTCOME, ReceiptContent, call_outcome, ended_call, sealed_record
from accord.run.sessions import Sessions
from accord.run.write_behind import WriteBehind
from accord.wire.receipt import OutcomeStatus
from accord.wire.session import RunRecord, SessionKind, SessionRecord, StoredState

WRITTEN_AFTER_S: Final = 0.02
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


class WaitingCall(NamedTuple):
    """A call to be written. Without `content`, its receipt but for the link to the one before it, it is running."""

    chain: CallChain
    record: RunRecord
    content: ReceiptContent | None = None
    packets: tuple[str, ...] = ()
    was_written: bool = False
    """Whether it was written as running before."""


class CallLog:
    """The calls that are not stored yet, and the chains that they continue, of a service with these sessions.

    A caller who has stored as much as the quota allows cannot make more calls.
    """

    def __init__(self, sessions: Sessions) -> None:
        self._sessions: Final = sessions
        self._store: Final = sessions.store
        self._ended: Final[dict[str, WaitingCall]] = {}
        self._begun: Final[dict[str, tuple[ModelCall, Callable[[], None]]]] = {}
        """Those that run and are not written, with what cancels them, the oldest first."""
        self._chains: Final[dict[tuple[str, SessionKind], CallChain]] = {}
        self._below_quota: Final[set[str]] = set()
        """The callers who have stored nothing since they were below the quota."""
        self._lock: Final = asyncio.Lock()
        self.writes: Final = WriteBehind("Receipts of model calls", self.flush)

    def check_is_open(self) -> None:
        """Refuse a new call while too many receipts wait to be stored."""
        if len(self._ended) >= MAX_PENDING:
            raise RefusedError(NOT_STORED, ErrorCode.UNAVAILABLE, {"retry_after": 1})

    def begin(self, call: ModelCall, cancel: Callable[[], None]) -> None:
        """Have this call written as running if it lasts; `cancel` cancels it."""
        self._begun[call.request_id] = call, cancel
        self.writes.add()

    def end(self, call: ModelCall, *, is_complete: bool) -> None:
        """Settle a call that is over; its receipt is stored soon."""
        for record in call.work:
            record.is_left = call.failure is None and not is_complete
        call.costs.settle(call.work, answers=call.request.answers // len(call.work))
        clock, endings = self._sessions.engine.clock, self._sessions.endings
        now, total_ms = clock.now(), (clock.monotonic() - call.began_at) * 1_000
        outcome = call_outcome(call, is_complete=is_complete)
        is_refused = outcome.status is OutcomeStatus.REFUSED
        chain = self._chain_of(call.owner, SessionKind.RESPONSES if call.packets else SessionKind.CALLS, now)
        chain.calls += 1
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
        was_written = self._begun.pop(call.request_id, None) is None
        self._sessions.open_calls.pop(call.request_id, None)
        self._ended[call.request_id] = WaitingCall(chain, record, content, call.packets, was_written)
        self.writes.add()
        if endings.on_ended is not None:
            endings.on_ended(content.members)

    async def check_quota(self, owner: str) -> None:
        """Refuse a new call of a caller who has stored as much as the quota allows."""
        quota_bytes = self._sessions.quota_bytes
        if quota_bytes is not None and owner not in self._below_quota:
            await self._store.check_quota(owner, quota_bytes)
            self._below_quota.add(owner)

    async def stored(self, request_id: str) -> None:
        """Return once this call is stored, if it is one of this process; raises `StoreError` if it cannot be."""
        if request_id in self._ended:
            await self.flush()

    async def flush(self) -> None:
        """Store the calls that have ended, and those that last; raises `StoreError` if that fails."""
        async with self._lock:
            by_session: dict[str, list[WaitingCall]] = {}
            for call in (*self._ended.values(), *self._lasting()):
                by_session.setdefault(call.chain.session_id, []).append(call)
            for calls in by_session.values():
                for place in range(0, len(calls), BATCH):
                    batch = calls[place : place + BATCH]
                    await self._write(batch[0].chain, batch)
                    self._forget(batch)
        if self._begun:
            self.writes.add()

    async def close(self) -> None:
        """Store what is left; what cannot be stored is logged as lost."""
        try:
            await self.writes.close()
        except StoreError as error:
            fields = {"receipts": len(self._ended), "why": error.message}
            LOG.error("Receipts of model calls could not be stored and are lost", extra={"fields": fields})

    def _chain_of(self, owner: str, kind: SessionKind, now: datetime) -> CallChain:
        """The chain that takes this caller's next call."""
        chain = self._chains.get((owner, kind))
        if chain is None or chain.calls >= CHAIN_CALLS or chain.began_at.date() != now.date():
            self._chains.pop((owner, kind), None)
            if len(self._chains) >= MAX_CHAINS:
                del self._chains[next(iter(self._chains))]
            chain = self._chains[owner, kind] = CallChain(owner, kind, now)
        return chain

    def _lasting(self) -> list[WaitingCall]:
        """The calls to be written as running; from now on other processes end them if this one dies."""
        clock, lasting = self._sessions.engine.clock, list[WaitingCall]()
        while self._begun:
            request_id = next(iter(self._begun))
            call, cancel = self._begun[request_id]
            if clock.monotonic() - call.began_at < WRITTEN_AFTER_S:
                break
            del self._begun[request_id]
            self._sessions.open_calls[request_id] = cancel
            chain = self._chain_of(call.owner, SessionKind.CALLS, clock.now())
            record = RunRecord(
                request_id=request_id,
                session_id=chain.session_id,
                owner=chain.owner,
                request_digest=call.digest,
                runner=self._sessions.runner,
                created_at=call.received_at,
            )
            lasting.append(WaitingCall(chain, record))
        if lasting:
            self._sessions.keep_alive()
        return lasting

    def _forget(self, calls: Sequence[WaitingCall]) -> None:
        """Forget calls that are over and stored."""
        for call in calls:
            if call.content is not None:
                self._ended.pop(call.record.request_id, None)

    async def _write(self, chain: CallChain, calls: list[WaitingCall]) -> None:
        session = SessionRecord(
            session_id=chain.session_id,
            owner=chain.owner,
            agent=MODEL_API,
            created_at=chain.began_at,
            updated_at=max(call.record.ended_at or call.record.created_at for call in calls),
            kind=chain.kind,
        )
        runs, last_hash = list[WholeRun](), chain.last_hash
        for call in calls:
            receipt = None
            if call.content is not None:
                receipt = sealed_record(call.content, last_hash, self._sessions.endings.sign)
                last_hash = receipt.hash
            runs.append(WholeRun(call.record, receipt, call.packets, self._sessions.runner if call.was_written else ""))
        try:
            await self._store.add_turns(session, runs)
        except RefusedError as error:  # the session is being deleted with its user
            raise StoreError(error.message) from None
        except StoreConflictError:
            # The session was deleted with its user, or an earlier write took place although its confirmation was lost.
            chain.last_hash = await self._store.last_receipt_hash(chain.session_id)
            self._forget([call for call in calls if await self._is_stored(call)])
            raise
        chain.last_hash = last_hash
        self._below_quota.discard(chain.owner)

    async def _is_stored(self, call: WaitingCall) -> bool:
        """Whether the store has the end of this call, from this process or from another one."""
        record = await self._store.turn(call.record.request_id)
        return record is not None and record.state is not StoredState.RUNNING
