"""Parsing and serialising of any message."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from accord.errors import InvalidMessageError, NotSerialisableError
from accord.wire.event import PresentationEvent
from accord.wire.message import MAX_FIELD_CHARS, MAX_PROBLEMS
from accord.wire.packet import DeltaPacket, EventPacket, StreamPacket
from accord.wire.request import AgentRequest, ServiceRequest

SENTENCES = [
    (
        StreamPacket,
        '{"op":"nope"}',
        "Not a valid StreamPacket: (the message): 'op' should be one of delta, event, error, close",
    ),
    (StreamPacket, "{}", "Not a valid StreamPacket: (the message): 'op' is missing"),
    (StreamPacket, '{"op":"delta"}', "Not a valid StreamPacket: delta.p: Field required"),
    (
        StreamPacket,
        '{"op":"event","p":{"n":NaN}}',
        "Not a valid StreamPacket: event.p: Numbers should be finite: JSON has no NaN and no Infinity",
    ),
    (
        StreamPacket,
        '{"op":"event","p":{"a":[-Infinity]}}',
        "Not a valid StreamPacket: event.p: Numbers should be finite: JSON has no NaN and no Infinity",
    ),
    (AgentRequest, "{}", "Not a valid AgentRequest: query: Field required"),
    (
        AgentRequest,
        '{"query":1,"files":{}}',
        "Not a valid AgentRequest: query: Input should be a valid string; files: Input should be a valid array",
    ),
]


@pytest.mark.parametrize(("model", "raw", "sentence"), SENTENCES)
def test_an_error_names_the_field_and_what_was_expected(model: type[StreamPacket], raw: str, sentence: str):
    with pytest.raises(InvalidMessageError) as caught:
        model.parse(raw)
    assert str(caught.value) == sentence


def test_an_error_never_quotes_the_data_of_a_peer():
    secret = "hunter2" * 50
    for raw in (f'{{"op":"{secret}"}}', f'{{"op":"delta","p":{{"{secret}":1}}}}', f'{{"op":"error","p":"{secret}"}}'):
        with pytest.raises(InvalidMessageError) as caught:
            StreamPacket.parse(raw)
        assert "hunter2" not in str(caught.value)
        assert "hunter2" not in str(caught.value.details)


def test_an_error_stays_small_however_wrong_the_message_is():
    with pytest.raises(InvalidMessageError) as caught:
        AgentRequest.parse(json.dumps({"query": "q", "files": list(range(10_000))}))
    assert len(caught.value.problems) == MAX_PROBLEMS
    with pytest.raises(InvalidMessageError) as caught:
        AgentRequest.parse(json.dumps({"query": "q", "requirements": {"required": [{"capability": "x" * 100_000}]}}))
    assert all(len(problem.field) <= MAX_FIELD_CHARS + 1 for problem in caught.value.problems)


def test_pydantic_methods_raise_pydantic_errors():
    with pytest.raises(ValidationError):
        StreamPacket.model_validate_json('{"op":"nope"}')
    with pytest.raises(ValidationError):
        StreamPacket.model_validate_json('{"op":"event","p":{"n":NaN}}')
    with pytest.raises(ValidationError):
        StreamPacket.model_validate({"op": "delta", "p": 1})


@pytest.mark.parametrize("word", ["NaN", "Infinity", "a NaN walks into a bar", '"-Infinity"'])
def test_the_text_nan_is_accepted_as_text(word: str):
    packet = DeltaPacket(p=word)
    assert StreamPacket.parse(packet.to_json()) == packet


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_not_json_is_refused(number: float):
    with pytest.raises(ValidationError, match="Numbers should be finite"):
        EventPacket(p={"deep": [{"n": number}]})


def test_a_structure_that_contains_itself_is_refused():
    loop: dict[str, Any] = {}
    loop["loop"] = loop
    with pytest.raises(ValidationError, match="should not be nested more than 200 deep"):
        EventPacket(p=loop)


def test_a_value_that_is_not_json_is_not_serialised():
    with pytest.raises(NotSerialisableError, match="A EventPacket holds a value that is not JSON"):
        EventPacket(p={"n": object()}).to_json()


def test_a_message_is_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        DeltaPacket(p="a").p = "b"  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("raw", [b"\xef\xbb\xbf{}", b"\xff\xfe", b"", b"null", b"[" * 100_000, "\ud800"])
def test_malformed_bytes_raise_invalid_message_error(raw: bytes | str):
    for model in (StreamPacket, PresentationEvent, ServiceRequest):
        with pytest.raises(InvalidMessageError):
            model.parse(raw)


@pytest.mark.parametrize("depth", [1, 50, 190])
def test_what_can_be_read_can_be_written(depth: int):
    nested: Any = None
    for _ in range(depth):
        nested = {"a": nested}
    packet = StreamPacket.parse(json.dumps({"op": "event", "p": nested}))
    assert StreamPacket.parse(packet.to_json()) == packet
