"""The updates that an agent sends during a session, in the version 2 draft.

In the draft messages have ids and are sent whole or in chunks, a `state_update` ends a turn, and terminals belong to
the agent. Kinds that version 1 shares are in `update`.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from accord.wire.acp.base import AbsentIfMalformed, AcpMessage, ListOrAbsent, Open, OpenTagged, SkipIfMalformed
from accord.wire.acp.content import DraftContentBlock, LenientStr
from accord.wire.acp.plan import PlanEntry
from accord.wire.acp.rpc import RpcErrorObject
from accord.wire.acp.session import StopReason
from accord.wire.acp.settings import DraftAvailableCommand, DraftSessionConfigOption
from accord.wire.acp.tool import DraftToolCallContent, DraftToolCallUpdate, ToolCallCapabilities
from accord.wire.acp.update import (
    CompactionSummaryChunk,
    CompactionUpdate,
    DraftSessionUpdate,
    NoticeUpdate,
    OtherUpdate,
    SessionInfoUpdate,
    UsageUpdate,
)
from accord.wire.message import close_union


class DraftMessageChunk(DraftSessionUpdate, frozen=True):
    """A chunk of a message."""

    message_id: str
    content: DraftContentBlock


class DraftUserMessageChunk(DraftMessageChunk, frozen=True):
    """A chunk of a user message."""

    session_update: Literal["user_message_chunk"] = "user_message_chunk"


class DraftAgentMessageChunk(DraftMessageChunk, frozen=True):
    """A chunk of the agent's answer."""

    session_update: Literal["agent_message_chunk"] = "agent_message_chunk"


class DraftAgentThoughtChunk(DraftMessageChunk, frozen=True):
    """A chunk of the agent's reasoning."""

    session_update: Literal["agent_thought_chunk"] = "agent_thought_chunk"


class WholeMessage(DraftSessionUpdate, frozen=True):
    """A complete message; without `content`, its content is unchanged."""

    message_id: str
    content: ListOrAbsent[DraftContentBlock] = None


class UserMessage(WholeMessage, frozen=True):
    """A message of the user."""

    session_update: Literal["user_message"] = "user_message"


class AgentMessage(WholeMessage, frozen=True):
    """A message of the agent."""

    session_update: Literal["agent_message"] = "agent_message"


class AgentThought(WholeMessage, frozen=True):
    """The agent's reasoning."""

    session_update: Literal["agent_thought"] = "agent_thought"


class SessionState(StrEnum):
    """The state of the agent."""

    RUNNING = "running"
    IDLE = "idle"
    REQUIRES_ACTION = "requires_action"


class BackgroundWork(AcpMessage, frozen=True):
    """Work that runs beside the turn; `type` says which of the ids is present."""

    type: str
    terminal_id: LenientStr = None
    tool_call_id: LenientStr = None


class StateUpdate(DraftSessionUpdate, frozen=True):
    """The agent runs, is idle, or waits for its user. An idle agent may name the reason why the turn ended."""

    session_update: Literal["state_update"] = "state_update"
    state: Open[SessionState]
    background: Annotated[list[BackgroundWork] | None, AbsentIfMalformed()] = None
    stop_reason: Annotated[Open[StopReason] | None, AbsentIfMalformed()] = None
    error: Annotated[RpcErrorObject | None, AbsentIfMalformed()] = None


class DraftToolCallChanged(DraftToolCallUpdate, DraftSessionUpdate, frozen=True):
    """The start or an update of a tool call."""

    session_update: Literal["tool_call_update"] = "tool_call_update"


class ToolCallContentChunk(DraftSessionUpdate, frozen=True):
    """A chunk of a tool's output."""

    session_update: Literal["tool_call_content_chunk"] = "tool_call_content_chunk"
    tool_call_id: str
    content: DraftToolCallContent


class TerminalOutput(AcpMessage, frozen=True):
    """The complete output of a terminal, in base64."""

    data: str


class TerminalExitStatus(AcpMessage, frozen=True):
    """The exit status of a terminal's command."""

    exit_code: Annotated[int | None, Field(strict=True), AbsentIfMalformed()] = None
    signal: LenientStr = None


class TerminalSize(AcpMessage, frozen=True):
    """A terminal's columns and rows."""

    cols: Annotated[int, Field(strict=True, ge=1, le=65535)]
    rows: Annotated[int, Field(strict=True, ge=1, le=65535)]


class TerminalUpdate(DraftSessionUpdate, frozen=True):
    """A terminal, or an update of it."""

    session_update: Literal["terminal_update"] = "terminal_update"
    terminal_id: str
    command: LenientStr = None
    cwd: LenientStr = None
    output: Annotated[TerminalOutput | None, AbsentIfMalformed()] = None
    exit_status: Annotated[TerminalExitStatus | None, AbsentIfMalformed()] = None
    size: Annotated[TerminalSize | None, AbsentIfMalformed()] = None
    capabilities: Annotated[ToolCallCapabilities | None, AbsentIfMalformed()] = None


class TerminalOutputChunk(DraftSessionUpdate, frozen=True):
    """A chunk of a terminal's output, in base64."""

    session_update: Literal["terminal_output_chunk"] = "terminal_output_chunk"
    terminal_id: str
    data: str


class DraftPlan(OpenTagged, frozen=True):
    """A plan with an id, so that there can be several."""

    type: str
    plan_id: str


class PlanItems(DraftPlan, frozen=True):
    """A plan as a list of steps."""

    type: Literal["items"] = "items"
    entries: list[Annotated[PlanEntry, SkipIfMalformed()]]


class OtherPlan(DraftPlan, frozen=True):
    """A form of plan that is not known; every member is kept."""


close_union(DraftPlan, "type", {"items": PlanItems}, other=OtherPlan)


class DraftPlanUpdate(DraftSessionUpdate, frozen=True):
    """The current plan."""

    session_update: Literal["plan_update"] = "plan_update"
    plan: DraftPlan


class DraftAvailableCommandsUpdate(DraftSessionUpdate, frozen=True):
    """All available commands."""

    session_update: Literal["available_commands_update"] = "available_commands_update"
    available_commands: list[Annotated[DraftAvailableCommand, SkipIfMalformed()]]


class DraftConfigOptionUpdate(DraftSessionUpdate, frozen=True):
    """All options with their current values."""

    session_update: Literal["config_option_update"] = "config_option_update"
    config_options: list[Annotated[DraftSessionConfigOption, SkipIfMalformed()]]


close_union(
    DraftSessionUpdate,
    "session_update",
    {
        "user_message_chunk": DraftUserMessageChunk,
        "agent_message_chunk": DraftAgentMessageChunk,
        "agent_thought_chunk": DraftAgentThoughtChunk,
        "user_message": UserMessage,
        "agent_message": AgentMessage,
        "agent_thought": AgentThought,
        "state_update": StateUpdate,
        "tool_call_update": DraftToolCallChanged,
        "tool_call_content_chunk": ToolCallContentChunk,
        "terminal_update": TerminalUpdate,
        "terminal_output_chunk": TerminalOutputChunk,
        "plan_update": DraftPlanUpdate,
        "available_commands_update": DraftAvailableCommandsUpdate,
        "config_option_update": DraftConfigOptionUpdate,
        "session_info_update": SessionInfoUpdate,
        "usage_update": UsageUpdate,
        "notice": NoticeUpdate,
        "compaction_update": CompactionUpdate,
        "compaction_summary_chunk": CompactionSummaryChunk,
    },
    other=OtherUpdate,
)


class DraftSessionNotification(AcpMessage, frozen=True):
    """An update of a session, in the draft."""

    session_id: str
    update: DraftSessionUpdate
