"""What is remembered of a session: its facts, its turns, their packets and receipts. Where is not known here.

A session belongs to one owner, a turn to one session, everything else to one turn. Times are given by whoever
writes the record, and always carry their zone.
"""

from enum import StrEnum
from typing import Annotated, Any, NamedTuple

from pydantic import AwareDatetime, Field

from accord.wire.client import ClientCapabilities
from accord.wire.message import FreeObject, Message

MAX_ID_CHARS = 512

# PostgreSQL's text cannot hold U+0000, and an id that only one of the stores can hold would be a trap.
Id = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS, pattern=r"^[^\x00]+$")]
"""A name that a peer or the engine chose."""


class TurnState(StrEnum):
    """How far a turn has come. All but `running` are final."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class SessionRecord(Message, frozen=True):
    """A session as it was agreed: who talks to which agent, what the client declared, what was negotiated."""

    session_id: Id
    owner: Id
    agent: str
    capabilities: ClientCapabilities | None = Field(default=None, description="As declared; absent if nothing was.")
    negotiated: FreeObject = Field(default_factory=dict[str, Any])
    created_at: AwareDatetime
    updated_at: AwareDatetime


class TurnRecord(Message, frozen=True):
    """One request of a session, known by its id for ever: the same id is the same turn."""

    request_id: Id
    session_id: Id
    owner: Id
    request_digest: str = Field(description="Tells a repeated request from another one under the same id.")
    runner: Id = Field(description="The process that runs it, by a name that no other process ever had.")
    state: TurnState = TurnState.RUNNING
    last_seq: int = Field(default=0, ge=0, description="The number of the last packet kept; the first is 1.")
    created_at: AwareDatetime
    ended_at: AwareDatetime | None = None


class PacketRecord(NamedTuple):
    """One packet of a turn, as JSON text, with its place in the stream. Plain, since there is one for every word."""

    seq: int
    body: str


class ReceiptRecord(Message, frozen=True):
    """The sealed receipt of a turn, as the JSON text that was hashed, and the receipt of the session before it."""

    request_id: Id
    session_id: Id
    body: str
    hash: str
    previous_hash: str | None = None


class Erased(Message, frozen=True):
    """How much was deleted, kind by kind."""

    sessions: int = 0
    turns: int = 0
    packets: int = 0
    messages: int = 0
    receipts: int = 0
    tokens: int = 0

    def __add__(self, other: "Erased") -> "Erased":
        return Erased(**{name: getattr(self, name) + getattr(other, name) for name in Erased.model_fields})
