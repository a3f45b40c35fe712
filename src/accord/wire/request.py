"""The envelope that asks (CAP): who, in which session, and what. Unknown fields are ignored."""

from typing import Any
from uuid import UUID

from pydantic import AliasChoices, AliasPath, Field

from accord.wire.acp.content import ContentBlock
from accord.wire.client import ClientCapabilities
from accord.wire.message import FreeObject, Message
from accord.wire.requirement import CapabilityRequirements


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
