"""Ignored members of a request: a warning for each that was probably meant to be read, and for no other."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core.ignored_members import MAX_EXAMINED, find_ignored_members
from accord.core.vocabulary import closest, unknown_name
from accord.wire.request import ServiceRequest

VOICE: dict[str, Any] = {"supported_events": [], "prefers_markdown": False}


def request(*, context: Any = None, payload: Any = None, **more: Any) -> dict[str, Any]:
    return {
        "request_id": "6ba7b810-9dad-41d1-80b4-00c04fd430c8",
        "context": {"session_id": "s", "user": {"id": "u", "name": "U"}, **(context or {})},
        "payload": {"query": "hi", **(payload or {})},
        **more,
    }


WARNED: list[tuple[dict[str, Any], list[str]]] = [
    (request(client_capabilities=VOICE), ["client_capabilities is ignored; did you mean payload.capabilities?"]),
    (request(capabilities=VOICE), ["capabilities is ignored; did you mean payload.capabilities?"]),
    (
        request(context={"client_capabilities": VOICE, "capabilities": VOICE}),
        [
            "context.client_capabilities is ignored; did you mean payload.capabilities?",
            "context.capabilities is ignored; did you mean payload.capabilities?",
        ],
    ),
    (
        request(payload={"client_capabilities": VOICE}),
        ["payload.client_capabilities is ignored; did you mean payload.capabilities?"],
    ),
    (request(requirements={}), ["requirements is ignored; did you mean payload.requirements?"]),
    (request(content=[]), ["content is ignored; did you mean payload.content?"]),
    (request(payload={"capabilites": VOICE}), ["payload.capabilites is ignored; did you mean payload.capabilities?"]),
    (request(capabilites=VOICE), ["capabilites is ignored; did you mean payload.capabilities?"]),
    (
        request(payload={"conversationId": "c"}),
        ["payload.conversationId is ignored; did you mean payload.conversation_id?"],
    ),
    (
        request(payload={"capabilities": {"prefersMarkdown": False, "supported_event": []}}),
        [
            "payload.capabilities.prefersMarkdown is ignored; did you mean payload.capabilities.prefers_markdown?",
            "payload.capabilities.supported_event is ignored; did you mean payload.capabilities.supported_events?",
        ],
    ),
    (
        request(prefers_markdown=False),
        ["prefers_markdown is ignored; did you mean payload.capabilities.prefers_markdown?"],
    ),
    (request(session_id="s"), ["session_id is ignored; did you mean context.session_id?"]),
]


@pytest.mark.parametrize(("body", "warnings"), WARNED, ids=[warnings[0][:40] for _, warnings in WARNED])
def test_a_misplaced_or_misspelled_member_gives_a_warning(body: dict[str, Any], warnings: list[str]):
    raw = json.dumps(body).encode()
    assert ServiceRequest.parse(raw)
    assert find_ignored_members(raw) == warnings


@pytest.mark.parametrize(
    "body",
    [
        request(),
        request(payload={"capabilities": VOICE, "content": None, "requirements": {}, "meta": {"capabilities": 1}}),
        request(payload={"capabilities": None}),
        request(payload={"session_id": "s", "payload": {"input": "hi", "temperature": 1}, "capabilities": VOICE}),
        request(trace={"a": 1}, **{"x-vendor": 1, "ü" * 60: 1, "": 2, "a\nb": 3}),
        request(context={"tenant": "t"}, payload={"priority": 3}),
    ],
    ids=["plain", "everything", "null", "older shape", "unknown", "unknown inside"],
)
def test_decision_2_a_member_similar_to_no_known_one_gives_no_warning(body: dict[str, Any]):
    assert find_ignored_members(json.dumps(body).encode()) == []


def test_the_number_of_warnings_is_limited():
    many = {f"capabilitie{number}": number for number in range(20_000)}
    assert len(find_ignored_members(json.dumps(request(**many)).encode())) == MAX_EXAMINED


@given(st.dictionaries(st.text(max_size=80), st.integers(), max_size=20))
def test_any_member_name_gives_short_warnings_or_none(members: dict[str, int]):
    raw = json.dumps({**members, **request(context=members)}).encode()
    assert all(len(warning) < 200 for warning in find_ignored_members(raw))


def test_the_closest_name_is_found_in_any_letter_case():
    assert closest("Capabilites", ["files", "capabilities"]) == "capabilities"
    assert closest("weather", ["files", "capabilities"]) is None
    assert unknown_name("option", "weather", ["a", "b"]) == 'unknown option "weather"; known are a, b'
