"""What an agent shows of its work beyond the protocol's six events: its plan, and the tools that it uses.

Their payloads have the Agent Client Protocol's own shape, since editors are who shows them.
"""

from typing import Final

from pydantic import Field

from accord.wire.acp.base import AcpMessage
from accord.wire.acp.tool import ToolCallUpdate
from accord.wire.acp.update import PlanEntry

PLAN: Final = "plan"
TOOL_CALL: Final = "tool_call"


class PlanShown(AcpMessage, frozen=True):
    """The whole plan as it is now."""

    entries: list[PlanEntry] = Field(min_length=1)


class ToolCallShown(ToolCallUpdate, frozen=True):
    """A tool at work; the same id again is the same call, gone on."""

    title: str  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues] - here it is never absent
