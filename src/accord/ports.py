"""The interfaces of the parts that the engine is given: backends, clock, permission channel, stores.

Only protocols and the values that they exchange; the implementations are in `backends/`, `stores/` and `servers/`.
"""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from accord.wire.agent_work import Permission, PermissionRequest
from accord.wire.conversation import ChatMessage, ConversationMessage
from accord.wire.keys import KeyRules, UsageGroup, UsageRecord, UsageTotal
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
    """A backend that answers work orders.

    `answer` yields pieces of an answer, an `EndPiece` last, or raises `BackendError`. Closing the iterator stops the
    work at once. `probe` returns if the backend can be reached, and raises `BackendError` if it cannot.
    """

    @property
    def name(self) -> str:
        """The name in the configuration."""
        ...

    @property
    def manifest(self) -> CapabilityManifest:
        """The capabilities that it declares."""
        ...

    def answer(self, order: WorkOrder) -> AsyncIterator[AnyPiece]:
        """Answer a work order, piece by piece."""
        ...

    async def probe(self) -> None:
        """Check that it can be reached."""
        ...


@runtime_checkable
class ManagedBackend(Backend, Protocol):
    """A backend that runs as a process of its own: it is started before the first turn and ended after the last."""

    async def discover(self) -> CapabilityManifest:
        """Start it and return the manifest that it declares; raises `BackendError` if it cannot be started."""
        ...

    async def aclose(self) -> None:
        """End it, and every process that it started."""
        ...


@runtime_checkable
class ResendingBackend(Backend, Protocol):
    """A backend that sends a failed request again by itself, after a wait."""

    def answer_once(self, order: WorkOrder) -> AsyncIterator[AnyPiece]:
        """Answer as `answer` does, but raise the first failure: another backend can be tried at once."""
        ...


class EvidenceSource(Protocol):
    """Where a support level comes from, and its date."""

    @property
    def source(self) -> str:
        """The operator, a table of model facts, a probe, or the endpoint itself."""
        ...

    @property
    def date(self) -> str | None:
        """The date, if it is known."""
        ...


@runtime_checkable
class DescribedBackend(Backend, Protocol):
    """A backend that names its model and the evidence for each entry of its manifest; receipts repeat both.

    Changed evidence must be a new object: receipts cache what they wrote by identity.
    """

    @property
    def model(self) -> str | None:
        """The model, if the backend is one."""
        ...

    @property
    def evidence(self) -> Mapping[str, EvidenceSource]:
        """The evidence for each entry of the manifest."""
        ...


class OpenReply(Protocol):
    """The open reply of an endpoint to a request that was passed on."""

    @property
    def is_stream(self) -> bool:
        """Whether it is a stream of events."""
        ...

    @property
    def summary(self) -> Any:
        """What was read so far: `id`, `finish_reasons`, `model`, `usage`, and the `counts` that usage is made of."""
        ...

    async def whole(self) -> bytes:
        """The whole answer."""
        ...

    def blocks(self) -> AsyncGenerator[bytes, None]:
        """The events of a stream, as many at a time as have arrived."""
        ...

    async def close(self) -> None:
        """Close the reply."""
        ...


@runtime_checkable
class RelayingBackend(Backend, Protocol):
    """A backend that takes requests of the API it speaks as they are."""

    @property
    def api_name(self) -> str:
        """The API that it speaks."""
        ...

    async def relay(self, body: dict[str, Any], headers: Mapping[str, str], *, may_resend: bool = False) -> OpenReply:
        """Send a request as it is, but for the model; with `may_resend` again after a failure that may pass."""
        ...

    def count_answers(self, data: bytes) -> int:
        """How many answers a whole answer of this API has."""
        ...

    def read_pieces(self, data: bytes, *, streamed: bool) -> Sequence[AnyPiece]:
        """The pieces of a whole answer of this API."""
        ...

    def with_messages(self, body: dict[str, Any], added: Sequence[ConversationMessage]) -> dict[str, Any]:
        """The body with further messages at the end of its conversation."""
        ...


@runtime_checkable
class CountingBackend(Backend, Protocol):
    """A backend whose endpoint may be able to count the tokens of a request of the messages API."""

    @property
    def can_count(self) -> bool:
        """Whether it can."""
        ...

    async def count_tokens(self, body: dict[str, Any], headers: Mapping[str, str]) -> int:
        """Return the number of input tokens; raises `BackendError` if the endpoint does not say."""
        ...


class Clock(Protocol):
    """The time of day and a monotonic clock."""

    def now(self) -> datetime:
        """The time of day, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment; never goes back."""
        ...


class SystemClock:
    """The clock of the operating system."""

    def now(self) -> datetime:
        """The time of day, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment; never goes back."""
        return time.monotonic()


class PermissionChannel(Protocol):
    """Requests permissions from the client of a running turn; a transport that can reach its client passes one in.

    The request is sent once the client has received the first `after` packets of the turn. Every outcome is a
    `Permission`; the only exception is the cancellation of the caller, which withdraws the request.
    """

    async def __call__(self, question: PermissionRequest, after: int) -> Permission:
        """Request a permission and return the outcome."""
        ...


class TurnStart(msgspec.Struct, frozen=True):
    """The start of a turn: the `existing` turn of the same request id, or the context of a new one."""

    session: SessionRecord
    existing: TurnRecord | None = None
    history: Sequence[ChatMessage] = ()
    last_receipt_hash: str | None = None


class PacketBatch(msgspec.Struct):
    """Consecutive packets to append to a turn, numbered from `first_seq`."""

    request_id: str
    first_seq: int
    packets: Sequence[str]


class TurnEnd(msgspec.Struct):
    """The end of a turn: its last packets, its final state, its messages and its receipt."""

    last: PacketBatch
    state: TurnState
    ended_at: datetime
    messages: Sequence[ChatMessage] = ()
    receipt: ReceiptRecord | None = None


class WholeTurn(msgspec.Struct, frozen=True):
    """A turn that is stored only when it is over: its record with its final state, its packets and its receipt."""

    turn: TurnRecord
    receipt: ReceiptRecord
    packets: Sequence[str] = ()


HISTORY_BYTES: Final = 1024 * 1024
"""The default limit of the messages that a turn is given as its history."""

DeletionProgress = Callable[[DeletionCounts], None]
"""Called with what a deletion has deleted so far."""


class Heartbeat(Protocol):
    """Writes heartbeats to a store from a thread of its own, without waiting for the event loop."""

    def beat(self, runner: str) -> None:
        """Write that this process is alive; raises `StoreError` if the storage fails."""
        ...

    def close(self) -> None:
        """Close the connection; closing twice is no error."""
        ...


class SessionStore(Protocol):
    """Stores sessions, turns, packets and receipts. What a returned call has written survives `kill -9` and power loss.

    A store belongs to the event loop that opened it and may share its data with other processes. Callers set the times
    of records; only leases use the storage's clock, which is the same for all processes. It raises `StoreError` when
    the storage fails, and `StoreConflictError` when a write contradicts what is stored; then nothing of that call was
    written. A write that is cancelled completes first, so that the cancelled caller can read its result.
    """

    async def open(self) -> None:
        """Open the store and migrate its schema. Several processes may do so at once."""
        ...

    async def close(self) -> None:
        """Finish pending writes and close every connection; closing twice is no error."""
        ...

    async def probe(self) -> None:
        """Return if the storage answers; raise `StoreError` if not."""
        ...

    async def session(self, session_id: str) -> SessionRecord | None:
        """Return the session of that id. The caller checks its owner."""
        ...

    async def sessions(self, owner: str, *, limit: int, after: SessionRecord | None = None) -> list[SessionRecord]:
        """Return a page of an owner's sessions, newest first; `after` is the last session of the page before."""
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
        """Begin a turn and create or update its session, atomically.

        Of several callers with one request id, in any process, exactly one begins the turn; the others are given the
        `existing` turn, and nothing is written. The caller compares owner and digest. Another owner's session is a
        conflict.

        The history is that of the turn's conversation: of its owner's turns with the same `conversation_id` in any
        session, or of its session's turns without one. It is the last `history` messages that fit into `history_bytes`,
        each of them whole. A new turn is refused with `RefusedError` if its owner has already stored `quota_bytes`, or
        if its session is being deleted.
        """
        ...

    async def turn(self, request_id: str) -> TurnRecord | None:
        """Return the turn of that request id."""
        ...

    def heartbeat(self) -> Heartbeat:
        """Open a separate connection for a thread that sends heartbeats."""
        ...

    async def abandoned(self, lease_s: float, *, runner: str, limit: int) -> list[TurnRecord]:
        """Return running turns of other processes than `runner` without a heartbeat for `lease_s`, oldest first.

        The start of a turn counts as a heartbeat of its process. The storage's clock decides.
        """
        ...

    async def running(self, runner: str) -> list[TurnRecord]:
        """Return the running turns of one process, oldest first."""
        ...

    async def request_cancel(self, request_id: str) -> bool:
        """Ask the process that runs this turn to cancel it; False if the turn is not running."""
        ...

    async def cancel_requests(self, runner: str) -> list[str]:
        """Return the running turns of this process that another process wants cancelled."""
        ...

    async def mark_read(self, request_id: str) -> None:
        """Record that a client of another process is reading this turn now."""
        ...

    async def is_read(self, request_id: str, *, within_s: float) -> bool:
        """Whether a client of another process was reading this turn within `within_s`, by the storage's clock."""
        ...

    async def append_packets(self, new: PacketBatch) -> None:
        """Append packets; a gap, a repetition or a turn that has ended is a conflict."""
        ...

    async def packets(self, request_id: str, *, after_seq: int, limit: int) -> list[PacketRecord]:
        """Return the packets that follow `after_seq`, in order; 0 is before the first."""
        ...

    async def end_turn(self, ending: TurnEnd) -> bool:
        """End a running turn with its last packets, its messages and its receipt, atomically.

        Returns False, and writes nothing, if the receipt does not follow the session's last one because another turn
        ended in between: read `last_receipt_hash` and seal the receipt again.
        """
        ...

    async def add_turns(self, session: SessionRecord, turns: Sequence[WholeTurn]) -> None:
        """Store turns of one session that are over, in the order of their receipts, and create or update the session.

        All of them or none: a request id that is known, or a first receipt that does not follow the session's last
        one, is a conflict.
        """
        ...

    async def history(self, session_id: str, *, limit: int, max_bytes: int = HISTORY_BYTES) -> Sequence[ChatMessage]:
        """Return the last messages of a session, of all its conversations, oldest first.

        At most `limit`, and as many as fit `max_bytes`.
        """
        ...

    async def last_receipt_hash(self, session_id: str) -> str | None:
        """Return the hash that the session's next receipt has to name."""
        ...

    async def receipts(self, session_id: str) -> list[ReceiptRecord]:
        """Return a session's receipts in the order of their chain."""
        ...

    async def receipt(self, request_id: str) -> ReceiptRecord | None:
        """Return the receipt of one turn."""
        ...

    async def delete_user(self, owner: str, *, progress: DeletionProgress | None = None) -> DeletionCounts:
        """Delete everything of one owner, tokens included. Usage stays, without key and user, so that costs add up.

        As with `expire`, each session disappears at once; its data is then deleted step by step, so that other writes
        can proceed. `progress` is called after each step. The next deletion, of whatever, completes an interrupted one.
        """
        ...

    async def expire(self, before: datetime, *, progress: DeletionProgress | None = None) -> DeletionCounts:
        """Delete the sessions without activity since `before`, each as a whole, so that no chain is cut."""
        ...


class TokenStore(Protocol):
    """Stores the hashes of API tokens, never a token itself.

    It remembers that tokens were used after the last one is gone: deleting tokens must not open the service.
    """

    async def put_token(self, token: TokenRecord) -> None:
        """Store a new token; one with the same id or hash is a conflict."""
        ...

    async def token_by_digest(self, digest: str) -> TokenRecord | None:
        """Return the token of that hash. The caller checks its expiry."""
        ...

    async def tokens(self) -> list[TokenRecord]:
        """Return every token, oldest first, expired ones included."""
        ...

    async def revoke_token(self, token_id: str) -> bool:
        """Delete a token; False if there is none of that id."""
        ...

    async def set_token_rules(self, token_id: str, rules: KeyRules | None) -> bool:
        """Replace the rules of a token; False if there is none of that id."""
        ...

    async def requires_tokens(self) -> bool:
        """Whether any token was stored since the last `allow_open`; deleting tokens changes nothing."""
        ...

    async def allow_open(self) -> None:
        """Accept requests without tokens again; a conflict as long as there are tokens."""
        ...


class BackendPrice(Protocol):
    """What a backend costs, in micro-dollars."""

    def cost(self, usage: Mapping[str, Any] | None) -> int | None:
        """The cost of an answer by the usage of its end; None if that is not known."""
        ...

    def estimate(self, input_tokens: int, max_output_tokens: int | None = None) -> int:
        """About what a request will cost, before it is sent."""
        ...


class UsageStore(Protocol):
    """Stores what was used: one row for each key, user, backend, model and day (UTC)."""

    async def add_usage(self, rows: Sequence[UsageRecord]) -> None:
        """Add these counts to those stored, all or none."""
        ...

    async def usage(
        self, *, by: UsageGroup, key: str | None = None, since: date | None = None, until: date | None = None
    ) -> list[UsageTotal]:
        """Add up usage by this group, sorted by name; of one key if given, from `since` to `until`, both included."""
        ...

    async def spent(self, key: str, since: date | None) -> int:
        """Return what this key has cost from this day on, in micro-dollars; None counts every day."""
        ...


class Store(SessionStore, TokenStore, UsageStore, Protocol):
    """A store of sessions, tokens and usage."""
