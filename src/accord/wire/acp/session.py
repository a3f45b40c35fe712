"""The messages that open, list, prompt and end sessions. The draft has its own where it differs."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr

from accord.wire.acp.base import (
    AbsentIfMalformed,
    AcpMessage,
    ListOrAbsent,
    ListOrEmpty,
    NullIsEmpty,
    OpenTagged,
    SkipIfMalformed,
)
from accord.wire.acp.content import ContentBlock, DraftContentBlock, LenientStr
from accord.wire.acp.settings import (
    DraftAvailableCommand,
    DraftSessionConfigOption,
    SessionConfigOption,
    SessionModeState,
)
from accord.wire.message import FreeValue, close_union


class EnvVariable(AcpMessage, frozen=True):
    """A variable for a process's environment."""

    name: str
    value: str


class HttpHeader(AcpMessage, frozen=True):
    """A header for an HTTP request."""

    name: str
    value: str


class HttpMcpServer(AcpMessage, frozen=True):
    """An MCP server at a URL."""

    type: Literal["http", "sse"]
    name: str
    url: str
    headers: NullIsEmpty[HttpHeader] = Field(default_factory=list[HttpHeader])


class StdioMcpServer(AcpMessage, frozen=True):
    """An MCP server to be started, which every agent supports. It has no `type`."""

    name: str
    command: str
    args: NullIsEmpty[str] = Field(default_factory=list[str])
    env: NullIsEmpty[EnvVariable] = Field(default_factory=list[EnvVariable])


McpServer = Annotated[HttpMcpServer | StdioMcpServer, Field(union_mode="left_to_right")]
"""A server whose tools the agent may use."""


class DraftMcpServer(OpenTagged, frozen=True):
    """A server whose tools the agent may use, in the draft."""

    type: str


class DraftHttpMcpServer(DraftMcpServer, frozen=True):
    """An MCP server at a URL, in the draft."""

    type: Literal["http"] = "http"
    name: str
    url: str
    headers: NullIsEmpty[HttpHeader] = Field(default_factory=list[HttpHeader])


class DraftStdioMcpServer(DraftMcpServer, frozen=True):
    """An MCP server to be started, in the draft."""

    type: Literal["stdio"] = "stdio"
    name: str
    command: str
    args: NullIsEmpty[str] = Field(default_factory=list[str])
    env: NullIsEmpty[EnvVariable] = Field(default_factory=list[EnvVariable])


class OtherMcpServer(DraftMcpServer, frozen=True):
    """A kind of MCP server that is not known; every member is kept."""


close_union(DraftMcpServer, "type", {"http": DraftHttpMcpServer, "stdio": DraftStdioMcpServer}, other=OtherMcpServer)


class SessionRequest(AcpMessage, frozen=True):
    """A request about one session."""

    session_id: str


class NewSessionRequest(AcpMessage, frozen=True):
    """Open a session."""

    cwd: str
    additional_directories: NullIsEmpty[str] = Field(default_factory=list[str])
    mcp_servers: NullIsEmpty[McpServer] = Field(default_factory=list[McpServer])


class LoadSessionRequest(NewSessionRequest, frozen=True):
    """Reopen a session and replay it."""

    session_id: str


class ResumeSessionRequest(NewSessionRequest, frozen=True):
    """Reopen a session without replaying it."""

    session_id: str


class LoadSessionResponse(AcpMessage, frozen=True):
    """The settings of a loaded session."""

    modes: Annotated[SessionModeState | None, AbsentIfMalformed()] = None
    config_options: ListOrAbsent[SessionConfigOption] = None


class ResumeSessionResponse(LoadSessionResponse, frozen=True):
    """The settings of a resumed session."""


class NewSessionResponse(LoadSessionResponse, frozen=True):
    """The new session and its settings."""

    session_id: str


class DraftNewSessionRequest(AcpMessage, frozen=True):
    """Open a session, in the draft."""

    cwd: str
    additional_directories: NullIsEmpty[str] = Field(default_factory=list[str])
    mcp_servers: NullIsEmpty[DraftMcpServer] = Field(default_factory=list[DraftMcpServer])


class ReplayFrom(AcpMessage, frozen=True):
    """Where the replay of a resumed session starts; `start` is the only known value."""

    type: str


class DraftResumeSessionRequest(DraftNewSessionRequest, frozen=True):
    """Reopen a session, with a replay if requested, in the draft."""

    session_id: str
    replay_from: ReplayFrom | None = None


class DraftResumeSessionResponse(AcpMessage, frozen=True):
    """The settings of a resumed session, in the draft."""

    config_options: ListOrAbsent[DraftSessionConfigOption] = None
    available_commands: ListOrAbsent[DraftAvailableCommand] = None


class DraftNewSessionResponse(DraftResumeSessionResponse, frozen=True):
    """The new session and its settings, in the draft."""

    session_id: str


class ListSessionsRequest(AcpMessage, frozen=True):
    """Request a page of the list of sessions."""

    cwd: str | None = None
    cursor: str | None = None


class SessionInfo(AcpMessage, frozen=True):
    """One session in a list."""

    session_id: str
    cwd: str
    additional_directories: ListOrAbsent[str] = None
    title: LenientStr = None
    updated_at: LenientStr = None


class ListSessionsResponse(AcpMessage, frozen=True):
    """A page of sessions, and the cursor of the next one."""

    sessions: ListOrEmpty[SessionInfo]
    next_cursor: LenientStr = None


class CloseSessionRequest(SessionRequest, frozen=True):
    """Release the resources of a session; it can be reopened."""


class CloseSessionResponse(AcpMessage, frozen=True):
    """The session is closed."""


class DeleteSessionRequest(SessionRequest, frozen=True):
    """Delete a session."""


class DeleteSessionResponse(AcpMessage, frozen=True):
    """The session is deleted."""


class SetSessionModeRequest(SessionRequest, frozen=True):
    """Set the mode."""

    mode_id: str


class SetSessionModeResponse(AcpMessage, frozen=True):
    """The mode is set."""


class SetSessionConfigOptionRequest(SessionRequest, frozen=True):
    """Set an option: a value's id, or a boolean under `type: boolean`."""

    config_id: str
    type: str | None = None
    value: StrictBool | str


class SetSessionConfigOptionResponse(AcpMessage, frozen=True):
    """All options with their current values."""

    config_options: ListOrEmpty[SessionConfigOption]


class DraftSetSessionConfigOptionRequest(SessionRequest, frozen=True):
    """Set an option, in the draft: `type` is the type of the value; for an unknown type the value may be null."""

    config_id: str
    type: str
    value: FreeValue = None


class DraftSetSessionConfigOptionResponse(AcpMessage, frozen=True):
    """All options with their current values, in the draft."""

    config_options: list[Annotated[DraftSessionConfigOption, SkipIfMalformed()]]


class StopReason(StrEnum):
    """Why a turn ended; `error` is the draft's."""

    END_TURN = "end_turn"
    MAX_TOKENS = "max_tokens"
    MAX_TURN_REQUESTS = "max_turn_requests"
    REFUSAL = "refusal"
    CANCELLED = "cancelled"
    ERROR = "error"


StopReasonV1 = Literal[
    StopReason.END_TURN,
    StopReason.MAX_TOKENS,
    StopReason.MAX_TURN_REQUESTS,
    StopReason.REFUSAL,
    StopReason.CANCELLED,
]
"""The reasons of protocol version 1, which allows no others."""


class PromptRequest(SessionRequest, frozen=True):
    """A prompt of the user."""

    prompt: list[ContentBlock]


class PromptResponse(AcpMessage, frozen=True):
    """The end of the turn."""

    stop_reason: StopReasonV1


class DraftPromptRequest(SessionRequest, frozen=True):
    """A prompt of the user, in the draft."""

    prompt: list[DraftContentBlock]


class DraftPromptResponse(AcpMessage, frozen=True):
    """The prompt was accepted, in the draft; a `state_update` reports the end of the turn."""

    message_id: str


class CancelNotification(SessionRequest, frozen=True):
    """Cancel the session's turn."""


class CancelRequestNotification(AcpMessage, frozen=True):
    """Cancel the request with this id (`$/cancel_request`); null is not allowed."""

    request_id: StrictInt | StrictStr
