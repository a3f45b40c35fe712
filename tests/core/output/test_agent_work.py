"""Permission requests and their answers: only an option that was offered can allow."""

from typing import Any

import pytest
from pydantic import ValidationError

from accord.core.output.agent_work import ALLOW_OR_REJECT, build_permission_request, read_permission
from accord.wire.agent_work import OfferedOption, Permission, PermissionStatus

ALWAYS = {"id": "always", "name": "Always", "kind": "allow_always"}
NEVER = {"id": "never", "name": "Never", "kind": "reject_always"}
REQUEST = build_permission_request("Delete build/", "1", (), {}, [*ALLOW_OR_REJECT, ALWAYS, NEVER])


def selected(option_id: Any) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option_id}}


@pytest.mark.parametrize(
    ("response", "status", "chosen"),
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
def test_each_answer_has_one_result(response: Any, status: str, chosen: str | None):
    found = read_permission(REQUEST, response)
    assert (found.status, found.option and found.option.id) == (status, chosen)
    assert bool(found) is (status == "allowed")
    assert (found.why is None) is (chosen is not None)


def test_options_may_be_a_list_or_a_mapping_by_id():
    as_list = build_permission_request("Go", "1", (), {}, [ALWAYS, NEVER])
    by_id = {option["id"]: {"name": option["name"], "kind": option["kind"]} for option in (ALWAYS, NEVER)}
    assert build_permission_request("Go", "1", (), {}, by_id) == as_list


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
def test_invalid_options_are_an_error(offered: Any):
    with pytest.raises(ValueError, match="options"):
        build_permission_request("Go", "1", (), {}, offered)


@pytest.mark.parametrize("title", ["", "half a pair: \ud800"])
def test_an_invalid_title_is_an_error(title: str):
    with pytest.raises(ValueError, match="title"):
        build_permission_request(title, "1", (), {}, ALLOW_OR_REJECT)


@pytest.mark.parametrize(
    ("status", "kind"),
    [("allowed", None), ("allowed", "reject_once"), ("rejected", "allow_once"), ("failed", "allow_once")],
)
def test_the_status_must_match_the_kind_of_option(status: str, kind: Any):
    option = None if kind is None else OfferedOption(id="a", name="A", kind=kind)
    with pytest.raises(ValidationError, match="Only allowed and rejected have an option"):
        Permission(status=PermissionStatus(status), option=option)
