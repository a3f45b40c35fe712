"""The event behind an update: it can be rebuilt exactly, as docs/acp.md shows, and nothing is sent twice."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.servers.acp.updates import DraftWriter, PromptUpdates, StableWriter
from tests.servers.acp.test_updates import PIXEL, SOURCE

PAGE = (Path(__file__).parents[3] / "docs/acp.md").read_text(encoding="utf-8")
(SNIPPET,) = re.findall(r"^```python\n(import copy\n.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
NAMESPACE: dict[str, Any] = {}
exec(SNIPPET, NAMESPACE)  # noqa: S102 - the function that the page shows
rebuild_event: Callable[[dict[str, Any]], dict[str, Any]] = NAMESPACE["rebuild_event"]

VERSIONS = pytest.mark.parametrize("is_draft", [False, True], ids=["stable", "draft"])


def updates_for(*events: dict[str, Any], is_draft: bool) -> list[dict[str, Any]]:
    updates = PromptUpdates((DraftWriter if is_draft else StableWriter)("s"), "turn")
    lines = updates.lines([json.dumps({"op": "event", "p": event}) for event in events])
    return [json.loads(line)["params"]["update"] for line in lines.splitlines()]


MARKER = "Words that should be sent once. "
BLOCK = {"type": "content", "content": {"type": "text", "text": MARKER}}
DIFF = {"type": "diff", "path": "/a.py", "oldText": "one\n", "newText": MARKER}
STEP = {"content": MARKER, "priority": "high", "status": "pending"}


def call(**data: Any) -> dict[str, Any]:
    return {"type": "tool_call", "data": {"toolCallId": "1", "title": "Edit", **data}}


EVENTS: dict[str, dict[str, Any]] = {
    "thought": {"type": "thought_trace", "data": {"thought": MARKER}},
    "thought in capitals": {"type": "THOUGHT_TRACE", "data": {"thought": MARKER}},
    "thought with more": {"type": "thought_trace", "data": {"text": MARKER, "step": 3, "thought": None}},
    "thought without text": {"type": "thought_trace", "data": {"steps": [{"type": "search", "query": MARKER}]}},
    "thought that is a list": {"type": "thought_trace", "data": [MARKER]},
    "progress": {"type": "progress_indicator", "data": {"label": MARKER, "status": "running"}},
    "finished progress": {"type": "progress_indicator", "data": {"label": MARKER, "status": "complete"}},
    "plan": {"type": "plan", "data": {"entries": [STEP, {**STEP, "content": "Act"}]}},
    "plan with more": {"type": "plan", "data": {"entries": [STEP], "a/b~c": [1], "_meta": {"k": 1}}},
    "tool call": call(status="completed", kind="edit", content=[BLOCK]),
    "tool call with input": call(rawInput={"command": MARKER}, locations=[{"path": "/a.py", "line": 3}]),
    "tool call with output": call(raw_output=[MARKER]),
    "tool call with unknown members": call(**{"a/b~c": {"d": MARKER}, "_meta": {"k": 1}, "sessionUpdate": "plan"}),
    "tool call with a diff": call(content=[DIFF]),
    "tool call with a new file": call(content=[{"type": "diff", "path": "/b.py", "newText": MARKER}]),
    "tool call with parts": call(content=[{**BLOCK, "content": {"type": "text", "text": "a"}}, {**DIFF, "x": 1}]),
    "tool call with an extension": call(content=[{"type": "_chart", "points": [MARKER]}]),
    "citation": {"type": "citation_block", "data": {"items": [{**SOURCE, "title": MARKER}]}},
    "media": {"type": "media_carousel", "data": {"items": [{**PIXEL, "alt_text": MARKER}]}},
    "markdown": {"type": "markdown_block", "data": {"content": MARKER}},
    "failed sub-task": {"type": "user_error", "data": {"message": MARKER}},
    "custom event": {"type": "chart", "data": {"points": [MARKER]}},
    "unreadable plan": {"type": "plan", "data": {"entries": MARKER}},
    "unreadable tool call": {"type": "tool_call", "data": {"content": [MARKER]}},
}
"""One of every kind; each has the marker once."""


@VERSIONS
@pytest.mark.parametrize("name", EVENTS)
def test_an_event_can_be_rebuilt_and_is_sent_once(name: str, is_draft: bool):
    event = {
        "id": "e",
        "timestamp": "2026-01-01T00:00:00Z",
        "fallback_text": "Sorry",
        "priority": "low",
        **EVENTS[name],
    }
    for update in updates_for(event, event, is_draft=is_draft):  # the second is an update of the same call
        assert rebuild_event(update) == event
        assert json.dumps(update).count(MARKER) == 1


PERCENT = {"type": "progress_indicator", "data": {"label": "Looking", "status": "running", "progress_percent": 0.5}}
NOT_COPIED: dict[str, dict[str, Any]] = {
    "a title with a percentage": PERCENT,
    "a part that cannot be read": call(content=[{"type": "diff", "newText": "a"}, DIFF]),
    "a path with a line break": call(content=[{**DIFF, "path": "/a\n-b\n+c"}]),
    "names in snake case": call(content=[{"type": "diff", "path": "/a", "new_text": "b"}]),
    "a malformed member": call(status=7, content=[{**BLOCK, "_meta": 5}], locations=["x", {"path": "/a"}]),
    "content that is no list": call(content=MARKER),
    "an event without data": {"type": "thought_trace"},
    "data that is null": {"type": "thought_trace", "data": None},
    "no type": {"data": {"content": "x"}},
}
"""Events that an update has in part or in another form."""


@VERSIONS
@pytest.mark.parametrize("name", NOT_COPIED)
def test_what_the_update_changes_stays_in_the_event(name: str, is_draft: bool):
    for update in updates_for(NOT_COPIED[name], NOT_COPIED[name], is_draft=is_draft):
        assert rebuild_event(update) == NOT_COPIED[name]


def test_an_event_of_a_kind_without_an_update_of_its_own_is_complete():
    (update,) = updates_for(EVENTS["citation"], is_draft=False)
    assert update["_meta"] == {"accord.event": EVENTS["citation"]}


def test_the_meta_of_a_tool_call_is_as_documented():
    (update,) = updates_for(call(status="completed", content=[DIFF]), is_draft=True)
    assert update["_meta"] == {
        "accord.event": {
            "type": "tool_call",
            "data": {"toolCallId": "1", "content": [{"type": "diff", "path": "/a.py"}]},
        },
        "accord.copies": [
            {"path": "/data/title", "from": "/title"},
            {"path": "/data/status", "from": "/status"},
            {"path": "/data/content/0/oldText", "from": "/content/0/patch/text", "as": "removed"},
            {"path": "/data/content/0/newText", "from": "/content/0/patch/text", "as": "added"},
        ],
    }


TEXTS = st.text(st.sampled_from("a-+\\@ \n\r\u2028")) | st.text()
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
DIFFS: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {"type": st.just("diff"), "path": TEXTS, "newText": TEXTS},
    optional={"oldText": TEXTS | st.none(), "_meta": VALUES, "new_text": VALUES, "patch": VALUES},
)
TEXT_BLOCKS: st.SearchStrategy[Any] = st.fixed_dictionaries({"type": st.just("text"), "text": TEXTS})
BLOCKS: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {"type": st.just("content"), "content": TEXT_BLOCKS},
    optional={"_meta": VALUES, "meta": VALUES},
)
PARTS: st.SearchStrategy[Any] = DIFFS | BLOCKS | st.fixed_dictionaries({"type": st.just("_x")}, optional={"a": VALUES})
NAMES = st.sampled_from(
    "thought text content label title status kind entries locations rawInput raw_input _meta meta capabilities "
    "progress_percent sessionUpdate session_update toolCallId tool_call_id messageId".split()
)
MEMBERS: st.SearchStrategy[Any] = st.dictionaries(NAMES | TEXTS, VALUES | st.lists(PARTS, max_size=3), max_size=6)
GOOD: st.SearchStrategy[Any] = st.sampled_from(
    [{"toolCallId": "1", "title": "t"}, {"entries": [STEP]}, {"label": "l", "status": "running"}, {"text": "x"}]
)


@VERSIONS
@given(
    kind=st.sampled_from(["thought_trace", "progress_indicator", "plan", "tool_call", "Tool_Call", "chart"]),
    members=MEMBERS,
    good=GOOD,
    more=st.dictionaries(st.sampled_from(["id", "fallback_text", "x"]), VALUES),
)
def test_every_event_can_be_rebuilt(kind: str, members: Any, good: Any, more: Any, is_draft: bool):
    event = {**more, "type": kind, "data": {**members, **good}}
    for update in updates_for(event, is_draft=is_draft):
        assert rebuild_event(update) == event
