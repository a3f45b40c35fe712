"""What an agent may offer, and what an answer comes to: only an option that was offered is a yes."""

from typing import Any

import pytest
from pydantic import ValidationError

from accord.core.output.agent_work import ALLOW_OR_REJECT, build_permission_question, read_permission
from accord.wire.agent_work import OfferedOption, Permission, PermissionStatus

ALWAYS = {"id": "always", "name": "Always", "kind": "allow_always"}
NEVER = {"id": "never", "name": "Never", "kind": "reject_always"}
QUESTION = build_permission_question("Delete build/", "1", (), {}, [*ALLOW_OR_REJECT, ALWAYS, NEVER])


def selected(option_id: Any) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option_id}}


@pytest.mark.parametrize(
    ("answered", "status", "chosen"),
    [
        (selected("allow"), "allowed", "allow"),
        (selected("always"), "allowed", "always"),
        (selected("reject"), "rejected", "reject"),
        (selected("never"), "rejected", "never"),
        ({"outcome": {"outcome": "cancelled"}}, "cancelled", None),
        ({"outcome": {"outcome": "cancelled", "optionId": "allow"}}, "cancelled", None),
        (selected("Allow"), "failed", None),
        (selected(""), "failed", None),
        (selected(None), "failed", None),
        (selected(["allow"]), "failed", None),
        ({"outcome": {"outcome": "selected"}}, "failed", None),
        ({"outcome": {"outcome": "approved", "optionId": "allow"}}, "failed", None),
        ({"outcome": {"optionId": "allow"}}, "failed", None),
        ({"outcome": "allow"}, "failed", None),
        ({"optionId": "allow"}, "failed", None),
        ({}, "failed", None),
        (None, "failed", None),
        ([], "failed", None),
        (True, "failed", None),
    ],
)
def test_each_answer_comes_to_one_thing(answered: Any, status: str, chosen: str | None):
    found = read_permission(QUESTION, answered)
    assert (found.status, found.option and found.option.id) == (status, chosen)
    assert bool(found) is (status == "allowed")
    assert (found.why is None) is (chosen is not None)


def test_options_are_told_in_a_row_or_by_their_ids():
    in_a_row = build_permission_question("Go", "1", (), {}, [ALWAYS, NEVER])
    by_id = {own["id"]: {"name": own["name"], "kind": own["kind"]} for own in (ALWAYS, NEVER)}
    assert build_permission_question("Go", "1", (), {}, by_id) == in_a_row


@pytest.mark.parametrize(
    "offered",
    [
        [],
        {},
        [ALWAYS, ALWAYS],
        [{"id": "a", "name": "A"}],
        [{**ALWAYS, "kind": "maybe"}],
        [{**ALWAYS, "id": ""}],
        ["a"],
    ],
)
def test_options_that_are_none_are_the_agents_mistake(offered: Any):
    with pytest.raises(ValueError, match="options"):
        build_permission_question("Go", "1", (), {}, offered)


@pytest.mark.parametrize("title", ["", "half a pair: \ud800"])
def test_a_title_is_text_that_can_be_shown_and_kept(title: str):
    with pytest.raises(ValueError, match="title"):
        build_permission_question(title, "1", (), {}, ALLOW_OR_REJECT)


@pytest.mark.parametrize(
    ("status", "kind"),
    [("allowed", None), ("allowed", "reject_once"), ("rejected", "allow_once"), ("failed", "allow_once")],
)
def test_no_permission_contradicts_itself(status: str, kind: Any):
    option = None if kind is None else OfferedOption(id="a", name="A", kind=kind)
    with pytest.raises(ValidationError, match="A yes or a no is an option of its kind"):
        Permission(status=PermissionStatus(status), option=option)
