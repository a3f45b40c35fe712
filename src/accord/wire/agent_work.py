"""What an agent shows of its work beyond CAP's events: plans, tool calls, and permission requests."""

from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from accord.wire.acp.base import AcpMessage
from accord.wire.acp.tool import PermissionOptionKind, ToolCallUpdate
from accord.wire.acp.update import PlanEntry
from accord.wire.message import Message

# What an agent shows of its work beyond the protocol's six events: its plan, and the tools that it uses.
#
# Their payloads have the Agent Client Protocol's own shape, since editors are who shows them.

PLAN: Final = "plan"
TOOL_CALL: Final = "tool_call"


class PlanPayload(AcpMessage, frozen=True):
    """The whole plan as it is now."""

    entries: list[PlanEntry] = Field(min_length=1)


class ToolCallPayload(ToolCallUpdate, frozen=True):
    """A tool at work; the same id again is the same call, gone on."""

    title: str  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues] - here it is never absent


# What an agent asks its user's leave for, what it offers to choose from, and what came of it.
#
# The kinds of option are the Agent Client Protocol's; a request for permission is put in its messages by the door.

ALLOWING: Final = frozenset({PermissionOptionKind.ALLOW_ONCE, PermissionOptionKind.ALLOW_ALWAYS})
"""The kinds of option that are a yes."""


class OfferedOption(Message, frozen=True):
    """One answer that the user can give."""

    id: str = Field(min_length=1)
    name: str = Field(min_length=1)
    kind: PermissionOptionKind


def _each_once(options: list[OfferedOption]) -> list[OfferedOption]:
    if len({option.id for option in options}) < len(options):
        raise PydanticCustomError("options", "Options should have ids that differ")
    return options


Options = Annotated[list[OfferedOption], Field(min_length=1), AfterValidator(_each_once)]


class PermissionStatus(StrEnum):
    """What can come of asking for permission; only the first is a yes."""

    ALLOWED = "allowed"
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    NOBODY = "nobody"
    FAILED = "failed"


class PermissionRequest(Message, frozen=True):
    """What an agent asks leave for. `call` is the tool call that it is about."""

    title: str = Field(min_length=1)
    call: ToolCallPayload
    options: Options


class Permission(Message, frozen=True):
    """What came of asking: true if it is a yes, and nothing else is."""

    status: PermissionStatus
    option: OfferedOption | None = Field(default=None, description="What was chosen; absent if nothing was.")
    why: str | None = Field(default=None, description="Why nothing was chosen.")

    def __bool__(self) -> bool:
        return self.status is PermissionStatus.ALLOWED

    @classmethod
    def chosen(cls, option: OfferedOption) -> Self:
        """What choosing this option comes to."""
        is_yes = option.kind in ALLOWING
        return cls(status=PermissionStatus.ALLOWED if is_yes else PermissionStatus.REJECTED, option=option)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        expected = None if self.option is None else self.option.kind in ALLOWING
        decided = {PermissionStatus.ALLOWED: True, PermissionStatus.REJECTED: False}.get(self.status)
        if decided is not expected:
            raise PydanticCustomError("permission", "A yes or a no is an option of its kind, anything else is none")
        return self


class PermissionRecord(Message, frozen=True):
    """What a receipt says of one permission: what was asked for in the agent's words, what was offered, what came."""

    title: str
    options: list[OfferedOption]
    status: PermissionStatus
    chosen: str | None = Field(default=None, description="The id of the option that was chosen.")
    why: str | None = Field(default=None, description="Why nothing was chosen.")
    waited_ms: float = Field(ge=0, allow_inf_nan=False)
