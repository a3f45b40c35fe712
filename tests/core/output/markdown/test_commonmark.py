"""Every example of the CommonMark specification, compared with markdown-it-py.

`commonmark_differences.json` lists every example that differs, with the reason. A difference that is not listed fails,
and so does a listed one that no longer differs.
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


def test_exactly_the_listed_examples_differ(examples: list[str]) -> None:
    differing = {
        str(number)
        for number, markdown in enumerate(examples, start=1)
        if words(strip(markdown)) != oracle_words(markdown)
    }
    assert differing == set(DIFFERENCES["examples"])


def test_nine_tenths_of_the_examples_are_equal(examples: list[str]) -> None:
    assert len(DIFFERENCES["examples"]) <= len(examples) / 10


def test_every_difference_has_an_explained_name() -> None:
    assert set(DIFFERENCES["examples"].values()) == set(DIFFERENCES["names"])
