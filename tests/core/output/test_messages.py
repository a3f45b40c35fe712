"""The catalogue: English built in, anything else handed in, and no way to smuggle a format in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core.output.describe import ENGLISH, Catalogue
from accord.errors import UsageError


def test_a_catalogue_overrides_and_english_fills_its_gaps():
    catalogue = Catalogue({"sources": "Quellen:", "unheard_of": "{x}"})
    assert catalogue.tell("sources") == "Quellen:"
    assert catalogue.tell("failed", label="x") == ENGLISH["failed"].replace("{label}", "x")


def test_the_stripper_gets_its_sentences_from_the_same_catalogue():
    assert Catalogue({"link": "der Verweis auf {host}"}).for_stripper["link"] == "der Verweis auf {host}"


@pytest.mark.parametrize("value", ["{label}", "{label.__class__}", "{0}", "{}", "%s", "{", "}"])
def test_a_parameter_is_text_whatever_it_looks_like(value: str):
    assert Catalogue().tell("failed", label=value) == f"Failed: {value}"


@given(st.text())
def test_any_parameter_comes_out_as_it_went_in(value: str):
    assert Catalogue().tell("failed", label=value) == "Failed: " + value


@pytest.mark.parametrize(
    "text", ["{stranger}", "{label.__class__}", "{label!r}", "{label:>99999999}", "{", "{{label}}", 7, None]
)
def test_a_message_with_other_parameters_is_refused(text: str):
    with pytest.raises(UsageError, match="'failed'"):
        Catalogue({"failed": text})


def test_no_english_message_reads_an_address_aloud():
    assert [message for message in ENGLISH if "_spoken" in message and "{url}" in ENGLISH[message]] == []
