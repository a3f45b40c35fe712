"""Where something may be put between streaming markdown."""

import pytest
from hypothesis import given

from accord.core.output.insertion import BlockTracker, Boundary
from tests.core.output import MARKDOWN


def after(text: str) -> Boundary:
    tracker = BlockTracker()
    tracker.read(text)
    return tracker.boundary


@pytest.mark.parametrize(
    ("text", "boundary"),
    [
        ("", Boundary.BLOCK),
        ("\n", Boundary.BLOCK),
        ("A sentence.", Boundary.NONE),
        ("A sentence. Another", Boundary.NONE),
        ("A sentence.\n", Boundary.LINE),
        ("“A sentence.”\n", Boundary.LINE),
        ("**A sentence.**\n", Boundary.LINE),
        ("これは文です。\n", Boundary.LINE),
        ("half a sentence\n", Boundary.NONE),
        ("half a sentence\n\n", Boundary.BLOCK),
        ("A sentence.\r\n\r\n", Boundary.BLOCK),
        ("A sentence.\n \t\n", Boundary.BLOCK),
        ("A sentence.\n\nAnother", Boundary.NONE),
        ("# A heading\n", Boundary.NONE),
        ("# A heading\n\n", Boundary.NONE),
        ("A heading\n===\n\n", Boundary.NONE),
        ("As follows:\n\n", Boundary.NONE),
        ("- an item.\n", Boundary.LINE),
        ("- an item.\n\n", Boundary.NONE),
        ("1. an item\n\n   still the item\n\n", Boundary.NONE),
        ("1. an item\n\nA paragraph.\n\n", Boundary.BLOCK),
        ("> a quotation\n\n", Boundary.BLOCK),
        ("| a |\n|---|\n| b |\n\n", Boundary.BLOCK),
        ("***\n\n", Boundary.BLOCK),
    ],
)
def test_each_place_may_or_may_not_be_interrupted(text: str, boundary: Boundary):
    assert after(text) is boundary


@pytest.mark.parametrize(
    "code",
    [
        "```py\nx = 1.\n\n",
        "```py\nx\n``\n\n",
        "```py\nx\n~~~\n\n",
        "````\n```\n\n",
        "```py\n``` not the end\n\n",
        "~~~\nx\n\n",
        "> ```\n> x.\n>\n\n",
        "- ```\n  x.\n\n",
        "    x = 1\n\n",
        "    x = 1\n    y = 2.\n\n",
        "\tx = 1\n\n",
        "$$\nx\n\n",
        "<pre>\nx.\n\n",
        "<!-- a remark.\n\n",
    ],
)
def test_code_is_never_interrupted(code: str):
    assert after(code) is Boundary.NONE


@pytest.mark.parametrize(
    ("text", "boundary"),
    [
        ("```py\nx\n```\n", Boundary.BLOCK),
        ("```py\nx\n`````\n", Boundary.BLOCK),
        ("~~~\nx\n~~~\n", Boundary.BLOCK),
        ("> ```\n> x\n> ```\n", Boundary.BLOCK),
        ("- ```\n  x\n  ```\n", Boundary.NONE),
        ("$$\nx\n$$\n", Boundary.BLOCK),
        ("```inline``` code.\n\n", Boundary.BLOCK),
        ("<pre>\nx\n</pre>\n\n", Boundary.BLOCK),
        ("<!-- a remark -->\n\n", Boundary.BLOCK),
    ],
)
def test_after_code_one_may_speak_again(text: str, boundary: Boundary):
    assert after(text) is boundary


def test_an_open_fence_is_known():
    tracker = BlockTracker()
    tracker.read("````py\nx\n")
    assert tracker.open_fence == "````"


def test_a_line_of_a_million_characters_is_not_kept():
    tracker = BlockTracker()
    for _ in range(1000):
        tracker.read("word " * 200)
    tracker.read("end.\n")
    assert tracker.boundary is Boundary.LINE


@given(MARKDOWN)
def test_a_boundary_does_not_depend_on_where_the_text_was_cut(text: str):
    tracker = BlockTracker()
    for place, char in enumerate(text):
        tracker.read(char)
        assert tracker.boundary is after(text[: place + 1])
