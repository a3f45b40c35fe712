"""Updates: every kind of version 1 is typed, unknown kinds are kept, errors in known kinds are reported."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from scripts.acp_types import SCHEMAS

from accord.acp.schema_v1 import ContentChunk, OtherSessionUpdate, SessionNotification, SessionUpdate
from accord.errors import InvalidMessageError

SCHEMA: Final = json.loads((SCHEMAS / "v1.json").read_bytes())["$defs"]


def notification(sent: Any) -> str:
    return json.dumps({"sessionId": "s", "update": sent})


def test_the_kinds_are_exactly_those_of_the_schema() -> None:
    named = {kind["properties"]["sessionUpdate"]["const"] for kind in SCHEMA["SessionUpdate"]["oneOf"]}
    assert set(SessionUpdate.kinds) == named


@pytest.mark.parametrize("kind", SessionUpdate.kinds)
def test_a_golden_update_is_read_as_its_kind(kind: str) -> None:
    raw = (Path(__file__).parent / "golden" / f"session_update_{kind}.json").read_bytes()
    read = SessionNotification.parse(raw).update
    assert type(read) is SessionUpdate.kinds[kind]
    assert isinstance(read, SessionUpdate)


@pytest.mark.parametrize(
    "sent",
    [
        {"sessionUpdate": "_weather", "sky": "grey", "wind": {"kmh": [1, 2.5]}},
        {"sessionUpdate": "tool_call_progress", "content": 7, "toolCallId": []},
        {"sessionUpdate": "", "_meta": {"a": 1}},
        {"sessionUpdate": "AGENT_MESSAGE_CHUNK", "content": {"type": "nonsense"}},
    ],
)
def test_an_unknown_kind_is_kept_whole(sent: dict[str, Any]) -> None:
    read = SessionNotification.parse(notification(sent))
    assert type(read.update) is OtherSessionUpdate
    assert read.dump()["update"] == json.loads(read.update.to_json()) == sent


@pytest.mark.parametrize(
    ("sent", "fields"),
    [
        ({"sessionUpdate": "agent_message_chunk"}, ["agent_message_chunk.content"]),
        (
            {"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": "AAAA"}},
            ["agent_message_chunk.content.image.mimeType"],
        ),
        ({"sessionUpdate": "tool_call", "toolCallId": "c"}, ["tool_call.title"]),
        ({"sessionUpdate": "tool_call_update"}, ["tool_call_update.toolCallId"]),
        ({"sessionUpdate": "plan"}, ["plan.entries"]),
        ({"sessionUpdate": "current_mode_update", "currentModeId": 7}, ["current_mode_update.currentModeId"]),
        ({"sessionUpdate": "usage_update", "used": "1", "size": -1}, ["usage_update.used", "usage_update.size"]),
        ({"sessionUpdate": "notice", "severity": "info", "title": ""}, ["notice.title"]),
    ],
)
def test_an_error_in_a_known_kind_is_reported_for_that_kind(sent: dict[str, Any], fields: list[str]) -> None:
    with pytest.raises(InvalidMessageError) as caught:
        SessionNotification.parse(notification(sent))
    assert [problem.field for problem in caught.value.problems] == [f"update.sessionUpdate.{field}" for field in fields]


@pytest.mark.parametrize(
    "sent", [{}, {"sessionUpdate": None}, {"sessionUpdate": 7}, {"sessionUpdate": {}}, [], "plan", None]
)
def test_an_update_without_a_kind_is_refused(sent: Any) -> None:
    with pytest.raises(InvalidMessageError) as caught:
        SessionNotification.parse(notification(sent))
    assert [problem.field for problem in caught.value.problems] == ["update.sessionUpdate"]


LENIENT: Final[list[tuple[dict[str, Any], str, Any]]] = [
    ({"sessionUpdate": "plan", "entries": 7}, "entries", []),
    ({"sessionUpdate": "plan", "entries": [{}, 7]}, "entries", []),
    ({"sessionUpdate": "available_commands_update", "availableCommands": None}, "available_commands", []),
    ({"sessionUpdate": "session_info_update", "title": 7}, "title", None),
    ({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": "3"}}, "cost", None),
]


@pytest.mark.parametrize(("sent", "field", "read"), LENIENT)
def test_malformed_optional_parts_count_as_absent(sent: dict[str, Any], field: str, read: Any) -> None:
    assert getattr(SessionUpdate.parse(json.dumps(sent)), field) == read


def test_an_update_can_be_built_by_its_kind_or_by_its_name() -> None:
    content = {"type": "text", "text": "Hi."}
    built = ContentChunk.model_validate({"sessionUpdate": "agent_message_chunk", "content": content})
    base: Any = SessionUpdate
    assert base(session_update="agent_message_chunk", content=content) == built
    assert type(base(session_update="_weather", sky="grey")) is OtherSessionUpdate
    whole = SessionNotification(session_id="s", update=built)
    assert SessionNotification.parse(whole.to_json()) == whole
