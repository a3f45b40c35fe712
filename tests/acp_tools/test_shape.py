"""The quick check accepts only what the wire models accept, and it accepts what agents send most often."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.acp_tools.shape import UPDATE, first_unverified, shape_faults

TEXT = {"type": "text", "text": "words"}
UNUSUAL: st.SearchStrategy[Any] = st.sampled_from(
    [None, 1, "x", [], {}, True, TEXT, {"type": "text"}, {"type": "image"}]
)
BLOCKS: st.SearchStrategy[Any] = st.one_of(st.just(TEXT), UNUSUAL)
PARTS: st.SearchStrategy[Any] = st.one_of(
    UNUSUAL,
    st.fixed_dictionaries({"type": st.just("content"), "content": BLOCKS}),
    st.sampled_from(
        [
            {"type": "diff", "path": "/a", "newText": "b"},
            {"type": "diff", "path": 1},
            {"type": "terminal", "terminalId": "t"},
            {"type": "terminal"},
        ]
    ),
)
KINDS = ["agent_message_chunk", "agent_thought_chunk", "user_message_chunk", "plan", "tool_call", "tool_call_update", 1]
MEMBERS: dict[str, st.SearchStrategy[Any]] = {
    "content": st.one_of(BLOCKS, st.lists(PARTS, max_size=3)),
    "toolCallId": st.sampled_from(["c", 1, None]),
    **dict.fromkeys(("messageId", "_meta", "title", "status", "locations", "rawOutput"), UNUSUAL),
}
UPDATES: st.SearchStrategy[Any] = st.fixed_dictionaries({"sessionUpdate": st.sampled_from(KINDS)}, optional=MEMBERS)


def line(update: Any) -> bytes:
    message = {"jsonrpc": "2.0", "method": UPDATE, "params": {"sessionId": "s", "update": update}}
    return json.dumps(message).encode()


@given(UPDATES, st.sampled_from([1, 2]))
def test_an_update_that_passes_the_quick_check_has_no_fault(update: Any, version: int):
    if first_unverified([line(update)], 0, version) == 1:
        params = json.dumps({"sessionId": "s", "update": update}).encode()
        assert shape_faults(UPDATE, params, version) == []


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    "update",
    [
        {"sessionUpdate": "agent_message_chunk", "content": TEXT, "messageId": "m"},
        {"sessionUpdate": "agent_thought_chunk", "content": TEXT, "messageId": "m"},
        {"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": [{"type": "content", "content": TEXT}]},
        {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed", "rawOutput": {"a": 1}},
    ],
)
def test_frequent_updates_pass_the_quick_check(update: Any, version: int):
    assert first_unverified([line(update)] * 3, 0, version) == 3


def params(**update: Any) -> bytes:
    return json.dumps({"sessionId": "s", "update": update}).encode()


BAD = {"type": "image", "data": "!!", "mimeType": "image/png"}


@pytest.mark.parametrize(("count", "reported"), [(1, 1), (20, 20), (30, 20)])
def test_the_number_of_faults_in_tool_content_is_limited(count: int, reported: int):
    content = [{"type": "content", "content": BAD}] * count
    raw = params(sessionUpdate="tool_call_update", toolCallId="c", content=content)
    assert len(shape_faults(UPDATE, raw, 1)) == reported


def test_a_fault_in_a_message_is_reported():
    assert len(shape_faults(UPDATE, params(sessionUpdate="agent_message_chunk", content=BAD), 1)) == 1


@pytest.mark.parametrize(("version", "faults"), [(1, ["Unsupported content type: _x"]), (2, [])])
def test_an_extension_type_in_tool_content_is_valid_in_the_draft_only(version: int, faults: list[str]):
    content = [{"type": "content", "content": {"type": "_x", "v": 1}}]
    assert (
        shape_faults(UPDATE, params(sessionUpdate="tool_call_update", toolCallId="c", content=content), version)
        == faults
    )
