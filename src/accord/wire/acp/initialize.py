"""The `initialize` handshake: protocol versions, and what each side declares."""

from typing import Annotated

from pydantic import Field

from accord.wire.acp.base import AbsentIfMalformed, AcpMessage, Declared, DefaultIfMalformed, Flag, ListOrAbsent
from accord.wire.acp.content import LenientStr

# What each side says it can do, in `initialize`.
#
# Omitted means unsupported, and so does everything malformed: one bad flag never fails the whole. Version 1 says
# yes with `true`, the version 2 draft with an object. What follows from a declaration is decided in `core`.


class Implementation(AcpMessage, frozen=True):
    """A peer's name and version."""

    name: str
    version: str
    title: LenientStr = None


class PromptCapabilities(AcpMessage, frozen=True):
    """What a prompt may carry beside text and resource links."""

    image: Flag = False
    audio: Flag = False
    embedded_context: Flag = False


class McpCapabilities(AcpMessage, frozen=True):
    """The ways beside stdio by which an agent reaches MCP servers."""

    http: Flag = False
    sse: Flag = False


class SessionCapabilities(AcpMessage, frozen=True):
    """The optional session methods that an agent offers."""

    list: Declared = None
    delete: Declared = None
    additional_directories: Declared = None
    resume: Declared = None
    close: Declared = None


class AgentAuthCapabilities(AcpMessage, frozen=True):
    """What an agent offers around authentication."""

    logout: Declared = None


class AgentCapabilities(AcpMessage, frozen=True):
    """What an agent can do."""

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
    """The file methods that a client answers."""

    read_text_file: Flag = False
    write_text_file: Flag = False


class ConfigOptionsCapabilities(AcpMessage, frozen=True):
    """The kinds of session options beside `select` that a client can show."""

    boolean: Declared = None


class ClientSessionCapabilities(AcpMessage, frozen=True):
    """The optional session updates that a client can show."""

    compaction: Declared = None
    config_options: Annotated[ConfigOptionsCapabilities | None, AbsentIfMalformed()] = None
    notices: Declared = None


class ClientAuthCapabilities(AcpMessage, frozen=True):
    """What a client offers around authentication."""

    terminal: Flag = False


class ElicitationCapabilities(AcpMessage, frozen=True):
    """The ways in which a client can ask its user."""

    form: Declared = None
    url: Declared = None


class AcpClientCapabilities(AcpMessage, frozen=True):
    """What an editor can do; `ClientCapabilities` is the name of CAP's own."""

    fs: Annotated[FileSystemCapabilities, DefaultIfMalformed(FileSystemCapabilities)] = Field(
        default_factory=FileSystemCapabilities
    )
    terminal: Flag = False
    session: Annotated[ClientSessionCapabilities | None, AbsentIfMalformed()] = None
    auth: Annotated[ClientAuthCapabilities, DefaultIfMalformed(ClientAuthCapabilities)] = Field(
        default_factory=ClientAuthCapabilities
    )
    elicitation: Annotated[ElicitationCapabilities | None, AbsentIfMalformed()] = None


class DraftPromptCapabilities(AcpMessage, frozen=True):
    """What a prompt may carry beside text and resource links, in the draft."""

    image: Declared = None
    audio: Declared = None
    embedded_context: Declared = None


class DraftMcpCapabilities(AcpMessage, frozen=True):
    """The ways by which an agent reaches MCP servers, in the draft."""

    stdio: Declared = None
    http: Declared = None


class DraftSessionCapabilities(AcpMessage, frozen=True):
    """What an agent's sessions can do, in the draft; absent altogether, it has no sessions."""

    prompt: Annotated[DraftPromptCapabilities | None, AbsentIfMalformed()] = None
    mcp: Annotated[DraftMcpCapabilities | None, AbsentIfMalformed()] = None
    delete: Declared = None
    additional_directories: Declared = None


class DraftAgentCapabilities(AcpMessage, frozen=True):
    """What an agent can do, in the draft."""

    session: Annotated[DraftSessionCapabilities | None, AbsentIfMalformed()] = None
    auth: Declared = None


class DraftClientAuthCapabilities(AcpMessage, frozen=True):
    """What a client offers around authentication, in the draft."""

    terminal: Declared = None


class DraftClientCapabilities(AcpMessage, frozen=True):
    """What an editor can do, in the draft."""

    auth: Annotated[DraftClientAuthCapabilities | None, AbsentIfMalformed()] = None
    elicitation: Annotated[ElicitationCapabilities | None, AbsentIfMalformed()] = None


# The handshake: which version is spoken, and what each side declares.

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
