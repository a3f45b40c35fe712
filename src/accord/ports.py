"""What is plugged in: the shapes that the engine needs of its parts, and nothing about any of them."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Protocol

from accord.wire.answer import AnyPiece
from accord.wire.chat import ChatMessage
from accord.wire.manifest import CapabilityManifest
from accord.wire.session import Erased, PacketRecord, ReceiptRecord, SessionRecord, TurnRecord, TurnState
from accord.wire.work import WorkOrder


class Backend(Protocol):
    """Someone who answers.

    `answer` gives pieces of an answer, an `EndPiece` last, or raises `BackendError`. Closing the iterator stops the
    work at once. `probe` returns if the backend can be reached, and raises `BackendError` if it cannot.
    """

    @property
    def name(self) -> str:
        """What the operator calls it."""
        ...

    @property
    def manifest(self) -> CapabilityManifest:
        """What it says it can do."""
        ...

    def answer(self, order: WorkOrder) -> AsyncIterator[AnyPiece]:
        """The answer to this work, piece by piece."""
        ...

    async def probe(self) -> None:
        """Whether it can be reached."""
        ...


class Clock(Protocol):
    """Someone who knows the time."""

    def now(self) -> datetime:
        """The time of day, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back."""
        ...


class SessionStore(Protocol):
    """What is remembered. When a writing call returns, what it wrote survives `kill -9` and a power cut.

    A store belongs to the event loop that opened it, owns no clock, and may share its data with other processes. It
    raises `StoreError` when the storage fails, and `StoreConflictError` when what is to be written contradicts what
    is stored; then nothing of that call was written. A writing call that is cancelled is finished first: whoever is
    cancelled may look at once at what is kept.
    """

    async def open(self) -> None:
        """Make the store ready, bringing its schema up to date. Several processes may do so at once."""
        ...

    async def close(self) -> None:
        """Finish what was begun and let go of everything; closing twice is no error."""
        ...

    async def probe(self) -> None:
        """Return if the storage answers; raise `StoreError` if not."""
        ...

    async def put_session(self, session: SessionRecord) -> None:
        """Keep a session, or renew the one of that id; another owner's session is a conflict."""
        ...

    async def session(self, session_id: str) -> SessionRecord | None:
        """The session of that id. Whether the asker may see it is for the caller to decide, by its owner."""
        ...

    async def sessions(self, owner: str, *, limit: int, after: SessionRecord | None = None) -> list[SessionRecord]:
        """A page of an owner's sessions, the newest first, beginning after the last one of the page before."""
        ...

    async def begin_turn(self, turn: TurnRecord) -> TurnRecord | None:
        """None if the turn is new and now the caller's to run; otherwise the turn already known by that request id.

        Of several callers, in whatever process, exactly one is told None. The caller compares owner and digest.
        """
        ...

    async def turn(self, request_id: str) -> TurnRecord | None:
        """The turn of that request id."""
        ...

    async def unfinished(self, before: datetime, *, limit: int) -> list[TurnRecord]:
        """Turns still running that began before then, the oldest first: what a killed process left behind."""
        ...

    async def append_packets(self, request_id: str, first_seq: int, packets: Sequence[str]) -> None:
        """Keep packets, numbered from `first_seq`; a gap, a repetition or a turn that is over is a conflict."""
        ...

    async def packets(self, request_id: str, *, after_seq: int, limit: int) -> list[PacketRecord]:
        """The packets that follow `after_seq`, in order; 0 is before the first."""
        ...

    async def end_turn(
        self,
        request_id: str,
        state: TurnState,
        ended_at: datetime,
        *,
        messages: Sequence[ChatMessage] = (),
        receipt: ReceiptRecord | None = None,
    ) -> bool:
        """End a running turn, with its messages and its receipt, all or nothing.

        False, and nothing is written, if the receipt does not follow the session's last one: another turn ended in
        between, so read `last_receipt_hash` and seal the receipt again.
        """
        ...

    async def history(self, session_id: str, *, limit: int) -> list[ChatMessage]:
        """The last messages of a session, the oldest of them first."""
        ...

    async def last_receipt_hash(self, session_id: str) -> str | None:
        """The hash that the session's next receipt has to name."""
        ...

    async def receipts(self, session_id: str) -> list[ReceiptRecord]:
        """A session's receipts in the order of their chain."""
        ...

    async def receipt(self, request_id: str) -> ReceiptRecord | None:
        """The receipt of one turn."""
        ...

    async def delete_user(self, owner: str) -> Erased:
        """Delete everything of one owner."""
        ...

    async def expire(self, before: datetime) -> Erased:
        """Delete the sessions that nothing has happened in since then, whole, so that no chain is cut."""
        ...
