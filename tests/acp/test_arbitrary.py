"""Arbitrary input of a peer raises only `InvalidMessageError`."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from accord.acp import base, content, jsonrpc, schema_parts, schema_v1, schema_v2
from accord.errors import InvalidMessageError
from accord.wire.message import Message
from tests.laws import examples

MODULES: Final = (base, content, jsonrpc, schema_parts, schema_v1, schema_v2)
ABSTRACT: Final = {base.OpenTagged}
GOLDEN: Final = sorted((Path(__file__).parent / "golden").iterdir())


def models() -> list[type[Message]]:
    """Every model that our modules define, once."""
    found = {
        value: None
        for module in MODULES
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Message) and value.__module__ == module.__name__
    }
    return [model for model in found if model not in ABSTRACT]


def keys_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in cast("dict[str, Any]", value).items():
            yield key
            yield from keys_in(inner)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from keys_in(inner)


# The protocol's own keys and tags, so that arbitrary values reach deep into the models.
KEYS: Final = sorted({key for path in GOLDEN for key in keys_in(json.loads(path.read_bytes()))})
TAGS: Final = sorted(
    {
        "select",
        "boolean",
        "content",
        "diff",
        "terminal",
        "image",
        "items",
        *schema_v1.SessionUpdate.kinds,
        *schema_v2.SessionUpdate.kinds,
    }
)
SCALARS: Final = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(TAGS)
VALUES: Final = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=4), inner, max_size=5)
    ),
    max_leaves=12,
)
MODELS: Final = models()


@settings(max_examples=examples(60))
@given(value=VALUES)
def test_arbitrary_json_gives_a_message_or_an_invalid_message_error(value: Any) -> None:
    raw = json.dumps(value)
    for model in MODELS:
        with suppress(InvalidMessageError):
            assert isinstance(model.parse(raw), Message)


@settings(max_examples=examples(60))
@given(raw=st.binary(max_size=64) | st.text(max_size=64))
def test_arbitrary_bytes_give_a_message_or_an_invalid_message_error(raw: bytes | str) -> None:
    for model in MODELS:
        with suppress(InvalidMessageError):
            assert isinstance(model.parse(raw), Message)


@settings(max_examples=examples(60))
@given(value=VALUES | st.binary(max_size=8) | st.dictionaries(st.integers(), SCALARS, max_size=2))
def test_arbitrary_values_give_a_message_or_pydantics_error(value: Any) -> None:
    for model in MODELS:
        with suppress(ValidationError):
            assert isinstance(model.model_validate(value), Message)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_model_has_a_json_schema_and_a_docstring(model: type[Message]) -> None:
    assert model.model_json_schema()
    assert (model.__doc__ or "").strip()


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_a_message_nested_too_deeply_is_an_invalid_message_error(model: type[Message]) -> None:
    with pytest.raises(InvalidMessageError):
        model.parse("[" * 100_000)
