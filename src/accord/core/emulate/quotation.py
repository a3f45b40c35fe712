"""Follows text as it comes and tells whether what comes next would be quoted: in code, in a block quote, in quotes.

What a model quotes it does not do. Only what comes before counts, so the answer never depends on how the text is cut.
"""

import re
from typing import Final

_FENCE: Final = re.compile(r"[ \t>]*(`{3,}|~{3,})")
_QUOTES: Final = "\"'\u2018\u201c\u201e\u00ab\u2039\u300c\u300e"


class Quotation:
    """The state of one text."""

    __slots__ = ("_fence", "_line")

    def __init__(self) -> None:
        self._fence = ""
        self._line: list[str] = []

    def feed(self, text: str) -> None:
        """Take the next piece of the text."""
        first, *others = text.split("\n")
        self._line.append(first)
        for line in others:
            self._end_line("".join(self._line))
            self._line = [line]

    @property
    def is_open(self) -> bool:
        """Whether what comes next stands in a fence, a code span, a block quote or quotation marks."""
        line = "".join(self._line)
        self._line = [line]
        return bool(
            self._fence
            or _FENCE.match(line)
            or line.lstrip().startswith(">")
            or line.count("`") % 2
            or line.endswith(tuple(_QUOTES))
        )

    def _end_line(self, line: str) -> None:
        found = _FENCE.match(line)
        if found is None:
            return
        if not self._fence:
            self._fence = found[1]
        elif found[1].startswith(self._fence) and not line.strip(f"{self._fence[0]}> \t\r"):
            self._fence = ""
