"""The glance says "in order" only where the wire models say it, too; and it does say so where speed matters."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.acp_tools.proxy.shape import UPDATE, first_odd, shape_faults

TEXT = {"type": "text", "text": "words"}
ODD: st.SearchStrategy[Any] = st.sampled_from([None, 1, "x", [], {}, True, TEXT, {"type": "text"}, {"type": "image"}])
BLOCKS: st.SearchStrategy[Any] = st.one_of(st.just(TEXT), ODD)
PARTS: st.SearchStrategy[Any] = st.one_of(
    ODD,
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
    **dict.fromkeys(("messageId", "_meta", "title", "status", "locations", "rawOutput"), ODD),
}
UPDATES: st.SearchStrategy[Any] = st.fixed_dictionaries({"sessionUpdate": st.sampled_from(KINDS)}, optional=MEMBERS)


def line(update: Any) -> bytes:
    told = {"jsonrpc": "2.0", "method": UPDATE, "params": {"sessionId": "s", "update": update}}
    return json.dumps(told).encode()


@given(UPDATES, st.sampled_from([1, 2]))
def test_what_is_in_order_at_a_glance_has_no_fault(update: Any, version: int):
    if first_odd([line(update)], 0, version) == 1:
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
def test_what_agents_send_all_the_time_is_in_order_at_a_glance(update: Any, version: int):
    assert first_odd([line(update)] * 3, 0, version) == 3


def params(**update: Any) -> bytes:
    return json.dumps({"sessionId": "s", "update": update}).encode()


BAD = {"type": "image", "data": "!!", "mimeType": "image/png"}


@pytest.mark.parametrize(("count", "told"), [(1, 1), (20, 20), (30, 20)])
def test_faults_in_what_a_tool_gave_are_told_so_many_at_most(count: int, told: int):
    content = [{"type": "content", "content": BAD}] * count
    raw = params(sessionUpdate="tool_call_update", toolCallId="c", content=content)
    assert len(shape_faults(UPDATE, raw, 1)) == told


def test_faults_in_a_message_are_told():
    assert len(shape_faults(UPDATE, params(sessionUpdate="agent_message_chunk", content=BAD), 1)) == 1
