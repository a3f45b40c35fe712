"""The handshake: which version is spoken, and what each side declares."""

from typing import Annotated

from pydantic import Field

from accord.wire.acp.base import AbsentIfMalformed, AcpMessage
from accord.wire.acp.capabilities import (
    AcpClientCapabilities,
    AgentCapabilities,
    DraftAgentCapabilities,
    DraftClientCapabilities,
    Implementation,
)
from accord.wire.acp.content import LenientStr
from accord.wire.acp.lenient import DefaultIfMalformed, ListOrAbsent

ProtocolVersion = Annotated[int, Field(strict=True, ge=0, le=65535)]
"""A whole number; the protocol counts its breaking changes only."""

LenientImplementation = Annotated[Implementation | None, AbsentIfMalformed()]


class InitializeRequest(AcpMessage, frozen=True):
    """A client introduces itself."""

    protocol_version: ProtocolVersion
    client_capabilities: Annotated[AcpClientCapabilities, DefaultIfMalformed(AcpClientCapabilities)] = Field(
        default_factory=AcpClientCapabilities
    )
    client_info: LenientImplementation = None


class AuthMethod(AcpMessage, frozen=True):
    """A way to authenticate; without a `type`, the agent handles it itself."""

    id: str
    name: str
    type: LenientStr = None
    description: LenientStr = None


class InitializeResponse(AcpMessage, frozen=True):
    """An agent introduces itself."""

    protocol_version: ProtocolVersion
    agent_capabilities: Annotated[AgentCapabilities, DefaultIfMalformed(AgentCapabilities)] = Field(
        default_factory=AgentCapabilities
    )
    agent_info: LenientImplementation = None
    auth_methods: ListOrAbsent[AuthMethod] = None


class DraftInitializeRequest(AcpMessage, frozen=True):
    """A client introduces itself, in the draft."""

    protocol_version: ProtocolVersion
    info: Implementation
    capabilities: Annotated[DraftClientCapabilities, DefaultIfMalformed(DraftClientCapabilities)] = Field(
        default_factory=DraftClientCapabilities
    )


class DraftAuthMethod(AcpMessage, frozen=True):
    """A way to authenticate, in the draft; of whatever type, it has an id and a name."""

    type: str
    method_id: str
    name: str
    description: LenientStr = None


class DraftInitializeResponse(AcpMessage, frozen=True):
    """An agent introduces itself, in the draft."""

    protocol_version: ProtocolVersion
    info: Implementation
    capabilities: Annotated[DraftAgentCapabilities, DefaultIfMalformed(DraftAgentCapabilities)] = Field(
        default_factory=DraftAgentCapabilities
    )
    auth_methods: ListOrAbsent[DraftAuthMethod] = None
