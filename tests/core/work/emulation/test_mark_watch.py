"""Marks are found wherever the text is cut, and no more is held back than could become one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core.work.emulation.base import MarkWatch, first_mark, held_back
from tests.core.work.emulation.scripted import PLACES, cut, joined


@pytest.mark.parametrize(
    ("text", "marks", "where"),
    [
        ("a STOP b", ["STOP"], (2, 6)),
        ("nothing", ["STOP"], None),
        ("nothing", [], None),
        ("abcd", ["abcd", "bc"], (1, 3)),  # complete first
        ("ab", ["b", "ab"], (0, 2)),  # complete together: the longest
        ("aab", ["ab", "a"], (0, 1)),
    ],
)
def test_the_mark_that_is_complete_first_wins(text: str, marks: list[str], where: tuple[int, int] | None):
    assert first_mark(text, marks) == where


@pytest.mark.parametrize(
    ("text", "marks", "size"),
    [("hello S", ["STOP"], 1), ("hello STO", ["STOP"], 3), ("hello", ["STOP"], 0), ("aaa", ["aab"], 2), ("a", [], 0)],
)
def test_only_what_could_become_a_mark_is_held_back(text: str, marks: list[str], size: int):
    assert held_back(text, marks) == size


def test_an_empty_mark_is_never_found():
    assert MarkWatch([""]).feed("text") == ("text", None)


@given(st.text("ab<", max_size=30), st.lists(st.text("ab<", min_size=1, max_size=4), max_size=3), PLACES)
def test_where_the_text_is_cut_does_not_matter(text: str, marks: list[str], places: list[int]):
    watch, before = MarkWatch(marks), ""
    for piece in cut(text, places):
        passed, found = watch.feed(joined([piece]))
        before += passed
        if found:
            assert first_mark(text, marks) == (len(before), len(before) + len(found.mark))
            return
    assert before + watch.flush() == text
    assert first_mark(text, marks) is None
