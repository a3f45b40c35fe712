"""Insertion points in streaming markdown."""

import pytest
from hypothesis import given

from accord.core.output.insertion import BlockTracker, InsertionPoint
from tests.core.output import MARKDOWN


def point_after(text: str) -> InsertionPoint:
    tracker = BlockTracker()
    tracker.read(text)
    return tracker.insertion_point


@pytest.mark.parametrize(
    ("text", "insertion_point"),
    [
        ("", InsertionPoint.BLOCK),
        ("\n", InsertionPoint.BLOCK),
        ("A sentence.", InsertionPoint.NONE),
        ("A sentence. Another", InsertionPoint.NONE),
        ("A sentence.\n", InsertionPoint.LINE),
        ("“A sentence.”\n", InsertionPoint.LINE),
        ("**A sentence.**\n", InsertionPoint.LINE),
        ("これは文です。\n", InsertionPoint.LINE),
        ("half a sentence\n", InsertionPoint.NONE),
        ("half a sentence\n\n", InsertionPoint.BLOCK),
        ("A sentence.\r\n\r\n", InsertionPoint.BLOCK),
        ("A sentence.\n \t\n", InsertionPoint.BLOCK),
        ("A sentence.\n\nAnother", InsertionPoint.NONE),
        ("# A heading\n", InsertionPoint.NONE),
        ("# A heading\n\n", InsertionPoint.NONE),
        ("A heading\n===\n\n", InsertionPoint.NONE),
        ("As follows:\n\n", InsertionPoint.NONE),
        ("- an item.\n", InsertionPoint.LINE),
        ("- an item.\n\n", InsertionPoint.NONE),
        ("1. an item\n\n   still the item\n\n", InsertionPoint.NONE),
        ("1. an item\n\nA paragraph.\n\n", InsertionPoint.BLOCK),
        ("> a quotation\n\n", InsertionPoint.BLOCK),
        ("| a |\n|---|\n| b |\n\n", InsertionPoint.BLOCK),
        ("***\n\n", InsertionPoint.BLOCK),
    ],
)
def test_each_text_ends_at_its_insertion_point(text: str, insertion_point: InsertionPoint):
    assert point_after(text) is insertion_point


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
def test_there_is_no_insertion_point_inside_code(code: str):
    assert point_after(code) is InsertionPoint.NONE


@pytest.mark.parametrize(
    ("text", "insertion_point"),
    [
        ("```py\nx\n```\n", InsertionPoint.BLOCK),
        ("```py\nx\n`````\n", InsertionPoint.BLOCK),
        ("~~~\nx\n~~~\n", InsertionPoint.BLOCK),
        ("> ```\n> x\n> ```\n", InsertionPoint.BLOCK),
        ("- ```\n  x\n  ```\n", InsertionPoint.NONE),
        ("$$\nx\n$$\n", InsertionPoint.BLOCK),
        ("```inline``` code.\n\n", InsertionPoint.BLOCK),
        ("<pre>\nx\n</pre>\n\n", InsertionPoint.BLOCK),
        ("<!-- a remark -->\n\n", InsertionPoint.BLOCK),
    ],
)
def test_the_end_of_code_is_an_insertion_point(text: str, insertion_point: InsertionPoint):
    assert point_after(text) is insertion_point


def test_the_open_fence_is_available():
    tracker = BlockTracker()
    tracker.read("````py\nx\n")
    assert tracker.open_fence == "````"


def test_a_line_of_a_million_characters_is_read_in_pieces():
    tracker = BlockTracker()
    for _ in range(1000):
        tracker.read("word " * 200)
    tracker.read("end.\n")
    assert tracker.insertion_point is InsertionPoint.LINE


@given(MARKDOWN)
def test_an_insertion_point_does_not_depend_on_where_the_text_was_cut(text: str):
    tracker = BlockTracker()
    for index, char in enumerate(text):
        tracker.read(char)
        assert tracker.insertion_point is point_after(text[: index + 1])
