"""The draft's updates: every kind is typed, unknown kinds and words are kept, errors in known kinds are reported."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from scripts.acp_types import SCHEMAS

from accord.acp import schema_v2
from accord.errors import InvalidMessageError

SCHEMA: Final = json.loads((SCHEMAS / "v2.json").read_bytes())["$defs"]


def test_the_kinds_are_exactly_those_of_the_schema() -> None:
    tags = [kind["properties"]["sessionUpdate"] for kind in SCHEMA["SessionUpdate"]["anyOf"]]
    assert set(schema_v2.SessionUpdate.kinds) == {tag["const"] for tag in tags if "const" in tag}


@pytest.mark.parametrize("kind", schema_v2.SessionUpdate.kinds)
def test_a_golden_update_is_read_as_its_kind(kind: str) -> None:
    raw = (Path(__file__).parent / "golden" / f"draft_session_update_{kind}.json").read_bytes()
    read = schema_v2.UpdateSessionNotification.parse(raw).update
    assert type(read) is schema_v2.SessionUpdate.kinds[kind]
    assert isinstance(read, schema_v2.SessionUpdate)


@pytest.mark.parametrize("kind", ["tool_call", "plan", "current_mode_update", "_weather"])
def test_an_unknown_kind_is_kept_whole(kind: str) -> None:
    sent = {"sessionUpdate": kind, "anything": [None, {"a": 1}]}
    read = schema_v2.SessionUpdate.parse(json.dumps(sent))
    assert type(read) is schema_v2.OtherSessionUpdate
    assert read.dump() == sent


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": ""}}, "messageId"),
        ({"sessionUpdate": "agent_message", "content": []}, "messageId"),
        ({"sessionUpdate": "state_update"}, "state"),
        ({"sessionUpdate": "terminal_output_chunk", "terminalId": "t"}, "data"),
        ({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p"}}, "plan.type.items.entries"),
        ({"sessionUpdate": "config_option_update", "configOptions": None}, "configOptions"),
    ],
)
def test_an_error_in_a_known_kind_is_reported_for_that_kind(sent: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidMessageError) as caught:
        schema_v2.UpdateSessionNotification.parse(json.dumps({"sessionId": "s", "update": sent}))
    place = f"update.sessionUpdate.{sent['sessionUpdate']}.{field}"
    assert {problem.field.removesuffix(".str") for problem in caught.value.problems} == {place}


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ("end_turn", schema_v2.StopReason.END_TURN),
        ("error", schema_v2.StopReason.ERROR),
        ("_bored", "_bored"),
        (None, None),
        (7, None),
        ({}, None),
    ],
)
def test_the_stop_reason_is_open_and_a_malformed_one_is_absent(sent: Any, reason: str | None) -> None:
    read = schema_v2.SessionUpdate.parse(
        json.dumps({"sessionUpdate": "state_update", "state": "idle", "stopReason": sent, "error": sent})
    )
    assert isinstance(read, schema_v2.StateUpdate)
    assert (read.stop_reason, read.error) == (reason, None)


def test_an_unknown_form_of_plan_is_kept_whole() -> None:
    plan: dict[str, Any] = {"type": "_tree", "planId": "p", "root": {"children": []}}
    read = schema_v2.SessionUpdate.parse(json.dumps({"sessionUpdate": "plan_update", "plan": plan}))
    assert isinstance(read, schema_v2.PlanUpdate)
    assert type(read.plan) is schema_v2.OtherPlanUpdateContent
    assert read.plan.dump() == plan


@pytest.mark.parametrize("wrong", [7, "x", [], None, {"cols": 0, "rows": 1}])
def test_malformed_parts_of_a_terminal_count_as_absent(wrong: Any) -> None:
    read = schema_v2.SessionUpdate.parse(
        json.dumps({"sessionUpdate": "terminal_update", "terminalId": "t", "size": wrong, "output": wrong})
    )
    assert isinstance(read, schema_v2.TerminalUpdate)
    assert (read.size, read.output) == (None, None)
