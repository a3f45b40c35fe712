"""What an agent shows of its work beyond CAP's events: plans, tool calls, and permission requests.

Payloads and option kinds are those of the Agent Client Protocol, since editors show them.
"""

from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from accord.acp.base import AcpMessage
from accord.acp.schema_parts import PermissionOptionKind, PlanEntry, ToolCallUpdate
from accord.wire.message import Message

PLAN: Final = "plan"
TOOL_CALL: Final = "tool_call"


class PlanPayload(AcpMessage, frozen=True):
    """The whole plan as it is now."""

    entries: list[PlanEntry] = Field(min_length=1)


class ToolCallPayload(ToolCallUpdate, frozen=True):
    """A tool call; the same id again updates the same call."""

    title: str  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues] - here it is never absent


ALLOWING: Final = frozenset({PermissionOptionKind.ALLOW_ONCE, PermissionOptionKind.ALLOW_ALWAYS})
"""The kinds of option that grant the permission."""


class OfferedOption(Message, frozen=True):
    """One option that the user can choose."""

    id: str = Field(min_length=1, description="The id of the option.")
    name: str = Field(min_length=1, description="Its text for the user.")
    kind: PermissionOptionKind = Field(description="What choosing it means.")


def _check_ids(options: list[OfferedOption]) -> list[OfferedOption]:
    if len({option.id for option in options}) < len(options):
        raise PydanticCustomError("options", "Options should have different ids")
    return options


Options = Annotated[list[OfferedOption], Field(min_length=1), AfterValidator(_check_ids)]


class PermissionStatus(StrEnum):
    """The outcome of a permission request; only `allowed` grants it. `nobody`: no client can be asked."""

    ALLOWED = "allowed"
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    NO_CLIENT = "nobody"
    FAILED = "failed"


class PermissionRequest(Message, frozen=True):
    """A permission that an agent requests. `call` is the tool call that it is for."""

    title: str = Field(min_length=1)
    call: ToolCallPayload
    options: Options


class Permission(Message, frozen=True):
    """The outcome of a permission request. It is true only if the permission was granted."""

    status: PermissionStatus
    option: OfferedOption | None = Field(default=None, description="The chosen option; absent if none was.")
    why: str | None = Field(default=None, description="Why no option was chosen.")

    def __bool__(self) -> bool:
        return self.status is PermissionStatus.ALLOWED

    @classmethod
    def chosen(cls, option: OfferedOption) -> Self:
        """The outcome of choosing this option."""
        is_granted = option.kind in ALLOWING
        return cls(status=PermissionStatus.ALLOWED if is_granted else PermissionStatus.REJECTED, option=option)

    @model_validator(mode="after")
    def _check_option(self) -> Self:
        expected = None if self.option is None else self.option.kind in ALLOWING
        decided = {PermissionStatus.ALLOWED: True, PermissionStatus.REJECTED: False}.get(self.status)
        if decided is not expected:
            raise PydanticCustomError("permission", "Only allowed and rejected have an option, of that kind")
        return self


class PermissionRecord(Message, frozen=True):
    """A permission request in a receipt: its title in the agent's words, the options, and the outcome."""

    title: str = Field(description="What the permission is for.")
    options: list[OfferedOption] = Field(description="The options that the user had.")
    status: PermissionStatus = Field(description="The outcome.")
    chosen: str | None = Field(default=None, description="The id of the option that was chosen.")
    why: str | None = Field(default=None, description="Why no option was chosen.")
    waited_ms: float = Field(ge=0, allow_inf_nan=False, description="Milliseconds until the outcome.")
    tool_call_id: str | None = Field(default=None, description="The agent's id of the tool call that it was for.")
    after: int | None = Field(default=None, ge=0, description="How many packets of the turn came before it.")
