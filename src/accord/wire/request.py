"""The request and response envelopes (CAP), and the capabilities that a client declares. Unknown fields are ignored."""

from enum import StrEnum
from typing import Any
from uuid import UUID

from pydantic import AliasChoices, AliasPath, Field

from accord.wire.acp.content import ContentBlock
from accord.wire.manifest import CapabilityRequirements
from accord.wire.message import FreeObject, Message, UtcTime


class TextProfile(StrEnum):
    """How text without markdown is written: to be read or to be spoken."""

    PLAIN = "plain"
    SPEECH = "speech"


class SpeechFormat(StrEnum):
    """The format of text to be spoken."""

    TEXT = "text"
    SSML = "ssml"


class MinFidelity(StrEnum):
    """The lowest rung of the ladder that a strict client accepts."""

    NATIVE = "native"
    SIMPLIFIED = "simplified"
    SUBSTITUTED = "substituted"
    DESCRIBED = "described"


class AbsentList(list[str]):
    """The default of an absent list: empty, and never serialised."""


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
    text_profile: TextProfile | None = Field(default=None, description="How text without markdown is written.")
    speech_format: SpeechFormat | None = Field(
        default=None, description="ssml: text to be spoken is escaped, to be put between <speak> and </speak>."
    )
    min_fidelity: MinFidelity | None = Field(
        default=None, description="The stream ends with an error rather than with an event below this rung."
    )

    @property
    def declares_events(self) -> bool:
        """Whether `supported_events` was declared: absent means the standard set, `[]` means none."""
        return not _is_absent(self.supported_events)


class Identity(Message, frozen=True):
    """A user or an agent."""

    id: str
    name: str
    role: str | None = None


class SessionContext(Message, frozen=True):
    """The user, the session and, if named, the agent of a request."""

    session_id: str
    user: Identity
    agent: Identity | None = None


class AgentRequest(Message, frozen=True):
    """The request to the agent. The older shape `{session_id, payload: {input}, capabilities}` is accepted as well."""

    query: str = Field(validation_alias=AliasChoices("query", AliasPath("payload", "input")))
    files: list[str] = Field(default_factory=list[str])
    conversation_id: str | None = None
    meta: FreeObject = Field(default_factory=dict[str, Any])
    session_id: str | None = None
    capabilities: ClientCapabilities | None = None
    content: list[ContentBlock] | None = Field(default=None, fail_fast=True)  # of a million bad blocks, one is reported
    requirements: CapabilityRequirements | None = None


class ServiceRequest(Message, frozen=True):
    """One request, identified by its id."""

    request_id: UUID
    context: SessionContext
    payload: AgentRequest


class ServiceResponse(Message, frozen=True):
    """The complete result of one request."""

    request_id: UUID
    created_at: UtcTime
    output: FreeObject
    metrics: FreeObject | None = None
