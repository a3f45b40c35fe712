"""Version 1 of the Agent Client Protocol.

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
    Flag,
    LenientStr,
    ListOrAbsent,
    ListOrEmpty,
    NullIsEmpty,
    Number,
    Open,
    OpenTagged,
)
from accord.acp.schema_parts import ContentBlock as ContentBlock
from accord.acp.schema_parts import PlanEntry as PlanEntry
from accord.acp.schema_parts import PromptCapabilities as PromptCapabilities
from accord.acp.schema_parts import RequestPermissionRequest as RequestPermissionRequest
from accord.acp.schema_parts import RequestPermissionResponse as RequestPermissionResponse
from accord.acp.schema_parts import ToolCallContent as ToolCallContent
from accord.acp.schema_parts import ToolCallLocation as ToolCallLocation
from accord.acp.schema_parts import ToolCallStatus as ToolCallStatus
from accord.acp.schema_parts import ToolCallUpdate as ToolCallUpdate
from accord.acp.schema_parts import ToolKind as ToolKind
from accord.wire.message import FreeObject, FreeValue, close_union


class AuthenticateRequest(AcpMessage, frozen=True):
    """Request parameters for the authenticate method.

    Specifies which authentication method to use.
    """

    method_id: str = Field(
        description="The ID of the authentication method to use. Must be one of the methods advertised in the initialize response."
    )


class AuthenticateResponse(AcpMessage, frozen=True):
    """Response to the `authenticate` method."""


class CancelNotification(AcpMessage, frozen=True):
    """Notification to cancel ongoing operations for a session."""

    session_id: str = Field(description="The ID of the session to cancel operations for.")


class CancelRequestNotification(AcpMessage, frozen=True):
    """Notification to cancel an ongoing request."""

    request_id: int | str = Field(description="The ID of the request to cancel.")


class CloseSessionRequest(AcpMessage, frozen=True):
    """Request parameters for closing an active session.

    If supported, the agent **must** cancel any ongoing work related to the session (treat it as if `session/cancel` was
    called) and then free up any resources associated with the session.

    Only available if the Agent supports the `sessionCapabilities.close` capability.
    """

    session_id: str = Field(description="The ID of the session to close.")


class CloseSessionResponse(AcpMessage, frozen=True):
    """Response from closing a session."""


class EnvVariable(AcpMessage, frozen=True):
    """An environment variable to set when launching an MCP server."""

    name: str = Field(description="The name of the environment variable.")
    value: str = Field(description="The value to set for the environment variable.")


class CreateTerminalRequest(AcpMessage, frozen=True):
    """Request to create a new terminal and execute a command."""

    session_id: str = Field(description="The session ID for this request.")
    command: str = Field(description="The command to execute.")
    args: NullIsEmpty[str] = Field(default_factory=list[str], description="Array of command arguments.")
    env: NullIsEmpty[EnvVariable] = Field(
        default_factory=list[EnvVariable], description="Environment variables for the command."
    )
    cwd: str | None = Field(default=None, description="Working directory for the command. Must be an absolute path.")
    output_byte_limit: Count | None = Field(default=None, description="Maximum number of output bytes to retain.")


class CreateTerminalResponse(AcpMessage, frozen=True):
    """Response containing the ID of the created terminal."""

    terminal_id: str = Field(description="The unique identifier for the created terminal.")


class DeleteSessionRequest(AcpMessage, frozen=True):
    """Request parameters for deleting an existing session from `session/list`.

    Only available if the Agent supports the `sessionCapabilities.delete` capability.
    """

    session_id: str = Field(description="The ID of the session to delete.")


class DeleteSessionResponse(AcpMessage, frozen=True):
    """Response from deleting a session."""


class FileSystemCapabilities(AcpMessage, frozen=True):
    """File system capabilities that a client may support."""

    read_text_file: Flag = Field(default=False, description="Whether the Client supports `fs/read_text_file` requests.")
    write_text_file: Flag = Field(
        default=False, description="Whether the Client supports `fs/write_text_file` requests."
    )


class SessionConfigOptionsCapabilities(AcpMessage, frozen=True):
    """Session configuration option capabilities supported by the client."""

    boolean: Declared = Field(
        default=None, description="Whether the client supports boolean session configuration options."
    )


class ClientSessionCapabilities(AcpMessage, frozen=True):
    """Session-related capabilities supported by the client."""

    compaction: Declared = Field(
        default=None,
        description="Support for ID-addressed context compaction updates. Omitted or `null` means unsupported. `{}` advertises the complete compaction contract.",
    )
    config_options: Annotated[SessionConfigOptionsCapabilities | None, AbsentIfMalformed()] = Field(
        default=None, description="Config option capabilities supported by the client."
    )
    notices: Declared = Field(default=None, description="Support for live user-facing `notice` session updates.")


class AuthCapabilities(AcpMessage, frozen=True):
    """Authentication capabilities supported by the client.

    Advertised during initialization to inform the agent which authentication method types the client can handle. This
    governs opt-in types that require additional client-side support.
    """

    terminal: Flag = Field(default=False, description="Whether the client supports `terminal` authentication methods.")


class ElicitationCapabilities(AcpMessage, frozen=True):
    """Elicitation capabilities supported by the client."""

    form: Declared = Field(default=None, description="Whether the client supports form-based elicitation.")
    url: Declared = Field(default=None, description="Whether the client supports URL-based elicitation.")


class ClientCapabilities(AcpMessage, frozen=True):
    """Capabilities supported by the client.

    Advertised during initialization to inform the agent about available features and methods.
    """

    fs: Annotated[FileSystemCapabilities, DefaultIfMalformed(FileSystemCapabilities)] = Field(
        default_factory=FileSystemCapabilities,
        description="File system capabilities supported by the client. Determines which file operations the agent can request.",
    )
    terminal: Flag = Field(default=False, description="Whether the Client support all `terminal/*` methods.")
    session: Annotated[ClientSessionCapabilities | None, AbsentIfMalformed()] = Field(
        default=None, description="Session-related capabilities supported by the client."
    )
    auth: Annotated[AuthCapabilities, DefaultIfMalformed(AuthCapabilities)] = Field(
        default_factory=AuthCapabilities,
        description="Authentication capabilities supported by the client. Determines which authentication method types the agent may include in its `InitializeResponse`.",
    )
    elicitation: Annotated[ElicitationCapabilities | None, AbsentIfMalformed()] = Field(
        default=None,
        description="Elicitation capabilities supported by the client. Determines which elicitation modes the agent may use.",
    )


class Implementation(AcpMessage, frozen=True):
    """Metadata about the implementation of the client or agent. Describes the name and version of an ACP
    implementation, with an optional title for UI representation.
    """

    name: str = Field(
        description="Intended for programmatic or logical use, but can be used as a display name fallback if title isn't present."
    )
    title: LenientStr = Field(
        default=None,
        description="Intended for UI and end-user contexts and optimized to be human-readable and easily understood.",
    )
    version: str = Field(
        description='Version of the implementation. Can be displayed to the user or used for debugging or metrics purposes. (e.g. "1.0.0").'
    )


class InitializeRequest(AcpMessage, frozen=True):
    """Request parameters for the initialize method.

    Sent by the client to establish connection and negotiate capabilities.
    """

    protocol_version: Annotated[int, Field(ge=0, le=65535)] = Field(
        description="The latest protocol version supported by the client."
    )
    client_capabilities: Annotated[ClientCapabilities, DefaultIfMalformed(ClientCapabilities)] = Field(
        default_factory=ClientCapabilities, description="Capabilities supported by the client."
    )
    client_info: Annotated[Implementation | None, AbsentIfMalformed()] = Field(
        default=None, description="Information about the Client name and version sent to the Agent."
    )


class McpCapabilities(AcpMessage, frozen=True):
    """MCP capabilities supported by the agent"""

    http: Flag = Field(default=False, description="Agent supports `http` MCP servers.")
    sse: Flag = Field(default=False, description="Agent supports `sse` MCP servers.")


class SessionCapabilities(AcpMessage, frozen=True):
    """Session capabilities supported by the agent.

    As a baseline, all Agents **MUST** support `session/new`, `session/prompt`, `session/cancel`, and `session/update`.

    Optionally, they **MAY** support other session methods and notifications by specifying additional capabilities.

    Note: `session/load` is still handled by the top-level `loadSession` capability. This will be unified in future
    versions of the protocol.
    """

    list: Declared = Field(default=None, description="Whether the agent supports `session/list`.")
    delete: Declared = Field(default=None, description="Whether the agent supports `session/delete`.")
    additional_directories: Declared = Field(
        default=None,
        description="Whether the agent supports `additionalDirectories` on supported session lifecycle requests.",
    )
    resume: Declared = Field(default=None, description="Whether the agent supports `session/resume`.")
    close: Declared = Field(default=None, description="Whether the agent supports `session/close`.")


class AgentAuthCapabilities(AcpMessage, frozen=True):
    """Authentication-related capabilities supported by the agent."""

    logout: Declared = Field(default=None, description="Whether the agent supports the logout method.")


class AgentCapabilities(AcpMessage, frozen=True):
    """Capabilities supported by the agent.

    Advertised during initialization to inform the client about available features and content types.
    """

    load_session: Flag = Field(default=False, description="Whether the agent supports `session/load`.")
    prompt_capabilities: Annotated[PromptCapabilities, DefaultIfMalformed(PromptCapabilities)] = Field(
        default_factory=PromptCapabilities, description="Prompt capabilities supported by the agent."
    )
    mcp_capabilities: Annotated[McpCapabilities, DefaultIfMalformed(McpCapabilities)] = Field(
        default_factory=McpCapabilities, description="MCP capabilities supported by the agent."
    )
    session_capabilities: Annotated[SessionCapabilities, DefaultIfMalformed(SessionCapabilities)] = Field(
        default_factory=SessionCapabilities,
        description="Session lifecycle and prompt capabilities advertised by the agent.",
    )
    auth: Annotated[AgentAuthCapabilities, DefaultIfMalformed(AgentAuthCapabilities)] = Field(
        default_factory=AgentAuthCapabilities, description="Authentication-related capabilities supported by the agent."
    )


class AuthMethodTerminal(AcpMessage, frozen=True):
    """Terminal-based authentication method.

    The client runs the configured agent program as a separate interactive process for the user to authenticate via a
    TUI. Agents MUST advertise this method only when the client enabled its terminal authentication capability. A zero
    exit status signals success. Any other termination signals failure. The client MUST NOT pass this method to
    `authenticate`.
    """

    type: Literal["terminal"]
    id: str = Field(description="Unique identifier for this authentication method.")
    name: str = Field(description="Human-readable name of the authentication method.")
    description: LenientStr = Field(
        default=None, description="Optional human-readable description of this authentication method."
    )
    args: NullIsEmpty[str] = Field(
        default_factory=list[str],
        description="Additional arguments to append to the configured agent invocation for terminal auth.",
    )
    env: FreeObject | None = Field(
        default=None,
        description="Additional environment variables to set on the configured agent invocation for terminal auth. These values override same-named variables in the base launch configuration.",
    )


class AuthMethodAgent(AcpMessage, frozen=True):
    """Agent handles authentication itself through `authenticate`.

    This is the default authentication method type.
    """

    id: str = Field(description="Unique identifier for this authentication method.")
    name: str = Field(description="Human-readable name of the authentication method.")
    description: LenientStr = Field(
        default=None, description="Optional human-readable description of this authentication method."
    )


AuthMethod = Annotated[AuthMethodTerminal | AuthMethodAgent, Field(union_mode="left_to_right")]
"""Describes an available authentication method.

The `type` field acts as the discriminator in the serialized JSON form. When no `type` is present, the method is treated
as `agent`.
"""


class InitializeResponse(AcpMessage, frozen=True):
    """Response to the `initialize` method.

    Contains the negotiated protocol version and agent capabilities.
    """

    protocol_version: Annotated[int, Field(ge=0, le=65535)] = Field(
        description="The protocol version the client specified if supported by the agent, or the latest protocol version supported by the agent."
    )
    agent_capabilities: Annotated[AgentCapabilities, DefaultIfMalformed(AgentCapabilities)] = Field(
        default_factory=AgentCapabilities, description="Capabilities supported by the agent."
    )
    auth_methods: ListOrAbsent[AuthMethod] = Field(
        default=None, description="Authentication methods supported by the agent."
    )
    agent_info: Annotated[Implementation | None, AbsentIfMalformed()] = Field(
        default=None, description="Information about the Agent name and version sent to the Client."
    )


class KillTerminalRequest(AcpMessage, frozen=True):
    """Request to kill a terminal without releasing it."""

    session_id: str = Field(description="The session ID for this request.")
    terminal_id: str = Field(description="The ID of the terminal to kill.")


class KillTerminalResponse(AcpMessage, frozen=True):
    """Response to `terminal/kill` method"""


class ListSessionsRequest(AcpMessage, frozen=True):
    """Request parameters for listing existing sessions.

    Only available if the Agent supports the `sessionCapabilities.list` capability.
    """

    cwd: str | None = Field(default=None, description="Filter sessions by working directory. Must be an absolute path.")
    cursor: str | None = Field(
        default=None,
        description="Opaque cursor token from a previous response's nextCursor field for cursor-based pagination",
    )


class SessionInfo(AcpMessage, frozen=True):
    """Information about a session returned by session/list"""

    session_id: str = Field(description="Unique identifier for the session")
    cwd: str = Field(description="The working directory for this session. Must be an absolute path.")
    additional_directories: ListOrAbsent[str] = Field(
        default=None, description="Additional workspace roots reported for this session. Each path must be absolute."
    )
    title: LenientStr = Field(default=None, description="Human-readable title for the session")
    updated_at: LenientStr = Field(default=None, description="ISO 8601 timestamp of last activity")


class ListSessionsResponse(AcpMessage, frozen=True):
    """Response from listing sessions."""

    sessions: ListOrEmpty[SessionInfo] = Field(description="Array of session information objects")
    next_cursor: LenientStr = Field(
        default=None,
        description="Opaque cursor token. If present, pass this in the next request's cursor parameter to fetch the next page. If absent, there are no more results.",
    )


class HttpHeader(AcpMessage, frozen=True):
    """An HTTP header to set when making requests to the MCP server."""

    name: str = Field(description="The name of the HTTP header.")
    value: str = Field(description="The value to set for the HTTP header.")


class McpServerHttp(AcpMessage, frozen=True):
    """HTTP transport configuration for MCP."""

    type: Literal["http"]
    name: str = Field(description="Human-readable name identifying this MCP server.")
    url: str = Field(description="URL to the MCP server.")
    headers: NullIsEmpty[HttpHeader] = Field(
        default_factory=list[HttpHeader], description="HTTP headers to set when making requests to the MCP server."
    )


class McpServerSse(AcpMessage, frozen=True):
    """SSE transport configuration for MCP."""

    type: Literal["sse"]
    name: str = Field(description="Human-readable name identifying this MCP server.")
    url: str = Field(description="URL to the MCP server.")
    headers: NullIsEmpty[HttpHeader] = Field(
        default_factory=list[HttpHeader], description="HTTP headers to set when making requests to the MCP server."
    )


class McpServerStdio(AcpMessage, frozen=True):
    """Stdio transport configuration for MCP."""

    name: str = Field(description="Human-readable name identifying this MCP server.")
    command: str = Field(description="Absolute path to the MCP server executable.")
    args: NullIsEmpty[str] = Field(
        default_factory=list[str], description="Command-line arguments to pass to the MCP server."
    )
    env: NullIsEmpty[EnvVariable] = Field(
        default_factory=list[EnvVariable], description="Environment variables to set when launching the MCP server."
    )


McpServer = Annotated[McpServerHttp | McpServerSse | McpServerStdio, Field(union_mode="left_to_right")]
"""Configuration for connecting to an MCP (Model Context Protocol) server.

MCP servers provide tools and context that the agent can use when processing prompts.
"""


class LoadSessionRequest(AcpMessage, frozen=True):
    """Request parameters for loading an existing session.

    Only available if the Agent supports the `loadSession` capability.
    """

    mcp_servers: NullIsEmpty[McpServer] = Field(
        default_factory=list[McpServer], description="List of MCP servers to connect to for this session."
    )
    cwd: str = Field(description="The working directory for this session. Must be an absolute path.")
    additional_directories: NullIsEmpty[str] = Field(
        default_factory=list[str],
        description="Additional workspace roots to activate for this session. Each path must be absolute.",
    )
    session_id: str = Field(description="The ID of the session to load.")


class SessionMode(AcpMessage, frozen=True):
    """A mode the agent can operate in."""

    id: str = Field(description="Stable identifier used to refer to this protocol object in later messages.")
    name: str = Field(description="Human-readable name shown for this protocol object.")
    description: LenientStr = Field(
        default=None, description="Optional human-readable details shown with this protocol object."
    )


class SessionModeState(AcpMessage, frozen=True):
    """The set of modes and the one currently active."""

    current_mode_id: str = Field(description="The current mode the Agent is in.")
    available_modes: ListOrEmpty[SessionMode] = Field(description="The set of modes that the Agent can operate in")


class SessionConfigOptionCategory(StrEnum):
    """Semantic category for a session configuration option.

    This is intended to help Clients distinguish broadly common selectors (e.g. model selector vs session mode selector
    vs thought/reasoning level) for UX purposes (keyboard shortcuts, icons, placement). It MUST NOT be required for
    correctness. Clients MUST handle missing or unknown categories gracefully.

    Category names beginning with `_` are free for custom use, like other ACP extension methods. Category names that do
    not begin with `_` are reserved for the ACP spec.
    """

    MODE = "mode"
    """Session mode selector."""
    MODEL = "model"
    """Model selector."""
    MODEL_CONFIG = "model_config"
    """Model-related configuration parameter."""
    THOUGHT_LEVEL = "thought_level"
    """Thought/reasoning level selector."""


class SessionConfigSelectOption(AcpMessage, frozen=True):
    """A possible value for a session configuration option."""

    value: str = Field(description="Unique identifier for this option value.")
    name: str = Field(description="Human-readable label for this option value.")
    description: LenientStr = Field(default=None, description="Optional description for this option value.")


class SessionConfigSelectGroup(AcpMessage, frozen=True):
    """A group of possible values for a session configuration option."""

    group: str = Field(description="Unique identifier for this group.")
    name: str = Field(description="Human-readable label for this group.")
    options: ListOrEmpty[SessionConfigSelectOption] = Field(description="The set of option values in this group.")


class SessionConfigOption(OpenTagged, frozen=True):
    """A session configuration option selector and its current state."""

    type: str
    id: str = Field(description="Unique identifier for the configuration option.")
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
    current_value: str = Field(description="The currently selected value.")
    options: list[SessionConfigSelectOption] | list[SessionConfigSelectGroup] = Field(
        description="The set of selectable options."
    )


class SessionConfigBoolean(SessionConfigOption, frozen=True):
    """A boolean on/off toggle session configuration option payload."""

    type: Literal["boolean"] = "boolean"
    current_value: bool = Field(description="The current value of the boolean option.")


class OtherSessionConfigOption(SessionConfigOption, frozen=True):
    """A kind of `SessionConfigOption` that is not known; every member is kept."""


close_union(
    SessionConfigOption,
    "type",
    {"select": SessionConfigSelect, "boolean": SessionConfigBoolean},
    other=OtherSessionConfigOption,
)


class LoadSessionResponse(AcpMessage, frozen=True):
    """Response from loading an existing session."""

    modes: Annotated[SessionModeState | None, AbsentIfMalformed()] = Field(
        default=None, description="Initial mode state if supported by the Agent"
    )
    config_options: ListOrAbsent[SessionConfigOption] = Field(
        default=None, description="Initial session configuration options if supported by the Agent."
    )


class LogoutRequest(AcpMessage, frozen=True):
    """Request parameters for the logout method.

    Terminates the current authenticated session.
    """


class LogoutResponse(AcpMessage, frozen=True):
    """Response to the `logout` method."""


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


class NewSessionResponse(AcpMessage, frozen=True):
    """Response from creating a new session."""

    session_id: str = Field(description="Unique identifier for the created session.")
    modes: Annotated[SessionModeState | None, AbsentIfMalformed()] = Field(
        default=None, description="Initial mode state if supported by the Agent"
    )
    config_options: ListOrAbsent[SessionConfigOption] = Field(
        default=None, description="Initial session configuration options if supported by the Agent."
    )


class PromptRequest(AcpMessage, frozen=True):
    """Request parameters for sending a user prompt to the agent.

    Contains the user's message and any additional context.
    """

    session_id: str = Field(description="The ID of the session to send this user message to")
    prompt: list[ContentBlock] = Field(description="The blocks of content that compose the user's message.")


class StopReason(StrEnum):
    """Reasons why an agent stops processing a prompt turn."""

    END_TURN = "end_turn"
    """The turn ended successfully."""
    MAX_TOKENS = "max_tokens"
    """The turn ended because the agent reached the maximum number of tokens."""
    MAX_TURN_REQUESTS = "max_turn_requests"
    """The turn ended because the agent reached the maximum number of allowed agent requests between user turns."""
    REFUSAL = "refusal"
    """The turn ended because the agent refused to continue. The user prompt and everything that comes after it won't
    be included in the next prompt, so this should be reflected in the UI.
    """
    CANCELLED = "cancelled"
    """The turn was cancelled by the client via `session/cancel`.

    This stop reason MUST be returned when the client sends a `session/cancel` notification, even if the cancellation
    causes exceptions in underlying operations. Agents should catch these exceptions and return this semantically
    meaningful response to confirm successful cancellation.
    """


class PromptResponse(AcpMessage, frozen=True):
    """Response from processing a user prompt."""

    stop_reason: StopReason = Field(description="Indicates why the agent stopped processing the turn.")


class ReadTextFileRequest(AcpMessage, frozen=True):
    """Request to read content from a text file.

    Only available if the client supports the `fs.readTextFile` capability.
    """

    session_id: str = Field(description="The session ID for this request.")
    path: str = Field(description="Absolute path to the file to read.")
    line: Count | None = Field(default=None, description="Line number to start reading from (1-based).")
    limit: Count | None = Field(default=None, description="Maximum number of lines to read.")


class ReadTextFileResponse(AcpMessage, frozen=True):
    """Response containing the contents of a text file."""

    content: str = Field(description="Content payload returned by this response.")


class ReleaseTerminalRequest(AcpMessage, frozen=True):
    """Request to release a terminal and free its resources."""

    session_id: str = Field(description="The session ID for this request.")
    terminal_id: str = Field(description="The ID of the terminal to release.")


class ReleaseTerminalResponse(AcpMessage, frozen=True):
    """Response to terminal/release method"""


class ResumeSessionRequest(AcpMessage, frozen=True):
    """Request parameters for resuming an existing session.

    Resumes an existing session without returning previous messages (unlike `session/load`). This is useful for agents
    that can resume sessions but don't implement full session loading.

    Only available if the Agent supports the `sessionCapabilities.resume` capability.
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


class ResumeSessionResponse(AcpMessage, frozen=True):
    """Response from resuming an existing session."""

    modes: Annotated[SessionModeState | None, AbsentIfMalformed()] = Field(
        default=None, description="Initial mode state if supported by the Agent"
    )
    config_options: ListOrAbsent[SessionConfigOption] = Field(
        default=None, description="Initial session configuration options if supported by the Agent."
    )


class UnstructuredCommandInput(AcpMessage, frozen=True):
    """All text that was typed after the command name is provided as input."""

    hint: str = Field(description="A hint to display when the input hasn't been provided yet")


class AvailableCommand(AcpMessage, frozen=True):
    """Information about a command."""

    name: str = Field(description="Command name (e.g., `create_plan`, `research_codebase`).")
    description: str = Field(description="Human-readable description of what the command does.")
    input: Annotated[UnstructuredCommandInput | None, AbsentIfMalformed()] = Field(
        default=None, description="Input for the command if required"
    )


class Cost(AcpMessage, frozen=True):
    """Cost information for a session."""

    amount: Number = Field(description="Total cumulative cost for session.")
    currency: str = Field(
        description='Unit of `amount`: an ISO 4217 currency code (e.g., "USD", "EUR") for money, or another unit such as "credits".'
    )


class NoticeSeverity(StrEnum):
    """Severity hint for a session notice."""

    INFO = "info"
    """Informational notice."""
    WARNING = "warning"
    """Warning notice."""
    ERROR = "error"
    """Error notice."""


class CompactionStatus(StrEnum):
    """Lifecycle state of a context compaction."""

    IN_PROGRESS = "in_progress"
    """Compaction has started and has not finished."""
    COMPLETED = "completed"
    """Compaction finished successfully."""
    FAILED = "failed"
    """Compaction finished unsuccessfully."""
    CANCELLED = "cancelled"
    """Compaction was cancelled before it finished."""


class SessionUpdate(OpenTagged, frozen=True):
    """Different types of updates that can be sent during session processing.

    These updates provide real-time feedback about the agent's progress.
    """

    session_update: str

    if TYPE_CHECKING:  # the other members are those of the kind

        def __init__(self, *, session_update: str, **members: Any) -> None: ...


class ContentChunk(SessionUpdate, frozen=True):
    """A streamed item of content"""

    session_update: Literal["user_message_chunk", "agent_message_chunk", "agent_thought_chunk"]
    content: ContentBlock = Field(description="A single item of content")
    message_id: LenientStr = Field(
        default=None, description="A unique identifier for the message this chunk belongs to."
    )


class ToolCall(SessionUpdate, frozen=True):
    """Represents a tool call that the language model has requested.

    Tool calls are actions that the agent executes on behalf of the language model, such as reading files, executing
    code, or fetching data from external sources.
    """

    session_update: Literal["tool_call"] = "tool_call"
    tool_call_id: str = Field(description="Unique identifier for this tool call within the session.")
    title: str = Field(description="Human-readable title describing what the tool is doing.")
    name: LenientStr = Field(default=None, description="Programmatic name of the tool being invoked.")
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


class ToolCallChanged(ToolCallUpdate, SessionUpdate, frozen=True):
    """Update on the status or results of a tool call."""

    session_update: Literal["tool_call_update"] = "tool_call_update"


class Plan(SessionUpdate, frozen=True):
    """An execution plan for accomplishing complex tasks.

    Plans consist of multiple entries representing individual tasks or goals. Agents report plans to clients to provide
    visibility into their execution strategy. Plans can evolve during execution as the agent discovers new requirements
    or completes tasks.
    """

    session_update: Literal["plan"] = "plan"
    entries: ListOrEmpty[PlanEntry] = Field(description="The list of tasks to be accomplished.")


class AvailableCommandsUpdate(SessionUpdate, frozen=True):
    """Available commands are ready or have changed"""

    session_update: Literal["available_commands_update"] = "available_commands_update"
    available_commands: ListOrEmpty[AvailableCommand] = Field(description="Commands the agent can execute")


class CurrentModeUpdate(SessionUpdate, frozen=True):
    """The current mode of the session has changed"""

    session_update: Literal["current_mode_update"] = "current_mode_update"
    current_mode_id: str = Field(description="The ID of the current mode")


class ConfigOptionUpdate(SessionUpdate, frozen=True):
    """Session configuration options have been updated."""

    session_update: Literal["config_option_update"] = "config_option_update"
    config_options: ListOrEmpty[SessionConfigOption] = Field(
        description="The full set of configuration options and their current values."
    )


class SessionInfoUpdate(SessionUpdate, frozen=True):
    """Update to session metadata. All fields are optional to support partial updates.

    Agents send this notification to update session information like title or custom metadata. Clients can use it to
    keep session titles and state current.
    """

    session_update: Literal["session_info_update"] = "session_info_update"
    title: LenientStr = Field(default=None, description="Human-readable title for the session. Set to null to clear.")
    updated_at: LenientStr = Field(
        default=None, description="ISO 8601 timestamp of last activity. Set to null to clear."
    )


class UsageUpdate(SessionUpdate, frozen=True):
    """Context window and cost update for a session."""

    session_update: Literal["usage_update"] = "usage_update"
    used: Count = Field(description="Tokens currently in context.")
    size: Count = Field(description="Total context window size in tokens.")
    cost: Annotated[Cost | None, AbsentIfMalformed()] = Field(
        default=None, description="Cumulative session cost (optional)."
    )


class Notice(SessionUpdate, frozen=True):
    """Fire-and-forget information for the user.

    Notices are live events rather than session history. Agents must not rely on a notice being received, displayed, or
    seen by the user. Agents MUST only send notices when the Client advertised the `session.notices` Client capability.
    Otherwise, Agents may use an agent message when the information should still be surfaced to the user.

    See RFD: [Session Notices](https://agentclientprotocol.com/rfds/session-notices)
    """

    session_update: Literal["notice"] = "notice"
    severity: Open[NoticeSeverity] = Field(description="Presentation severity hint.")
    title: Annotated[str, Field(min_length=1)] = Field(
        description="Required non-empty plain-text title that can stand alone."
    )
    description: LenientStr = Field(default=None, description="Optional plain-text detail or guidance.")


class CompactionUpdate(SessionUpdate, frozen=True):
    """A context compaction upsert. The first notification fixes the compaction's timeline position. Later updates
    with the same ID patch that entity in place. Agents MUST only send this update when the Client advertised the
    `session.compaction` Client capability.

    `summary`, `error`, and `_meta` have patch semantics: omission leaves the stored value unchanged, `null` clears it,
    and a concrete value replaces it. `summary: []` also clears the summary.
    """

    session_update: Literal["compaction_update"] = "compaction_update"
    compaction_id: str = Field(description="The Agent-owned ID of this compaction, unique within the session.")
    status: Open[CompactionStatus] = Field(description="Current lifecycle status.")
    summary: ListOrAbsent[ContentBlock] = Field(
        default=None, description="Complete replacement user-displayable summary content for the compaction."
    )
    error: LenientStr = Field(default=None, description="Human-readable error details for the compaction.")


class CompactionSummaryChunk(SessionUpdate, frozen=True):
    """A content block appended to a compaction's summary. A first-seen ID creates an in-progress compaction. Chunks
    append in receive order. Agents MUST only send this update when the Client advertised the `session.compaction`
    Client capability.
    """

    session_update: Literal["compaction_summary_chunk"] = "compaction_summary_chunk"
    compaction_id: str = Field(description="ID of the compaction whose summary receives this content.")
    content: ContentBlock = Field(description="One content block to append.")


class OtherSessionUpdate(SessionUpdate, frozen=True):
    """A kind of `SessionUpdate` that is not known; every member is kept."""


close_union(
    SessionUpdate,
    "session_update",
    {
        "user_message_chunk": ContentChunk,
        "agent_message_chunk": ContentChunk,
        "agent_thought_chunk": ContentChunk,
        "tool_call": ToolCall,
        "tool_call_update": ToolCallChanged,
        "plan": Plan,
        "available_commands_update": AvailableCommandsUpdate,
        "current_mode_update": CurrentModeUpdate,
        "config_option_update": ConfigOptionUpdate,
        "session_info_update": SessionInfoUpdate,
        "usage_update": UsageUpdate,
        "notice": Notice,
        "compaction_update": CompactionUpdate,
        "compaction_summary_chunk": CompactionSummaryChunk,
    },
    other=OtherSessionUpdate,
)


class SessionNotification(AcpMessage, frozen=True):
    """Notification containing a session update from the agent.

    Used to stream real-time progress and results during prompt processing.
    """

    session_id: str = Field(description="The ID of the session this update pertains to.")
    update: SessionUpdate = Field(description="The actual update content.")


class SetSessionConfigOptionRequest(AcpMessage, frozen=True):
    """Request parameters for setting a session configuration option."""

    session_id: str = Field(description="The ID of the session to set the configuration option for.")
    config_id: str = Field(description="The ID of the configuration option to set.")
    type: str | None = Field(default=None)
    value: bool | str


class SetSessionConfigOptionResponse(AcpMessage, frozen=True):
    """Response to `session/set_config_option` method."""

    config_options: ListOrEmpty[SessionConfigOption] = Field(
        description="The full set of configuration options and their current values."
    )


class SetSessionModeRequest(AcpMessage, frozen=True):
    """Request parameters for setting a session mode."""

    session_id: str = Field(description="The ID of the session to set the mode for.")
    mode_id: str = Field(description="The ID of the mode to set.")


class SetSessionModeResponse(AcpMessage, frozen=True):
    """Response to `session/set_mode` method."""


class TerminalOutputRequest(AcpMessage, frozen=True):
    """Request to get the current output and status of a terminal."""

    session_id: str = Field(description="The session ID for this request.")
    terminal_id: str = Field(description="The ID of the terminal to get output from.")


class TerminalExitStatus(AcpMessage, frozen=True):
    """Exit status of a terminal command."""

    exit_code: Annotated[Count | None, AbsentIfMalformed()] = Field(
        default=None, description="The process exit code (may be null if terminated by signal)."
    )
    signal: LenientStr = Field(
        default=None, description="The signal that terminated the process (may be null if exited normally)."
    )


class TerminalOutputResponse(AcpMessage, frozen=True):
    """Response containing the terminal output and exit status."""

    output: str = Field(description="The terminal output captured so far.")
    truncated: bool = Field(description="Whether the output was truncated due to byte limits.")
    exit_status: Annotated[TerminalExitStatus | None, AbsentIfMalformed()] = Field(
        default=None, description="Exit status if the command has completed."
    )


class WaitForTerminalExitRequest(AcpMessage, frozen=True):
    """Request to wait for a terminal command to exit."""

    session_id: str = Field(description="The session ID for this request.")
    terminal_id: str = Field(description="The ID of the terminal to wait for.")


class WaitForTerminalExitResponse(AcpMessage, frozen=True):
    """Response containing the exit status of a terminal command."""

    exit_code: Annotated[Count | None, AbsentIfMalformed()] = Field(
        default=None, description="The process exit code (may be null if terminated by signal)."
    )
    signal: LenientStr = Field(
        default=None, description="The signal that terminated the process (may be null if exited normally)."
    )


class WriteTextFileRequest(AcpMessage, frozen=True):
    """Request to write content to a text file.

    Only available if the client supports the `fs.writeTextFile` capability.
    """

    session_id: str = Field(description="The session ID for this request.")
    path: str = Field(description="Absolute path to the file to write.")
    content: str = Field(description="The text content to write to the file.")


class WriteTextFileResponse(AcpMessage, frozen=True):
    """Response to `fs/write_text_file`"""


PARAMETERS: Final[Mapping[str, type[AcpMessage]]] = {
    "$/cancel_request": CancelRequestNotification,
    "authenticate": AuthenticateRequest,
    "fs/read_text_file": ReadTextFileRequest,
    "fs/write_text_file": WriteTextFileRequest,
    "initialize": InitializeRequest,
    "logout": LogoutRequest,
    "session/cancel": CancelNotification,
    "session/close": CloseSessionRequest,
    "session/delete": DeleteSessionRequest,
    "session/list": ListSessionsRequest,
    "session/load": LoadSessionRequest,
    "session/new": NewSessionRequest,
    "session/prompt": PromptRequest,
    "session/request_permission": RequestPermissionRequest,
    "session/resume": ResumeSessionRequest,
    "session/set_config_option": SetSessionConfigOptionRequest,
    "session/set_mode": SetSessionModeRequest,
    "session/update": SessionNotification,
    "terminal/create": CreateTerminalRequest,
    "terminal/kill": KillTerminalRequest,
    "terminal/output": TerminalOutputRequest,
    "terminal/release": ReleaseTerminalRequest,
    "terminal/wait_for_exit": WaitForTerminalExitRequest,
}
"""The parameters of each method."""


RESULTS: Final[Mapping[str, type[AcpMessage]]] = {
    "authenticate": AuthenticateResponse,
    "fs/read_text_file": ReadTextFileResponse,
    "fs/write_text_file": WriteTextFileResponse,
    "initialize": InitializeResponse,
    "logout": LogoutResponse,
    "session/close": CloseSessionResponse,
    "session/delete": DeleteSessionResponse,
    "session/list": ListSessionsResponse,
    "session/load": LoadSessionResponse,
    "session/new": NewSessionResponse,
    "session/prompt": PromptResponse,
    "session/request_permission": RequestPermissionResponse,
    "session/resume": ResumeSessionResponse,
    "session/set_config_option": SetSessionConfigOptionResponse,
    "session/set_mode": SetSessionModeResponse,
    "terminal/create": CreateTerminalResponse,
    "terminal/kill": KillTerminalResponse,
    "terminal/output": TerminalOutputResponse,
    "terminal/release": ReleaseTerminalResponse,
    "terminal/wait_for_exit": WaitForTerminalExitResponse,
}
"""The results of each method."""
