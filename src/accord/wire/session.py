"""What stores keep: sessions, turns, packets, receipts and API tokens."""

import hashlib
import re
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from pydantic import AwareDatetime, Field

from accord.wire.message import Message
from accord.wire.request import ClientCapabilities

# What is remembered of a session: its facts, its turns, their packets and receipts. Where is not known here.
#
# A session belongs to one owner, a turn to one session, everything else to one turn. Times are given by whoever
# writes the record, and always carry their zone. Records never travel, and several are made for every turn: so they
# are plain, and nobody checks them but the engine that names them and the store that keeps them.

MAX_ID_CHARS = 512


# PostgreSQL's text cannot hold U+0000, and an id that only one of the stores can hold would be a trap.
Id = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS, pattern=r"^[^\x00]+$")]
"""A name that a peer or the engine chose."""


def is_id(name: str) -> bool:
    """The same, asked of a name that no message brought."""
    return 0 < len(name) <= MAX_ID_CHARS and "\0" not in name


class TurnState(StrEnum):
    """How far a turn has come. All but `running` are final."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


# `gc=False`: a record refers to nothing that could refer to it, so nobody needs to look for circles among millions.
class SessionRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A session as it was agreed: who talks to which agent, what the client declared, what was negotiated."""

    session_id: str
    owner: str
    agent: str
    capabilities: ClientCapabilities | None = None
    """As declared; absent if nothing was."""
    negotiated: dict[str, Any] = {}
    created_at: datetime
    updated_at: datetime


class TurnRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One request of a session, known by its id for ever: the same id is the same turn."""

    request_id: str
    session_id: str
    owner: str
    request_digest: str
    """Tells a repeated request from another one under the same id."""
    runner: str
    """The process that runs it, by a name that no other process ever had."""
    state: TurnState = TurnState.RUNNING
    last_seq: int = 0
    """The number of the last packet kept; the first is 1."""
    created_at: datetime
    ended_at: datetime | None = None


class PacketRecord(NamedTuple):
    """One packet of a turn, as JSON text, with its place in the stream. Plain, since there is one for every word."""

    seq: int
    body: str


class ReceiptRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The sealed receipt of a turn, as the JSON text that was hashed, and the receipt of the session before it."""

    request_id: str
    session_id: str
    body: str
    hash: str
    previous_hash: str | None = None


class DeletionCounts(Message, frozen=True):
    """How much was deleted, kind by kind."""

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


# A token of Accord's own, as it is kept: whose it is, how long it is good for, and the hash that it is found by.
#
# The secret itself is in no record. It is random and long, so one round of SHA-256 hides it: there is nothing to
# guess. Who makes tokens, and who lets their bearers in, is not known here.

PREFIX: Final = "accord_"
"""What every token begins with, so that people and secret scanners know one when they see it."""
SECRET_BYTES: Final = 32

_SHAPE: Final = re.compile(PREFIX + r"[A-Za-z0-9_-]{43}")


class TokenRecord(Message, frozen=True):
    """One token. Whoever shows it is `user`."""

    token_id: Id = Field(description="How it is called when it is listed or revoked.")
    user: Id
    label: Annotated[str, Field(max_length=200, pattern=r"^[^\x00]*$")] = ""
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] = Field(description="SHA-256 of the token.")
    created_at: AwareDatetime
    expires_at: AwareDatetime | None = Field(default=None, description="Absent: good until it is revoked.")

    def is_expired(self, now: datetime) -> bool:
        """Whether it is no longer good."""
        return self.expires_at is not None and now >= self.expires_at


def looks_like_token(text: str) -> bool:
    """Whether this could be one of ours; what could not need not be looked for."""
    return _SHAPE.fullmatch(text) is not None


def token_digest(token: str) -> str:
    """The hash that a token is kept and found by."""
    return hashlib.sha256(token.encode()).hexdigest()
