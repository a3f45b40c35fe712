"""The table of fields has a row for whatever the newest SDKs can send, and what it lacks is found."""

import pytest
from scripts.check_fields import find_problem, find_problems, read
from scripts.sdk_fields import BASES, SdkMember

from accord.wire.disposition import Api


def test_every_member_that_an_sdk_can_send_has_a_row_and_every_row_a_member():
    assert not list(find_problems())


@pytest.mark.parametrize(
    ("api", "path", "adds", "problem"),
    [
        (Api.CHAT, "zq_new", {"zq_new": 1}, "no row of the table has zq_new; add one in field_table.py"),
        (
            Api.RESPONSES,
            "text.zq",
            {"text": {"zq": 1}},
            "only text.other has it; add a row of its own, or list it in SHARED",
        ),
        (Api.MESSAGES, "container.id", {"container": None}, "nothing reads it, and no row has it"),
        (Api.MESSAGES, "speed", {"speed": "fast"}, None),
    ],
)
def test_a_member_without_a_row_is_found(api: Api, path: str, adds: dict[str, object], problem: str | None):
    body = {**BASES[api], **adds}
    member = SdkMember(api, path, body, BASES[api], 1)
    assert find_problem(member, read(api, body)) == problem
