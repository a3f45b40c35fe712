"""The draft of version 2 in the terms of version 1: what Accord writes in version 1 becomes the draft's. Pure.

Only here the two versions meet; `schema_v1` and `schema_v2` have their messages. In the draft messages and plans have
ids, a tool call starts with an update, a diff is a patch, and a capability is an object.
"""

from typing import Any, Final

from accord.acp import schema_parts, schema_v1, schema_v2
from accord.acp.schema_parts import PromptCapabilities, RequestPermissionRequest, ToolCallContent, ToolCallUpdate
from accord.acp.schema_v1 import ContentChunk, InitializeResponse, SessionUpdate

VERSION: Final = 2
NO_FINAL_NEWLINE: Final = "\\ No newline at end of file\n"


def draft_initialize_response(response: InitializeResponse) -> schema_v2.InitializeResponse:
    """A response to `initialize`, of which the draft has the name, the prompt capabilities and `_meta`."""
    declared = response.agent_capabilities
    session = schema_v2.SessionCapabilities(prompt=draft_prompt_capabilities(declared.prompt_capabilities))
    capabilities = schema_v2.AgentCapabilities(session=session, _meta=declared.meta)
    info = response.agent_info
    return schema_v2.InitializeResponse.model_validate(
        {"protocolVersion": VERSION, "info": info, "capabilities": capabilities, "authMethods": []}
    )


def draft_prompt_capabilities(declared: PromptCapabilities) -> schema_v2.PromptCapabilities:
    """What an agent accepts in prompts: an object for each flag that is true."""
    flags = [flag for flag, value in declared.dump().items() if value is True]
    return schema_v2.PromptCapabilities.model_validate({flag: {} for flag in flags})


def draft_update(update: SessionUpdate, message_id: str) -> schema_v2.SessionUpdate:
    """An update of the message of this id; a message has at most one plan."""
    match update:
        case ContentChunk():
            return schema_v2.ContentChunk(
                session_update=update.session_update, message_id=message_id, content=update.content
            )
        case schema_v1.Plan():
            items = schema_v2.PlanItems(plan_id=f"{message_id}-plan", entries=update.entries)
            return schema_v2.PlanUpdate(plan=items)
        case schema_v1.ToolCall() | schema_v1.ToolCallChanged():
            return schema_v2.ToolCallChanged.model_validate(_call_members(update))
        case _:
            return schema_v2.SessionUpdate.model_validate(update.dump())


def draft_permission_request(
    request: RequestPermissionRequest, title: str, *, is_new_call: bool
) -> schema_v2.RequestPermissionRequest:
    """A request for a permission; it has a title of its own, so that a call which was shown keeps the one it has."""
    members = _call_members(request.tool_call)
    if not is_new_call:
        members.pop("title", None)
    subject = schema_v2.ToolCallPermissionSubject(tool_call=schema_v2.ToolCallUpdate.model_validate(members))
    return schema_v2.RequestPermissionRequest(
        session_id=request.session_id, title=title, subject=subject, options=request.options
    )


def _call_members(call: ToolCallUpdate | schema_v1.ToolCall) -> dict[str, Any]:
    members = {name: value for name, value in call.dump().items() if name != "sessionUpdate"}
    if call.content is not None:
        members["content"] = [_draft_part(part) for part in call.content]
    return members


def _draft_part(part: ToolCallContent) -> schema_v2.ToolCallContent:
    match part:
        case schema_parts.Diff():
            operation = "add" if part.old_text is None else "modify"
            change = schema_v2.DiffPathChange(operation=operation, path=part.path)
            patch = schema_v2.DiffPatch(format="git_patch", text=_git_patch(part))
            return schema_v2.Diff(changes=[change], patch=patch)
        case _:
            return schema_v2.ToolCallContent.model_validate(part.dump())


def _git_patch(part: schema_parts.Diff) -> str:
    """A patch that removes the whole old text and adds the whole new one: exact, and linear in their length."""
    before = "/dev/null" if part.old_text is None else f"a/{part.path.lstrip('/')}"
    old, new = _patch_lines(part.old_text or ""), _patch_lines(part.new_text)
    spans = " ".join(f"{sign}{1 if lines else 0},{len(lines)}" for sign, lines in (("-", old), ("+", new)))
    removed, added = "".join(f"-{line}" for line in old), "".join(f"+{line}" for line in new)
    return f"--- {before}\n+++ b/{part.path.lstrip('/')}\n@@ {spans} @@\n{removed}{added}"


def _patch_lines(text: str) -> list[str]:
    lines = [f"{line}\n" for line in text.split("\n")]
    if text.endswith("\n") or not text:
        return lines[:-1]
    return [*lines[:-1], lines[-1] + NO_FINAL_NEWLINE]
