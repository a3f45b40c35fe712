"""Rows at the bottom of a terminal that are drawn again in place, while everything above them stays as it is.

It knows rows, not what is in them. What is written again is what has changed, in one write.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import IO, Final


class LiveArea:
    """The last rows of the terminal. No row may be as wide as the terminal, and all must fit on it."""

    def __init__(self, file: IO[str]) -> None:
        self._file: Final = file
        self._rows: list[str] = []

    def update(self, finished: Sequence[str], rows: Sequence[str]) -> None:
        """Replace the rows: by finished ones, which stay, and by others, which the next update replaces."""
        old, new = self._rows, [*finished, *rows]
        pairs = zip(old, new, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        # The cursor is in the last of the old rows; if there is none, at the start of an empty one.
        written = ""
        if same < len(old):
            up = len(old) - 1 - same
            written = f"\x1b[{up}A\r" if up else "\r"
        elif old and len(new) > same:
            written = "\n"
        if same < len(new):
            # What was there is erased behind the new text of each row, so that nothing flickers.
            written += "\n".join(f"{row}\x1b[K" for row in new[same:])
            written += "\x1b[J" if len(old) > len(new) else ""
        elif same < len(old):
            written += "\x1b[J" + ("\x1b[A" if rows else "")
        if new and not rows and not same == len(new) < len(old):
            written += "\n"
        self._rows = list(rows)
        if written:
            self._file.write(written)
            self._file.flush()

    def forget(self) -> None:
        """Leave the rows as they are and go on below them."""
        if self._rows:
            self._file.write("\r\n")
            self._rows = []
