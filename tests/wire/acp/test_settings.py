"""Options, modes and commands: known kinds are typed, new kinds are kept, malformed items are skipped."""

import json
from typing import Any

import pytest

from accord.wire.acp.session import DraftNewSessionResponse, LoadSessionResponse
from accord.wire.acp.settings import (
    BooleanOption,
    ConfigCategory,
    ConfigChoice,
    ConfigGroup,
    DraftBooleanOption,
    DraftConfigGroup,
    DraftOtherOption,
    DraftSelectOption,
    DraftSessionConfigOption,
    OtherOption,
    SelectOption,
    SessionConfigOption,
    SessionModeState,
)

CHOICE: dict[str, Any] = {"value": "a", "name": "A"}
SELECT: dict[str, Any] = {"type": "select", "name": "N", "currentValue": "a"}


@pytest.mark.parametrize(
    ("base", "option", "kind"),
    [
        (SessionConfigOption, {**SELECT, "id": "o", "options": [CHOICE]}, SelectOption),
        (SessionConfigOption, {"type": "boolean", "id": "o", "name": "N", "currentValue": True}, BooleanOption),
        (SessionConfigOption, {"type": "_dial", "id": "o", "name": "N", "max": 11}, OtherOption),
        (DraftSessionConfigOption, {**SELECT, "configId": "o", "options": []}, DraftSelectOption),
        (
            DraftSessionConfigOption,
            {"type": "boolean", "configId": "o", "name": "N", "currentValue": False},
            DraftBooleanOption,
        ),
        (DraftSessionConfigOption, {"type": "_dial", "configId": "o", "name": "N", "max": 11}, DraftOtherOption),
    ],
)
def test_an_option_is_read_as_its_kind(
    base: type[SessionConfigOption | DraftSessionConfigOption], option: dict[str, Any], kind: type
) -> None:
    read = base.parse(json.dumps(option))
    assert type(read) is kind
    assert read.dump() == option


@pytest.mark.parametrize(
    ("base", "key", "group", "kind"),
    [
        (SessionConfigOption, "id", {"group": "g", "name": "G", "options": [CHOICE]}, ConfigGroup),
        (DraftSessionConfigOption, "configId", {"groupId": "g", "name": "G", "options": [CHOICE]}, DraftConfigGroup),
    ],
)
def test_choices_may_come_in_groups(
    base: type[SessionConfigOption | DraftSessionConfigOption], key: str, group: dict[str, Any], kind: type
) -> None:
    read = base.parse(json.dumps({**SELECT, key: "o", "options": [group]}))
    assert isinstance(read, SelectOption | DraftSelectOption)
    assert [type(part) for part in read.options] == [kind]
    plain = base.parse(json.dumps({**SELECT, key: "o", "options": [CHOICE]}))
    assert isinstance(plain, SelectOption | DraftSelectOption)
    assert plain.options == [ConfigChoice(value="a", name="A")]


@pytest.mark.parametrize(
    ("sent", "read"), [("model", ConfigCategory.MODEL), ("_mood", "_mood"), (7, None), (None, None)]
)
def test_a_category_is_open_and_a_malformed_one_counts_as_absent(sent: Any, read: Any) -> None:
    raw = json.dumps({"type": "boolean", "id": "o", "name": "N", "currentValue": True, "category": sent})
    assert SessionConfigOption.parse(raw).category == read


def test_malformed_items_are_skipped_and_the_rest_stays() -> None:
    modes = SessionModeState.parse('{"currentModeId":"a","availableModes":[{"id":"a","name":"A"},{"id":1},null]}')
    assert [mode.id for mode in modes.available_modes] == ["a"]
    loaded = LoadSessionResponse.parse('{"modes":7,"configOptions":[{"type":"select"},7]}')
    assert (loaded.modes, loaded.config_options) == (None, [])
    opened = DraftNewSessionResponse.parse('{"sessionId":"s","availableCommands":[{"type":"command"}, {}]}')
    assert opened.available_commands == []
