"""What is plugged in: the shapes that the engine needs of its parts, and nothing about any of them."""

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Protocol, runtime_checkable

from accord.wire.agent_work import Permission, PermissionRequest
from accord.wire.conversation import ChatMessage
from accord.wire.manifest import CapabilityManifest
from accord.wire.session import (
    DeletionCounts,
    PacketRecord,
    ReceiptRecord,
    SessionRecord,
    TokenRecord,
    TurnRecord,
    TurnState,
)
from accord.wire.work import AnyPiece, WorkOrder


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


@runtime_checkable
class ManagedBackend(Backend, Protocol):
    """A backend that is a program of its own: reached before the first turn, ended after the last."""

    async def discover(self) -> CapabilityManifest:
        """What it says it can do, once it was asked; raises `BackendError` if it is not there."""
        ...

    async def aclose(self) -> None:
        """End it, and whatever it started."""
        ...


class EvidenceSource(Protocol):
    """Who says how well something is supported, and when that was said."""

    @property
    def source(self) -> str:
        """Who says so."""
        ...

    @property
    def date(self) -> str | None:
        """When, if that is known."""
        ...


@runtime_checkable
class DescribedBackend(Backend, Protocol):
    """A backend that can say which model it is and whose word each entry of its manifest is; receipts repeat it.

    Evidence that has changed is another object: what was written down of the former is then not taken for it.
    """

    @property
    def model(self) -> str | None:
        """The model, if it is one."""
        ...

    @property
    def evidence(self) -> Mapping[str, EvidenceSource]:
        """Whose word each entry of the manifest is."""
        ...


class Clock(Protocol):
    """Someone who knows the time."""

    def now(self) -> datetime:
        """The time of day, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back."""
        ...


class SystemClock:
    """Tells the time of the machine."""

    def now(self) -> datetime:
        """The time of day, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back."""
        return time.monotonic()


class PermissionChannel(Protocol):
    """A client that can be asked in the middle of its turn; doors that have a way back hand one in with each turn.

    The question is put once the client has the turn's first `after` packets, and not before. Whatever the client does
    becomes a `Permission`; nothing is raised but the cancellation of whoever waits, and then nobody is asked any more.
    """

    async def __call__(self, question: PermissionRequest, after: int) -> Permission:
        """What came of asking."""
        ...


@dataclass(frozen=True, slots=True)
class TurnStart:
    """A turn at its beginning: the turn already known by its request id, or what a new one has to know."""

    session: SessionRecord
    existing: TurnRecord | None = None
    history: Sequence[ChatMessage] = ()
    last_receipt_hash: str | None = None


@dataclass(slots=True)
class PacketBatch:
    """Packets that follow those that a turn has, numbered from `first_seq`, and items that they speak of."""

    request_id: str
    first_seq: int
    packets: Sequence[str]
    items: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(slots=True)
class TurnEnd:
    """How a turn ends, and what it leaves behind. A receipt that came too late is written anew."""

    last: PacketBatch
    state: TurnState
    ended_at: datetime
    messages: Sequence[ChatMessage] = ()
    receipt: ReceiptRecord | None = None


HISTORY_BYTES: Final = 1024 * 1024
"""How much of what was said before a turn is given, unless it is configured."""

Progress = Callable[[DeletionCounts], None]
"""Called with what a deletion has deleted so far."""


class Heartbeat(Protocol):
    """Writes heartbeats to a store from one thread, which is not the event loop's and waits for nobody there."""

    def beat(self, runner: str) -> None:
        """Write that this process is alive; raises `StoreError` if the storage fails."""
        ...

    def close(self) -> None:
        """Let go of the connection; closing twice is no error."""
        ...


class SessionStore(Protocol):
    """What is remembered. When a writing call returns, what it wrote survives `kill -9` and a power cut.

    A store belongs to the event loop that opened it and may share its data with other processes. Records bring their
    own times; only leases are by the storage's clock, which is the same for all processes. It raises `StoreError` when
    the storage fails, and `StoreConflictError` when what is to be written contradicts what is stored; then nothing of
    that call was written. A writing call that is cancelled is finished first: whoever is cancelled may look at once at
    what is kept.
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

    async def session(self, session_id: str) -> SessionRecord | None:
        """The session of that id. Whether the asker may see it is for the caller to decide, by its owner."""
        ...

    async def sessions(self, owner: str, *, limit: int, after: SessionRecord | None = None) -> list[SessionRecord]:
        """A page of an owner's sessions, the newest first, beginning after the last one of the page before."""
        ...

    async def begin_turn(
        self,
        session: SessionRecord,
        turn: TurnRecord,
        *,
        history: int,
        history_bytes: int = HISTORY_BYTES,
        quota_bytes: int | None = None,
    ) -> TurnStart:
        """Begin a turn in its session, which is kept if it is new and renewed if it is not, all or nothing.

        Of several callers with one request id, in whatever process, exactly one begins the turn; the others are given
        the turn already `known`, and then nothing is written. The caller compares owner and digest. A session keeps
        its capabilities when `session` declares none. Another owner's session is a conflict.

        A turn is given the last `history` messages that fit into `history_bytes`, each of them whole. One that is not
        known is refused with `RefusedError` if its owner has stored `quota_bytes` already, or if its session is being
        deleted.
        """
        ...

    async def turn(self, request_id: str) -> TurnRecord | None:
        """The turn of that request id."""
        ...

    def heartbeat(self) -> Heartbeat:
        """A connection of its own, for a thread that sends heartbeats."""
        ...

    async def abandoned(self, lease_s: float, *, runner: str, limit: int) -> list[TurnRecord]:
        """Running turns of processes other than `runner` that gave no sign of life for so long, the oldest first.

        A turn's beginning is a sign of life, and so is each heartbeat of its process. The storage's clock decides.
        """
        ...

    async def running(self, runner: str) -> list[TurnRecord]:
        """The running turns of one process, the oldest first."""
        ...

    async def request_cancel(self, request_id: str) -> bool:
        """Ask the process that runs this turn to cancel it; False if the turn does not run."""
        ...

    async def cancel_requests(self, runner: str) -> list[str]:
        """The running turns of this process that another one wants cancelled."""
        ...

    async def mark_read(self, request_id: str) -> None:
        """Write that a client of another process reads this turn now."""
        ...

    async def is_read(self, request_id: str, *, within_s: float) -> bool:
        """Whether a client of another process was reading this turn so short ago, by the storage's clock."""
        ...

    async def append_packets(self, new: PacketBatch) -> None:
        """Keep packets and items; a gap, a repetition or a turn that is over is a conflict."""
        ...

    async def packets(self, request_id: str, *, after_seq: int, limit: int) -> list[PacketRecord]:
        """The packets that follow `after_seq`, in order; 0 is before the first."""
        ...

    async def end_turn(self, ending: TurnEnd) -> bool:
        """End a running turn, with its last packets, its messages and its receipt, all or nothing.

        False, and nothing is written, if the receipt does not follow the session's last one: another turn ended in
        between, so read `last_receipt_hash` and seal the receipt again.
        """
        ...

    async def item(self, request_id: str, item_id: str) -> str | None:
        """What was kept under this id of a turn, for a client to fetch later."""
        ...

    async def history(self, session_id: str, *, limit: int, max_bytes: int = HISTORY_BYTES) -> Sequence[ChatMessage]:
        """The last messages of a session, the oldest of them first; fewer than `limit` if more would not fit."""
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

    async def delete_user(self, owner: str, *, progress: Progress | None = None) -> DeletionCounts:
        """Delete everything of one owner, tokens included.

        As with `expire`, the sessions disappear first, each at once and whole; their data is then deleted step by step,
        so that others can write meanwhile. `progress` is called after each step. What an interrupted deletion left is
        deleted by the next one, whatever that one deletes.
        """
        ...

    async def expire(self, before: datetime, *, progress: Progress | None = None) -> DeletionCounts:
        """Delete the sessions that nothing has happened in since then, whole, so that no chain is cut."""
        ...


class TokenStore(Protocol):
    """Whose tokens are good. It keeps hashes, never a token; what was revoked is not found again.

    It remembers that tokens were used after the last of them is gone: a service must not become open by itself.
    """

    async def put_token(self, token: TokenRecord) -> None:
        """Keep a new token; one with the same id or hash is a conflict."""
        ...

    async def token_by_digest(self, digest: str) -> TokenRecord | None:
        """The token of that hash. Whether it is expired is for the caller to decide."""
        ...

    async def tokens(self) -> list[TokenRecord]:
        """Every token, the oldest first, the expired ones too."""
        ...

    async def revoke_token(self, token_id: str) -> bool:
        """Forget a token; False if there is none of that id."""
        ...

    async def requires_tokens(self) -> bool:
        """Whether any token was ever put since the last `allow_open`; deleting tokens changes nothing."""
        ...

    async def allow_open(self) -> None:
        """Forget that tokens were used, so that callers need none; a conflict as long as there are tokens."""
        ...


class Store(SessionStore, TokenStore, Protocol):
    """Everything that one place remembers."""
