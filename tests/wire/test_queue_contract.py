"""The contract of the queue: valid AsyncAPI 3.0, with every subject and header, and examples that are true."""

import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from scripts.docs.asyncapi import page

from accord.wire import queue_messages
from accord.wire.packet import StreamPacket
from accord.wire.queue_contract import queue_document
from accord.wire.queue_messages import subject_token
from accord.wire.request import ServiceRequest
from tests.wire.test_contract import references

SPECIFICATION = Path(__file__).parent.parent.parent / ".venv/peers/node_modules/@asyncapi/specs/schemas/3.0.0.json"
DOCUMENT: dict[str, Any] = queue_document()
MESSAGES: dict[str, Any] = DOCUMENT["components"]["messages"]


def problems(document: dict[str, Any]) -> list[str]:
    """What the schema of AsyncAPI 3.0 does not accept."""
    specification = json.loads(SPECIFICATION.read_text(encoding="utf-8"))
    errors: Any = Draft7Validator(specification).iter_errors(document)  # pyright: ignore[reportUnknownMemberType]
    return [error.message for error in errors]


def test_the_document_is_valid_asyncapi():
    assert problems(DOCUMENT) == []


def test_a_wrong_document_is_found():
    wrong = deepcopy(DOCUMENT)
    wrong["operations"]["takeRequest"]["action"] = "take"
    assert problems(wrong)


def test_the_page_is_the_document():
    assert yaml.safe_load(page()) == DOCUMENT


def test_every_reference_resolves():
    for reference in references(DOCUMENT):
        target: Any = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]


@pytest.mark.parametrize("name", [name for name in vars(queue_messages) if name.endswith("_HEADER")])
def test_every_header_of_accord_is_described(name: str):
    header = vars(queue_messages)[name]
    described = {each for message in MESSAGES.values() for each in message.get("headers", {}).get("properties", {})}
    assert header in described or not header.startswith("Accord-")


@pytest.mark.parametrize("name", MESSAGES)
def test_every_example_fits_its_message(name: str):
    message = MESSAGES[name]
    assert message["examples"]
    for example in message["examples"]:
        for part in example.keys() & {"headers", "payload"}:
            schema = {"allOf": [message[part]], "components": DOCUMENT["components"]}
            Draft7Validator(schema).validate(example[part])  # pyright: ignore[reportUnknownMemberType]


def test_examples_are_what_accord_reads():
    for example in MESSAGES["request"]["examples"]:
        assert ServiceRequest.parse(json.dumps(example["payload"]))
    for example in MESSAGES["packets"]["examples"]:
        assert all(StreamPacket.parse(line) for line in example["payload"].split("\n"))


@given(
    first=st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    second=st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
)
def test_two_names_are_two_tokens_of_a_subject(first: str, second: str):
    tokens = [subject_token(name) for name in (first, second)]
    assert (tokens[0] == tokens[1]) == (first == second)
    assert all(re.fullmatch(r"[A-Za-z0-9_=-]+", token) for token in tokens)
