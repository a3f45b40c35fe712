"""The store that forgets: everything in this process, gone with it. For tests, demos and where nothing may be kept.

It keeps the same contract as the others, but for the one thing it cannot: what it acknowledged survives nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from accord.errors import StoreConflictError, StoreError
from accord.stores.told import CLOSED, NO_SESSION, NOT_ITS_RECEIPT, NOT_NEXT, NOT_RUNNING, NOT_YOURS
from accord.wire.chat import ChatMessage
from accord.wire.session import Erased, PacketRecord, ReceiptRecord, SessionRecord, TurnRecord, TurnState


@dataclass(slots=True)
class _Kept:
    """A session and what belongs to it."""

    session: SessionRecord
    turns: set[str] = field(default_factory=set[str])
    messages: list[ChatMessage] = field(default_factory=list[ChatMessage])
    receipts: list[ReceiptRecord] = field(default_factory=list[ReceiptRecord])

    @property
    def chain(self) -> str | None:
        return self.receipts[-1].hash if self.receipts else None

    def touch(self, at: datetime) -> None:
        if at > self.session.updated_at:
            self.session = self.session.model_copy(update={"updated_at": at})


class MemoryStore:
    """Sessions in this process's memory. Every call runs to its end without yielding, so each is atomic."""

    def __init__(self) -> None:
        self._is_open = False
        self._kept: Final[dict[str, _Kept]] = {}
        self._turns: Final[dict[str, TurnRecord]] = {}
        self._packets: Final[dict[str, list[str]]] = {}
        self._receipts: Final[dict[str, ReceiptRecord]] = {}

    async def open(self) -> None:
        """Be ready."""
        self._is_open = True

    async def close(self) -> None:
        """Take no more calls; what is kept stays until the object goes."""
        self._is_open = False

    async def probe(self) -> None:
        """Return if the store is open."""
        self._check()

    async def put_session(self, session: SessionRecord) -> None:
        """Keep a session, or renew the one of that id."""
        self._check()
        kept = self._kept.get(session.session_id)
        if kept is None:
            self._kept[session.session_id] = _Kept(session)
        elif kept.session.owner != session.owner:
            raise StoreConflictError(NOT_YOURS)
        else:
            kept.session = session.model_copy(update={"created_at": kept.session.created_at})

    async def session(self, session_id: str) -> SessionRecord | None:
        """The session of that id."""
        self._check()
        kept = self._kept.get(session_id)
        return kept.session if kept else None

    async def sessions(self, owner: str, *, limit: int, after: SessionRecord | None = None) -> list[SessionRecord]:
        """A page of an owner's sessions, the newest first."""
        self._check()
        theirs = sorted((kept.session for kept in self._kept.values() if kept.session.owner == owner), key=_place)
        older = theirs if after is None else [session for session in theirs if _place(session) < _place(after)]
        return older[::-1][:limit]

    async def begin_turn(self, turn: TurnRecord) -> TurnRecord | None:
        """None if the turn is new, else the turn that has its request id."""
        self._check()
        kept = self._kept.get(turn.session_id)
        if kept is None or kept.session.owner != turn.owner:
            raise StoreConflictError(NO_SESSION)
        kept.touch(turn.created_at)
        if known := self._turns.get(turn.request_id):
            return known
        self._turns[turn.request_id] = turn
        self._packets[turn.request_id] = []
        kept.turns.add(turn.request_id)
        return None

    async def turn(self, request_id: str) -> TurnRecord | None:
        """The turn of that request id."""
        self._check()
        return self._turns.get(request_id)

    async def unfinished(self, before: datetime, *, limit: int) -> list[TurnRecord]:
        """Turns still running that began before then."""
        self._check()
        running = (turn for turn in self._turns.values() if turn.state is TurnState.RUNNING)
        left = [turn for turn in running if turn.created_at < before]
        return sorted(left, key=lambda turn: (turn.created_at, turn.request_id))[:limit]

    async def append_packets(self, request_id: str, first_seq: int, packets: Sequence[str]) -> None:
        """Keep packets, numbered from `first_seq`."""
        self._check()
        turn = self._turns.get(request_id)
        if turn is None or turn.state is not TurnState.RUNNING or first_seq != turn.last_seq + 1:
            raise StoreConflictError(NOT_NEXT)
        self._packets[request_id].extend(packets)
        self._turns[request_id] = turn.model_copy(update={"last_seq": turn.last_seq + len(packets)})

    async def packets(self, request_id: str, *, after_seq: int, limit: int) -> list[PacketRecord]:
        """The packets that follow `after_seq`."""
        self._check()
        rest = self._packets.get(request_id, [])[after_seq : after_seq + limit]
        return [PacketRecord(seq=seq, body=body) for seq, body in enumerate(rest, start=after_seq + 1)]

    async def end_turn(
        self,
        request_id: str,
        state: TurnState,
        ended_at: datetime,
        *,
        messages: Sequence[ChatMessage] = (),
        receipt: ReceiptRecord | None = None,
    ) -> bool:
        """End a running turn; False if its receipt does not follow the session's last one."""
        self._check()
        turn = self._turns.get(request_id)
        if turn is None or turn.state is not TurnState.RUNNING:
            raise StoreConflictError(NOT_RUNNING)
        if receipt and (receipt.request_id, receipt.session_id) != (turn.request_id, turn.session_id):
            raise StoreConflictError(NOT_ITS_RECEIPT)
        kept = self._kept[turn.session_id]
        if receipt and receipt.previous_hash != kept.chain:
            return False
        self._turns[request_id] = turn.model_copy(update={"state": state, "ended_at": ended_at})
        kept.touch(ended_at)
        kept.messages.extend(messages)
        if receipt:
            kept.receipts.append(receipt)
            self._receipts[request_id] = receipt
        return True

    async def history(self, session_id: str, *, limit: int) -> list[ChatMessage]:
        """The last messages of a session, the oldest of them first."""
        self._check()
        kept = self._kept.get(session_id)
        return kept.messages[-limit:] if kept and limit else []

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
        return self._receipts.get(request_id)

    async def delete_user(self, owner: str) -> Erased:
        """Delete everything of one owner."""
        return self._erase(lambda session: session.owner == owner)

    async def expire(self, before: datetime) -> Erased:
        """Delete the sessions that nothing has happened in since then."""
        return self._erase(lambda session: session.updated_at < before)

    def _check(self) -> None:
        if not self._is_open:
            raise StoreError(CLOSED)

    def _erase(self, chosen: Callable[[SessionRecord], bool]) -> Erased:
        self._check()
        doomed = [kept for kept in self._kept.values() if chosen(kept.session)]
        return sum((self._forget(kept) for kept in doomed), Erased())

    def _forget(self, kept: _Kept) -> Erased:
        del self._kept[kept.session.session_id]
        packets = 0
        for request_id in kept.turns:
            del self._turns[request_id]
            packets += len(self._packets.pop(request_id))
            self._receipts.pop(request_id, None)
        return Erased(
            sessions=1,
            turns=len(kept.turns),
            packets=packets,
            messages=len(kept.messages),
            receipts=len(kept.receipts),
        )


def _place(session: SessionRecord) -> tuple[datetime, str]:
    return session.created_at, session.session_id
