"""Makes the events that show an agent's work: for editors as they are, for any other client what its author would want.

Pure. How an event is then adapted to one client is not decided here: a fallback is only its author's word.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from accord.wire.acp.content import ContentType
from accord.wire.acp.tool import ToolCallStatus
from accord.wire.acp.update import PlanEntryPriority, PlanEntryStatus
from accord.wire.event import PresentationEventType
from accord.wire.working import PLAN, TOOL_CALL, PlanShown, ToolCallShown

PLAN_LABEL: Final = "Plan"
PROGRESS: Final[Mapping[str, str]] = MappingProxyType(
    {ToolCallStatus.COMPLETED: "complete", ToolCallStatus.FAILED: "failed", ToolCallStatus.CANCELLED: "failed"}
)
"""What a call's status is as progress; any other is running."""


def show_plan(steps: Sequence[Mapping[str, Any] | str]) -> dict[str, Any]:
    """What an event says that shows this plan: to editors, to who shows progress, and in words."""
    usual = {"priority": PlanEntryPriority.MEDIUM.value, "status": PlanEntryStatus.PENDING.value}
    given = [usual | ({"content": step} if isinstance(step, str) else dict(step)) for step in steps]
    plan = PlanShown.model_validate({"entries": given})
    done = [entry.status == PlanEntryStatus.COMPLETED for entry in plan.entries]
    ticks = zip(plan.entries, done, strict=True)
    words = "\n".join(f"- [{'x' if is_done else ' '}] {entry.content}" for entry, is_done in ticks)
    status = "complete" if all(done) else "running"
    fallback = _progress(PLAN_LABEL, status, progress_percent=sum(done) / len(done))
    return {"type": PLAN, "data": plan.dump(), "fallback": fallback, "fallback_text": f"{words}\n"}


def show_tool_call(call_id: str, title: str, content: Sequence[Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """What an event says that shows this call; who shows neither calls nor progress is told only of its failure."""
    call = read_shown(call_id, title, content, more)
    status = PROGRESS.get(str(call.status), "running")
    told = {"type": TOOL_CALL, "data": call.dump(), "fallback": _progress(title, status)}
    return told if status == "failed" else {**told, "priority": "low"}


def read_shown(call_id: str, title: str, content: Sequence[Any], more: Mapping[str, Any]) -> ToolCallShown:
    """The call that is shown; raises `ValueError` for content that is none."""
    given = [_part(item) for item in content]
    call = ToolCallShown.model_validate({**more, "tool_call_id": call_id, "title": title, "content": given or None})
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
