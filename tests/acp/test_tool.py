"""Tool calls: output is typed, unknown kinds are kept, malformed optional parts count as absent."""

import json
from typing import Any

import pytest

from accord.acp import schema_parts, schema_v1, schema_v2
from accord.acp.schema_parts import ToolCallStatus, ToolCallUpdate, ToolKind
from accord.acp.schema_v1 import RequestPermissionRequest, RequestPermissionResponse
from accord.errors import InvalidMessageError
from accord.wire.message import Message

TEXT = {"type": "text", "text": "x"}
CALLS: list[type[Message]] = [schema_v1.ToolCall, ToolCallUpdate, schema_v2.ToolCallUpdate]


@pytest.mark.parametrize(
    ("base", "part", "kind"),
    [
        (schema_parts.ToolCallContent, {"type": "content", "content": TEXT}, schema_parts.Content),
        (schema_parts.ToolCallContent, {"type": "diff", "path": "/a", "newText": ""}, schema_parts.Diff),
        (schema_parts.ToolCallContent, {"type": "terminal", "terminalId": "t"}, schema_parts.Terminal),
        (schema_parts.ToolCallContent, {"type": "_chart", "points": [1]}, schema_parts.OtherToolCallContent),
        (schema_v2.ToolCallContent, {"type": "content", "content": {"type": "_new"}}, schema_v2.Content),
        (schema_v2.ToolCallContent, {"type": "diff", "changes": []}, schema_v2.Diff),
        (schema_v2.ToolCallContent, {"type": "terminal", "terminalId": "t"}, schema_v2.Terminal),
        (schema_v2.ToolCallContent, {"type": "_chart", "points": [1]}, schema_v2.OtherToolCallContent),
        (schema_v2.DiffChange, {"operation": "delete", "path": "/a"}, schema_v2.DiffPathChange),
        (schema_v2.DiffChange, {"operation": "copy", "oldPath": "/a", "path": "/b"}, schema_v2.DiffPathPairChange),
        (schema_v2.DiffChange, {"operation": "_chmod", "mode": 755}, schema_v2.OtherDiffChange),
        (
            schema_v2.RequestPermissionSubject,
            {"type": "command", "command": "ls", "cwd": "/"},
            schema_v2.CommandPermissionSubject,
        ),
        (
            schema_v2.RequestPermissionSubject,
            {"type": "tool_call", "toolCall": {"toolCallId": "c"}},
            schema_v2.ToolCallPermissionSubject,
        ),
        (schema_v2.RequestPermissionSubject, {"type": "_purchase"}, schema_v2.OtherRequestPermissionSubject),
        (
            schema_parts.RequestPermissionOutcome,
            {"outcome": "selected", "optionId": "o"},
            schema_parts.SelectedPermissionOutcome,
        ),
        (schema_parts.RequestPermissionOutcome, {"outcome": "cancelled"}, schema_parts.CancelledPermissionOutcome),
        (schema_parts.RequestPermissionOutcome, {"outcome": "_delegated"}, schema_parts.OtherRequestPermissionOutcome),
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
        (schema_parts.ToolCallContent, {"type": "diff", "path": "/a"}, "type.diff.newText"),
        (schema_parts.ToolCallContent, {"type": "content", "content": {"type": "_new"}}, "type.content.content"),
        (schema_v2.ToolCallContent, {"type": "diff", "path": "/a", "newText": ""}, "type.diff.changes"),
        (schema_v2.DiffChange, {"operation": "move", "path": "/b"}, "operation.move.oldPath"),
        (schema_parts.RequestPermissionOutcome, {"outcome": "selected"}, "outcome.selected.optionId"),
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
        json.dumps(
            {**least, **words, **(lists if model is schema_v2.ToolCallUpdate else dict(list(lists.items())[:2]))}
        )
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
    assert isinstance(read, schema_v1.ToolCall | ToolCallUpdate | schema_v2.ToolCallUpdate)
    assert (read.kind, read.status) == (kind, status)
    assert type(read.kind) is type(kind)


@pytest.mark.parametrize("raw", [None, False, 0, "", [], {"a": None}, [[1]]])
def test_raw_input_and_output_are_kept_exactly(raw: Any) -> None:
    read = ToolCallUpdate.parse(json.dumps({"toolCallId": "c", "rawInput": raw, "rawOutput": raw}))
    assert read.raw_input == read.raw_output == raw
    assert json.loads(read.to_json()).get("rawInput") == raw


def test_the_draft_distinguishes_null_from_absent() -> None:
    read = schema_v2.ToolCallUpdate.parse('{"toolCallId":"c","title":null}')
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
    assert not isinstance(answer.outcome, schema_parts.SelectedPermissionOutcome)
