"""Which capability names are known, misspelled or merely unknown (decision 15)."""

import pytest

from accord.backends.probe import probe_questions
from accord.core.vocabulary import PROBED, check_name, unknown_names
from accord.wire.capability import KNOWN_CAPABILITIES, canonical_name

MISSPELLED = {
    "vison": "vision",
    "visoin": "vision",
    "tool_us": "tool_use",
    "tool-use": "tool_use",
    "function_call": "function_calling",
    "StructuredOutputJsonShema": "structured_output_json_schema",
}
"""Misspellings, and what was meant."""
OPEN = {"time_travel": None, "audio_input": None, "stream": "streaming"}
"""Unknown names that are no misspellings, and what is suggested."""


@pytest.mark.parametrize("name", KNOWN_CAPABILITIES)
def test_a_known_name_is_accepted(name: str):
    assert check_name(name) is None


@pytest.mark.parametrize(("name", "meant"), MISSPELLED.items())
def test_a_similar_name_is_a_misspelling(name: str, meant: str):
    unknown = check_name(name)
    assert unknown is not None
    assert (unknown.is_misspelling, unknown.meant) == (True, meant)
    assert str(unknown) == f'unknown capability "{name}"; did you mean {meant}?'


@pytest.mark.parametrize(("name", "meant"), OPEN.items())
def test_any_other_name_is_unknown_and_no_misspelling(name: str, meant: str | None):
    unknown = check_name(name)
    assert unknown is not None
    assert (unknown.is_misspelling, unknown.meant) == (False, meant)


def test_each_unknown_name_is_reported_once():
    assert [unknown.name for unknown in unknown_names(["vision", "x_y", "x_y"])] == ["x_y"]


def test_aliases_have_one_canonical_name():
    assert [canonical_name(name) for name in ("vision", "image_input", "function_calling", "x_y")] == [
        "image_input",
        "image_input",
        "tool_use",
        "x_y",
    ]


def test_a_probe_tests_the_capabilities_that_remedies_name():
    assert [question.capability for question in probe_questions({})] == [*PROBED]
