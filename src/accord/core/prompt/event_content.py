"""Find the content blocks in a presentation event, so that they can be validated like those of a prompt.

It only finds them: the rules are in `rules`, and what happens to an event with a violation is for the caller.
"""

from collections.abc import Mapping
from typing import Any, Final, cast

from accord.acp.content import ContentType
from accord.core.prompt.validator import ValidationContext
from accord.wire.agent_work import TOOL_CALL

_TYPES: Final = frozenset(map(str, ContentType))


def content_in_event(event: Mapping[str, Any]) -> tuple[ValidationContext, list[Any]] | None:
    """The content blocks in this event and their context; None if it has none.

    `data.content` may be anything, such as the text of a `markdown_block`: only objects with the type of a content
    block count, and in a tool call the block of each part with the type `content`, whatever it is.
    """
    data = event.get("data")
    content: Any = cast("Mapping[str, Any]", data).get("content") if isinstance(data, Mapping) else None
    if not isinstance(content, list | Mapping):
        return None
    is_call = str(event.get("type")).lower() == TOOL_CALL
    blocks: list[Any] = []
    for item in cast("list[Any]", content if isinstance(content, list) else [content]):
        fields: Mapping[str, Any] = cast("Mapping[str, Any]", item) if isinstance(item, Mapping) else {}
        kind = fields.get("type")
        if not isinstance(kind, str):
            continue
        if kind in _TYPES:
            blocks.append(item)
        elif is_call and kind == "content":
            blocks.append(fields.get("content"))  # None, which the rules refuse, if the part has no block
    context = ValidationContext.TOOL_RESULT if is_call else ValidationContext.SESSION_UPDATE
    return (context, blocks) if blocks else None
