"""Which content blocks an event has, and in which context they are validated."""

from typing import Any

import pytest

from accord.core.prompt import ContentValidator, content_in_event
from tests.core.prompt.test_validator import AUDIO, BLOB, IMAGE, LINK, RESOURCE, TEXT

DIFF = {"type": "diff", "path": "/a.py", "newText": "b"}
CUSTOM = {"type": "_x"}


def part(block: Any) -> dict[str, Any]:
    return {"type": "content", "content": block}


def event(kind: Any, content: Any) -> dict[str, Any]:
    return {"id": "e", "type": kind, "data": {"title": "t", "content": content}}


FOUND: dict[str, tuple[dict[str, Any], tuple[str, list[Any]] | None]] = {
    "a tool call": (event("tool_call", [part(IMAGE)]), ("tool_result", [IMAGE])),
    "a tool call in capitals": (event("TOOL_CALL", [part(IMAGE)]), ("tool_result", [IMAGE])),
    "a tool call with several parts": (
        event("tool_call", [part(TEXT), DIFF, {"type": "terminal", "terminalId": "1"}, part(AUDIO), CUSTOM]),
        ("tool_result", [TEXT, AUDIO]),
    ),
    "a tool call with a block of unknown type": (event("tool_call", [part({"type": "video"})]), ("tool_result", [{"type": "video"}])),
    "a tool call with a malformed block": (event("tool_call", [part(7), {"type": "content"}]), ("tool_result", [7, None])),
    "a tool call with a diff only": (event("tool_call", [DIFF]), None),
    "a tool call with malformed parts": (event("tool_call", [None, 7, "x", {}, {"type": ["content"]}]), None),
    "a tool call with a bare block": (event("tool_call", [IMAGE]), ("tool_result", [IMAGE])),
    "a tool call with an object": (event("tool_call", part(IMAGE)), ("tool_result", [IMAGE])),
    "a tool call with no content": ({"type": "tool_call", "data": {"toolCallId": "1", "title": "t"}}, None),
    "a block": (event("preview", IMAGE), ("session_update", [IMAGE])),
    "a list of blocks": (event("preview", [TEXT, LINK, RESOURCE, BLOB]), ("session_update", [TEXT, LINK, RESOURCE, BLOB])),
    "a malformed block": (event("preview", {"type": "image"}), ("session_update", [{"type": "image"}])),
    "blocks among other items": (event("preview", ["x", IMAGE, CUSTOM, {"type": "step"}, None]), ("session_update", [IMAGE])),
    "the part of a tool call elsewhere": (event("preview", [part(IMAGE)]), None),
    "a block in a thought": (event("thought_trace", [IMAGE]), ("session_update", [IMAGE])),
    "steps of a thought": (event("thought_trace", [{"type": "search", "query": "q"}]), None),
    "a text": (event("markdown_block", "words"), None),
    "a type in capitals": (event("preview", {"type": "IMAGE"}), None),
    "a type that is no text": (event("preview", {"type": ["image"]}), None),
    "an event without a type": ({"data": {"content": IMAGE}}, ("session_update", [IMAGE])),
    "an event without data": ({"type": "tool_call"}, None),
    "data that is no object": ({"type": "tool_call", "data": [part(IMAGE)]}, None),
    "an ordinary event": ({"type": "progress_indicator", "data": {"label": "l", "status": "running"}}, None),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_each_event_has_its_content(name: str):
    given, expected = FOUND[name]
    assert content_in_event(given) == expected


@pytest.mark.parametrize("kind", ["tool_call", "preview"])
def test_what_was_found_can_be_validated(kind: str):
    found = content_in_event(event(kind, [part(IMAGE)] if kind == "tool_call" else [IMAGE]))
    assert found is not None
    context, blocks = found
    assert not ContentValidator({}).validate(blocks, context).valid
    assert ContentValidator({"image": True}).validate(blocks, context).valid
