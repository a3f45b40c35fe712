"""Every example of the CommonMark specification against markdown-it-py's reading of it.

`commonmark_differences.json` names every example that reads differently, and why. A difference that is not
listed fails, and so does a listed one that is gone.
"""

import json
from pathlib import Path

import pytest

from accord.core.output.markdown import strip
from tests.core.output.markdown.oracle import oracle_words, words
from tests.core.output.markdown.spec_examples import read_examples

DIFFERENCES = json.loads((Path(__file__).parent / "commonmark_differences.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def examples() -> list[str]:
    return read_examples()


def test_all_examples_are_there(examples: list[str]) -> None:
    assert len(examples) == 652


def test_just_the_listed_examples_read_differently(examples: list[str]) -> None:
    differing = {
        str(number)
        for number, markdown in enumerate(examples, start=1)
        if words(strip(markdown)) != oracle_words(markdown)
    }
    assert differing == set(DIFFERENCES["examples"])


def test_nine_tenths_of_the_examples_read_the_same(examples: list[str]) -> None:
    assert len(DIFFERENCES["examples"]) <= len(examples) / 10


def test_every_difference_has_a_name_that_is_explained() -> None:
    assert set(DIFFERENCES["examples"].values()) == set(DIFFERENCES["names"])
