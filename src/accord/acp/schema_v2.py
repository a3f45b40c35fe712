"""The draft of version 2 of the Agent Client Protocol, where it differs from version 1.

Written by scripts/acp_types.py from the JSON Schema of the protocol, with its descriptions; do not edit. The schema is
Copyright 2025 Zed Industries, Inc. and contributors, under the Apache License 2.0: see scripts/acp_schema/README.md.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field

from accord.acp.base import (
    AbsentIfMalformed,
    AcpMessage,
    Count,
    Declared,
    DefaultIfMalformed,
    LenientStr,
    ListOrAbsent,
    ListOrEmpty,
    NullIsEmpty,
    Open,
    OpenTagged,
    SkipIfMalformed,
)
from accord.acp.content import OpenContentBlock
from accord.acp.jsonrpc import RpcErrorObject
from accord.acp.schema_parts import PermissionOption as PermissionOption
from accord.acp.schema_parts import PlanEntry as PlanEntry
from accord.acp.schema_parts import RequestPermissionResponse as RequestPermissionResponse
from accord.acp.schema_parts import ToolCallStatus as ToolCallStatus
from accord.acp.schema_parts import ToolKind as ToolKind
from accord.acp.schema_v1 import CancelRequestNotification as CancelRequestNotification
from accord.acp.schema_v1 import CloseSessionRequest as CloseSessionRequest
from accord.acp.schema_v1 import CloseSessionResponse as CloseSessionResponse
from accord.acp.schema_v1 import CompactionStatus as CompactionStatus
from accord.acp.schema_v1 import Cost as Cost
from accord.acp.schema_v1 import DeleteSessionRequest as DeleteSessionRequest
from accord.acp.schema_v1 import DeleteSessionResponse as DeleteSessionResponse
from accord.acp.schema_v1 import ElicitationCapabilities as ElicitationCapabilities
from accord.acp.schema_v1 import EnvVariable as EnvVariable
from accord.acp.schema_v1 import HttpHeader as HttpHeader
from accord.acp.schema_v1 import Implementation as Implementation
from accord.acp.schema_v1 import ListSessionsRequest as ListSessionsRequest
from accord.acp.schema_v1 import NoticeSeverity as NoticeSeverity
from accord.acp.schema_v1 import SessionConfigOptionCategory as SessionConfigOptionCategory
from accord.acp.schema_v1 import SessionConfigSelectOption as SessionConfigSelectOption
from accord.wire.message import FreeValue, close_union


class CancelSessionNotification(AcpMessage, frozen=True):
    """Notification to cancel a session's foreground work and its prompts not yet inserted."""

    session_id: str = Field(description="The ID of the session to cancel operations for.")


class CancelTerminalRequest(AcpMessage, frozen=True):
    """Request parameters for cancelling one terminal.

    Clients MUST NOT send it unless the terminal currently advertises `capabilities.cancel`.

    The Agent responds once it has accepted the cancellation. The response does not mean the work has stopped. The Agent
    confirms it with a `terminal_update` that sets `exitStatus`. Cancelling stops the process but does not release the
    terminal, and does not change the status of a tool call that references it.

    The Agent responds with `-32602` if the terminal is unknown, has already exited, or is not cancellable. Cancelling a
    terminal does not change the foreground state by itself.
    """

    session_id: str = Field(description="The ID of the session that owns the terminal.")
    terminal_id: str = Field(description="The ID of the terminal to cancel.")


class CancelTerminalResponse(AcpMessage, frozen=True):
    """Response from cancelling a terminal."""


class CancelToolCallRequest(AcpMessage, frozen=True):
    """Request parameters for cancelling one tool call.

    Clients MUST NOT send it unless the tool call currently advertises `capabilities.cancel`.

    The Agent responds once it has accepted the cancellation. The response does not mean the work has stopped. The Agent
    confirms it with a `tool_call_update` to a final status: normally `cancelled`, or `completed` or `failed` if the
    work finished first.

    The Agent responds with `-32602` if the tool call is unknown, already final, or not cancellable. Cancelling a tool
    call does not change the foreground state by itself.
    """

    session_id: str = Field(description="The ID of the session that owns the tool call.")
    tool_call_id: str = Field(description="The ID of the tool call to cancel.")


class CancelToolCallResponse(AcpMessage, frozen=True):
    """Response from cancelling a tool call."""


class ClientAuthCapabilities(AcpMessage, frozen=True):
    """Authentication capabilities supported by the client.

    Advertised during initialization to inform the agent which authentication method types the client can handle. This
    governs opt-in types that require additional client-side support.
    """

    terminal: Declared = Field(
        default=None, description="Whether the client supports `terminal` authentication methods."
    )


class ClientCapabilities(AcpMessage, frozen=True):
    """Capabilities supported by the client.

    Advertised during initialization to inform the agent about available features and methods.
    """

    auth: Annotated[ClientAuthCapabilities | None, AbsentIfMalformed()] = Field(
        default=None,
        description="Authentication capabilities supported by the client. Determines which authentication method types the agent may include in its `InitializeResponse`.",
    )
    elicitation: Annotated[ElicitationCapabilities | None, AbsentIfMalformed()] = Field(
        default=None,
        description="Elicitation capabilities supported by the client. Determines which elicitation modes the agent may use.",
    )


class InitializeRequest(AcpMessage, frozen=True):
    """Request parameters for the initialize method.

    Sent by the client to establish connection and negotiate capabilities.
    """

    protocol_version: Annotated[int, Field(ge=0, le=65535)] = Field(
        description="The latest protocol version supported by the client."
    )
    info: Implementation = Field(description="Information about the implementation sending this initialize request.")
    capabilities: Annotated[ClientCapabilities, DefaultIfMalformed(ClientCapabilities)] = Field(
        default_factory=ClientCapabilities, description="Capabilities supported by the client."
    )


class PromptCapabilities(AcpMessage, frozen=True):
    """Prompt capabilities supported by the agent in `session/prompt` requests.

    Baseline agent functionality requires support for `text` and `resource_link` content blocks in prompt requests.

    Other variants must be explicitly opted in to. Capabilities for different types of content in prompt requests.

    Indicates which content types beyond the baseline (text and resource links) the agent can process.
    """

    image: Declared = Field(default=None, description="Agent supports `image` content blocks.")
    audio: Declared = Field(default=None, description="Agent supports `audio` content blocks.")
    embedded_context: Declared = Field(
        default=None, description="Agent supports embedded context in `session/prompt` requests."
    )


class McpCapabilities(AcpMessage, frozen=True):
    """MCP capabilities supported by the agent for session lifecycle requests."""

    stdio: Declared = Field(default=None, description="Agent supports `stdio` MCP servers.")
    http: Declared = Field(default=None, description="Agent supports `http` MCP servers.")


class SessionCapabilities(AcpMessage, frozen=True):
    """Session capabilities supported by the agent.

    Supplying `{}` means the agent supports the baseline session methods: `session/new`, `session/list`,
    `session/resume`, `session/close`, `session/prompt`, `session/cancel`, and `session/update`.

    Agents that support sessions **MAY** support additional session methods, prompt content types, and MCP transports by
    specifying additional capabilities.
    """

    prompt: Annotated[PromptCapabilities | None, AbsentIfMalformed()] = Field(
        default=None, description="Prompt capabilities supported by the agent in `session/prompt` requests."
    )
    mcp: Annotated[McpCapabilities | None, AbsentIfMalformed()] = Field(
        default=None, description="MCP capabilities supported by the agent for session lifecycle requests."
    )
    delete: Declared = Field(default=None, description="Whether the agent supports `session/delete`.")
    additional_directories: Declared = Field(
        default=None,
        description="Whether the agent supports `additionalDirectories` on supported session lifecycle requests.",
    )


class AgentCapabilities(AcpMessage, frozen=True):
    """Capabilities supported by the agent.

    Advertised during initialization to inform the client about available features and content types.
    """

    session: Annotated[SessionCapabilities | None, AbsentIfMalformed()] = Field(
        default=None, description="Session capabilities supported by the agent."
    )
    auth: Declared = Field(
        default=None, description="Authentication-related extension capabilities supported by the agent."
    )


class AuthMethod(OpenTagged, frozen=True):
    """Describes an available authentication method.

    The `type` field acts as the discriminator in the serialized JSON form.
    """

    type: str

    if TYPE_CHECKING:  # the other members are those of the kind

        def __init__(self, *, type: str, **members: Any) -> None: ...


class AuthMethodTerminal(AuthMethod, frozen=True):
    """Terminal-based authentication method.

    The client runs the configured agent program as a separate interactive process for the user to authenticate via a
    TUI. Agents MUST advertise this method only when the client enabled its terminal authentication capability. A zero
    exit status signals success. Any other termination signals failure. The client MUST NOT pass this method to
    `auth/login`.
    """

    type: Literal["terminal"] = "terminal"
    method_id: str = Field(description="Unique identifier for this authentication method.")
    name: str = Field(description="Human-readable name of the authentication method.")
    description: LenientStr = Field(
        default=None, description="Optional human-readable description of this authentication method."
    )
    args: NullIsEmpty[str] = Field(
        default_factory=list[str],
        description="Additional arguments to append to the configured agent invocation for terminal auth.",
    )
    env: NullIsEmpty[EnvVariable] = Field(
        default_factory=list[EnvVariable],
        description="Additional environment variables to set on the configured agent invocation for terminal auth. Names MUST be unique. These values override same-named variables in the base launch configuration.",
    )


class AuthMethodAgent(AuthMethod, frozen=True):
    """Agent handles authentication itself through `auth/login`.

    The `type` discriminator value is `agent`.
    """

    type: Literal["agent"] = "agent"
    method_id: str = Field(description="Unique identifier for this authentication method.")
    name: str = Field(description="Human-readable name of the authentication method.")
    description: LenientStr = Field(
        default=None, description="Optional human-readable description of this authentication method."
    )


class OtherAuthMethod(AuthMethod, frozen=True):
    """Custom or future authentication method.

    Values beginning with `_` are reserved for implementation-specific extensions. Unknown values that do not begin with
    `_` are reserved for future ACP variants.

    Clients that do not understand this method type should preserve the raw payload when storing, replaying, proxying,
    or forwarding initialization data, and otherwise ignore the method or display it generically.
    """

    method_id: str = Field(description="Unique identifier for this authentication method.")
    name: str = Field(description="Human-readable name of the authentication method.")


close_union(AuthMethod, "type", {"terminal": AuthMethodTerminal, "agent": AuthMethodAgent}, other=OtherAuthMethod)


class InitializeResponse(AcpMessage, frozen=True):
    """Response to the `initialize` method.

    Contains the negotiated protocol version and agent capabilities.
    """

    protocol_version: Annotated[int, Field(ge=0, le=65535)] = Field(
        description="The highest protocol version supported by the agent that is at or below the version requested by the client. If no such version exists, initialization fails with error code -32022."
    )
    info: Implementation = Field(description="Information about the implementation sending this initialize response.")
    capabilities: Annotated[AgentCapabilities, DefaultIfMalformed(AgentCapabilities)] = Field(
        default_factory=AgentCapabilities, description="Capabilities supported by the agent."
    )
    auth_methods: ListOrAbsent[AuthMethod] = Field(
        default=None, description="Authentication methods supported by the agent."
    )


class SessionInfo(AcpMessage, frozen=True):
    """Information about a session returned by session/list"""

    session_id: str = Field(description="Unique identifier for the session")
    cwd: str = Field(description="The working directory for this session. Must be an absolute path.")
    additional_directories: NullIsEmpty[str] = Field(
        default_factory=list[str],
        description="Additional workspace roots reported for this session. Each path must be absolute.",
    )
    title: LenientStr = Field(default=None, description="Human-readable title for the session")
    updated_at: LenientStr = Field(default=None, description="RFC 3339 timestamp of last activity.")


class ListSessionsResponse(AcpMessage, frozen=True):
    """Response from listing sessions."""

    sessions: ListOrEmpty[SessionInfo] = Field(description="Array of session information objects.")
    next_cursor: str | None = Field(
        default=None,
        description="Opaque cursor token. If present, pass this in the next request's cursor parameter to fetch the next page. Omitted and `null` are equivalent and mean there are no more results. An empty string is a valid cursor, not the end of results.",
    )


class LoginAuthRequest(AcpMessage, frozen=True):
    """Request parameters for the `auth/login` method.

    Specifies which authentication method to use.

    Agents MUST support this method when their `initialize` response included a non-empty `authMethods` list. Clients
    MUST NOT call this method when `authMethods` was omitted or empty.
    """

    method_id: str = Field(
        description="The ID of the authentication method to use. Must be one of the methods advertised in the initialize response."
    )


class LoginAuthResponse(AcpMessage, frozen=True):
    """Response to the `auth/login` method."""


class LogoutAuthRequest(AcpMessage, frozen=True):
    """Request parameters for the `auth/logout` method.

    Terminates the current authenticated session.

    Agents MUST support this method when their `initialize` response included a non-empty `authMethods` list. Clients
    MUST NOT call this method when `authMethods` was omitted or empty.
    """


class LogoutAuthResponse(AcpMessage, frozen=True):
    """Response to the `auth/logout` method."""


class McpServer(OpenTagged, frozen=True):
    """Configuration for connecting to an MCP (Model Context Protocol) server.

    MCP servers provide tools and context that the agent can use when processing prompts.
    """

    type: str

    if TYPE_CHECKING:  # the other members are those of the kind

        def __init__(self, *, type: str, **members: Any) -> None: ...


class McpServerHttp(McpServer, frozen=True):
    """HTTP transport configuration for MCP."""

    type: Literal["http"] = "http"
    name: str = Field(description="Human-readable name identifying this MCP server.")
    url: str = Field(description="URL to the MCP server.")
    headers: NullIsEmpty[HttpHeader] = Field(
        default_factory=list[HttpHeader],
        description="HTTP headers to set when making requests to the MCP server. Headers the MCP transport defines are owned by the transport, and Agents use the transport's values for them.",
    )


class McpServerStdio(McpServer, frozen=True):
    """Stdio transport configuration for MCP."""

    type: Literal["stdio"] = "stdio"
    name: str = Field(description="Human-readable name identifying this MCP server.")
    command: str = Field(description="Absolute path to the MCP server executable.")
    args: NullIsEmpty[str] = Field(
        default_factory=list[str], description="Command-line arguments to pass to the MCP server."
    )
    env: NullIsEmpty[EnvVariable] = Field(
        default_factory=list[EnvVariable],
        description="Environment variables to set when launching the MCP server. Names SHOULD be unique. Agents MAY reject duplicates with `-32602`, and otherwise the last entry wins.",
    )


class OtherMcpServer(McpServer, frozen=True):
    """Custom or future MCP server transport configuration.

    Values beginning with `_` are reserved for implementation-specific extensions. Unknown values that do not begin with
    `_` are reserved for future ACP variants.

    Receivers that do not understand this transport should preserve the raw payload when storing, replaying, proxying,
    or forwarding session setup data. Agents MUST reject a request with a transport they do not support with `-32602`.
    """


close_union(McpServer, "type", {"http": McpServerHttp, "stdio": McpServerStdio}, other=OtherMcpServer)


class NewSessionRequest(AcpMessage, frozen=True):
    """Request parameters for creating a new session."""

    cwd: str = Field(description="The working directory for this session. Must be an absolute path.")
    additional_directories: NullIsEmpty[str] = Field(
        default_factory=list[str],
        description="Additional workspace roots for this session. Each path must be absolute.",
    )
    mcp_servers: NullIsEmpty[McpServer] = Field(
        default_factory=list[McpServer],
        description="List of MCP (Model Context Protocol) servers the agent should connect to.",
    )


class SessionConfigSelectGroup(AcpMessage, frozen=True):
    """A group of possible values for a session configuration option."""

    group_id: str = Field(description="Unique identifier for this group.")
    name: str = Field(description="Human-readable label for this group.")
    options: ListOrEmpty[SessionConfigSelectOption] = Field(
        description="The set of option values in this group. MUST contain at least one value."
    )


class SessionConfigOption(OpenTagged, frozen=True):
    """A session configuration option selector and its current state."""

    type: str
    config_id: str = Field(description="Unique identifier for the configuration option.")
    name: str = Field(description="Human-readable label for the option.")
    description: LenientStr = Field(
        default=None, description="Optional description for the Client to display to the user."
    )
    category: Annotated[Open[SessionConfigOptionCategory] | None, AbsentIfMalformed()] = Field(
        default=None, description="Optional semantic category for this option (UX only)."
    )

    if TYPE_CHECKING:  # the other members are those of the kind

        def __init__(self, *, type: str, **members: Any) -> None: ...


class SessionConfigSelect(SessionConfigOption, frozen=True):
    """A single-value selector (dropdown) session configuration option payload."""

    type: Literal["select"] = "select"
    current_value: str = Field(description="The currently selected value. MUST be one of the `value`s in `options`.")
    options: list[SessionConfigSelectOption] | list[SessionConfigSelectGroup] = Field(
        description="The set of selectable options. MUST contain at least one value, and each `value` MUST be unique within the option, including across groups."
    )


class SessionConfigBoolean(SessionConfigOption, frozen=True):
    """A boolean on/off toggle session configuration option payload."""

    type: Literal["boolean"] = "boolean"
    current_value: bool = Field(description="The current value of the boolean option.")


class OtherSessionConfigOption(SessionConfigOption, frozen=True):
    """Custom or future session configuration option payload.

    Values beginning with `_` are reserved for implementation-specific extensions. Unknown values that do not begin with
    `_` are reserved for future ACP variants.

    Clients that do not understand this option type should preserve the raw payload when storing, replaying, proxying,
    or forwarding configuration data, and otherwise ignore the option. The Agent keeps using its `currentValue`.
    """


close_union(
    SessionConfigOption,
    "type",
    {"select": SessionConfigSelect, "boolean": SessionConfigBoolean},
    other=OtherSessionConfigOption,
)


class AvailableCommandInput(OpenTagged, frozen=True):
    """The input specification for a command."""

    type: str

    if TYPE_CHECKING:  # the other members are those of the kind

        def __init__(self, *, type: str, **members: Any) -> None: ...


class TextCommandInput(AvailableCommandInput, frozen=True):
    """All text that was typed after the command name is provided as input."""

    type: Literal["text"] = "text"
    hint: str = Field(description="A hint to display when the input hasn't been provided yet")


class OtherAvailableCommandInput(AvailableCommandInput, frozen=True):
    """Custom or future command input specification.

    Values beginning with `_` are reserved for implementation-specific extensions. Unknown values that do not begin with
    `_` are reserved for future ACP variants.

    Clients that do not understand this input type should preserve the raw payload when storing, replaying, proxying, or
    forwarding command metadata, and otherwise ignore the input specification or display the command without structured
    input.
    """


close_union(AvailableCommandInput, "type", {"text": TextCommandInput}, other=OtherAvailableCommandInput)


class AvailableCommand(OpenTagged, frozen=True):
    """A command the agent advertises to the client.

    The `type` field acts as the discriminator in the serialized JSON form.
    """

    type: str

    if TYPE_CHECKING:  # the other members are those of the kind

        def __init__(self, *, type: str, **members: Any) -> None: ...


class Command(AvailableCommand, frozen=True):
    """A slash command the user can invoke by including it in a prompt.

    The `type` discriminator value is `command`.
    """

    type: Literal["command"] = "command"
    name: str = Field(description="Command name without the leading `/` (e.g., `create_plan`, `research_codebase`).")
    description: str = Field(description="Human-readable description of what the command does.")
    input: Annotated[AvailableCommandInput | None, AbsentIfMalformed()] = Field(
        default=None, description="Input for the command if required"
    )


class OtherAvailableCommand(AvailableCommand, frozen=True):
    """Custom or future command kind.

    Values beginning with `_` are reserved for implementation-specific extensions. Unknown values that do not begin with
    `_` are reserved for future ACP variants.

    Clients that do not understand this command type should preserve the raw payload when storing, replaying, proxying,
    or forwarding command metadata, and otherwise ignore the command or display it as a plain command using its `name`
    and `description`.
    """

    name: str = Field(
        description="Command name without the leading `/`. MUST NOT contain whitespace and MUST be unique within the command list."
    )
    description: str = Field(description="Human-readable description of what the command does.")


close_union(AvailableCommand, "type", {"command": Command}, other=OtherAvailableCommand)


class NewSessionResponse(AcpMessage, frozen=True):
    """Response from creating a new session.

    New sessions default to `idle` until a state update reports otherwise. Updates may arrive before or after this
    response. Clients MUST NOT overwrite an already-reported state when the response arrives.
    """

    session_id: str = Field(description="Unique identifier for the created session.")
    config_options: ListOrAbsent[SessionConfigOption] = Field(
        default=None, description="Initial session configuration options."
    )
    available_commands: ListOrAbsent[AvailableCommand] = Field(
        default=None, description="Initial commands the agent can execute in this session."
    )


class PromptRequest(AcpMessage, frozen=True):
    """Request parameters for sending a user prompt to the agent.

    Contains the user's message and any additional context.
    """

    session_id: str = Field(description="The ID of the session to send this user message to")
    prompt: list[OpenContentBlock] = Field(description="The blocks of content that compose the user's message.")


class PromptResponse(AcpMessage, frozen=True):
    """Response acknowledging that a user prompt was inserted into the ACP conversation.

    This response does not indicate that the prompt was merely received or held, nor that the agent has finished
    processing it. Processing and completion are reported through `state_update` session updates.

    Insertion is the logical addition of a user message with a message ID and a position relative to other messages in
    the ACP conversation.
    """

    message_id: str = Field(description="Identifies the user message inserted into the ACP conversation.")


class DiffFileType(StrEnum):
    """Kind of file content represented by a diff change."""

    TEXT = "text"
    """Text content."""
    BINARY = "binary"
    """Binary or otherwise non-text content."""
    DIRECTORY = "directory"
    """Directory entry."""
    SYMLINK = "symlink"
    """Symbolic link."""


class DiffChange(OpenTagged, frozen=True):
    """One file-level change described by a `Diff`.

    Structured change metadata lets clients identify affected files and operations without parsing the text patch.
    """

    operation: str
    file_type: Annotated[Open[DiffFileType] | None, AbsentIfMalformed()] = Field(
        default=None, description="File content kind after the operation (for `delete`, of the deleted file)."
    )
    mime_type: LenientStr = Field(
        default=None,
        description="MIME type of the file contents after the operation (for `delete`, of the deleted file).",
    )

    if TYPE_CHECKING:  # the other members are those of the kind

        def __init__(self, *, operation: str, **members: Any) -> None: ...


class DiffPathChange(DiffChange, frozen=True):
    """Operation metadata for add, delete, and modify changes."""

    operation: Literal["add", "delete", "modify"]
    path: str = Field(description="Absolute path for the operation.")


class DiffPathPairChange(DiffChange, frozen=True):
    """Operation metadata for move and copy changes."""

    operation: Literal["move", "copy"]
    old_path: str = Field(description="Absolute path before the operation.")
    path: str = Field(description="Absolute path after the operation.")


class OtherDiffChange(DiffChange, frozen=True):
    """Custom or future file operation.

    Values beginning with `_` are reserved for implementation-specific extensions. Unknown values that do not begin with
    `_` are reserved for future ACP variants.
    """


close_union(
    DiffChange,
    "operation",
    {
        "add": DiffPathChange,
        "delete": DiffPathChange,
        "modify": DiffPathChange,
        "move": DiffPathPairChange,
        "copy": DiffPathPairChange,
    },
    other=OtherDiffChange,
)


class DiffPatchFormat(StrEnum):
    """Text patch format used by `DiffPatch`."""

    GIT_PATCH = "git_patch"
    """One or more `diff --git` sections in Git's `--patch` (`-p`) text format.

    Unlike Git, which writes paths relative to the repository root, every path MUST be absolute, including in `rename
    from`, `rename to`, `copy from`, and `copy to` lines, and MUST NOT have a prefix such as Git's default `a/` and
    `b/`. Otherwise paths follow Git: `/dev/null` names the missing side of an added or deleted file in the `---` and
    `+++` lines, and paths with unusual characters are quoted as Git quotes them. Each path, once unquoted, is the same
    native absolute path string as the matching `changes` entry. Surrounding commit metadata and email envelopes MUST
    NOT be included.
    """


class DiffPatch(AcpMessage, frozen=True):
    """Renderable patch text and its format."""

    format: Open[DiffPatchFormat] = Field(description="Patch format. The only ACP-defined value is `git_patch`.")
    text: str = Field(description="Patch text in the format named by `format`.")


class ToolCallContent(OpenTagged, frozen=True):
    """Content produced by a tool call.

    Tool calls can produce different types of content including standard content blocks (text, images), file diffs, or
    display-only terminals.
    """

    type: str

    if TYPE_CHECKING:  # the other members are those of the kind

        def __init__(self, *, type: str, **members: Any) -> None: ...


class Content(ToolCallContent, frozen=True):
    """Standard content block (text, images, resources)."""

    type: Literal["content"] = "content"
    content: OpenContentBlock = Field(description="The actual content block.")


class Diff(ToolCallContent, frozen=True):
    """File changes produced by a tool call.

    `changes` is authoritative for affected absolute paths and operations. `patch` optionally carries renderable text
    for some or all of those changes and MUST be consistent with `changes`. Agents SHOULD provide `patch` whenever
    feasible. Clients MUST handle diffs where `patch` is omitted or `null`.
    """

    type: Literal["diff"] = "diff"
    changes: list[Annotated[DiffChange, SkipIfMalformed()]] = Field(
        description="Structured file changes described by this diff."
    )
    patch: Annotated[DiffPatch | None, AbsentIfMalformed()] = Field(
        default=None, description="Renderable patch text for some or all of the structured changes."
    )


class Terminal(ToolCallContent, frozen=True):
    """A display-only reference to an agent-owned terminal.

    Terminal state and output are delivered separately through `terminal_update` and `terminal_output_chunk` session
    updates.
    """

    type: Literal["terminal"] = "terminal"
    terminal_id: str = Field(description="The ID of the terminal to display.")


class OtherToolCallContent(ToolCallContent, frozen=True):
    """Custom or future tool call content.

    Values beginning with `_` are reserved for implementation-specific extensions. Unknown values that do not begin with
    `_` are reserved for future ACP variants.

    Receivers that do not understand this content type should preserve the raw payload when storing, replaying,
    proxying, or forwarding tool call output, and otherwise ignore it or display it generically.
    """


close_union(
    ToolCallContent, "type", {"content": Content, "diff": Diff, "terminal": Terminal}, other=OtherToolCallContent
)


class ToolCallLocation(AcpMessage, frozen=True):
    """A file location being accessed or modified by a tool.

    Enables clients to implement "follow-along" features that track which files the agent is working with in real-time.
    """

    path: str = Field(description="The absolute file path being accessed or modified.")
    line: Annotated[Annotated[int, Field(ge=1)] | None, AbsentIfMalformed()] = Field(
        default=None,
        description="Optional 1-based line number within the file. Omitted and `null` are equivalent and mean no specific line. `0` is invalid.",
    )


class ToolCallCapabilities(AcpMessage, frozen=True):
    """Client-initiated controls a tool call currently supports.

    A malformed value falls back to no controls, so the Client never sends a request the Agent did not advertise.
    """

    cancel: Declared = Field(
        default=None, description="Permits the Client to cancel this tool call with `tool_call/cancel`."
    )


class ToolCallUpdate(AcpMessage, frozen=True):
    """Represents an upsert for a tool call that the language model has requested.

    Tool calls are actions that the agent executes on behalf of the language model, such as reading files, executing
    code, or fetching data from external sources.

    Only `toolCallId` is required. Other fields have patch semantics: omitted fields leave the existing tool call value
    unchanged, `null` clears or unsets the value, and concrete values replace the previous value. For collection fields,
    concrete arrays replace the previous collection, and both `null` and `[]` clear the collection. A concrete `_meta`
    object instead patches the stored metadata by top-level key. When a client receives a tool call ID it has not seen
    before, omitted fields start at their protocol defaults.
    """

    tool_call_id: str = Field(description="Unique identifier for this tool call within the session.")
    name: LenientStr = Field(default=None, description="Programmatic name of the tool being invoked.")
    title: LenientStr = Field(default=None, description="Human-readable title describing what the tool is doing.")
    kind: Annotated[Open[ToolKind] | None, AbsentIfMalformed()] = Field(
        default=None,
        description="The category of tool being invoked. Helps clients choose appropriate icons and UI treatment.",
    )
    status: Annotated[Open[ToolCallStatus] | None, AbsentIfMalformed()] = Field(
        default=None, description="Current execution status of the tool call."
    )
    content: ListOrAbsent[ToolCallContent] = Field(default=None, description="Content produced by the tool call.")
    locations: ListOrAbsent[ToolCallLocation] = Field(
        default=None,
        description='File locations affected by this tool call. Enables "follow-along" features in clients.',
    )
    raw_input: FreeValue = Field(default=None, description="Raw input parameters sent to the tool.")
    raw_output: FreeValue = Field(default=None, description="Raw output returned by the tool.")
    capabilities: Annotated[ToolCallCapabilities | None, AbsentIfMalformed()] = Field(
        default=None, description="Client-initiated controls this tool call currently supports, such as cancellation."
    )


class RequestPermissionSubject(OpenTagged, frozen=True):
    """The operation requiring permission."""

    type: str

    if TYPE_CHECKING:  # the other members are those of the kind

        def __init__(self, *, type: str, **members: Any) -> None: ...


class ToolCallPermissionSubject(RequestPermissionSubject, frozen=True):
    """Permission request details for a tool call."""

    type: Literal["tool_call"] = "tool_call"
    tool_call: ToolCallUpdate = Field(description="Details about the tool call requiring permission.")


class CommandPermissionSubject(RequestPermissionSubject, frozen=True):
    """Permission request details for a command."""

    type: Literal["command"] = "command"
    command: str = Field(description="The command that would be run if permission is granted.")
    cwd: str = Field(description="The absolute working directory for the command.")
    tool_call_id: LenientStr = Field(
        default=None, description="The associated tool call, when known. Omitted and `null` are equivalent."
    )
    terminal_id: LenientStr = Field(
        default=None, description="The associated terminal, when already known. Omitted and `null` are equivalent."
    )


class OtherRequestPermissionSubject(RequestPermissionSubject, frozen=True):
    """Custom or future permission subject.

    Values beginning with `_` are reserved for implementation-specific extensions. Unknown values that do not begin with
    `_` are reserved for future ACP variants.

    Clients that do not understand this subject type should preserve the raw payload when storing, replaying, proxying,
    or forwarding permission requests, and otherwise display a generic permission prompt or decline it according to
    policy.
    """


close_union(
    RequestPermissionSubject,
    "type",
    {"tool_call": ToolCallPermissionSubject, "command": CommandPermissionSubject},
    other=OtherRequestPermissionSubject,
)


class RequestPermissionRequest(AcpMessage, frozen=True):
    """Request for user permission to proceed with an operation.

    Sent when the agent needs authorization before performing a sensitive operation.
    """

    session_id: str = Field(description="The session ID for this request.")
    title: str = Field(description="Human-readable title for the permission prompt.")
    description: LenientStr = Field(
        default=None, description="Optional human-readable explanation of why permission is needed."
    )
    subject: RequestPermissionSubject | None = Field(
        default=None, description="Optional structured context about the operation requiring permission."
    )
    options: list[PermissionOption] = Field(
        description="Available permission options for the user to choose from. Must contain at least one option."
    )


class ReplayFrom(OpenTagged, frozen=True):
    """Inclusive cursor describing where replayed session history should begin.

    Replay includes the position identified by the cursor.
    """

    type: str

    if TYPE_CHECKING:  # the other members are those of the kind

        def __init__(self, *, type: str, **members: Any) -> None: ...


class ReplayFromStart(ReplayFrom, frozen=True):
    """Inclusive replay cursor requesting replay from the start of retained conversation history."""

    type: Literal["start"] = "start"


class OtherReplayFrom(ReplayFrom, frozen=True):
    """Custom or future replay cursor.

    Values beginning with `_` are reserved for implementation-specific extensions. Unknown values that do not begin with
    `_` are reserved for future ACP variants.

    Intermediaries SHOULD preserve the raw payload when storing, replaying, proxying, or forwarding requests. Agents
    that do not support this cursor MUST reject the request with `-32602` (Invalid params), rather than substituting
    another cursor or resuming without replay.
    """


close_union(ReplayFrom, "type", {"start": ReplayFromStart}, other=OtherReplayFrom)


class ResumeSessionRequest(AcpMessage, frozen=True):
    """Request parameters for resuming an existing session.

    Resumes an existing session and optionally replays retained conversation history according to `replayFrom`.
    """

    session_id: str = Field(description="The ID of the session to resume.")
    cwd: str = Field(description="The working directory for this session. Must be an absolute path.")
    additional_directories: NullIsEmpty[str] = Field(
        default_factory=list[str],
        description="Additional workspace roots to activate for this session. Each path must be absolute.",
    )
    mcp_servers: NullIsEmpty[McpServer] = Field(
        default_factory=list[McpServer], description="List of MCP servers to connect to for this session."
    )
    replay_from: ReplayFrom | None = Field(
        default=None, description="Inclusive cursor describing where conversation replay should begin."
    )


class ResumeSessionResponse(AcpMessage, frozen=True):
    """Response from resuming an existing session.

    The agent MUST send a current `state_update` after any requested history replay and before this response, even
    without replay. The update reports foreground state after resuming. The response alone does not imply `idle`.
    """

    config_options: ListOrAbsent[SessionConfigOption] = Field(
        default=None, description="Initial session configuration options."
    )
    available_commands: ListOrAbsent[AvailableCommand] = Field(
        default=None, description="Initial commands the agent can execute in this session."
    )


class SetSessionConfigOptionRequest(AcpMessage, frozen=True):
    """Request parameters for setting a session configuration option.

    Agents MUST support this method for any session where they advertise config options. Agents MUST reject an unknown
    `configId` or invalid value with `-32602` and leave the configuration unchanged.
    """

    session_id: str = Field(description="The ID of the session to set the configuration option for.")
    config_id: str = Field(description="The ID of the configuration option to set.")
    type: str = Field(description="Custom or future session configuration option value type.")
    value: FreeValue = Field(default=None)


class SetSessionConfigOptionResponse(AcpMessage, frozen=True):
    """Response to `session/set_config_option` method."""

    config_options: list[Annotated[SessionConfigOption, SkipIfMalformed()]] = Field(
        description="The full set of configuration options and their current values."
    )


class SessionState(StrEnum):
    """Custom or future session state.

    Values beginning with `_` are reserved for implementation-specific extensions. Unknown values that do not begin with
    `_` are reserved for future ACP variants.
    """

    RUNNING = "running"
    IDLE = "idle"
    REQUIRES_ACTION = "requires_action"


class StopReason(StrEnum):
    """Why foreground work stopped. The value selects one of this type's variants, which may add fields of their own.

    Optional. Omitted and `null` are equivalent and mean the agent is not reporting a stop reason; a malformed value is
    treated the same way.
    """

    END_TURN = "end_turn"
    MAX_TOKENS = "max_tokens"
    MAX_TURN_REQUESTS = "max_turn_requests"
    REFUSAL = "refusal"
    CANCELLED = "cancelled"
    ERROR = "error"


class BackgroundWork(OpenTagged, frozen=True):
    """One piece of work running independently of the session's foreground work.

    Items reference entities the Client already tracks. The Agent MUST announce each item before the first snapshot that
    lists it, and MUST report a terminal's `exitStatus` or a tool call's final status before the snapshot that removes
    it. Each piece of work is listed once: process-backed work is listed as its terminal, not also as its tool call.
    """

    type: str

    if TYPE_CHECKING:  # the other members are those of the kind

        def __init__(self, *, type: str, **members: Any) -> None: ...


class BackgroundTerminal(BackgroundWork, frozen=True):
    """A listed terminal running in the background."""

    type: Literal["terminal"] = "terminal"
    terminal_id: str = Field(description="The ID of the listed terminal.")


class BackgroundToolCall(BackgroundWork, frozen=True):
    """A listed tool call whose work continues in the background."""

    type: Literal["tool_call"] = "tool_call"
    tool_call_id: str = Field(description="The ID of the listed tool call.")


class OtherBackgroundWork(BackgroundWork, frozen=True):
    """Custom or future background work.

    Values beginning with `_` are reserved for implementation-specific extensions. Unknown values that do not begin with
    `_` are reserved for future ACP variants.

    An unknown item still means background work is running, even when the Client cannot show what it is.
    """


close_union(
    BackgroundWork, "type", {"terminal": BackgroundTerminal, "tool_call": BackgroundToolCall}, other=OtherBackgroundWork
)


class TerminalOutput(AcpMessage, frozen=True):
    """An authoritative replacement snapshot of terminal output bytes."""

    data: str = Field(description="Base64-encoded replacement terminal output bytes.")


class TerminalExitStatus(AcpMessage, frozen=True):
    """Exit information for an agent-owned terminal.

    The presence of this object marks the terminal as exited, even when neither an exit code nor a signal is known.
    """

    exit_code: Annotated[int | None, AbsentIfMalformed()] = Field(
        default=None,
        description="Process exit code as the platform reports it, when known. Negative values are allowed, for example signed Windows exit codes. Omitted and `null` are equivalent.",
    )
    signal: LenientStr = Field(default=None, description="Signal that terminated the process, when known.")


class TerminalSize(AcpMessage, frozen=True):
    """The size of an agent-owned terminal in character cells."""

    cols: Annotated[int, Field(ge=1, le=65535)] = Field(description="Number of columns.")
    rows: Annotated[int, Field(ge=1, le=65535)] = Field(description="Number of rows.")


class TerminalCapabilities(AcpMessage, frozen=True):
    """Client-initiated controls a terminal currently supports.

    A malformed value falls back to no controls, so the Client never sends a request the Agent did not advertise.
    """

    cancel: Declared = Field(
        default=None, description="Permits the Client to cancel this terminal with `terminal/cancel`."
    )


class PlanUpdateContent(OpenTagged, frozen=True):
    """Updated content for a plan."""

    type: str

    if TYPE_CHECKING:  # the other members are those of the kind

        def __init__(self, *, type: str, **members: Any) -> None: ...


class PlanItems(PlanUpdateContent, frozen=True):
    """A plan represented as structured entries."""

    type: Literal["items"] = "items"
    plan_id: str = Field(description="The plan ID to update.")
    entries: list[Annotated[PlanEntry, SkipIfMalformed()]] = Field(description="The list of tasks to be accomplished.")


class OtherPlanUpdateContent(PlanUpdateContent, frozen=True):
    """Custom or future plan update content.

    Values beginning with `_` are reserved for implementation-specific extensions. Unknown values that do not begin with
    `_` are reserved for future ACP variants.

    Receivers that do not understand this content type should preserve the raw payload when storing, replaying,
    proxying, or forwarding plans, and otherwise ignore it or display it generically. It still replaces any earlier
    content for the same `planId`.
    """

    plan_id: str = Field(description="The plan ID to update.")


close_union(PlanUpdateContent, "type", {"items": PlanItems}, other=OtherPlanUpdateContent)


class SessionUpdate(OpenTagged, frozen=True):
    """Different types of updates that can be sent while a session exists.

    These updates report messages, progress, and other session activity.
    """

    session_update: str

    if TYPE_CHECKING:  # the other members are those of the kind

        def __init__(self, *, session_update: str, **members: Any) -> None: ...


class ContentChunk(SessionUpdate, frozen=True):
    """A streamed item of message content."""

    session_update: Literal["user_message_chunk", "agent_message_chunk", "agent_thought_chunk"]
    message_id: str = Field(description="A unique identifier for the message this chunk belongs to.")
    content: OpenContentBlock = Field(description="A single item of content")


class UserMessage(SessionUpdate, frozen=True):
    """A user message upsert.

    Only `messageId` is required. `content` has patch semantics: an omitted field leaves existing message content
    unchanged, `null` clears the value, and a concrete array replaces the previous value. For a new `messageId`, omitted
    `content` starts empty. `content` is replaced as a whole array. Send `[]` or `null` to clear it.

    Message updates and chunks are applied in the order they are received. When a `user_message` update includes
    `content`, that array replaces any content previously accumulated for the message, including content from earlier
    chunks. Later chunks with the same `messageId` append to the current content.
    """

    session_update: Literal["user_message"] = "user_message"
    message_id: str = Field(description="A unique identifier for the message.")
    content: ListOrAbsent[OpenContentBlock] = Field(
        default=None, description="Complete replacement content for this message."
    )


class AgentMessage(SessionUpdate, frozen=True):
    """An agent message upsert.

    Only `messageId` is required. `content` has patch semantics: an omitted field leaves existing message content
    unchanged, `null` clears the value, and a concrete array replaces the previous value. For a new `messageId`, omitted
    `content` starts empty. `content` is replaced as a whole array. Send `[]` or `null` to clear it.

    Message updates and chunks are applied in the order they are received. When an `agent_message` update includes
    `content`, that array replaces any content previously accumulated for the message, including content from earlier
    chunks. Later chunks with the same `messageId` append to the current content.
    """

    session_update: Literal["agent_message"] = "agent_message"
    message_id: str = Field(description="A unique identifier for the message.")
    content: ListOrAbsent[OpenContentBlock] = Field(
        default=None, description="Complete replacement content for this message."
    )


class AgentThought(SessionUpdate, frozen=True):
    """An agent thought or reasoning message upsert.

    Only `messageId` is required. `content` has patch semantics: an omitted field leaves existing thought content
    unchanged, `null` clears the value, and a concrete array replaces the previous value. For a new `messageId`, omitted
    `content` starts empty. `content` is replaced as a whole array. Send `[]` or `null` to clear it.

    Message updates and chunks are applied in the order they are received. When an `agent_thought` update includes
    `content`, that array replaces any content previously accumulated for the thought, including content from earlier
    chunks. Later chunks with the same `messageId` append to the current content.
    """

    session_update: Literal["agent_thought"] = "agent_thought"
    message_id: str = Field(description="A unique identifier for the thought message.")
    content: ListOrAbsent[OpenContentBlock] = Field(
        default=None, description="Complete replacement content for this thought message."
    )


class StateUpdate(SessionUpdate, frozen=True):
    """A snapshot of the session's aggregate foreground activity.

    Foreground work is the agent's active response or workflow in the session, including model processing, tool
    execution, and waiting for user action needed to continue that work. It can start with a prompt or be
    agent-initiated, for example to pursue an ongoing goal or follow up on a completed background task. Either way, the
    agent MUST report `running` when foreground work starts, or `requires_action` if it starts blocked on user action,
    and `idle` when it ends. The agent SHOULD include a stop reason on that idle update. Agent-initiated work does not
    require a prompt request or a synthetic user message.

    `running` may precede user-message insertion, for example during a foreground hook. It is not acknowledgment of
    insertion, and rejecting a prompt does not itself end foreground work.

    Background activity can continue and emit other `session/update` notifications while `idle`. Those notifications,
    including a detached task's progress or completion, do not by themselves change this state. A permission request
    only warrants `requires_action` when foreground work is blocked on user action.

    The agent SHOULD report `requires_action` when the foreground workflow as a whole cannot progress without user
    action, including permissions or elicitations. Once reported, it MUST report `running` when progress resumes, or
    `idle` when work ends without resuming. If other foreground work can progress, the state remains `running`.
    Resolving one of several requests does not itself change the state. Agents SHOULD ignore responses for work that has
    already ended rather than use them to resume it.

    A new session defaults to idle until a state update reports otherwise. Resume MUST send a current-state snapshot
    after any replay and before its response. The snapshot reports foreground state after resuming. The response alone
    does not imply idle. Repeated snapshots are idempotent, not additional work, completions, or usage. A repeated state
    may carry updated information without another state transition. The agent MUST report `idle` when no foreground
    activity remains. Completing an individual activity while other foreground work continues does not require an idle
    boundary. Local commands use the same lifecycle even without model work.
    """

    session_update: Literal["state_update"] = "state_update"
    state: Open[SessionState] = Field(description="Custom or future session state.")
    background: Annotated[list[BackgroundWork] | None, AbsentIfMalformed()] = Field(
        default=None, description="Work running independently of foreground work, as a complete snapshot."
    )
    stop_reason: Annotated[Open[StopReason] | None, AbsentIfMalformed()] = Field(
        default=None,
        description="Why foreground work stopped. The value selects one of this type's variants, which may add fields of their own.",
    )
    error: Annotated[RpcErrorObject | None, AbsentIfMalformed()] = Field(
        default=None, description="The failure, as a JSON-RPC error object."
    )


class ToolCallContentChunk(SessionUpdate, frozen=True):
    """A streamed item of tool-call content.

    Tool-call content chunks append one `ToolCallContent` item to the current content for the matching `toolCallId`.
    Agents can send a `tool_call_update` with `content` when they need to replace the whole content collection instead.
    """

    session_update: Literal["tool_call_content_chunk"] = "tool_call_content_chunk"
    tool_call_id: str = Field(description="The ID of the tool call this content belongs to.")
    content: ToolCallContent = Field(description="A single item of content produced by the tool call.")


class ToolCallChanged(ToolCallUpdate, SessionUpdate, frozen=True):
    """A tool call has been created or updated."""

    session_update: Literal["tool_call_update"] = "tool_call_update"


class TerminalUpdate(SessionUpdate, frozen=True):
    """An upsert for the stored state of an agent-owned terminal.

    Only `terminalId` is required. Other fields have patch semantics: omitted fields leave the stored value unchanged,
    `null` clears it, and concrete values replace it. A concrete `_meta` object instead patches the stored metadata by
    top-level key. When the terminal ID is new, omitted fields start unknown.
    """

    session_update: Literal["terminal_update"] = "terminal_update"
    terminal_id: str = Field(description="Unique identifier for this terminal within the session.")
    command: LenientStr = Field(default=None, description="The command being run.")
    cwd: LenientStr = Field(default=None, description="The absolute working directory of the command.")
    output: Annotated[TerminalOutput | None, AbsentIfMalformed()] = Field(
        default=None, description="An authoritative replacement snapshot of terminal output bytes."
    )
    exit_status: Annotated[TerminalExitStatus | None, AbsentIfMalformed()] = Field(
        default=None, description="Exit information. A concrete object marks the terminal as exited."
    )
    size: Annotated[TerminalSize | None, AbsentIfMalformed()] = Field(
        default=None, description="The terminal size the command runs with, when known."
    )
    capabilities: Annotated[TerminalCapabilities | None, AbsentIfMalformed()] = Field(
        default=None, description="Client-initiated controls this terminal currently supports, such as cancellation."
    )


class TerminalOutputChunk(SessionUpdate, frozen=True):
    """A chunk of bytes appended to an agent-owned terminal's output."""

    session_update: Literal["terminal_output_chunk"] = "terminal_output_chunk"
    terminal_id: str = Field(description="The terminal receiving these bytes.")
    data: str = Field(description="Independently base64-encoded terminal output bytes.")


class PlanUpdate(SessionUpdate, frozen=True):
    """A content update for a plan identified by ID."""

    session_update: Literal["plan_update"] = "plan_update"
    plan: PlanUpdateContent = Field(description="The updated plan content.")


class AvailableCommandsUpdate(SessionUpdate, frozen=True):
    """Available commands are ready or have changed"""

    session_update: Literal["available_commands_update"] = "available_commands_update"
    available_commands: list[Annotated[AvailableCommand, SkipIfMalformed()]] = Field(
        description="Commands the agent can execute."
    )


class ConfigOptionUpdate(SessionUpdate, frozen=True):
    """Session configuration options have been updated."""

    session_update: Literal["config_option_update"] = "config_option_update"
    config_options: list[Annotated[SessionConfigOption, SkipIfMalformed()]] = Field(
        description="The full set of configuration options and their current values."
    )


class SessionInfoUpdate(SessionUpdate, frozen=True):
    """Update to session metadata. All fields are optional to support partial updates.

    Agents send this notification to update session information like title or custom metadata. Clients can use it to
    keep session titles and state current.

    Omitted fields leave the existing session info unchanged. `null` clears the corresponding value. A concrete `_meta`
    object patches the stored metadata by top-level key.
    """

    session_update: Literal["session_info_update"] = "session_info_update"
    title: LenientStr = Field(default=None, description="Human-readable title for the session. Set to null to clear.")
    updated_at: LenientStr = Field(
        default=None, description="RFC 3339 timestamp of last activity. Set to null to clear."
    )


class UsageUpdate(SessionUpdate, frozen=True):
    """Context window and cost update for a session."""

    session_update: Literal["usage_update"] = "usage_update"
    used: Count = Field(description="Tokens currently in context.")
    size: Count = Field(description="Total context window size in tokens.")
    cost: Annotated[Cost | None, AbsentIfMalformed()] = Field(default=None, description="Cumulative session cost.")


class Notice(SessionUpdate, frozen=True):
    """Fire-and-forget information for the user.

    Notices are live events rather than session history. Agents must not rely on a notice being received, displayed, or
    seen by the user. No Client capability is required, and unsupported Clients may ignore notices.
    """

    session_update: Literal["notice"] = "notice"
    severity: Open[NoticeSeverity] = Field(description="Presentation severity hint.")
    title: Annotated[str, Field(min_length=1)] = Field(
        description="Required non-empty plain-text title that can stand alone."
    )
    description: LenientStr = Field(default=None, description="Optional plain-text detail or guidance.")


class CompactionUpdate(SessionUpdate, frozen=True):
    """A context compaction upsert. The first notification fixes the compaction's timeline position. Later updates
    with the same ID patch that entity in place.

    `summary`, `error`, and `_meta` have patch semantics: omission leaves the stored value unchanged, `null` clears it,
    and a concrete value replaces it. `summary: []` also clears the summary. A concrete `_meta` object patches the
    stored metadata by top-level key instead of replacing it.
    """

    session_update: Literal["compaction_update"] = "compaction_update"
    compaction_id: str = Field(description="The Agent-owned ID of this compaction, unique within the session.")
    status: Open[CompactionStatus] = Field(description="Current lifecycle status.")
    summary: ListOrAbsent[OpenContentBlock] = Field(
        default=None, description="Complete replacement user-displayable summary content for the compaction."
    )
    error: LenientStr = Field(default=None, description="Human-readable error details for the compaction.")


class CompactionSummaryChunk(SessionUpdate, frozen=True):
    """A content block appended to a compaction's summary. A first-seen ID creates an in-progress compaction. Chunks
    append in receive order.
    """

    session_update: Literal["compaction_summary_chunk"] = "compaction_summary_chunk"
    compaction_id: str = Field(description="ID of the compaction whose summary receives this content.")
    content: OpenContentBlock = Field(description="One content block to append.")


class OtherSessionUpdate(SessionUpdate, frozen=True):
    """Custom or future session update.

    Values beginning with `_` are reserved for implementation-specific extensions. Unknown values that do not begin with
    `_` are reserved for future ACP variants.

    Receivers that do not understand this update type should preserve the raw payload when storing, replaying, proxying,
    or forwarding session history, and otherwise ignore it or display it generically.
    """


close_union(
    SessionUpdate,
    "session_update",
    {
        "user_message_chunk": ContentChunk,
        "agent_message_chunk": ContentChunk,
        "agent_thought_chunk": ContentChunk,
        "user_message": UserMessage,
        "agent_message": AgentMessage,
        "agent_thought": AgentThought,
        "state_update": StateUpdate,
        "tool_call_content_chunk": ToolCallContentChunk,
        "tool_call_update": ToolCallChanged,
        "terminal_update": TerminalUpdate,
        "terminal_output_chunk": TerminalOutputChunk,
        "plan_update": PlanUpdate,
        "available_commands_update": AvailableCommandsUpdate,
        "config_option_update": ConfigOptionUpdate,
        "session_info_update": SessionInfoUpdate,
        "usage_update": UsageUpdate,
        "notice": Notice,
        "compaction_update": CompactionUpdate,
        "compaction_summary_chunk": CompactionSummaryChunk,
    },
    other=OtherSessionUpdate,
)


class UpdateSessionNotification(AcpMessage, frozen=True):
    """Notification containing a session update from the agent.

    Agents can send session updates at any point while the session exists.
    """

    session_id: str = Field(description="The ID of the session this update pertains to.")
    update: SessionUpdate = Field(description="The actual update content.")


PARAMETERS: Final[Mapping[str, type[AcpMessage]]] = {
    "$/cancel_request": CancelRequestNotification,
    "auth/login": LoginAuthRequest,
    "auth/logout": LogoutAuthRequest,
    "initialize": InitializeRequest,
    "session/cancel": CancelSessionNotification,
    "session/close": CloseSessionRequest,
    "session/delete": DeleteSessionRequest,
    "session/list": ListSessionsRequest,
    "session/new": NewSessionRequest,
    "session/prompt": PromptRequest,
    "session/request_permission": RequestPermissionRequest,
    "session/resume": ResumeSessionRequest,
    "session/set_config_option": SetSessionConfigOptionRequest,
    "session/update": UpdateSessionNotification,
    "terminal/cancel": CancelTerminalRequest,
    "tool_call/cancel": CancelToolCallRequest,
}
"""The parameters of each method."""


RESULTS: Final[Mapping[str, type[AcpMessage]]] = {
    "auth/login": LoginAuthResponse,
    "auth/logout": LogoutAuthResponse,
    "initialize": InitializeResponse,
    "session/close": CloseSessionResponse,
    "session/delete": DeleteSessionResponse,
    "session/list": ListSessionsResponse,
    "session/new": NewSessionResponse,
    "session/prompt": PromptResponse,
    "session/request_permission": RequestPermissionResponse,
    "session/resume": ResumeSessionResponse,
    "session/set_config_option": SetSessionConfigOptionResponse,
    "terminal/cancel": CancelTerminalResponse,
    "tool_call/cancel": CancelToolCallResponse,
}
"""The results of each method."""
