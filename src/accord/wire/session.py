"""The records that stores keep: sessions, turns, packets, receipts and API tokens.

A session belongs to one owner, a turn to one session, everything else to one turn. Times are set by the writer of the
record and always have a time zone. Records are not sent to peers, and several are made for every turn, so most are
plain structs without validation.
"""

import hashlib
import re
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from pydantic import AwareDatetime, Field

from accord.wire.keys import NO_RULES, KeyRules
from accord.wire.message import Message
from accord.wire.request import ClientCapabilities

MAX_ID_CHARS = 512


# PostgreSQL's text cannot hold U+0000; all stores accept the same ids.
Id = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS, pattern=r"^[^\x00]+$")]
"""An id chosen by a peer or the engine."""


def is_id(name: str) -> bool:
    """Whether this is a valid `Id`, for names that are not part of a message."""
    return 0 < len(name) <= MAX_ID_CHARS and "\0" not in name


class StoredState(StrEnum):
    """The state of a turn. All but `running` are final; the agent of a `refused` turn never ran."""

    RUNNING = "running"
    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"
    CANCELLED = "cancelled"


class SessionKind(StrEnum):
    """What a session holds: turns of agents, calls of the model APIs, or calls whose responses are stored."""

    TURNS = "turns"
    CALLS = "calls"
    RESPONSES = "responses"


# `gc=False`: a record refers to nothing that could refer back to it, so the collector need not scan millions of them.
class SessionRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A session: its owner; the agent, the client's declaration and what was negotiated, all of the last request."""

    session_id: str
    owner: str
    agent: str
    capabilities: ClientCapabilities | None = None
    """As declared; None if nothing was."""
    negotiated: dict[str, Any] = {}
    created_at: datetime
    updated_at: datetime
    kind: SessionKind = SessionKind.TURNS


class RunRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One turn of a session. A request id is never reused: the same id is the same turn."""

    request_id: str
    session_id: str
    owner: str
    request_digest: str
    """Distinguishes a repeated request from another one with the same id."""
    digest_version: int | None = None
    """How the digest was computed; None if that was not stored: for turns of earlier schemas, and for calls."""
    runner: str
    """The process that runs it, by a name that is unique among all processes; empty while it waits in the queue."""
    state: StoredState = StoredState.RUNNING
    last_seq: int = 0
    """The number of the last stored packet; the first is 1."""
    created_at: datetime
    ended_at: datetime | None = None
    capabilities: ClientCapabilities | None = None
    """What the client that sent the request declared; its view is the default one."""
    conversation_id: str | None = None
    """The conversation whose history the turn continues; None if that is its session's own."""
    epoch: int = 0
    """How many workers it was given to; 0 for a turn that never was in the queue."""
    prompt_bytes: int = 0
    """The size of the prompt that is stored with it; 0 if none is."""


class PacketRecord(NamedTuple):
    """One packet of a turn, as JSON text, with its number. A plain tuple, since there is one for every word."""

    seq: int
    body: str


class ReceiptRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The sealed receipt of a turn, as the JSON text that was hashed, and the hash of the receipt before it."""

    request_id: str
    session_id: str
    body: str
    hash: str
    previous_hash: str | None = None


class DeletionCounts(Message, frozen=True):
    """How many records of each kind were deleted."""

    sessions: int = 0
    turns: int = 0
    packets: int = 0
    messages: int = 0
    receipts: int = 0
    tokens: int = 0

    def __add__(self, other: "DeletionCounts") -> "DeletionCounts":
        return DeletionCounts(
            **{name: getattr(self, name) + getattr(other, name) for name in DeletionCounts.model_fields}
        )


# The secret of a token is in no record. It is random and long, so one round of SHA-256 hides it: it cannot be guessed.

PREFIX: Final = "accord_"
"""The prefix of every token, so that people and secret scanners recognise it."""
SECRET_BYTES: Final = 32

_SHAPE: Final = re.compile(PREFIX + r"[A-Za-z0-9_-]{43}")


class TokenRecord(Message, frozen=True):
    """An API token of Accord. Requests with it are made by `user`; its rules make it a virtual key."""

    token_id: Id = Field(description="Names the token when it is listed or revoked.")
    user: Id
    label: Annotated[str, Field(max_length=200, pattern=r"^[^\x00]*$")] = ""
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] = Field(description="SHA-256 of the token.")
    created_at: AwareDatetime
    expires_at: AwareDatetime | None = Field(default=None, description="Absent: valid until it is revoked.")
    rules: KeyRules | None = Field(default=None, description="Absent: everything that the service offers.")

    @property
    def limits(self) -> KeyRules:
        """The rules, which allow everything if there are none."""
        return self.rules or NO_RULES

    def is_expired(self, now: datetime) -> bool:
        """Whether the token has expired."""
        return self.expires_at is not None and now >= self.expires_at


def looks_like_token(text: str) -> bool:
    """Whether this has the form of a token of Accord; anything else need not be looked up."""
    return _SHAPE.fullmatch(text) is not None


def token_digest(token: str) -> str:
    """Return the hash under which a token is stored and found."""
    return hashlib.sha256(token.encode()).hexdigest()
