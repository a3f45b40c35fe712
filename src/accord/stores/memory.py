"""The store that forgets: everything in this process, gone with it. For tests, demos and where nothing may be kept.

It keeps the same contract as the others, but for the one thing it cannot: what it acknowledged survives nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from math import inf
from time import monotonic
from typing import Any, Final

from msgspec.structs import replace

from accord.errors import StoreConflictError, StoreError
from accord.ports import HISTORY_BYTES, DeletionProgress, Heartbeat, PacketBatch, TurnEnd, TurnStart
from accord.stores.rules import (
    CLOSED,
    HAS_TOKENS,
    NOT_ITS_RECEIPT,
    NOT_ITS_SESSION,
    NOT_NEW,
    NOT_NEXT,
    NOT_RUNNING,
    NOT_YOURS,
    check_quota,
    stored_size,
)
from accord.wire.conversation import ChatMessage
from accord.wire.session import (
    DeletionCounts,
    PacketRecord,
    ReceiptRecord,
    SessionRecord,
    TokenRecord,
    TurnRecord,
    TurnState,
)


@dataclass(slots=True)
class _Kept:
    """A session and what belongs to it: as it was begun, and when it was last used."""

    begun: SessionRecord
    used_at: datetime
    turns: list[str] = field(default_factory=list[str])
    messages: list[ChatMessage] = field(default_factory=list[ChatMessage])
    sizes: list[int] = field(default_factory=list[int])
    stored_bytes: int = 0
    receipts: list[ReceiptRecord] = field(default_factory=list[ReceiptRecord])

    @property
    def chain(self) -> str | None:
        return self.receipts[-1].hash if self.receipts else None

    @property
    def session(self) -> SessionRecord:
        """The session as it is now."""
        if self.used_at == self.begun.updated_at:
            return self.begun
        return replace(self.begun, updated_at=self.used_at)

    def renew(self, session: SessionRecord) -> None:
        """The session as it is said to be now; what it does not say again stays as it was."""
        kept: dict[str, Any] = {"created_at": self.begun.created_at}
        if session.capabilities is None:
            kept |= {"capabilities": self.begun.capabilities, "negotiated": self.begun.negotiated}
        self.begun = replace(session, **kept)
        self.touch(session.updated_at)

    def touch(self, at: datetime) -> None:
        self.used_at = max(self.used_at, at)

    def last(self, limit: int, max_bytes: int) -> Sequence[ChatMessage]:
        """The last messages that fit."""
        fitting = 0
        for size in reversed(self.sizes[-limit:] if limit else ()):
            max_bytes -= size
            if max_bytes < 0:
                break
            fitting += 1
        return self.messages[-fitting:] if fitting else []


@dataclass(slots=True)
class _Turn:
    """A turn as it was begun, and what became of it."""

    begun: TurnRecord
    leased_at: float
    packets: list[str] = field(default_factory=list[str])
    items: dict[str, str] | None = None
    state: TurnState = TurnState.RUNNING
    ended_at: datetime | None = None
    receipt: ReceiptRecord | None = None
    read_at: float = -inf
    cancel_requested: bool = False
    stored_bytes: int = 0

    @property
    def record(self) -> TurnRecord:
        """The turn as it is now."""
        return replace(self.begun, state=self.state, last_seq=len(self.packets), ended_at=self.ended_at)

    def append(self, new: PacketBatch) -> None:
        """Take packets and items that follow those that are kept."""
        if new.packets and new.first_seq != len(self.packets) + 1:
            raise StoreConflictError(NOT_NEXT)
        if new.items:
            self.items = {**(self.items or {}), **new.items}
        self.packets.extend(new.packets)
        self.stored_bytes += stored_size(*new.packets, *new.items.values())


@dataclass(frozen=True, slots=True)
class _MemoryHeartbeat:
    """Writes heartbeats; setting one item of a dict is safe in any thread."""

    beats: dict[str, float]
    clock: Callable[[], float]

    def beat(self, runner: str) -> None:
        self.beats[runner] = self.clock()

    def close(self) -> None:
        pass


class MemoryStore:
    """Sessions in this process's memory. Every call runs to its end without yielding, so each is atomic."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock: Final = clock
        self._is_open = False
        self._kept: Final[dict[str, _Kept]] = {}
        self._turns: Final[dict[str, _Turn]] = {}
        self._beats: Final[dict[str, float]] = {}
        self._tokens: Final[dict[str, TokenRecord]] = {}
        self._requires_tokens = False
        self._usage: Final[dict[str, int]] = {}

    async def open(self) -> None:
        """Be ready."""
        self._is_open = True

    async def close(self) -> None:
        """Take no more calls; what is kept stays until the object goes."""
        self._is_open = False

    async def probe(self) -> None:
        """Return if the store is open."""
        self._check()

    async def session(self, session_id: str) -> SessionRecord | None:
        """The session of that id."""
        self._check()
        kept = self._kept.get(session_id)
        return kept.session if kept else None

    async def sessions(self, owner: str, *, limit: int, after: SessionRecord | None = None) -> list[SessionRecord]:
        """A page of an owner's sessions, the newest first."""
        self._check()
        theirs = sorted((kept.session for kept in self._kept.values() if kept.begun.owner == owner), key=_place)
        older = theirs if after is None else [session for session in theirs if _place(session) < _place(after)]
        return older[::-1][:limit]

    async def begin_turn(
        self,
        session: SessionRecord,
        turn: TurnRecord,
        *,
        history: int,
        history_bytes: int = HISTORY_BYTES,
        quota_bytes: int | None = None,
    ) -> TurnStart:
        """Begin a turn in its session, unless a turn of that request id is known."""
        self._check()
        if (turn.session_id, turn.owner) != (session.session_id, session.owner):
            raise StoreConflictError(NOT_ITS_SESSION)
        if known := self._turns.get(turn.request_id):
            return TurnStart(self._kept[known.begun.session_id].session, known.record)
        if quota_bytes is not None:
            check_quota(self._usage.get(session.owner, 0), quota_bytes)
        kept = self._kept.get(session.session_id)
        if kept is None:
            kept = self._kept[session.session_id] = _Kept(session, session.updated_at)
        elif kept.begun.owner != session.owner:
            raise StoreConflictError(NOT_YOURS)
        else:
            kept.renew(session)
        self._turns[turn.request_id] = _Turn(turn, self._clock())
        kept.turns.append(turn.request_id)
        return TurnStart(kept.session, None, kept.last(history, history_bytes), kept.chain)

    async def turn(self, request_id: str) -> TurnRecord | None:
        """The turn of that request id."""
        self._check()
        turn = self._turns.get(request_id)
        return turn.record if turn else None

    def heartbeat(self) -> Heartbeat:
        """Something that a thread can send heartbeats with."""
        return _MemoryHeartbeat(self._beats, self._clock)

    async def abandoned(self, lease_s: float, *, runner: str, limit: int) -> list[TurnRecord]:
        """Running turns of other processes that gave no sign of life for so long."""
        self._check()
        since = self._clock() - lease_s
        left = [turn for turn in self._running_turns() if turn.begun.runner != runner and self._last_sign(turn) < since]
        return _oldest_first(left)[:limit]

    async def running(self, runner: str) -> list[TurnRecord]:
        """The running turns of one process."""
        self._check()
        return _oldest_first(turn for turn in self._running_turns() if turn.begun.runner == runner)

    async def request_cancel(self, request_id: str) -> bool:
        """Ask the process that runs this turn to cancel it."""
        self._check()
        turn = self._turns.get(request_id)
        if turn is None or turn.state is not TurnState.RUNNING:
            return False
        turn.cancel_requested = True
        return True

    async def cancel_requests(self, runner: str) -> list[str]:
        """The running turns of this process that another one wants cancelled."""
        self._check()
        running = (turn for turn in self._running_turns() if turn.begun.runner == runner)
        return [turn.begun.request_id for turn in running if turn.cancel_requested]

    async def mark_read(self, request_id: str) -> None:
        """Write that a client of another process reads this turn now."""
        self._check()
        if turn := self._turns.get(request_id):
            turn.read_at = self._clock()

    async def is_read(self, request_id: str, *, within_s: float) -> bool:
        """Whether a client of another process was reading this turn so short ago."""
        self._check()
        turn = self._turns.get(request_id)
        return turn is not None and turn.read_at >= self._clock() - within_s

    async def append_packets(self, new: PacketBatch) -> None:
        """Keep packets and items."""
        self._check()
        self._running(new.request_id, NOT_NEXT).append(new)

    async def packets(self, request_id: str, *, after_seq: int, limit: int) -> list[PacketRecord]:
        """The packets that follow `after_seq`."""
        self._check()
        turn = self._turns.get(request_id)
        rest = turn.packets[after_seq : after_seq + limit] if turn else []
        return list(map(PacketRecord, count(after_seq + 1), rest))

    async def end_turn(self, ending: TurnEnd) -> bool:
        """End a running turn; False if its receipt does not follow the session's last one."""
        self._check()
        turn, receipt = self._running(ending.last.request_id, NOT_RUNNING), ending.receipt
        if receipt and (receipt.request_id, receipt.session_id) != (turn.begun.request_id, turn.begun.session_id):
            raise StoreConflictError(NOT_ITS_RECEIPT)
        kept = self._kept[turn.begun.session_id]
        if receipt and receipt.previous_hash != kept.chain:
            return False
        turn.append(ending.last)
        turn.state, turn.ended_at = ending.state, ending.ended_at
        kept.touch(ending.ended_at)
        kept.messages.extend(ending.messages)
        sizes = [stored_size(message.to_json()) for message in ending.messages]
        kept.sizes.extend(sizes)
        stored = turn.stored_bytes + sum(sizes) + (stored_size(receipt.body) if receipt else 0)
        kept.stored_bytes += stored
        self._usage[kept.begun.owner] = self._usage.get(kept.begun.owner, 0) + stored
        if receipt:
            kept.receipts.append(receipt)
            turn.receipt = receipt
        return True

    async def item(self, request_id: str, item_id: str) -> str | None:
        """What was kept under this id of a turn."""
        self._check()
        turn = self._turns.get(request_id)
        return turn.items.get(item_id) if turn and turn.items else None

    async def history(self, session_id: str, *, limit: int, max_bytes: int = HISTORY_BYTES) -> Sequence[ChatMessage]:
        """The last messages of a session that fit, the oldest of them first."""
        self._check()
        kept = self._kept.get(session_id)
        return kept.last(limit, max_bytes) if kept else []

    async def last_receipt_hash(self, session_id: str) -> str | None:
        """The hash that the session's next receipt has to name."""
        self._check()
        kept = self._kept.get(session_id)
        return kept.chain if kept else None

    async def receipts(self, session_id: str) -> list[ReceiptRecord]:
        """A session's receipts in the order of their chain."""
        self._check()
        kept = self._kept.get(session_id)
        return [*kept.receipts] if kept else []

    async def receipt(self, request_id: str) -> ReceiptRecord | None:
        """The receipt of one turn."""
        self._check()
        turn = self._turns.get(request_id)
        return turn.receipt if turn else None

    async def delete_user(self, owner: str, *, progress: DeletionProgress | None = None) -> DeletionCounts:  # noqa: ARG002 - one step
        """Delete everything of one owner."""
        erased = self._erase(lambda session: session.owner == owner)
        theirs = [digest for digest, token in self._tokens.items() if token.user == owner]
        for digest in theirs:
            del self._tokens[digest]
        return erased + DeletionCounts(tokens=len(theirs))

    async def expire(self, before: datetime, *, progress: DeletionProgress | None = None) -> DeletionCounts:  # noqa: ARG002 - one step
        """Delete the sessions that nothing has happened in since then."""
        return self._erase(lambda session: session.updated_at < before)

    async def put_token(self, token: TokenRecord) -> None:
        """Keep a new token."""
        self._check()
        if token.digest in self._tokens or any(kept.token_id == token.token_id for kept in self._tokens.values()):
            raise StoreConflictError(NOT_NEW)
        self._tokens[token.digest] = token
        self._requires_tokens = True

    async def token_by_digest(self, digest: str) -> TokenRecord | None:
        """The token of that hash."""
        self._check()
        return self._tokens.get(digest)

    async def tokens(self) -> list[TokenRecord]:
        """Every token, the oldest first."""
        self._check()
        return sorted(self._tokens.values(), key=lambda token: (token.created_at, token.token_id))

    async def revoke_token(self, token_id: str) -> bool:
        """Forget a token; False if there is none of that id."""
        self._check()
        found = [digest for digest, token in self._tokens.items() if token.token_id == token_id]
        for digest in found:
            del self._tokens[digest]
        return bool(found)

    async def requires_tokens(self) -> bool:
        """Whether any token was ever put since the last `allow_open`."""
        self._check()
        return self._requires_tokens

    async def allow_open(self) -> None:
        """Forget that tokens were used."""
        self._check()
        if self._tokens:
            raise StoreConflictError(HAS_TOKENS)
        self._requires_tokens = False

    def _check(self) -> None:
        if not self._is_open:
            raise StoreError(CLOSED)

    def _running_turns(self) -> Iterator[_Turn]:
        return (turn for turn in self._turns.values() if turn.state is TurnState.RUNNING)

    def _last_sign(self, turn: _Turn) -> float:
        """When the process of this turn was last known to be alive."""
        return max(self._beats.get(turn.begun.runner, -inf), turn.leased_at)

    def _running(self, request_id: str, otherwise: str) -> _Turn:
        turn = self._turns.get(request_id)
        if turn is None or turn.state is not TurnState.RUNNING:
            raise StoreConflictError(otherwise)
        return turn

    def _erase(self, chosen: Callable[[SessionRecord], bool]) -> DeletionCounts:
        self._check()
        doomed = [kept for kept in self._kept.values() if chosen(kept.session)]
        return sum((self._forget(kept) for kept in doomed), DeletionCounts())

    def _forget(self, kept: _Kept) -> DeletionCounts:
        del self._kept[kept.begun.session_id]
        self._usage[kept.begun.owner] = self._usage.get(kept.begun.owner, 0) - kept.stored_bytes
        packets = sum(len(self._turns.pop(request_id).packets) for request_id in kept.turns)
        return DeletionCounts(
            sessions=1,
            turns=len(kept.turns),
            packets=packets,
            messages=len(kept.messages),
            receipts=len(kept.receipts),
        )


def _oldest_first(turns: Iterable[_Turn]) -> list[TurnRecord]:
    return sorted((turn.record for turn in turns), key=lambda turn: (turn.created_at, turn.request_id))


def _place(session: SessionRecord) -> tuple[datetime, str]:
    return session.created_at, session.session_id
