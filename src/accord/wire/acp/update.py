"""The updates that an agent sends during a session (`session/update`), a union by `sessionUpdate`.

An unknown kind of update is kept whole as an `OtherUpdate`, since peers may be newer; an error in a known kind is
reported for that kind. Kinds that are the same in both versions belong to both unions.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from accord.wire.acp.base import AbsentIfMalformed, AcpMessage, Count, ListOrAbsent, ListOrEmpty, Open, OpenTagged
from accord.wire.acp.content import ContentBlock, DraftContentBlock, LenientStr
from accord.wire.acp.plan import PlanEntry
from accord.wire.acp.settings import AvailableCommand, SessionConfigOption
from accord.wire.acp.tool import ToolCall, ToolCallUpdate
from accord.wire.message import close_union


class SessionUpdate(OpenTagged, frozen=True):
    """One update. `SessionUpdate(session_update=…, …)` builds the kind that it names."""

    session_update: str


class DraftSessionUpdate(OpenTagged, frozen=True):
    """One update, in the draft; its own kinds are in `draft_update`."""

    session_update: str


class OtherUpdate(SessionUpdate, DraftSessionUpdate, frozen=True):
    """A kind of update that is not known; every member is kept."""


class MessageChunk(SessionUpdate, frozen=True):
    """A chunk of a message."""

    content: ContentBlock
    message_id: LenientStr = None


class UserMessageChunk(MessageChunk, frozen=True):
    """A chunk of a user message, when a session is replayed."""

    session_update: Literal["user_message_chunk"] = "user_message_chunk"


class AgentMessageChunk(MessageChunk, frozen=True):
    """A chunk of the agent's answer."""

    session_update: Literal["agent_message_chunk"] = "agent_message_chunk"


class AgentThoughtChunk(MessageChunk, frozen=True):
    """A chunk of the agent's reasoning."""

    session_update: Literal["agent_thought_chunk"] = "agent_thought_chunk"


class ToolCallStarted(ToolCall, SessionUpdate, frozen=True):
    """The start of a tool call."""

    session_update: Literal["tool_call"] = "tool_call"


class ToolCallChanged(ToolCallUpdate, SessionUpdate, frozen=True):
    """An update of a tool call."""

    session_update: Literal["tool_call_update"] = "tool_call_update"


class PlanUpdate(SessionUpdate, frozen=True):
    """The complete plan."""

    session_update: Literal["plan"] = "plan"
    entries: ListOrEmpty[PlanEntry]


class AvailableCommandsUpdate(SessionUpdate, frozen=True):
    """All available commands."""

    session_update: Literal["available_commands_update"] = "available_commands_update"
    available_commands: ListOrEmpty[AvailableCommand]


class CurrentModeUpdate(SessionUpdate, frozen=True):
    """The new current mode."""

    session_update: Literal["current_mode_update"] = "current_mode_update"
    current_mode_id: str


class ConfigOptionUpdate(SessionUpdate, frozen=True):
    """All options with their current values."""

    session_update: Literal["config_option_update"] = "config_option_update"
    config_options: ListOrEmpty[SessionConfigOption]


class SessionInfoUpdate(SessionUpdate, DraftSessionUpdate, frozen=True):
    """A new title or time of the session."""

    session_update: Literal["session_info_update"] = "session_info_update"
    title: LenientStr = None
    updated_at: LenientStr = None


class Cost(AcpMessage, frozen=True):
    """The cost of the session so far."""

    amount: Annotated[float, Field(strict=True, allow_inf_nan=False)]
    currency: str


class UsageUpdate(SessionUpdate, DraftSessionUpdate, frozen=True):
    """The used part of the context window."""

    session_update: Literal["usage_update"] = "usage_update"
    used: Count
    size: Count
    cost: Annotated[Cost | None, AbsentIfMalformed()] = None


class NoticeSeverity(StrEnum):
    """The severity of a notice."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class NoticeUpdate(SessionUpdate, DraftSessionUpdate, frozen=True):
    """A notice to the user that is not part of the answer."""

    session_update: Literal["notice"] = "notice"
    severity: Open[NoticeSeverity]
    title: Annotated[str, Field(min_length=1)]
    description: LenientStr = None


class CompactionStatus(StrEnum):
    """The status of a compaction."""

    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class CompactionUpdate(SessionUpdate, DraftSessionUpdate, frozen=True):
    """A compaction of the session's history."""

    session_update: Literal["compaction_update"] = "compaction_update"
    compaction_id: str
    status: Open[CompactionStatus]
    summary: ListOrAbsent[DraftContentBlock] = None
    error: LenientStr = None


class CompactionSummaryChunk(SessionUpdate, DraftSessionUpdate, frozen=True):
    """A chunk of the summary that replaces the compacted history."""

    session_update: Literal["compaction_summary_chunk"] = "compaction_summary_chunk"
    compaction_id: str
    content: DraftContentBlock


close_union(
    SessionUpdate,
    "session_update",
    {
        "user_message_chunk": UserMessageChunk,
        "agent_message_chunk": AgentMessageChunk,
        "agent_thought_chunk": AgentThoughtChunk,
        "tool_call": ToolCallStarted,
        "tool_call_update": ToolCallChanged,
        "plan": PlanUpdate,
        "available_commands_update": AvailableCommandsUpdate,
        "current_mode_update": CurrentModeUpdate,
        "config_option_update": ConfigOptionUpdate,
        "session_info_update": SessionInfoUpdate,
        "usage_update": UsageUpdate,
        "notice": NoticeUpdate,
        "compaction_update": CompactionUpdate,
        "compaction_summary_chunk": CompactionSummaryChunk,
    },
    other=OtherUpdate,
)


class SessionNotification(AcpMessage, frozen=True):
    """An update of a session."""

    session_id: str
    update: SessionUpdate
