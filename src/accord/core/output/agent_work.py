"""Build the events that show an agent's work (plans, tool calls), and the requests for permission.

The events are for editors; the fallbacks in them are for all other clients. How an event is adapted to one client is
decided in `ladder`. How a request reaches the user is not known here.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from pydantic import ValidationError

from accord.acp.content import ContentType
from accord.acp.schema_parts import (
    CancelledPermissionOutcome,
    PermissionOptionKind,
    PlanEntryPriority,
    PlanEntryStatus,
    RequestPermissionResponse,
    SelectedPermissionOutcome,
    ToolCallStatus,
)
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
    defaults = {"priority": PlanEntryPriority.MEDIUM.value, "status": PlanEntryStatus.PENDING.value}
    entries = [defaults | ({"content": step} if isinstance(step, str) else dict(step)) for step in steps]
    plan = PlanPayload.model_validate({"entries": entries})
    done = [entry.status == PlanEntryStatus.COMPLETED for entry in plan.entries]
    pairs = zip(plan.entries, done, strict=True)
    task_list = "".join(f"- [{'x' if is_done else ' '}] {entry.content}\n" for entry, is_done in pairs)
    status = "complete" if all(done) else "running"
    fallback = _progress(PLAN_LABEL, status, progress_percent=sum(done) / len(done))
    return {"type": PLAN, "data": plan.dump(), "fallback": fallback, "fallback_text": task_list}


def build_tool_call_event(call_id: str, title: str, content: Sequence[Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the event for a tool call; a client that shows neither calls nor progress gets only failures, as text."""
    call = parse_tool_call(call_id, title, content, more)
    status = PROGRESS.get(str(call.status), "running")
    event = {"type": TOOL_CALL, "data": call.dump(), "fallback": _progress(title, status)}
    return event if status == "failed" else {**event, "priority": "low"}


def parse_tool_call(call_id: str, title: str, content: Sequence[Any], more: Mapping[str, Any]) -> ToolCallPayload:
    """Return the validated tool call; raise `ValueError` for content that is not text, a content block or a diff."""
    parts: list[Any] = []
    for item in content:
        part = {"type": "text", "text": item} if isinstance(item, str) else item
        parts.append({"type": "content", "content": part} if part.get("type") in set(ContentType) else part)
    call = ToolCallPayload.model_validate({**more, "tool_call_id": call_id, "title": title, "content": parts or None})
    if len(call.content or ()) != len(parts):
        raise ValueError("content: expected texts, content blocks, or diffs with path and newText")
    return call


def _progress(label: str, status: str, **more: Any) -> dict[str, Any]:
    data = {"label": label, "status": status, **more}
    return {"type": PresentationEventType.PROGRESS_INDICATOR.value, "data": data}


OfferedOptions = Sequence[OfferedOption | Mapping[str, Any]] | Mapping[str, Mapping[str, Any]]
"""A list of options with `id`, `name` and `kind`; or a mapping from each id to `name` and `kind`."""

ALLOW_OR_REJECT: Final = (
    OfferedOption(id="allow", name="Allow", kind=PermissionOptionKind.ALLOW_ONCE),
    OfferedOption(id="reject", name="Reject", kind=PermissionOptionKind.REJECT_ONCE),
)
"""The options unless the agent passes others."""

DISMISSED: Final = "The client cancelled the request"
INVALID_RESPONSE: Final = "The client's response is not valid"
UNKNOWN_OUTCOME: Final = "The outcome in the client's response is unknown"
NOT_OFFERED: Final = "The client chose an option that was not offered"


def build_permission_request(
    title: str, call_id: str, content: Sequence[Any], more: Mapping[str, Any], offered: OfferedOptions
) -> PermissionRequest:
    """Return the validated request; raise `ValueError` for invalid content or options."""
    call = parse_tool_call(call_id, title, content, more)
    if isinstance(offered, Mapping):
        options: list[Any] = [{**option, "id": option_id} for option_id, option in offered.items()]
    else:
        options = list(offered)
    return PermissionRequest.model_validate({"title": title, "call": call, "options": options})


def read_permission(request: PermissionRequest, response: Any) -> Permission:
    """Return the result of any response from a client; only an option that was offered can allow."""
    try:
        outcome = RequestPermissionResponse.model_validate(response).outcome
    except ValidationError:
        return Permission(status=PermissionStatus.FAILED, why=INVALID_RESPONSE)
    match outcome:
        case SelectedPermissionOutcome():
            for option in request.options:
                if option.id == outcome.option_id:
                    return Permission.chosen(option)
            return Permission(status=PermissionStatus.FAILED, why=NOT_OFFERED)
        case CancelledPermissionOutcome():
            return Permission(status=PermissionStatus.CANCELLED, why=DISMISSED)
        case _:
            return Permission(status=PermissionStatus.FAILED, why=UNKNOWN_OUTCOME)
