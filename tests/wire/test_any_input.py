"""Input of a peer raises nothing but Accord's errors."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from accord.errors import InvalidMessageError
from accord.wire import contract
from accord.wire.capability import Capability
from accord.wire.event import PresentationEventType
from accord.wire.message import Message
from accord.wire.packet import StreamOpCode
from tests.laws import examples

MODELS = [model for model in contract.MESSAGES if issubclass(model, Message)]
ALL_MODELS: list[type[BaseModel]] = list(contract.MESSAGES)

# The protocols' own words, so that Hypothesis gets past the first key.
KEYS = st.sampled_from(
    "op p type data items id timestamp request_id context payload query files meta capabilities supported_events "
    "content requirements required capability min_support strategies messages role text url uri mime_type resource "
    "native emulatable unsupported restricted reason label status progress_percent details severity code".split()
) | st.text(max_size=5)
WORDS = st.sampled_from([*StreamOpCode, *PresentationEventType, *Capability, "native", "user", "text", "image"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
@settings(max_examples=examples(40))
@given(value=JSON)
def test_any_json_is_a_message_or_an_invalid_message_error(model: type[Message], value: Any):
    try:
        message = model.parse(json.dumps(value))
    except InvalidMessageError:
        return
    assert model.parse(message.to_json()) == message


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
@settings(max_examples=examples(40))
@given(raw=st.binary(max_size=40) | st.text(max_size=40))
def test_any_bytes_are_a_message_or_an_invalid_message_error(model: type[Message], raw: bytes | str):
    try:
        model.parse(raw)
    except InvalidMessageError:
        return


@pytest.mark.parametrize("model", ALL_MODELS, ids=lambda model: model.__name__)
@settings(max_examples=examples(40))
@given(value=JSON)
def test_any_value_is_a_message_or_pydantics_error(model: type[BaseModel], value: Any):
    try:
        model.model_validate(value)
    except ValidationError:
        return
