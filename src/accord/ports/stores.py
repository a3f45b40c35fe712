"""Stores of sessions, tokens, usage and slots, and the values that they are given and return."""

from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Final, NamedTuple, Protocol

import msgspec

from accord.wire.conversation import ChatMessage
from accord.wire.keys import KeyRules, UsageGroup, UsageRecord, UsageTotal
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


class RunStart(msgspec.Struct, frozen=True):
    """The start of a turn: the `existing` turn of the same request id, or the context of a new one."""

    session: SessionRecord
    existing: RunRecord | None = None
    history: Sequence[ChatMessage] = ()
    last_receipt_hash: str | None = None


class PacketBatch(msgspec.Struct):
    """Consecutive packets to append to a turn, numbered from `first_seq`, by the worker of this epoch."""

    request_id: str
    first_seq: int
    packets: Sequence[str]
    epoch: int = 0

    @property
    def last_seq(self) -> int:
        """The number of its last packet."""
        return self.first_seq + len(self.packets) - 1


class QueuedWork(msgspec.Struct, frozen=True):
    """What a worker needs to run a turn.

    `request` is a `ServiceRequest` as JSON. With `may_restart`, the turn of a worker that died is run again.
    `trace` is the W3C `traceparent` of the request. `reserved_micro` of the budget of the key `key_id`, which `holder`
    has reserved, are reserved for the turn instead until it has ended.
    """

    agent: str
    request: str
    streams: bool = True
    may_restart: bool = False
    trace: str | None = None
    key_id: str = ""
    reserved_micro: int = 0
    holder: str = ""


class ClaimedRun(msgspec.Struct, frozen=True):
    """A turn that a worker was given to run, or to end: its record has the worker's epoch.

    `work` is None for a turn that never was in the queue, since its process ran it directly.
    """

    turn: RunRecord
    session: SessionRecord
    work: QueuedWork | None
    history: Sequence[ChatMessage] = ()
    last_receipt_hash: str | None = None
    is_cancelled: bool = False
    waited_s: float = 0.0
    """How long ago it was put into the queue, by the storage's clock."""


class WaitingRuns(NamedTuple):
    """How many turns wait, and for how long the first of them has waited, by the storage's clock."""

    total: int
    oldest_s: float


class RunEnd(msgspec.Struct):
    """The end of a turn: its last packets, its final state, its messages and its receipt."""

    last: PacketBatch
    state: StoredState
    ended_at: datetime
    messages: Sequence[ChatMessage] = ()
    receipt: ReceiptRecord | None = None


class SessionRuns(NamedTuple):
    """How many turns a session has, and the last of them, oldest first, each with the bytes that it takes."""

    total: int
    last: Sequence[tuple[RunRecord, int]]


class RunProgress(NamedTuple):
    """How far a turn is: whether it runs, and the number of its last stored packet."""

    is_running: bool
    last_seq: int


class WholeRun(msgspec.Struct, frozen=True):
    """A run that is stored at once when it is over, with its packets and its receipt; one without a receipt runs.

    One that was stored before as running is replaced if `runner` still runs it.
    """

    turn: RunRecord
    receipt: ReceiptRecord | None = None
    packets: Sequence[str] = ()
    runner: str = ""


HISTORY_BYTES: Final = 4 * 1024 * 1024
"""The default limit of what was said before: the messages that a turn gets, the responses that a request continues."""


class StoredTotal(msgspec.Struct, frozen=True):
    """What the sessions of one kind hold: the bytes of what they contain, and when the oldest of them began."""

    kind: SessionKind
    sessions: int
    bytes: int
    oldest: datetime


DeletionProgress = Callable[[DeletionCounts], None]
"""Called with what a deletion has deleted so far."""


BEATS_PER_LEASE: Final = 3
"""How many heartbeats a process sends in the time after which it counts as dead."""


class Heartbeats(Protocol):
    """Tells other processes that this one is alive, from a thread, since an agent may block the event loop.

    Without heartbeats, others may end the turns of this process, take its slots and spend what it has reserved.
    """

    def start(self, runner: str, is_needed: Callable[[], bool], *, lease_s: float) -> None:
        """Send heartbeats under this name, the first after one interval, as long as this method says so."""
        ...

    def stop(self, runner: str) -> None:
        """Send no more under this name, without waiting for a heartbeat that is being written."""
        ...


class LeaseStore(Protocol):
    """A store of what belongs to a process for as long as it sends heartbeats."""

    @property
    def heartbeats(self) -> Heartbeats:
        """What sends the heartbeats of this process."""
        ...


class QueueStore(Protocol):
    """A store that several processes can share as a queue of turns."""

    async def queue_turn(
        self,
        session: SessionRecord,
        turn: RunRecord,
        work: QueuedWork,
        *,
        quota_bytes: int | None = None,
        max_running: int | None = None,
    ) -> RunStart:
        """Begin a turn as `begin_turn` does, but without a history: it waits for a worker.

        A new turn is also refused if its owner has `max_running` other turns that run or wait.
        """
        ...

    async def claim(self, agents: Sequence[str], *, runner: str, history: int, history_bytes: int) -> ClaimedRun | None:
        """Give the next waiting turn of these agents to `runner`, under a new epoch; None if there is none.

        Users take turns: one with many waiting turns does not delay the first turn of another. Of several callers, in
        any process, exactly one gets a turn.
        """
        ...

    async def queue_again(self, turn: RunRecord) -> bool:
        """Put a turn that `claim` or `take_over` gave to this epoch back to the front of the queue.

        False if the turn has ended or another process has it now.
        """
        ...

    async def waiting(self) -> WaitingRuns:
        """Return how many turns wait for a worker, and for how long."""
        ...


class SessionStore(LeaseStore, QueueStore, Protocol):
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
        """Begin a turn and create or update its session, atomically.

        `prompt` is what the client sent, to be read with `prompt()`: a JSON array of content blocks. Its `prompt_text`
        is the text of the turn's message by the user, if there is one.

        Of several callers with one request id, in any process, exactly one begins the turn; the others are given the
        `existing` turn, and nothing is written. The caller compares owner and digest. Another owner's session is a
        conflict.

        The history is that of the turn's conversation: of its owner's turns with the same `conversation_id` in any
        session, or of its session's turns without one. It is the last `history` messages that fit into `history_bytes`,
        each of them whole. A new turn is refused with `RefusedError` if its owner has already stored `quota_bytes`, or
        if its session is being deleted.
        """
        ...

    async def turn(self, request_id: str) -> RunRecord | None:
        """Return the turn of that request id."""
        ...

    async def session_turns(self, session_id: str, *, limit: int) -> SessionRuns:
        """Return the last turns of a session, at most `limit`."""
        ...

    async def prompt(self, request_id: str) -> bytes:
        """Return the prompt that is stored with a turn; empty if none is."""
        ...

    async def messages(self, session_id: str, *, limit: int, max_bytes: int) -> dict[str, list[ChatMessage]]:
        """Return what `history` does, by the request id of the turn that added each message."""
        ...

    async def clock_s(self) -> float:
        """Return the time of the storage's clock in seconds, by which it is decided what is too old."""
        ...

    async def abandoned(self, lease_s: float, *, runner: str, limit: int) -> list[RunRecord]:
        """Return running turns of other processes than `runner` without a heartbeat for `lease_s`, oldest first.

        The start of a turn counts as a heartbeat of its process. The storage's clock decides. Turns that wait in the
        queue are not abandoned.
        """
        ...

    async def take_over(self, turn: RunRecord, lease_s: float, *, runner: str) -> ClaimedRun | None:
        """Give an abandoned turn, or a turn of `runner` itself, to `runner` under a new epoch.

        From then on the process that had it can neither append to it nor end it. None if it is not abandoned any more,
        has ended, or was given to another process since `turn` was read.
        """
        ...

    async def turn_states(self, request_ids: Sequence[str]) -> dict[str, RunProgress]:
        """Return how far these turns are; those that do not exist are missing."""
        ...

    async def running(self, runner: str) -> list[RunRecord]:
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

    async def packets(
        self, request_id: str, *, after_seq: int, limit: int, max_bytes: int | None = None
    ) -> list[PacketRecord]:
        """Return the packets that follow `after_seq`, in order; 0 is before the first.

        With `max_bytes`, none if more than that is stored of the turn.
        """
        ...

    async def end_turn(self, ending: RunEnd) -> bool:
        """End a running turn with its last packets, its messages and its receipt, atomically.

        Returns False, and writes nothing, if the receipt does not follow the session's last one because another turn
        ended in between: read `last_receipt_hash` and seal the receipt again.
        """
        ...

    async def add_turns(self, session: SessionRecord, turns: Sequence[WholeRun]) -> None:
        """Store runs of one session in the order of their receipts, and create or update the session.

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

    async def receipts(self, session_id: str, *, after: int = 0, limit: int | None = None) -> list[ReceiptRecord]:
        """Return a session's receipts in the order of their chain, or only `limit` of them after the first `after`."""
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

    async def expire(
        self, before: datetime, *, calls: datetime | None = None, progress: DeletionProgress | None = None
    ) -> DeletionCounts:
        """Delete the sessions without activity since `before`, each as a whole, so that no chain is cut.

        `calls` is the time for sessions that hold calls of the model APIs, if it is another one.
        """
        ...

    async def check_quota(self, owner: str, quota_bytes: int) -> None:
        """Raise `RefusedError` if this owner has stored as much as the quota allows."""
        ...

    async def stored(self) -> list[StoredTotal]:
        """Return what the sessions hold, by kind."""
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


class BudgetClaim(msgspec.Struct, frozen=True):
    """What a process has reserved of a key's budget, and what it wants to reserve besides, in micro-dollars."""

    key_id: str
    budget: int
    since: date | None
    """The first day whose spending counts; None counts every day."""
    reserved: int
    wanted: Sequence[int] = ()
    """One amount for each request, the first that came first."""


class BudgetState(msgspec.Struct, frozen=True):
    """Which of the wanted amounts are reserved now, and what all processes have spent and reserved."""

    granted: Sequence[bool]
    spent: int
    reserved: int


class UsageStore(LeaseStore, Protocol):
    """Stores what was used, one row for each key, user, backend, model and day (UTC), and what is reserved of budgets.

    What a process has reserved counts for `lease_s` after it was written and after each heartbeat of the process. The
    storage's clock decides.
    """

    async def add_usage(
        self, rows: Sequence[UsageRecord], claims: Sequence[BudgetClaim] = (), *, holder: str = "", lease_s: float = 0
    ) -> list[BudgetState]:
        """Add these counts to those stored, then reserve for the process `holder`; all or none of this is stored.

        Of each claim, `reserved` replaces what the process had reserved, and of the amounts that are wanted each one is
        granted that fits into the budget beside what all processes have spent and reserved.
        """
        ...

    async def clock_s(self) -> float:
        """The time by which heartbeats are judged, in seconds."""
        ...

    async def probe(self) -> None:
        """Return if the storage answers; raise `StoreError` if not."""
        ...

    async def usage(
        self, *, by: UsageGroup, key: str | None = None, since: date | None = None, until: date | None = None
    ) -> list[UsageTotal]:
        """Add up usage by this group, sorted by name; of one key if given, from `since` to `until`, both included."""
        ...

    async def spent(self, key: str, since: date | None) -> int:
        """Return what this key has cost from this day on, in micro-dollars; None counts every day."""
        ...


class SlotRecord(msgspec.Struct, frozen=True):
    """A call of a backend that may be called only so many times at once, and the process that makes it."""

    backend: str
    slot_id: str
    holder: str


class SlotStore(LeaseStore, Protocol):
    """Stores the calls of backends that run or wait, of all processes, in the order in which they came.

    The first `limit` calls of a backend hold its slots; the others wait. A call counts for `lease_s` after it came and
    after each heartbeat of its process. The storage's clock decides.
    """

    async def take_slot(self, slot: SlotRecord, *, limit: int, lease_s: float) -> bool:
        """Add a call if fewer than `limit` run or wait; False if not, and then nothing is stored."""
        ...

    async def queue_slot(self, slot: SlotRecord) -> None:
        """Add a call behind those that run and wait."""
        ...

    async def held_slots(self, backend: str, *, limit: int, lease_s: float) -> list[str]:
        """Return the ids of the calls that hold a slot, oldest first."""
        ...

    async def free_slots(self, freed: Sequence[SlotRecord]) -> None:
        """Remove calls that have ended or wait no longer; unknown ones are ignored."""
        ...


class Store(SessionStore, TokenStore, UsageStore, SlotStore, Protocol):
    """A store of sessions, tokens, usage and slots."""
