"""What a client may be told, and what is wrong with it."""

import dataclasses
from typing import Any

import pytest

from accord.client import Options, Settings
from accord.errors import UsageError


def test_the_keywords_of_the_clients_are_the_settings():
    assert list(Options.__annotations__) == [field.name for field in dataclasses.fields(Settings)]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"token": "a\r\nb"}, "token: expected printable ASCII text"),
        ({"token": ""}, "token: expected printable ASCII text"),
        ({"token": "ü"}, "token: expected printable ASCII text"),
        ({"max_attempts": 0}, "max_attempts: expected at least 1, or None for no end"),
        ({"timeout_s": 0}, "timeout_s: expected more than 0"),
        ({"connect_s": -1}, "connect_s: expected more than 0"),
        ({"idle_s": float("nan")}, "idle_s: expected more than 0"),
        ({"max_event_bytes": 0}, "max_event_bytes: expected more than 0"),
    ],
)
def test_a_setting_that_cannot_be_is_named(wrong: dict[str, Any], sentence: str):
    with pytest.raises(UsageError) as caught:
        Settings(**wrong)
    assert caught.value.message == sentence
