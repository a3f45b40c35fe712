"""Tool calls: output is typed, unknown kinds are kept, malformed optional parts count as absent."""

import json
from typing import Any

import pytest

from accord.errors import InvalidMessageError
from accord.wire.acp import tool
from accord.wire.acp.tool import (
    DraftToolCallUpdate,
    RequestPermissionRequest,
    RequestPermissionResponse,
    ToolCall,
    ToolCallStatus,
    ToolCallUpdate,
    ToolKind,
)
from accord.wire.message import Message

TEXT = {"type": "text", "text": "x"}
CALLS: list[type[Message]] = [ToolCall, ToolCallUpdate, DraftToolCallUpdate]


@pytest.mark.parametrize(
    ("base", "part", "kind"),
    [
        (tool.ToolCallContent, {"type": "content", "content": TEXT}, tool.ContentPart),
        (tool.ToolCallContent, {"type": "diff", "path": "/a", "newText": ""}, tool.DiffPart),
        (tool.ToolCallContent, {"type": "terminal", "terminalId": "t"}, tool.TerminalPart),
        (tool.ToolCallContent, {"type": "_chart", "points": [1]}, tool.OtherPart),
        (tool.DraftToolCallContent, {"type": "content", "content": {"type": "_new"}}, tool.DraftContentPart),
        (tool.DraftToolCallContent, {"type": "diff", "changes": []}, tool.DraftDiffPart),
        (tool.DraftToolCallContent, {"type": "terminal", "terminalId": "t"}, tool.TerminalPart),
        (tool.DraftToolCallContent, {"type": "_chart", "points": [1]}, tool.OtherPart),
        (tool.DraftDiffChange, {"operation": "delete", "path": "/a"}, tool.PathChange),
        (tool.DraftDiffChange, {"operation": "copy", "oldPath": "/a", "path": "/b"}, tool.PathPairChange),
        (tool.DraftDiffChange, {"operation": "_chmod", "mode": 755}, tool.OtherChange),
        (tool.DraftPermissionSubject, {"type": "command", "command": "ls", "cwd": "/"}, tool.CommandSubject),
        (
            tool.DraftPermissionSubject,
            {"type": "tool_call", "toolCall": {"toolCallId": "c"}},
            tool.ToolCallSubject,
        ),
        (tool.DraftPermissionSubject, {"type": "_purchase"}, tool.OtherSubject),
        (tool.PermissionOutcome, {"outcome": "selected", "optionId": "o"}, tool.SelectedOutcome),
        (tool.PermissionOutcome, {"outcome": "cancelled"}, tool.CancelledOutcome),
        (tool.PermissionOutcome, {"outcome": "_delegated"}, tool.OtherOutcome),
    ],
)
def test_a_part_is_read_as_its_kind_and_kept(base: type[Message], part: dict[str, Any], kind: type) -> None:
    read = base.parse(json.dumps(part))
    assert type(read) is kind
    assert isinstance(read, base)
    assert read.dump() == part


@pytest.mark.parametrize(
    ("base", "part", "field"),
    [
        (tool.ToolCallContent, {"type": "diff", "path": "/a"}, "type.diff.newText"),
        (tool.ToolCallContent, {"type": "content", "content": {"type": "_new"}}, "type.content.content"),
        (tool.DraftToolCallContent, {"type": "diff", "path": "/a", "newText": ""}, "type.diff.changes"),
        (tool.DraftDiffChange, {"operation": "move", "path": "/b"}, "operation.move.oldPath"),
        (tool.PermissionOutcome, {"outcome": "selected"}, "outcome.selected.optionId"),
    ],
)
def test_an_error_in_a_known_kind_is_reported_for_that_kind(base: type[Message], part: Any, field: str) -> None:
    with pytest.raises(InvalidMessageError) as caught:
        base.parse(json.dumps(part))
    assert [problem.field for problem in caught.value.problems] == [field]


@pytest.mark.parametrize("model", CALLS)
@pytest.mark.parametrize("wrong", [7, {}, True, "x"])
def test_malformed_optional_parts_count_as_absent(model: type[Message], wrong: Any) -> None:
    least = {"toolCallId": "c", "title": "t"}
    lists = {"content": wrong, "locations": wrong, "capabilities": wrong if wrong != {} else 7}
    words = {"name": wrong, "kind": wrong, "status": wrong} if wrong != "x" else {}
    read = model.parse(
        json.dumps({**least, **words, **(lists if model is DraftToolCallUpdate else dict(list(lists.items())[:2]))})
    )
    assert read == model.parse(json.dumps(least))


@pytest.mark.parametrize("model", CALLS)
def test_a_malformed_item_is_skipped_and_the_others_stay(model: type[Message]) -> None:
    content = [{"type": "diff"}, {"type": "content", "content": TEXT}, 7, {"type": "_new"}]
    locations = [{"path": "/a", "line": "7"}, {"line": 7}, {"path": "/b", "line": 7}]
    raw = json.dumps({"toolCallId": "c", "title": "t", "content": content, "locations": locations})
    read = model.parse(raw).dump()
    assert read["content"] == [content[1], content[3]]
    assert read["locations"] == [{"path": "/a"}, {"path": "/b", "line": 7}]


@pytest.mark.parametrize("model", CALLS)
@pytest.mark.parametrize(
    ("kind", "status"), [(ToolKind.READ, ToolCallStatus.FAILED), ("_levitate", "_asleep"), (None, None)]
)
def test_kind_and_status_are_open(model: type[Message], kind: str | None, status: str | None) -> None:
    read = model.model_validate({"toolCallId": "c", "title": "t", "kind": kind, "status": status})
    assert isinstance(read, ToolCall | ToolCallUpdate | DraftToolCallUpdate)
    assert (read.kind, read.status) == (kind, status)
    assert type(read.kind) is type(kind)


@pytest.mark.parametrize("raw", [None, False, 0, "", [], {"a": None}, [[1]]])
def test_raw_input_and_output_are_kept_exactly(raw: Any) -> None:
    read = ToolCallUpdate.parse(json.dumps({"toolCallId": "c", "rawInput": raw, "rawOutput": raw}))
    assert read.raw_input == read.raw_output == raw
    assert json.loads(read.to_json()).get("rawInput") == raw


def test_the_draft_distinguishes_null_from_absent() -> None:
    read = DraftToolCallUpdate.parse('{"toolCallId":"c","title":null}')
    assert "title" in read.model_fields_set
    assert "name" not in read.model_fields_set


@pytest.mark.parametrize("wrong", [None, 7, [7], [{}], [{"optionId": "o", "name": "n"}]])
def test_a_malformed_option_fails_the_permission_request(wrong: Any) -> None:
    with pytest.raises(InvalidMessageError, match="options"):
        RequestPermissionRequest.parse(
            json.dumps({"sessionId": "s", "toolCall": {"toolCallId": "c"}, "options": wrong})
        )


def test_an_unknown_outcome_is_kept_and_is_no_selection() -> None:
    answer = RequestPermissionResponse.parse('{"outcome":{"outcome":"_delegated","optionId":"once"}}')
    assert not isinstance(answer.outcome, tool.SelectedOutcome)
