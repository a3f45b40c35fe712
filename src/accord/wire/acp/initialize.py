"""The `initialize` handshake: protocol versions, and what each side declares."""

from typing import Annotated

from pydantic import Field

from accord.wire.acp.base import AbsentIfMalformed, AcpMessage, Declared, DefaultIfMalformed, Flag, ListOrAbsent
from accord.wire.acp.content import LenientStr
from accord.wire.acp.prompt_capabilities import DraftPromptCapabilities, PromptCapabilities

# Omitted means unsupported, and so does everything malformed: one bad flag never fails the whole. Version 1 declares a
# capability with `true`, the version 2 draft with an object.


class Implementation(AcpMessage, frozen=True):
    """A peer's name and version."""

    name: str
    version: str
    title: LenientStr = None


class McpCapabilities(AcpMessage, frozen=True):
    """The transports to MCP servers that an agent supports besides stdio."""

    http: Flag = False
    sse: Flag = False


class SessionCapabilities(AcpMessage, frozen=True):
    """The optional session methods that an agent supports."""

    list: Declared = None
    delete: Declared = None
    additional_directories: Declared = None
    resume: Declared = None
    close: Declared = None


class AgentAuthCapabilities(AcpMessage, frozen=True):
    """The authentication methods that an agent supports."""

    logout: Declared = None


class AgentCapabilities(AcpMessage, frozen=True):
    """The capabilities of an agent."""

    load_session: Flag = False
    prompt_capabilities: Annotated[PromptCapabilities, DefaultIfMalformed(PromptCapabilities)] = Field(
        default_factory=PromptCapabilities
    )
    mcp_capabilities: Annotated[McpCapabilities, DefaultIfMalformed(McpCapabilities)] = Field(
        default_factory=McpCapabilities
    )
    session_capabilities: Annotated[SessionCapabilities, DefaultIfMalformed(SessionCapabilities)] = Field(
        default_factory=SessionCapabilities
    )
    auth: Annotated[AgentAuthCapabilities, DefaultIfMalformed(AgentAuthCapabilities)] = Field(
        default_factory=AgentAuthCapabilities
    )


class FileSystemCapabilities(AcpMessage, frozen=True):
    """The file methods that a client supports."""

    read_text_file: Flag = False
    write_text_file: Flag = False


class ConfigOptionsCapabilities(AcpMessage, frozen=True):
    """The kinds of session options that a client supports besides `select`."""

    boolean: Declared = None


class ClientSessionCapabilities(AcpMessage, frozen=True):
    """The optional session updates that a client supports."""

    compaction: Declared = None
    config_options: Annotated[ConfigOptionsCapabilities | None, AbsentIfMalformed()] = None
    notices: Declared = None


class ClientAuthCapabilities(AcpMessage, frozen=True):
    """The authentication methods that a client supports."""

    terminal: Flag = False


class ElicitationCapabilities(AcpMessage, frozen=True):
    """The forms in which a client can ask its user for input."""

    form: Declared = None
    url: Declared = None


class AcpClientCapabilities(AcpMessage, frozen=True):
    """The capabilities of an editor. `ClientCapabilities` is the name of those of CAP."""

    fs: Annotated[FileSystemCapabilities, DefaultIfMalformed(FileSystemCapabilities)] = Field(
        default_factory=FileSystemCapabilities
    )
    terminal: Flag = False
    session: Annotated[ClientSessionCapabilities | None, AbsentIfMalformed()] = None
    auth: Annotated[ClientAuthCapabilities, DefaultIfMalformed(ClientAuthCapabilities)] = Field(
        default_factory=ClientAuthCapabilities
    )
    elicitation: Annotated[ElicitationCapabilities | None, AbsentIfMalformed()] = None


class DraftMcpCapabilities(AcpMessage, frozen=True):
    """The transports to MCP servers that an agent supports, in the draft."""

    stdio: Declared = None
    http: Declared = None


class DraftSessionCapabilities(AcpMessage, frozen=True):
    """The session capabilities of an agent, in the draft; if absent, it has no sessions."""

    prompt: Annotated[DraftPromptCapabilities | None, AbsentIfMalformed()] = None
    mcp: Annotated[DraftMcpCapabilities | None, AbsentIfMalformed()] = None
    delete: Declared = None
    additional_directories: Declared = None


class DraftAgentCapabilities(AcpMessage, frozen=True):
    """The capabilities of an agent, in the draft."""

    session: Annotated[DraftSessionCapabilities | None, AbsentIfMalformed()] = None
    auth: Declared = None


class DraftClientAuthCapabilities(AcpMessage, frozen=True):
    """The authentication methods that a client supports, in the draft."""

    terminal: Declared = None


class DraftClientCapabilities(AcpMessage, frozen=True):
    """The capabilities of an editor, in the draft."""

    auth: Annotated[DraftClientAuthCapabilities | None, AbsentIfMalformed()] = None
    elicitation: Annotated[ElicitationCapabilities | None, AbsentIfMalformed()] = None


ProtocolVersion = Annotated[int, Field(strict=True, ge=0, le=65535)]
"""A whole number that is raised with each breaking change of the protocol."""

LenientImplementation = Annotated[Implementation | None, AbsentIfMalformed()]


class InitializeRequest(AcpMessage, frozen=True):
    """The client's version and capabilities."""

    protocol_version: ProtocolVersion
    client_capabilities: Annotated[AcpClientCapabilities, DefaultIfMalformed(AcpClientCapabilities)] = Field(
        default_factory=AcpClientCapabilities
    )
    client_info: LenientImplementation = None


class AuthMethod(AcpMessage, frozen=True):
    """A method to authenticate; without a `type`, the agent handles it itself."""

    id: str
    name: str
    type: LenientStr = None
    description: LenientStr = None


class InitializeResponse(AcpMessage, frozen=True):
    """The agent's version and capabilities."""

    protocol_version: ProtocolVersion
    agent_capabilities: Annotated[AgentCapabilities, DefaultIfMalformed(AgentCapabilities)] = Field(
        default_factory=AgentCapabilities
    )
    agent_info: LenientImplementation = None
    auth_methods: ListOrAbsent[AuthMethod] = None


class DraftInitializeRequest(AcpMessage, frozen=True):
    """The client's version and capabilities, in the draft."""

    protocol_version: ProtocolVersion
    info: Implementation
    capabilities: Annotated[DraftClientCapabilities, DefaultIfMalformed(DraftClientCapabilities)] = Field(
        default_factory=DraftClientCapabilities
    )


class DraftAuthMethod(AcpMessage, frozen=True):
    """A method to authenticate, in the draft; every type has an id and a name."""

    type: str
    method_id: str
    name: str
    description: LenientStr = None


class DraftInitializeResponse(AcpMessage, frozen=True):
    """The agent's version and capabilities, in the draft."""

    protocol_version: ProtocolVersion
    info: Implementation
    capabilities: Annotated[DraftAgentCapabilities, DefaultIfMalformed(DraftAgentCapabilities)] = Field(
        default_factory=DraftAgentCapabilities
    )
    auth_methods: ListOrAbsent[DraftAuthMethod] = None
