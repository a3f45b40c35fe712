"""A store in memory, for tests, demos and services that must not store anything on disk.

It has the same contract as the other stores, except that its data is lost when the process ends.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime
from itertools import compress, count
from math import inf
from time import monotonic
from typing import Final

from msgspec.structs import replace

from accord.errors import StoreConflictError
from accord.ports import (
    HISTORY_BYTES,
    BudgetClaim,
    BudgetState,
    ClaimedRun,
    DeletionProgress,
    PacketBatch,
    RunEnd,
    RunProgress,
    RunStart,
    SessionRuns,
    StoredTotal,
    WholeRun,
)
from accord.stores.memory_records import MemoryMessage, MemoryRun, MemorySession, last_messages, message_size
from accord.stores.memory_slots import MemorySlots
from accord.stores.rules import (
    HAS_TOKENS,
    KNOWN_REQUEST,
    NOT_ITS_RECEIPT,
    NOT_ITS_SESSION,
    NOT_NEW,
    NOT_NEXT,
    NOT_RUNNING,
    NOT_YOURS,
    check_chain,
    check_quota,
    granted_amounts,
    stored_size,
)
from accord.wire.conversation import ChatMessage
from accord.wire.keys import USAGE_COUNTS, KeyRules, UsageGroup, UsageRecord, UsageTotal, usage_total
from accord.wire.session import (
    DeletionCounts,
    PacketRecord,
    ReceiptRecord,
    RunRecord,
    SessionKind,
    SessionRecord,
    StoredState,
    TokenRecord,
)


class MemoryStore(MemorySlots):
    """Sessions in this process's memory. Every call runs to its end without yielding, so each is atomic."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        super().__init__(clock)
        self._is_open = False
        self._sessions: Final[dict[str, MemorySession]] = {}
        self._turns: Final[dict[str, MemoryRun]] = {}
        self._conversations: Final[dict[tuple[str, str], list[MemoryMessage]]] = {}
        """The messages of each named conversation, by owner and name."""
        self._tokens: Final[dict[str, TokenRecord]] = {}
        self._requires_tokens = False
        self._usage: Final[dict[str, int]] = {}
        self._model_usage: Final[dict[tuple[object, ...], UsageRecord]] = {}
        self._reserved: Final[dict[str, dict[str, tuple[int, float]]]] = {}
        """By key and process, what is reserved of the budget, and when that was written."""

    async def open(self) -> None:
        """Make the store ready."""
        self._is_open = True

    async def close(self) -> None:
        """Refuse further calls; the data stays until the object is freed."""
        self._is_open = False

    async def probe(self) -> None:
        """Return if the store is open."""
        self._check_open()

    async def session(self, session_id: str) -> SessionRecord | None:
        """The session of that id."""
        self._check_open()
        stored = self._sessions.get(session_id)
        return stored.session if stored else None

    async def sessions(self, owner: str, *, limit: int, after: SessionRecord | None = None) -> list[SessionRecord]:
        """A page of an owner's sessions, the newest first."""
        self._check_open()
        owned = sorted(
            (stored.session for stored in self._sessions.values() if stored.initial.owner == owner), key=_page_key
        )
        older = owned if after is None else [session for session in owned if _page_key(session) < _page_key(after)]
        return older[::-1][:limit]

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
        self._check_open()
        if (turn.session_id, turn.owner) != (session.session_id, session.owner):
            raise StoreConflictError(NOT_ITS_SESSION)
        if known := self._turns.get(turn.request_id):
            return RunStart(self._sessions[known.initial.session_id].session, known.record)
        if quota_bytes is not None:
            check_quota(self._usage.get(session.owner, 0), quota_bytes)
        stored = self._sessions.get(session.session_id)
        if stored is None:
            stored = self._sessions[session.session_id] = MemorySession(session, session.updated_at)
        elif not stored.takes(session):
            raise StoreConflictError(NOT_YOURS)
        else:
            stored.renew(session)
        self._turns[turn.request_id] = MemoryRun(turn, self._clock(), prompt=prompt)
        stored.turns.append(turn.request_id)
        if turn.conversation_id is None:
            messages = (each for each in reversed(stored.messages) if each.conversation_id is None)
        else:
            messages = reversed(self._conversations.get((turn.owner, turn.conversation_id), ()))
        last = last_messages(messages, history, history_bytes)
        return RunStart(stored.session, None, last, stored.last_hash)

    async def turn(self, request_id: str) -> RunRecord | None:
        """The turn of that request id."""
        self._check_open()
        turn = self._turns.get(request_id)
        return turn.record if turn else None

    async def session_turns(self, session_id: str, *, limit: int) -> SessionRuns:
        """The last turns of a session."""
        self._check_open()
        stored = self._sessions.get(session_id)
        turns = [self._turns[request_id] for request_id in stored.turns] if stored else []
        turns.sort(key=lambda turn: (turn.initial.created_at, turn.initial.request_id))
        last = turns[max(0, len(turns) - limit) :]
        return SessionRuns(len(turns), [(each.record, each.stored_bytes + len(each.prompt)) for each in last])

    async def prompt(self, request_id: str) -> bytes:
        """The prompt that is stored with a turn."""
        self._check_open()
        turn = self._turns.get(request_id)
        return turn.prompt if turn else b""

    async def clock_s(self) -> float:
        """The time by which heartbeats are judged, in seconds."""
        return self._clock()

    async def abandoned(self, lease_s: float, *, runner: str, limit: int) -> list[RunRecord]:
        """Running turns of other processes that sent no heartbeat for so long."""
        self._check_open()
        since, beats = self._clock() - lease_s, self._beats
        others = [turn for turn in self._running_turns() if turn.initial.runner != runner]
        left = [turn for turn in others if max(beats.get(turn.initial.runner, -inf), turn.leased_at) < since]
        return _oldest_first(left)[:limit]

    async def take_over(self, turn: RunRecord, lease_s: float, *, runner: str) -> ClaimedRun | None:
        """Give an abandoned turn, or one of `runner`, to `runner`."""
        known = self._turns.get(turn.request_id)
        if known is None or known.state is not StoredState.RUNNING or known.initial.epoch != turn.epoch:
            return None
        if known.initial.runner != runner:
            left = {each.request_id for each in await self.abandoned(lease_s, runner=runner, limit=len(self._turns))}
            if turn.request_id not in left:
                return None
        known.initial, known.leased_at = replace(known.initial, runner=runner, epoch=turn.epoch + 1), self._clock()
        session = self._sessions[turn.session_id]
        cancelled = known.cancel_requested
        return ClaimedRun(known.record, session.session, None, (), session.last_hash, cancelled)

    async def turn_states(self, request_ids: Sequence[str]) -> dict[str, RunProgress]:
        """How far these turns are."""
        found = {of: self._turns[of] for of in request_ids if of in self._turns}
        return {of: RunProgress(each.state is StoredState.RUNNING, len(each.packets)) for of, each in found.items()}

    async def running(self, runner: str) -> list[RunRecord]:
        """The running turns of one process."""
        self._check_open()
        return _oldest_first(turn for turn in self._running_turns() if turn.initial.runner == runner)

    async def request_cancel(self, request_id: str) -> bool:
        """Request that the process that runs this turn cancels it."""
        self._check_open()
        turn = self._turns.get(request_id)
        if turn is None or turn.state is not StoredState.RUNNING:
            return False
        turn.cancel_requested = True
        return True

    async def cancel_requests(self, runner: str) -> list[str]:
        """The running turns of this process whose cancellation was requested."""
        self._check_open()
        running = (turn for turn in self._running_turns() if turn.initial.runner == runner)
        return [turn.initial.request_id for turn in running if turn.cancel_requested]

    async def mark_read(self, request_id: str) -> None:
        """Write that a client of another process reads this turn now."""
        self._check_open()
        if turn := self._turns.get(request_id):
            turn.read_at = self._clock()

    async def is_read(self, request_id: str, *, within_s: float) -> bool:
        """Whether a client of another process has read this turn within so many seconds."""
        self._check_open()
        turn = self._turns.get(request_id)
        return turn is not None and turn.read_at >= self._clock() - within_s

    async def append_packets(self, new: PacketBatch) -> None:
        """Store packets."""
        self._check_open()
        self._running(new.request_id, NOT_NEXT).append(new)

    async def packets(
        self, request_id: str, *, after_seq: int, limit: int, max_bytes: int | None = None
    ) -> list[PacketRecord]:
        """The packets that follow `after_seq`."""
        self._check_open()
        turn = self._turns.get(request_id)
        if turn is None or (max_bytes is not None and turn.stored_bytes > max_bytes):
            return []
        rest = turn.packets[after_seq : after_seq + limit]
        return list(map(PacketRecord, count(after_seq + 1), rest))

    async def end_turn(self, ending: RunEnd) -> bool:
        """End a running turn; False if its receipt does not follow the session's last one."""
        self._check_open()
        turn, receipt = self._running(ending.last.request_id, NOT_RUNNING), ending.receipt
        if receipt and (receipt.request_id, receipt.session_id) != (turn.initial.request_id, turn.initial.session_id):
            raise StoreConflictError(NOT_ITS_RECEIPT)
        session = self._sessions[turn.initial.session_id]
        if receipt and receipt.previous_hash != session.last_hash:
            return False
        turn.append(ending.last)
        turn.state, turn.ended_at = ending.state, ending.ended_at
        session.update_used_at(ending.ended_at)
        session_id, name = turn.initial.session_id, turn.initial.conversation_id
        request_id = turn.initial.request_id
        messages = [
            MemoryMessage(message, message_size(message), session_id, name, request_id) for message in ending.messages
        ]
        session.messages.extend(messages)
        if name is not None:
            self._conversations.setdefault((turn.initial.owner, name), []).extend(messages)
        sizes = sum(each.size for each in messages)
        stored = turn.stored_bytes + len(turn.prompt) + sizes + (stored_size(receipt.body) if receipt else 0)
        session.stored_bytes += stored
        self._usage[session.initial.owner] = self._usage.get(session.initial.owner, 0) + stored
        if receipt:
            session.receipts.append(receipt)
            turn.receipt = receipt
        return True

    async def add_turns(self, session: SessionRecord, turns: Sequence[WholeRun]) -> None:
        """Store turns of one session that are over."""
        self._check_open()
        stored = self._sessions.get(session.session_id)
        if stored is not None and not stored.takes(session):
            raise StoreConflictError(NOT_YOURS)
        known = {each.turn.request_id: each.runner for each in turns if each.turn.request_id in self._turns}
        if not all(runner and runner == self._turns[each].initial.runner for each, runner in known.items()):
            raise StoreConflictError(KNOWN_REQUEST)
        check_chain(session, turns, stored.last_hash if stored else None)
        for each in known:
            self._sessions[self._turns.pop(each).record.session_id].turns.remove(each)
        if stored is None:
            stored = self._sessions[session.session_id] = MemorySession(session, session.updated_at)
        else:
            stored.renew(session)
        size = 0
        for each in turns:
            turn = MemoryRun(each.turn, self._clock(), [*each.packets], each.turn.state, each.turn.ended_at)
            turn.receipt, turn.stored_bytes = each.receipt, stored_size(*each.packets)
            size += turn.stored_bytes
            self._turns[each.turn.request_id] = turn
            stored.turns.append(each.turn.request_id)
            if each.receipt is not None:
                size += stored_size(each.receipt.body)
                stored.receipts.append(each.receipt)
        stored.stored_bytes += size
        self._usage[session.owner] = self._usage.get(session.owner, 0) + size

    async def history(self, session_id: str, *, limit: int, max_bytes: int = HISTORY_BYTES) -> Sequence[ChatMessage]:
        """The last messages of a session that fit, the oldest of them first."""
        self._check_open()
        stored = self._sessions.get(session_id)
        return last_messages(reversed(stored.messages), limit, max_bytes) if stored else []

    async def messages(self, session_id: str, *, limit: int, max_bytes: int) -> dict[str, list[ChatMessage]]:
        """The last messages of a session that fit, by the turn that added them."""
        self._check_open()
        stored, found = self._sessions.get(session_id), dict[str, list[ChatMessage]]()
        count = len(last_messages(reversed(stored.messages), limit, max_bytes)) if stored else 0
        for each in stored.messages[len(stored.messages) - count :] if stored else ():
            found.setdefault(each.request_id, []).append(each.message)
        return found

    async def last_receipt_hash(self, session_id: str) -> str | None:
        """The hash of the session's last receipt."""
        self._check_open()
        stored = self._sessions.get(session_id)
        return stored.last_hash if stored else None

    async def receipts(self, session_id: str, *, after: int = 0, limit: int | None = None) -> list[ReceiptRecord]:
        """A session's receipts in the order of their chain, or a page of them."""
        self._check_open()
        stored = self._sessions.get(session_id)
        return stored.receipts[after : None if limit is None else after + limit] if stored else []

    async def receipt(self, request_id: str) -> ReceiptRecord | None:
        """The receipt of one turn."""
        self._check_open()
        turn = self._turns.get(request_id)
        return turn.receipt if turn else None

    async def delete_user(self, owner: str, *, progress: DeletionProgress | None = None) -> DeletionCounts:  # noqa: ARG002 - one step
        """Delete everything of one owner."""
        deleted = self._erase(lambda session: session.owner == owner)
        owned = [digest for digest, token in self._tokens.items() if token.user == owner]
        for digest in owned:
            del self._tokens[digest]
        used = [row for row in self._model_usage.values() if owner and row.user == owner]
        for row in used:
            del self._model_usage[_usage_key(row)]
        await self.add_usage([replace(row, key_id="", user="") for row in used])
        return deleted + DeletionCounts(tokens=len(owned))

    async def expire(
        self,
        before: datetime,
        *,
        calls: datetime | None = None,
        progress: DeletionProgress | None = None,  # noqa: ARG002 - one step
    ) -> DeletionCounts:
        """Delete the sessions that were not used since then, those of calls since another time."""
        since = dict.fromkeys(SessionKind, calls or before) | {SessionKind.TURNS: before}
        return self._erase(lambda session: session.updated_at < since[session.kind])

    async def check_quota(self, owner: str, quota_bytes: int) -> None:
        """Raise `RefusedError` if this owner has stored as much as the quota allows."""
        self._check_open()
        check_quota(self._usage.get(owner, 0), quota_bytes)

    async def stored(self) -> list[StoredTotal]:
        """What the sessions hold, by kind."""
        self._check_open()
        by_kind: dict[SessionKind, list[MemorySession]] = {}
        for stored in self._sessions.values():
            by_kind.setdefault(stored.initial.kind, []).append(stored)
        return [
            StoredTotal(
                kind,
                len(sessions),
                sum(each.stored_bytes for each in sessions),
                min(each.initial.created_at for each in sessions),
            )
            for kind, sessions in sorted(by_kind.items())
        ]

    async def put_token(self, token: TokenRecord) -> None:
        """Store a new token."""
        self._check_open()
        if token.digest in self._tokens or any(stored.token_id == token.token_id for stored in self._tokens.values()):
            raise StoreConflictError(NOT_NEW)
        self._tokens[token.digest] = token
        self._requires_tokens = True

    async def token_by_digest(self, digest: str) -> TokenRecord | None:
        """The token of that hash."""
        self._check_open()
        return self._tokens.get(digest)

    async def tokens(self) -> list[TokenRecord]:
        """Every token, the oldest first."""
        self._check_open()
        return sorted(self._tokens.values(), key=lambda token: (token.created_at, token.token_id))

    async def revoke_token(self, token_id: str) -> bool:
        """Delete a token; False if there is none of that id."""
        self._check_open()
        found = [digest for digest, token in self._tokens.items() if token.token_id == token_id]
        for digest in found:
            del self._tokens[digest]
        return bool(found)

    async def set_token_rules(self, token_id: str, rules: KeyRules | None) -> bool:
        """Replace the rules of a token; False if there is none of that id."""
        self._check_open()
        found = next((token for token in self._tokens.values() if token.token_id == token_id), None)
        if found is None:
            return False
        self._tokens[found.digest] = found.model_copy(update={"rules": rules})
        return True

    async def requires_tokens(self) -> bool:
        """Whether any token was stored since the last `allow_open`."""
        self._check_open()
        return self._requires_tokens

    async def allow_open(self) -> None:
        """Allow access without tokens again."""
        self._check_open()
        if self._tokens:
            raise StoreConflictError(HAS_TOKENS)
        self._requires_tokens = False

    async def add_usage(
        self, rows: Sequence[UsageRecord], claims: Sequence[BudgetClaim] = (), *, holder: str = "", lease_s: float = 0
    ) -> list[BudgetState]:
        """Add these counts to those stored, then reserve what fits into the budgets."""
        self._check_open()
        for row in rows:
            stored = self._model_usage.get(_usage_key(row))
            self._model_usage[_usage_key(row)] = row if stored is None else _add_usage(stored, row)
        states: list[BudgetState] = []
        for claim in claims:
            spent = await self.spent(claim.key_id, claim.since)
            held = self._reserved.setdefault(claim.key_id, {})
            others = sum(n for name, (n, at) in held.items() if name != holder and self._is_alive(name, at, lease_s))
            granted = granted_amounts(claim, spent + others + claim.reserved)
            reserved = claim.reserved + sum(compress(claim.wanted, granted))
            held[holder] = reserved, self._clock()
            states.append(BudgetState(granted, spent, others + reserved))
        return states

    async def usage(
        self, *, by: UsageGroup, key: str | None = None, since: date | None = None, until: date | None = None
    ) -> list[UsageTotal]:
        """Usage added up by this group."""
        self._check_open()
        groups: dict[str, UsageRecord] = {}
        for row in self._model_usage.values():
            if key in (None, row.key_id) and (since or date.min) <= row.day <= (until or date.max):
                name = str(getattr(row, "key_id" if by is UsageGroup.KEY else by.value))
                groups[name] = _add_usage(groups[name], row) if name in groups else row
        return [usage_total(name, (getattr(groups[name], count) for count in USAGE_COUNTS)) for name in sorted(groups)]

    async def spent(self, key: str, since: date | None) -> int:
        """What this key has cost from this day on, in micro-dollars."""
        self._check_open()
        rows = (row for row in self._model_usage.values() if row.key_id == key and row.day >= (since or date.min))
        return sum(row.cost_micro for row in rows)

    def _running_turns(self) -> Iterator[MemoryRun]:
        return (turn for turn in self._turns.values() if turn.state is StoredState.RUNNING)

    def _running(self, request_id: str, message: str) -> MemoryRun:
        turn = self._turns.get(request_id)
        if turn is None or turn.state is not StoredState.RUNNING:
            raise StoreConflictError(message)
        return turn

    def _erase(self, chosen: Callable[[SessionRecord], bool]) -> DeletionCounts:
        self._check_open()
        deleted = DeletionCounts()
        for stored in [stored for stored in self._sessions.values() if chosen(stored.session)]:
            del self._sessions[stored.initial.session_id]
            self._usage[stored.initial.owner] = self._usage.get(stored.initial.owner, 0) - stored.stored_bytes
            self._erase_conversations(stored)
            deleted += DeletionCounts(
                sessions=1,
                turns=len(stored.turns),
                packets=sum(len(self._turns.pop(request_id).packets) for request_id in stored.turns),
                messages=len(stored.messages),
                receipts=len(stored.receipts),
            )
        return deleted

    def _erase_conversations(self, session: MemorySession) -> None:
        """Remove the messages of a deleted session from the conversations that it took part in."""
        owner = session.initial.owner
        for name in {each.conversation_id for each in session.messages if each.conversation_id is not None}:
            messages = self._conversations[owner, name]
            messages[:] = [each for each in messages if each.session_id != session.initial.session_id]
            if not messages:
                del self._conversations[owner, name]


def _oldest_first(turns: Iterable[MemoryRun]) -> list[RunRecord]:
    return sorted((turn.record for turn in turns), key=lambda turn: (turn.created_at, turn.request_id))


def _page_key(session: SessionRecord) -> tuple[datetime, str]:
    return session.created_at, session.session_id


def _usage_key(row: UsageRecord) -> tuple[object, ...]:
    return row.key_id, row.user, row.backend, row.model, row.day


def _add_usage(row: UsageRecord, more: UsageRecord) -> UsageRecord:
    return replace(row, **{name: getattr(row, name) + getattr(more, name) for name in USAGE_COUNTS})
