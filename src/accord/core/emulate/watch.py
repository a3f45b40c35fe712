"""Finds marks in text that comes in pieces, holding back only what could still become one.

It decides nothing about what a mark means. The first mark to be complete wins, as for an API that looks after every
character; of several completed by the same character, the longest. So the result cannot depend on where the text was
cut, and nothing before the found mark contains a whole one.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Found:
    """A mark, and what came after it."""

    mark: str
    after: str


class MarkWatch:
    """Watches one stream of text for the first of some marks."""

    def __init__(self, marks: Sequence[str]) -> None:
        self._marks = tuple(mark for mark in marks if mark)
        self._held = ""

    def feed(self, text: str) -> tuple[str, Found | None]:
        """The text that cannot be part of a mark any more, and the mark if one is complete."""
        text, self._held = self._held + text, ""
        if where := first_mark(text, self._marks):
            start, stop = where
            return text[:start], Found(text[start:stop], text[stop:])
        keep = held_back(text, self._marks)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep], None

    def flush(self) -> str:
        """What was held back, which turned out to be text."""
        text, self._held = self._held, ""
        return text


def first_mark(text: str, marks: Sequence[str]) -> tuple[int, int] | None:
    """Where the mark that is complete first begins and ends."""
    found = [(start + len(mark), start) for mark in marks if (start := text.find(mark)) >= 0]
    if not found:
        return None
    stop, start = min(found)
    return start, stop


def held_back(text: str, marks: Sequence[str]) -> int:
    """The length of the longest end of the text with which a mark could begin."""
    longest = max((len(mark) for mark in marks), default=0) - 1
    for size in range(min(longest, len(text)), 0, -1):
        tail = text[len(text) - size :]
        if any(mark.startswith(tail) for mark in marks):
            return size
    return 0
