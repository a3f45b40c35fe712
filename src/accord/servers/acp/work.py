"""An agent's plans, tool calls and requests for permission, in either version's messages.

Pure. Which calls are open is not known here.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from accord.wire.acp.draft_update import DraftPlanUpdate, DraftToolCallChanged, PlanItems
from accord.wire.acp.tool import (
    ContentPart,
    DiffPart,
    DiffPatch,
    DraftContentPart,
    DraftDiffPart,
    DraftRequestPermissionRequest,
    DraftToolCallContent,
    DraftToolCallUpdate,
    PathChange,
    PermissionOption,
    RequestPermissionRequest,
    ToolCallContent,
    ToolCallSubject,
    ToolCallUpdate,
)
from accord.wire.acp.update import DraftSessionUpdate, PlanUpdate, SessionUpdate, ToolCallChanged, ToolCallStarted
from accord.wire.permission import PermissionQuestion
from accord.wire.working import PlanShown, ToolCallShown

NO_END = "\\ No newline at end of file\n"


def read_plan(data: Any) -> PlanShown | None:
    """The plan in an event, if it is one."""
    try:
        return PlanShown.model_validate(data)
    except ValidationError:
        return None


def read_call(data: Any) -> ToolCallShown | None:
    """The tool call in an event, if it is one."""
    try:
        return ToolCallShown.model_validate(data)
    except ValidationError:
        return None


def plan_update(
    plan: PlanShown, own: str, meta: Mapping[str, Any], *, is_draft: bool
) -> SessionUpdate | DraftSessionUpdate:
    """The plan as it is now; in the draft it has an id, and a turn has one plan."""
    if is_draft:
        return DraftPlanUpdate(plan=PlanItems(plan_id=f"{own}-plan", entries=plan.entries), _meta=dict(meta))
    return PlanUpdate(entries=plan.entries, _meta=dict(meta))


def call_update(
    call: ToolCallShown, call_id: str, meta: Mapping[str, Any], *, is_new: bool, is_draft: bool
) -> SessionUpdate | DraftSessionUpdate:
    """A call that begins or goes on, with what it has given so far."""
    told = {**call.dump(), "toolCallId": call_id, "_meta": dict(meta)}
    if is_draft:
        content = None if call.content is None else [_draft_part(part) for part in call.content]
        return DraftToolCallChanged.model_validate(told | ({} if content is None else {"content": content}))
    return (ToolCallStarted if is_new else ToolCallChanged).model_validate(told)


def permission_request(
    question: PermissionQuestion, session_id: str, call_id: str, *, is_new: bool, is_draft: bool
) -> RequestPermissionRequest | DraftRequestPermissionRequest:
    """The request for this permission. The draft has a title of its own for it: that of a call that is shown stays."""
    options = [PermissionOption(option_id=option.id, name=option.name, kind=option.kind) for option in question.options]
    told: dict[str, Any] = {**question.call.dump(), "toolCallId": call_id}
    if not is_draft:
        call = ToolCallUpdate.model_validate(told)
        return RequestPermissionRequest(session_id=session_id, tool_call=call, options=options)
    if question.call.content is not None:
        told["content"] = [_draft_part(part) for part in question.call.content]
    if not is_new:
        del told["title"]
    subject = ToolCallSubject(tool_call=DraftToolCallUpdate.model_validate(told))
    return DraftRequestPermissionRequest(session_id=session_id, title=question.title, subject=subject, options=options)


def _draft_part(part: ToolCallContent) -> DraftToolCallContent:
    match part:
        case ContentPart():
            return DraftContentPart.model_validate({"content": part.content.dump()})
        case DiffPart():
            operation = "add" if part.old_text is None else "modify"
            change = PathChange(operation=operation, path=part.path)
            return DraftDiffPart(changes=[change], patch=DiffPatch(format="git_patch", text=_patch(part)))
        case _:
            return DraftToolCallContent.model_validate(part.dump())


def _patch(part: DiffPart) -> str:
    """The whole file out and the whole file in: exact, and linear in their length."""
    before = "/dev/null" if part.old_text is None else f"a/{part.path.lstrip('/')}"
    old, new = _lines(part.old_text or ""), _lines(part.new_text)
    spans = f"@@ -{_span(old)} +{_span(new)} @@\n"
    gone, come = "".join(f"-{line}" for line in old), "".join(f"+{line}" for line in new)
    return f"--- {before}\n+++ b/{part.path.lstrip('/')}\n{spans}{gone}{come}"


def _lines(text: str) -> list[str]:
    lines = [f"{line}\n" for line in text.split("\n")]
    if text.endswith("\n") or not text:
        return lines[:-1]
    return [*lines[:-1], lines[-1] + NO_END]


def _span(lines: list[str]) -> str:
    return f"{1 if lines else 0},{len(lines)}"
