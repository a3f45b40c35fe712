"""The request and response envelopes (CAP), and the capabilities that a client declares. Unknown fields are ignored."""

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from pydantic import AliasChoices, AliasPath, Field

from accord.wire.acp.content import ContentBlock
from accord.wire.manifest import CapabilityRequirements
from accord.wire.message import FreeObject, Message

# What a client can show (CAP, smart content negotiation). What is made of it is decided by the adapter.


class TextProfile(StrEnum):
    """How text without markdown should read: for eyes or for ears."""

    PLAIN = "plain"
    SPEECH = "speech"


class SpeechFormat(StrEnum):
    """How text for a voice is written."""

    TEXT = "text"
    SSML = "ssml"


class MinFidelity(StrEnum):
    """The lowest rung of the ladder that a strict client takes."""

    NATIVE = "native"
    SIMPLIFIED = "simplified"
    SUBSTITUTED = "substituted"
    DESCRIBED = "described"


class AbsentList(list[str]):
    """The empty list that stands for an absent one; it is never written."""


def _is_absent(events: list[str]) -> bool:
    return type(events) is AbsentList


class ClientCapabilities(Message, frozen=True):
    """The rendering capabilities that a client declares with its request."""

    supported_events: list[str] = Field(
        default_factory=AbsentList,
        exclude_if=_is_absent,
        description="Event types the client can render, in any letter case. Absent: the standard set.",
    )
    prefers_markdown: bool = Field(default=True, description="False asks for plain text.")
    image_resolution: str | None = Field(default=None, description="low, high or auto; anything else counts as auto.")
    text_profile: TextProfile | None = Field(default=None, description="How text without markdown should read.")
    speech_format: SpeechFormat | None = Field(
        default=None, description="ssml: text for a voice is escaped, to stand between <speak> and </speak>."
    )
    min_fidelity: MinFidelity | None = Field(
        default=None, description="Ends the stream with an error rather than show an event below this rung."
    )

    @property
    def declares_events(self) -> bool:
        """Whether `supported_events` was said at all: silence means the standard set, `[]` means none."""
        return not _is_absent(self.supported_events)


# The envelope that asks (CAP): who, in which session, and what. Unknown fields are ignored.


class Identity(Message, frozen=True):
    """A user or an agent."""

    id: str
    name: str
    role: str | None = None


class SessionContext(Message, frozen=True):
    """Who is asking, in which session; kept apart from the work itself."""

    session_id: str
    user: Identity
    agent: Identity | None = None


class AgentRequest(Message, frozen=True):
    """The work itself. The older shape `{session_id, payload: {input}, capabilities}` is read as well."""

    query: str = Field(validation_alias=AliasChoices("query", AliasPath("payload", "input")))
    files: list[str] = Field(default_factory=list[str])
    conversation_id: str | None = None
    meta: FreeObject = Field(default_factory=dict[str, Any])
    session_id: str | None = None
    capabilities: ClientCapabilities | None = None
    content: list[ContentBlock] | None = Field(default=None, fail_fast=True)  # of a million bad blocks, one is told
    requirements: CapabilityRequirements | None = None


class ServiceRequest(Message, frozen=True):
    """One request, traceable by its id."""

    request_id: UUID
    context: SessionContext
    payload: AgentRequest


# The envelope that answers at once (CAP).


class ServiceResponse(Message, frozen=True):
    """The whole result of one request."""

    request_id: UUID
    created_at: datetime
    output: FreeObject
    metrics: FreeObject | None = None
