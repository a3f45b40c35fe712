"""Hostile input takes linear time: counted in calls, not in seconds."""

import sys
from collections.abc import Callable

import pytest

from accord.core.output.markdown import Profile, TextStripper

HOSTILE = [
    "*", "[", "`", "<", "_", "![", "**a **a ", "[a](", "> ", "- ", "~", "$", "&", "\\", "<a ", "x", " ", "\n", "a ",
    "`a``b```c", "[a][", "<!--", "|", "|a\n", "> - a\n", "- a\n  ", "](", "http://", "$a ", "\\(", '<a b="',
    "# # ", "*a **b_ ", "a|b\n-|-\n", "<div>\n", "\r", "\ud800", "[[a] ", "```\na\n", "\t",
    "[ab] ", "[ab]\n\n[ab]: /u\n\n", "a ![](/u) ", "https://e.com/a_* ",
]  # fmt: skip


def calls(work: Callable[[], object]) -> int:
    """Return how many functions are called, including built-in ones."""
    count = 0

    def counted(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def stripped(text: str, size: int) -> None:
    stripper = TextStripper(Profile.PLAIN)
    for start in range(0, len(text), size):
        stripper.feed(text[start : start + size])
    stripper.close()


@pytest.mark.parametrize("size", [8, 10**9], ids=["in pieces", "whole"])
@pytest.mark.parametrize("unit", HOSTILE)
def test_eight_times_the_text_takes_about_eight_times_the_calls(unit: str, size: int) -> None:
    small, large = "abc " + unit * (2_000 // len(unit)), "abc " + unit * (16_000 // len(unit))
    base = calls(lambda: stripped(small, size)) + 200
    assert calls(lambda: stripped(large, size)) < 12 * base
