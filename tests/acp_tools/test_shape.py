"""The quick check accepts only what the wire models accept; strict checks also find what clients must tolerate."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.acp_tools.shape import PERMISSION, UPDATE, first_unverified, result_faults, shape_faults, strict_faults

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


@pytest.mark.parametrize(
    ("update", "faults"),
    [
        ({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t", "status": "completed"}, []),
        (
            {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t", "status": "done"},
            ["status: 'done' is none of completed, failed, in_progress, pending"],
        ),
        (
            {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t", "locations": [{"path": 1}]},
            ["update.locations: malformed"],
        ),
        ({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t", "content": {}}, ["update.content: malformed"]),
        ({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {}}, ["update.cost: malformed"]),
        ({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": None}, []),
        (
            {"sessionUpdate": "plan", "entries": [{"content": "c", "priority": "urgent", "status": "pending"}]},
            ["entries.priority: 'urgent' is none of high, low, medium"],
        ),
        ({"sessionUpdate": "hologram"}, ["update.sessionUpdate: 'hologram' is no update of version 1"]),
        ({"sessionUpdate": "_vendor"}, []),
        ({"sessionUpdate": "agent_message_chunk", "content": TEXT, "vendor": {"deep": [1]}, "_meta": {"a": 1}}, []),
    ],
)
def test_what_clients_must_tolerate_is_still_a_fault(update: dict[str, Any], faults: list[str]):
    assert shape_faults(UPDATE, params(**update), 1) == []
    assert strict_faults(UPDATE, params(**update), 1) == faults


def test_the_draft_allows_any_word():
    raw = params(sessionUpdate="tool_call_update", toolCallId="c", status="dreaming")
    assert strict_faults(UPDATE, raw, 2) == []


def test_the_kind_of_a_permission_option_is_one_of_version_1():
    options = [{"optionId": "o", "name": "n", "kind": "allow_forever"}]
    raw = json.dumps({"sessionId": "s", "toolCall": {"toolCallId": "c"}, "options": options}).encode()
    words = "allow_always, allow_once, reject_always, reject_once"
    assert strict_faults(PERMISSION, raw, 1) == [f"options.kind: 'allow_forever' is none of {words}"]


@pytest.mark.parametrize(
    ("method", "result", "is_valid"),
    [
        ("session/prompt", {"stopReason": "end_turn"}, True),
        ("session/prompt", {"stopReason": "error"}, False),
        ("session/prompt", None, False),
        ("session/new", {"sessionId": "s"}, True),
        ("session/new", {"sessionId": 1}, False),
        ("session/load", None, True),  # the documentation itself answers with null
        ("session/load", {}, True),
        ("session/load", [], False),
        ("session/list", {"sessions": []}, True),
        ("session/list", {"sessions": [{"sessionId": "s"}]}, False),
        ("session/list", {}, False),
        ("session/set_config_option", {"configOptions": []}, True),
        ("session/set_config_option", {}, False),
        ("authenticate", None, True),
        ("vendor/method", 42, True),
    ],
)
def test_results_have_the_form_of_their_method(method: str, result: Any, is_valid: bool):
    assert (result_faults(method, json.dumps(result).encode(), 1) == []) is is_valid


@given(UPDATES, st.sampled_from([1, 2]))
def test_whatever_clients_cannot_read_is_a_strict_fault_too(update: Any, version: int):
    raw = json.dumps({"sessionId": "s", "update": update}).encode()
    if faults := shape_faults(UPDATE, raw, version):
        assert strict_faults(UPDATE, raw, version) == faults
