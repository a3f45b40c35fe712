"""The message catalogue: English built in, other languages passed in; parameters are never format strings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core.output.describe import ENGLISH, MessageCatalogue
from accord.errors import UsageError


def test_messages_that_are_not_overridden_are_english():
    catalogue = MessageCatalogue({"sources": "Quellen:", "unknown_message": "{x}"})
    assert catalogue.format("sources") == "Quellen:"
    assert catalogue.format("failed", label="x") == ENGLISH["failed"].replace("{label}", "x")


def test_the_stripper_uses_the_same_overrides():
    assert MessageCatalogue({"link": "der Verweis auf {host}"}).for_stripper["link"] == "der Verweis auf {host}"


@pytest.mark.parametrize("value", ["{label}", "{label.__class__}", "{0}", "{}", "%s", "{", "}"])
def test_a_parameter_is_text_whatever_it_looks_like(value: str):
    assert MessageCatalogue().format("failed", label=value) == f"Failed: {value}"


@given(st.text())
def test_any_parameter_is_inserted_unchanged(value: str):
    assert MessageCatalogue().format("failed", label=value) == "Failed: " + value


@pytest.mark.parametrize(
    "text", ["{unknown}", "{label.__class__}", "{label!r}", "{label:>99999999}", "{", "{{label}}", 7, None]
)
def test_a_message_with_unknown_parameters_is_an_error(text: str):
    with pytest.raises(UsageError, match="'failed'"):
        MessageCatalogue({"failed": text})


def test_no_spoken_english_message_has_a_url():
    assert [message for message in ENGLISH if "_spoken" in message and "{url}" in ENGLISH[message]] == []
