"""Sessions: opening, finding, prompting and ending them. The draft has its own shapes where it really differs."""

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


def _no_texts() -> list[str]:
    return []


class EnvVariable(AcpMessage, frozen=True):
    """A variable for a process's environment."""

    name: str
    value: str


class HttpHeader(AcpMessage, frozen=True):
    """A header for an HTTP request."""

    name: str
    value: str


def _no_variables() -> list[EnvVariable]:
    return []


def _no_headers() -> list[HttpHeader]:
    return []


class HttpMcpServer(AcpMessage, frozen=True):
    """An MCP server at an address."""

    type: Literal["http", "sse"]
    name: str
    url: str
    headers: NullIsEmpty[HttpHeader] = Field(default_factory=_no_headers)


class StdioMcpServer(AcpMessage, frozen=True):
    """An MCP server to start; every agent can. It has no `type`."""

    name: str
    command: str
    args: NullIsEmpty[str] = Field(default_factory=_no_texts)
    env: NullIsEmpty[EnvVariable] = Field(default_factory=_no_variables)


McpServer = Annotated[HttpMcpServer | StdioMcpServer, Field(union_mode="left_to_right")]
"""A server whose tools the agent may use."""


class DraftMcpServer(OpenTagged, frozen=True):
    """A server whose tools the agent may use, in the draft."""

    type: str


class DraftHttpMcpServer(DraftMcpServer, frozen=True):
    """An MCP server at an address, in the draft."""

    type: Literal["http"] = "http"
    name: str
    url: str
    headers: NullIsEmpty[HttpHeader] = Field(default_factory=_no_headers)


class DraftStdioMcpServer(DraftMcpServer, frozen=True):
    """An MCP server to start, in the draft."""

    type: Literal["stdio"] = "stdio"
    name: str
    command: str
    args: NullIsEmpty[str] = Field(default_factory=_no_texts)
    env: NullIsEmpty[EnvVariable] = Field(default_factory=_no_variables)


class OtherMcpServer(DraftMcpServer, frozen=True):
    """A way to an MCP server that is not known yet; keeps everything."""


close_union(DraftMcpServer, "type", {"http": DraftHttpMcpServer, "stdio": DraftStdioMcpServer}, other=OtherMcpServer)


def _no_servers() -> list[McpServer]:
    return []


def _no_draft_servers() -> list[DraftMcpServer]:
    return []


class SessionRequest(AcpMessage, frozen=True):
    """A request about one session."""

    session_id: str


class NewSessionRequest(AcpMessage, frozen=True):
    """Open a session."""

    cwd: str
    additional_directories: NullIsEmpty[str] = Field(default_factory=_no_texts)
    mcp_servers: NullIsEmpty[McpServer] = Field(default_factory=_no_servers)


class LoadSessionRequest(NewSessionRequest, frozen=True):
    """Reopen a session and replay it."""

    session_id: str


class ResumeSessionRequest(NewSessionRequest, frozen=True):
    """Reopen a session without replaying it."""

    session_id: str


class LoadSessionResponse(AcpMessage, frozen=True):
    """What a reopened session lets its user choose."""

    modes: Annotated[SessionModeState | None, AbsentIfMalformed()] = None
    config_options: ListOrAbsent[SessionConfigOption] = None


class ResumeSessionResponse(LoadSessionResponse, frozen=True):
    """What a resumed session lets its user choose."""


class NewSessionResponse(LoadSessionResponse, frozen=True):
    """The new session and what it lets its user choose."""

    session_id: str


class DraftNewSessionRequest(AcpMessage, frozen=True):
    """Open a session, in the draft."""

    cwd: str
    additional_directories: NullIsEmpty[str] = Field(default_factory=_no_texts)
    mcp_servers: NullIsEmpty[DraftMcpServer] = Field(default_factory=_no_draft_servers)


class ReplayFrom(AcpMessage, frozen=True):
    """Where the replay of a resumed session starts; `start` is the only place known yet."""

    type: str


class DraftResumeSessionRequest(DraftNewSessionRequest, frozen=True):
    """Reopen a session, replaying it if asked, in the draft."""

    session_id: str
    replay_from: ReplayFrom | None = None


class DraftResumeSessionResponse(AcpMessage, frozen=True):
    """What a resumed session lets its user choose, in the draft."""

    config_options: ListOrAbsent[DraftSessionConfigOption] = None
    available_commands: ListOrAbsent[DraftAvailableCommand] = None


class DraftNewSessionResponse(DraftResumeSessionResponse, frozen=True):
    """The new session and what it lets its user choose, in the draft."""

    session_id: str


class ListSessionsRequest(AcpMessage, frozen=True):
    """Ask for a page of the sessions that exist."""

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
    """A page of sessions, and where the next one starts."""

    sessions: ListOrEmpty[SessionInfo]
    next_cursor: LenientStr = None


class CloseSessionRequest(SessionRequest, frozen=True):
    """Free what a session holds; it can be reopened."""


class CloseSessionResponse(AcpMessage, frozen=True):
    """The session is closed."""


class DeleteSessionRequest(SessionRequest, frozen=True):
    """Forget a session."""


class DeleteSessionResponse(AcpMessage, frozen=True):
    """The session is forgotten."""


class SetSessionModeRequest(SessionRequest, frozen=True):
    """Choose a mode."""

    mode_id: str


class SetSessionModeResponse(AcpMessage, frozen=True):
    """The mode is in force."""


class SetSessionConfigOptionRequest(SessionRequest, frozen=True):
    """Set an option: a value's id, or a boolean under `type: boolean`."""

    config_id: str
    type: str | None = None
    value: StrictBool | str


class SetSessionConfigOptionResponse(AcpMessage, frozen=True):
    """All options as they are now."""

    config_options: ListOrEmpty[SessionConfigOption]


class DraftSetSessionConfigOptionRequest(SessionRequest, frozen=True):
    """Set an option, in the draft: `type` says what the value is; of a type not known yet, it may be null."""

    config_id: str
    type: str
    value: FreeValue = None


class DraftSetSessionConfigOptionResponse(AcpMessage, frozen=True):
    """All options as they are now, in the draft."""

    config_options: list[Annotated[DraftSessionConfigOption, SkipIfMalformed()]]


class StopReason(StrEnum):
    """Why a turn ended; `error` is the draft's."""

    END_TURN = "end_turn"
    MAX_TOKENS = "max_tokens"
    MAX_TURN_REQUESTS = "max_turn_requests"
    REFUSAL = "refusal"
    CANCELLED = "cancelled"
    ERROR = "error"


TurnEnd = Literal[
    StopReason.END_TURN,
    StopReason.MAX_TOKENS,
    StopReason.MAX_TURN_REQUESTS,
    StopReason.REFUSAL,
    StopReason.CANCELLED,
]
"""The reasons that protocol version 1 knows; it is closed to others."""


class PromptRequest(SessionRequest, frozen=True):
    """What the user says."""

    prompt: list[ContentBlock]


class PromptResponse(AcpMessage, frozen=True):
    """The turn is over."""

    stop_reason: TurnEnd


class DraftPromptRequest(SessionRequest, frozen=True):
    """What the user says, in the draft."""

    prompt: list[DraftContentBlock]


class DraftPromptResponse(AcpMessage, frozen=True):
    """The prompt was taken, in the draft; how the turn ends is told by a `state_update`."""

    message_id: str


class CancelNotification(SessionRequest, frozen=True):
    """End the session's turn now."""


class CancelRequestNotification(AcpMessage, frozen=True):
    """End the one request that has this id (`$/cancel_request`); null names no request."""

    request_id: StrictInt | StrictStr
