"""The id of a response that is passed on and kept: it is Accord's where the API has it, and nothing else is changed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.servers.http.stored_responses import ResponseKeeper, response_id

REQUEST_ID = "01234567-89ab-cdef-0123-456789abcdef"
OURS, THEIRS = response_id(REQUEST_ID), "resp_1"
TEXTS = st.text(max_size=8) | st.sampled_from([THEIRS, f'"id":"{THEIRS}"', "response.completed", '"response"', "\n\n"])
JSON = st.recursive(
    TEXTS | st.integers(0, 9),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(TEXTS | st.sampled_from(["id", "response", "response_id"]), inner, max_size=3)
    ),
    max_leaves=6,
)
RESPONSES = st.fixed_dictionaries({"metadata": JSON, "id": st.just(THEIRS), "output": st.lists(JSON, max_size=3)})
TYPES = st.sampled_from(["response.created", "response.output_text.delta", "response.completed", "response.incomplete"])
EVENTS = st.fixed_dictionaries(
    {"type": TYPES},
    optional={"item": JSON, "delta": TEXTS, "response": RESPONSES, "response_id": st.just(THEIRS), "error": JSON},
)


def keeper() -> ResponseKeeper:
    return ResponseKeeper({"model": "m", "input": "hi"}, REQUEST_ID)


def event(members: dict[str, Any], line_end: str = "\n", **how: Any) -> bytes:
    return f"event: {members['type']}{line_end}data: {json.dumps(members, **how)}{line_end}{line_end}".encode()


def renamed(members: dict[str, Any]) -> dict[str, Any]:
    """What an event is with our id, by the plain rule."""
    changed = dict(members)
    if "response" in members:
        changed["response"] = {**members["response"], "id": OURS}
    if "response_id" in members:
        changed["response_id"] = OURS
    return changed


@given(st.lists(EVENTS, max_size=4), st.sampled_from(["\n", "\r\n"]))
def test_ids_are_renamed_by_structure_and_text_stays(events: list[dict[str, Any]], line_end: str):
    block = b"".join(event(each, line_end) for each in events)
    expected = b"".join(event(renamed(each), line_end) for each in events)
    assert keeper().rename_events(block) == expected


@given(RESPONSES)
def test_the_id_of_a_whole_response_is_renamed_and_text_stays(response: dict[str, Any]):
    body = json.dumps(response, indent=1).encode()
    assert keeper().rename(body) == json.dumps({**response, "id": OURS}, indent=1).encode()


ODD: dict[str, tuple[bytes, dict[str, Any]]] = {
    "another member that looks the same": (
        b'{"metadata":{"id":"resp_1"},"id":"resp_1"}',
        {"metadata": {"id": THEIRS}, "id": OURS},
    ),
    "an id with escapes": (b'{"id":"\\u0072esp_1","text":"resp_1"}', {"id": OURS, "text": THEIRS}),
    "an id twice": (b'{"id":"resp_1","id":"resp_1"}', {"id": OURS}),
    "an id of another form": (b'{"id":"42"}', {"id": OURS}),
    "no id": (b'{"text":"resp_1"}', {"text": THEIRS}),
    "an id that is no text": (b'{"id":7}', {"id": 7}),
}


@pytest.mark.parametrize("name", ODD)
def test_an_id_is_renamed_in_whatever_form_it_is_written(name: str):
    body, expected = ODD[name]
    assert json.loads(keeper().rename(body)) == expected


def test_events_that_are_no_json_and_data_in_several_lines_are_understood():
    lines = b'event: response.created\ndata: {"response":\ndata: {"id": "resp_1"}}\n\n'
    block = b": waiting\n\n" + lines + b'data: [DONE] "response"\n\n'
    assert keeper().rename_events(block) == block.replace(b"resp_1", OURS.encode())


@given(st.lists(EVENTS, max_size=4))
def test_only_the_event_that_ends_a_response_is_kept(events: list[dict[str, Any]]):
    kept = keeper()
    kept.see_events(b"".join(map(event, events)))
    ends = [
        each for each in events if each["type"] in ("response.completed", "response.incomplete") and "response" in each
    ]
    assert kept.is_over is bool(ends)
    if ends:
        (packet,) = kept.packets()
        assert json.loads(packet)["p"]["data"]["response"] == ends[-1]["response"]
