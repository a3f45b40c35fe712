"""Options, modes and commands: known kinds are typed, new kinds are kept, malformed items are skipped."""

import json
from typing import Any

import pytest

from accord.acp import schema_v2
from accord.acp.schema_v1 import (
    LoadSessionResponse,
    OtherSessionConfigOption,
    SessionConfigBoolean,
    SessionConfigOption,
    SessionConfigOptionCategory,
    SessionConfigSelect,
    SessionConfigSelectGroup,
    SessionConfigSelectOption,
    SessionModeState,
)

CHOICE: dict[str, Any] = {"value": "a", "name": "A"}
SELECT: dict[str, Any] = {"type": "select", "name": "N", "currentValue": "a"}


@pytest.mark.parametrize(
    ("base", "option", "kind"),
    [
        (SessionConfigOption, {**SELECT, "id": "o", "options": [CHOICE]}, SessionConfigSelect),
        (SessionConfigOption, {"type": "boolean", "id": "o", "name": "N", "currentValue": True}, SessionConfigBoolean),
        (SessionConfigOption, {"type": "_dial", "id": "o", "name": "N", "max": 11}, OtherSessionConfigOption),
        (schema_v2.SessionConfigOption, {**SELECT, "configId": "o", "options": []}, schema_v2.SessionConfigSelect),
        (
            schema_v2.SessionConfigOption,
            {"type": "boolean", "configId": "o", "name": "N", "currentValue": False},
            schema_v2.SessionConfigBoolean,
        ),
        (
            schema_v2.SessionConfigOption,
            {"type": "_dial", "configId": "o", "name": "N", "max": 11},
            schema_v2.OtherSessionConfigOption,
        ),
    ],
)
def test_an_option_is_read_as_its_kind(
    base: type[SessionConfigOption | schema_v2.SessionConfigOption], option: dict[str, Any], kind: type
) -> None:
    read = base.parse(json.dumps(option))
    assert type(read) is kind
    assert read.dump() == option


@pytest.mark.parametrize(
    ("base", "key", "group", "kind"),
    [
        (SessionConfigOption, "id", {"group": "g", "name": "G", "options": [CHOICE]}, SessionConfigSelectGroup),
        (
            schema_v2.SessionConfigOption,
            "configId",
            {"groupId": "g", "name": "G", "options": [CHOICE]},
            schema_v2.SessionConfigSelectGroup,
        ),
    ],
)
def test_choices_may_come_in_groups(
    base: type[SessionConfigOption | schema_v2.SessionConfigOption], key: str, group: dict[str, Any], kind: type
) -> None:
    read = base.parse(json.dumps({**SELECT, key: "o", "options": [group]}))
    assert isinstance(read, SessionConfigSelect | schema_v2.SessionConfigSelect)
    assert [type(part) for part in read.options] == [kind]
    plain = base.parse(json.dumps({**SELECT, key: "o", "options": [CHOICE]}))
    assert isinstance(plain, SessionConfigSelect | schema_v2.SessionConfigSelect)
    assert plain.options == [SessionConfigSelectOption(value="a", name="A")]


@pytest.mark.parametrize(
    ("sent", "read"), [("model", SessionConfigOptionCategory.MODEL), ("_mood", "_mood"), (7, None), (None, None)]
)
def test_a_category_is_open_and_a_malformed_one_counts_as_absent(sent: Any, read: Any) -> None:
    raw = json.dumps({"type": "boolean", "id": "o", "name": "N", "currentValue": True, "category": sent})
    assert SessionConfigOption.parse(raw).category == read


def test_malformed_items_are_skipped_and_the_rest_stays() -> None:
    modes = SessionModeState.parse('{"currentModeId":"a","availableModes":[{"id":"a","name":"A"},{"id":1},null]}')
    assert [mode.id for mode in modes.available_modes] == ["a"]
    loaded = LoadSessionResponse.parse('{"modes":7,"configOptions":[{"type":"select"},7]}')
    assert (loaded.modes, loaded.config_options) == (None, [])
    opened = schema_v2.NewSessionResponse.parse('{"sessionId":"s","availableCommands":[{"type":"command"}, {}]}')
    assert opened.available_commands == []
