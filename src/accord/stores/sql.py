"""The operations of a store in terms of SQL statements, the same for every engine.

Each engine decides how a statement gets its connection and transaction, and on which thread it runs.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Concatenate, Final, ParamSpec, TypeVar

from sqlalchemy import Connection

from accord.ports import (
    HISTORY_BYTES,
    BudgetClaim,
    BudgetState,
    ClaimedRun,
    DeletionProgress,
    PacketBatch,
    QueuedWork,
    RunEnd,
    RunProgress,
    RunStart,
    SessionRuns,
    SlotRecord,
    StoredTotal,
    WaitingRuns,
    WholeRun,
)
from accord.stores import erase, liveness, queue, slots, statements, tokens, transcripts, usage
from accord.stores.heartbeats import HeartbeatConnection, HeartbeatThread
from accord.stores.liveness import probe
from accord.stores.migrate import check_schema
from accord.stores.rules import check_quota
from accord.wire.conversation import ChatMessage
from accord.wire.keys import KeyRules, UsageGroup, UsageRecord, UsageTotal
from accord.wire.session import DeletionCounts, PacketRecord, ReceiptRecord, RunRecord, SessionRecord, TokenRecord

# Between two steps of a deletion. Other processes that wait for SQLite's file poll every 25 ms, later less often.
ERASE_PAUSE_S: Final = 0.03

P = ParamSpec("P")
T = TypeVar("T")
Statement = Callable[Concatenate[Connection, P], T]


class SqlStore(ABC):
    """A store whose data is in SQL tables."""

    def __init__(self) -> None:
        self.heartbeats: Final = HeartbeatThread(self.heartbeat)

    @abstractmethod
    async def read(self, statement: Statement[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a statement that only reads."""

    @abstractmethod
    async def write(self, statement: Statement[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a statement that writes; returns when what it wrote is on disk."""

    async def probe(self) -> None:
        """Return if the storage can be written, and its schema is still one that this process can use."""
        await self.write(probe)
        await self.read(check_schema)

    async def session(self, session_id: str) -> SessionRecord | None:
        """The session of that id."""
        return await self.read(statements.session_of, session_id)

    async def sessions(self, owner: str, *, limit: int, after: SessionRecord | None = None) -> list[SessionRecord]:
        """A page of an owner's sessions, the newest first."""
        return await self.read(statements.sessions_of, owner, limit, after)

    async def begin_turn(  # noqa: PLR0913 - the turn, and what limits it
        self,
        session: SessionRecord,
        turn: RunRecord,
        *,
        history: int,
        history_bytes: int = HISTORY_BYTES,
        quota_bytes: int | None = None,
        prompt: bytes = b"",
    ) -> RunStart:
        """Begin a turn in its session, unless a turn of that request id is known."""
        return await self.write(statements.begin_turn, session, turn, (history, history_bytes), quota_bytes, prompt)

    async def queue_turn(
        self,
        session: SessionRecord,
        turn: RunRecord,
        work: QueuedWork,
        *,
        quota_bytes: int | None = None,
        max_running: int | None = None,
    ) -> RunStart:
        """Begin a turn that waits for a worker, unless a turn of that request id is known."""
        return await self.write(queue.queue_turn, session, turn, work, quota_bytes, max_running)

    async def turn(self, request_id: str) -> RunRecord | None:
        """The turn of that request id."""
        return await self.read(statements.turn_of, request_id)

    async def session_turns(self, session_id: str, *, limit: int) -> SessionRuns:
        """The last turns of a session."""
        return await self.read(statements.session_turns, session_id, limit)

    async def prompt(self, request_id: str) -> bytes:
        """The prompt that is stored with a turn."""
        return await self.read(transcripts.prompt_of, request_id)

    async def messages(self, session_id: str, *, limit: int, max_bytes: int) -> dict[str, list[ChatMessage]]:
        """The last messages of a session that fit, by the turn that added them."""
        return await self.read(transcripts.messages_of, session_id, limit, max_bytes)

    @abstractmethod
    def heartbeat(self) -> HeartbeatConnection:
        """A separate connection for the thread that sends heartbeats."""

    async def clock_s(self) -> float:
        """The time by which heartbeats are judged, in seconds."""
        return await self.read(liveness.clock_s)

    async def abandoned(self, lease_s: float, *, runner: str, limit: int) -> list[RunRecord]:
        """Running turns of other processes that sent no heartbeat for so long."""
        return await self.read(liveness.abandoned, lease_s, runner, limit)

    async def take_over(self, turn: RunRecord, lease_s: float, *, runner: str) -> ClaimedRun | None:
        """Give an abandoned turn, or one of `runner`, to `runner`."""
        return await self.write(queue.take_over, turn, int(lease_s * 1_000_000), runner, (0, 0))

    async def turn_states(self, request_ids: Sequence[str]) -> dict[str, RunProgress]:
        """How far these turns are."""
        return await self.read(queue.turn_states, request_ids)

    async def claim(self, agents: Sequence[str], *, runner: str, history: int, history_bytes: int) -> ClaimedRun | None:
        """Give the next waiting turn of these agents to `runner`."""
        return await self.write(queue.claim, agents, runner, (history, history_bytes))

    async def queue_again(self, turn: RunRecord) -> bool:
        """Put a turn back to the front of the queue."""
        return await self.write(queue.queue_again, turn)

    async def waiting(self) -> WaitingRuns:
        """How many turns wait for a worker, and for how long."""
        return await self.read(queue.waiting)

    async def running(self, runner: str) -> list[RunRecord]:
        """The running turns of one process."""
        return await self.read(liveness.running, runner)

    async def request_cancel(self, request_id: str) -> bool:
        """Request that the process that runs this turn cancels it."""
        return await self.write(liveness.request_cancel, request_id)

    async def cancel_requests(self, runner: str) -> list[str]:
        """The running turns of this process whose cancellation was requested."""
        return await self.read(liveness.cancel_requests, runner)

    async def mark_read(self, request_id: str) -> None:
        """Write that a client of another process reads this turn now."""
        await self.write(liveness.mark_read, request_id)

    async def is_read(self, request_id: str, *, within_s: float) -> bool:
        """Whether a client of another process has read this turn within so many seconds."""
        return await self.read(liveness.is_read, request_id, within_s)

    async def append_packets(self, new: PacketBatch) -> None:
        """Store packets."""
        await self.write(statements.append_packets, new)

    async def packets(
        self, request_id: str, *, after_seq: int, limit: int, max_bytes: int | None = None
    ) -> list[PacketRecord]:
        """The packets that follow `after_seq`."""
        return await self.read(statements.packets_of, request_id, after_seq, limit, max_bytes)

    async def end_turn(self, ending: RunEnd) -> bool:
        """End a running turn; False if its receipt does not follow the session's last one."""
        return await self.write(statements.end_turn, ending)

    async def add_turns(self, session: SessionRecord, turns: Sequence[WholeRun]) -> None:
        """Store turns of one session that are over."""
        await self.write(statements.add_turns, session, turns)

    async def history(self, session_id: str, *, limit: int, max_bytes: int = HISTORY_BYTES) -> Sequence[ChatMessage]:
        """The last messages of a session that fit, the oldest of them first."""
        return await self.read(transcripts.history_of, session_id, limit, max_bytes)

    async def last_receipt_hash(self, session_id: str) -> str | None:
        """The hash of the session's last receipt."""
        return await self.read(transcripts.last_receipt_hash, session_id)

    async def receipts(self, session_id: str, *, after: int = 0, limit: int | None = None) -> list[ReceiptRecord]:
        """A session's receipts in the order of their chain, or a page of them."""
        return await self.read(transcripts.receipts_of, session_id, after, limit)

    async def receipt(self, request_id: str) -> ReceiptRecord | None:
        """The receipt of one turn."""
        return await self.read(transcripts.receipt_of, request_id)

    async def delete_user(self, owner: str, *, progress: DeletionProgress | None = None) -> DeletionCounts:
        """Delete everything of one owner."""
        revoked = await self.write(erase.delete_tokens, owner)
        await self.write(usage.make_usage_anonymous, owner)
        return await self._erase(erase.hide_user, owner, progress) + DeletionCounts(tokens=revoked)

    async def expire(
        self, before: datetime, *, calls: datetime | None = None, progress: DeletionProgress | None = None
    ) -> DeletionCounts:
        """Delete the sessions that were not used since then, those of calls since another time."""
        return await self._erase(erase.hide_expired, (before, calls or before), progress)

    async def check_quota(self, owner: str, quota_bytes: int) -> None:
        """Raise `RefusedError` if this owner has stored as much as the quota allows."""
        check_quota(await self.read(transcripts.stored_bytes_of, owner), quota_bytes)

    async def stored(self) -> list[StoredTotal]:
        """What the sessions hold, by kind."""
        return await self.read(transcripts.stored_totals)

    async def put_token(self, token: TokenRecord) -> None:
        """Store a new token."""
        await self.write(tokens.put_token, token)

    async def token_by_digest(self, digest: str) -> TokenRecord | None:
        """The token of that hash."""
        return await self.read(tokens.token_by_digest, digest)

    async def tokens(self) -> list[TokenRecord]:
        """Every token, the oldest first."""
        return await self.read(tokens.all_tokens)

    async def revoke_token(self, token_id: str) -> bool:
        """Delete a token; False if there is none of that id."""
        return await self.write(tokens.revoke_token, token_id)

    async def set_token_rules(self, token_id: str, rules: KeyRules | None) -> bool:
        """Replace the rules of a token; False if there is none of that id."""
        return await self.write(tokens.set_token_rules, token_id, rules)

    async def requires_tokens(self) -> bool:
        """Whether any token was stored since the last `allow_open`."""
        return await self.read(tokens.requires_tokens)

    async def allow_open(self) -> None:
        """Allow access without tokens again."""
        await self.write(tokens.allow_open)

    async def add_usage(
        self, rows: Sequence[UsageRecord], claims: Sequence[BudgetClaim] = (), *, holder: str = "", lease_s: float = 0
    ) -> list[BudgetState]:
        """Add these counts to those stored, then reserve what fits into the budgets."""
        return await self.write(usage.add_usage, rows, claims, holder, lease_s)

    async def usage(
        self, *, by: UsageGroup, key: str | None = None, since: date | None = None, until: date | None = None
    ) -> list[UsageTotal]:
        """Usage added up by this group."""
        return await self.read(usage.usage_by, by, key, since, until)

    async def spent(self, key: str, since: date | None) -> int:
        """What this key has cost from this day on, in micro-dollars."""
        return await self.read(usage.spent_of, key, since)

    async def take_slot(self, slot: SlotRecord, *, limit: int, lease_s: float) -> bool:
        """Add a call of a backend if fewer than `limit` run or wait."""
        return await self.write(slots.take_slot, slot, limit, lease_s)

    async def queue_slot(self, slot: SlotRecord) -> None:
        """Add a call of a backend behind those that run and wait."""
        await self.write(slots.queue_slot, slot)

    async def held_slots(self, backend: str, *, limit: int, lease_s: float) -> list[str]:
        """The ids of the calls that hold a slot, the oldest first."""
        return await self.read(slots.held_slots, backend, limit, lease_s)

    async def free_slots(self, freed: Sequence[SlotRecord]) -> None:
        """Remove calls that have ended."""
        await self.write(slots.free_slots, freed)

    async def _erase(
        self, hide: Callable[[Connection, T], int], which: T, progress: DeletionProgress | None
    ) -> DeletionCounts:
        """Hide sessions, then delete what is hidden, with pauses in which other processes can write."""
        hidden = 1
        while hidden:
            hidden = await self.write(hide, which)
        total, is_all = DeletionCounts(), not await self.read(erase.has_hidden)
        while not is_all:
            step, is_all = await self.write(self._delete_some)
            total += step
            if progress is not None:
                progress(total)
            await asyncio.sleep(ERASE_PAUSE_S)
        return total

    def _delete_some(self, connection: Connection) -> tuple[DeletionCounts, bool]:
        """Delete some of what is hidden; whether that was all."""
        return erase.delete_some(connection)
