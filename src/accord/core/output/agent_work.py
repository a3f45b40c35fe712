"""Build the events that show an agent's work (plans, tool calls), and the requests for permission.

The events are for editors; the fallbacks in them are for all other clients. How an event is adapted to one client is
decided in `ladder`. How a request reaches the user is not known here.
"""

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

PLAN_LABEL: Final = "Plan"
PROGRESS: Final[Mapping[str, str]] = MappingProxyType(
    {ToolCallStatus.COMPLETED: "complete", ToolCallStatus.FAILED: "failed", ToolCallStatus.CANCELLED: "failed"}
)
"""The status of a tool call → the status of the progress that is its fallback; any other is running."""


def build_plan_event(steps: Sequence[Mapping[str, Any] | str]) -> dict[str, Any]:
    """Return the event for a plan, with progress and a list as its fallbacks."""
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
    """Return the event for a tool call; a client that shows neither calls nor progress gets only failures, as text."""
    call = parse_tool_call(call_id, title, content, more)
    status = PROGRESS.get(str(call.status), "running")
    event = {"type": TOOL_CALL, "data": call.dump(), "fallback": _progress(title, status)}
    return event if status == "failed" else {**event, "priority": "low"}


def parse_tool_call(call_id: str, title: str, content: Sequence[Any], more: Mapping[str, Any]) -> ToolCallPayload:
    """Return the validated tool call; raise `ValueError` for content that is not text, a content block or a diff."""
    given: list[Any] = []
    for item in content:
        part = {"type": "text", "text": item} if isinstance(item, str) else item
        given.append({"type": "content", "content": part} if part.get("type") in set(ContentType) else part)
    call = ToolCallPayload.model_validate({**more, "tool_call_id": call_id, "title": title, "content": given or None})
    if len(call.content or ()) != len(given):
        raise ValueError("content: expected texts, content blocks, or diffs with path and newText")
    return call


def _progress(label: str, status: str, **more: Any) -> dict[str, Any]:
    data = {"label": label, "status": status, **more}
    return {"type": PresentationEventType.PROGRESS_INDICATOR.value, "data": data}


OfferedOptions = Sequence[OfferedOption | Mapping[str, Any]] | Mapping[str, Mapping[str, Any]]
"""A list of options with `id`, `name` and `kind`; or a mapping from each id to `name` and `kind`."""

ALLOW_OR_REJECT: Final = (
    OfferedOption.trusted(id="allow", name="Allow", kind=PermissionOptionKind.ALLOW_ONCE),
    OfferedOption.trusted(id="reject", name="Reject", kind=PermissionOptionKind.REJECT_ONCE),
)
"""The default options."""

DISMISSED: Final = "The client says that it was cancelled"
UNREADABLE: Final = "The client's answer cannot be read"
UNKNOWN_OUTCOME: Final = "The client's answer is of a kind that is not known"
NOT_OFFERED: Final = "The client chose an option that was not offered"


def build_permission_question(
    title: str, call_id: str, content: Sequence[Any], more: Mapping[str, Any], offered: OfferedOptions
) -> PermissionRequest:
    """Return the validated request; raise `ValueError` for invalid content or options."""
    call = parse_tool_call(call_id, title, content, more)
    if isinstance(offered, Mapping):
        options: list[Any] = [{**option, "id": option_id} for option_id, option in offered.items()]
    else:
        options = list(offered)
    return PermissionRequest.model_validate({"title": title, "call": call, "options": options})


def read_permission(question: PermissionRequest, answered: Any) -> Permission:
    """Return the result of any answer from a client; only an option that was offered can allow."""
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
