"""Plans and tool calls as events, and permission requests with the answers that count as a yes."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from pydantic import ValidationError

from accord.wire.acp.content import ContentType
from accord.wire.acp.tool import (
    CancelledOutcome,
    PermissionOptionKind,
    RequestPermissionResponse,
    SelectedOutcome,
    ToolCallStatus,
)
from accord.wire.acp.update import PlanEntryPriority, PlanEntryStatus
from accord.wire.agent_work import (
    PLAN,
    TOOL_CALL,
    OfferedOption,
    Permission,
    PermissionRequest,
    PermissionStatus,
    PlanPayload,
    ToolCallPayload,
)
from accord.wire.event import PresentationEventType

# Makes the events that show an agent's work: for editors as they are, for any other client what its author would
# want.
#
# Pure. How an event is then adapted to one client is not decided here: a fallback is only its author's word.

PLAN_LABEL: Final = "Plan"
PROGRESS: Final[Mapping[str, str]] = MappingProxyType(
    {ToolCallStatus.COMPLETED: "complete", ToolCallStatus.FAILED: "failed", ToolCallStatus.CANCELLED: "failed"}
)
"""What a call's status is as progress; any other is running."""


def build_plan_event(steps: Sequence[Mapping[str, Any] | str]) -> dict[str, Any]:
    """What an event says that shows this plan: to editors, to who shows progress, and in words."""
    usual = {"priority": PlanEntryPriority.MEDIUM.value, "status": PlanEntryStatus.PENDING.value}
    given = [usual | ({"content": step} if isinstance(step, str) else dict(step)) for step in steps]
    plan = PlanPayload.model_validate({"entries": given})
    done = [entry.status == PlanEntryStatus.COMPLETED for entry in plan.entries]
    ticks = zip(plan.entries, done, strict=True)
    words = "\n".join(f"- [{'x' if is_done else ' '}] {entry.content}" for entry, is_done in ticks)
    status = "complete" if all(done) else "running"
    fallback = _progress(PLAN_LABEL, status, progress_percent=sum(done) / len(done))
    return {"type": PLAN, "data": plan.dump(), "fallback": fallback, "fallback_text": f"{words}\n"}


def build_tool_call_event(call_id: str, title: str, content: Sequence[Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """What an event says that shows this call; who shows neither calls nor progress is told only of its failure."""
    call = read_shown(call_id, title, content, more)
    status = PROGRESS.get(str(call.status), "running")
    told = {"type": TOOL_CALL, "data": call.dump(), "fallback": _progress(title, status)}
    return told if status == "failed" else {**told, "priority": "low"}


def read_shown(call_id: str, title: str, content: Sequence[Any], more: Mapping[str, Any]) -> ToolCallPayload:
    """The call that is shown; raises `ValueError` for content that is none."""
    given = [_part(item) for item in content]
    call = ToolCallPayload.model_validate({**more, "tool_call_id": call_id, "title": title, "content": given or None})
    if len(call.content or ()) != len(given):
        raise ValueError("content: expected texts, content blocks, or diffs with path and newText")
    return call


def _progress(label: str, status: str, **more: Any) -> dict[str, Any]:
    data = {"label": label, "status": status, **more}
    return {"type": PresentationEventType.PROGRESS_INDICATOR.value, "data": data}


def _part(item: Any) -> Any:
    if isinstance(item, str):
        item = {"type": "text", "text": item}
    return {"type": "content", "content": item} if item.get("type") in set(ContentType) else item


# Puts together what an agent asks leave for, and reads what a client answers: only what was offered can be a yes.
#
# Pure. Who is asked, and how long that takes, is not known here.

OfferedOptions = Sequence[OfferedOption | Mapping[str, Any]] | Mapping[str, Mapping[str, Any]]
"""Options with `id`, `name` and `kind` each; or `name` and `kind` by id."""

ALLOW_OR_REJECT: Final = (
    OfferedOption.trusted(id="allow", name="Allow", kind=PermissionOptionKind.ALLOW_ONCE),
    OfferedOption.trusted(id="reject", name="Reject", kind=PermissionOptionKind.REJECT_ONCE),
)
"""What is offered unless an agent says otherwise."""

DISMISSED: Final = "The client says that it was cancelled"
UNREADABLE: Final = "The client's answer cannot be read"
UNKNOWN_OUTCOME: Final = "The client's answer is of a kind that is not known"
NOT_OFFERED: Final = "The client chose an option that was not offered"


def build_permission_question(
    title: str, call_id: str, content: Sequence[Any], more: Mapping[str, Any], offered: OfferedOptions
) -> PermissionRequest:
    """What is asked; raises `ValueError` for content or options that are none."""
    call = read_shown(call_id, title, content, more)
    return PermissionRequest.model_validate({"title": title, "call": call, "options": _options(offered)})


def read_permission(question: PermissionRequest, answered: Any) -> Permission:
    """What a client's answer comes to, whatever it looks like."""
    try:
        outcome = RequestPermissionResponse.model_validate(answered).outcome
    except ValidationError:
        return Permission(status=PermissionStatus.FAILED, why=UNREADABLE)
    match outcome:
        case SelectedOutcome():
            for option in question.options:
                if option.id == outcome.option_id:
                    return Permission.chosen(option)
            return Permission(status=PermissionStatus.FAILED, why=NOT_OFFERED)
        case CancelledOutcome():
            return Permission(status=PermissionStatus.CANCELLED, why=DISMISSED)
        case _:
            return Permission(status=PermissionStatus.FAILED, why=UNKNOWN_OUTCOME)


def _options(offered: OfferedOptions) -> list[Any]:
    if isinstance(offered, Mapping):
        return [{**told, "id": own} for own, told in offered.items()]
    return list(offered)
