"""The options of a client, and the errors for wrong ones."""

import dataclasses
from typing import Any

import pytest

from accord.client import AsyncClient, Client, ClientSettings, Options
from accord.errors import UsageError


def test_the_keywords_of_the_clients_are_the_settings():
    assert list(Options.__annotations__) == [field.name for field in dataclasses.fields(ClientSettings)]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"token": "a\r\nb"}, "token: expected printable ASCII text"),
        ({"token": ""}, "token: expected printable ASCII text"),
        ({"token": "ü"}, "token: expected printable ASCII text"),
        ({"max_attempts": 0}, "max_attempts: expected at least 1, or None for no limit"),
        ({"timeout_s": 0}, "timeout_s: expected more than 0"),
        ({"connect_s": -1}, "connect_s: expected more than 0"),
        ({"idle_s": float("nan")}, "idle_s: expected more than 0"),
        ({"max_event_bytes": 0}, "max_event_bytes: expected more than 0"),
    ],
)
def test_an_invalid_setting_is_named(wrong: dict[str, Any], sentence: str):
    with pytest.raises(UsageError) as caught:
        ClientSettings(**wrong)
    assert caught.value.message == sentence


WRONG_CALLS: list[tuple[dict[str, Any], str]] = [
    ({"tokn": "t"}, 'client: unknown option "tokn"; did you mean token?'),
    ({"client_capabilities": {}}, 'client: unknown option "client_capabilities"; did you mean capabilities?'),
    ({"timeout": 3}, 'client: unknown option "timeout"; did you mean timeout_s?'),
    ({"user": 7}, 'user: expected Identity or a dict such as {"id": "ann", "name": "Ann"}, not int'),
    (
        {"capabilities": "voice"},
        (
            "capabilities: expected ClientCapabilities or a dict such as "
            '{"supported_events": [], "prefers_markdown": False}, not str'
        ),
    ),
]


@pytest.mark.parametrize("kind", [AsyncClient, Client])
@pytest.mark.parametrize(("options", "sentence"), WRONG_CALLS)
def test_a_wrong_keyword_of_a_client_is_named_with_what_was_meant(kind: Any, options: dict[str, Any], sentence: str):
    with pytest.raises(UsageError) as caught:
        kind("http://127.0.0.1:1", **{"user": "ann", **options})
    assert caught.value.message == sentence
