"""What was not read out, dropped or rewritten, written down; and where in the input it stood.

Decides how offsets survive folded line endings. It must not know why anything was dropped, and keeps no
content beyond a short marker.
"""

from bisect import bisect_left
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MAX_NOTES: Final = 4096
MARKER_LENGTH: Final = 24
FOLDS_KEPT: Final = 8192


class NoteKind(StrEnum):
    """Everything the stripper may do to a text besides taking its markup off."""

    CODE_BLOCK = "code_block"
    TABLE = "table"
    URL = "url"
    IMAGE = "image"
    HTML = "html"
    COMMENT = "comment"
    UNMATCHED_DELIMITER = "unmatched_delimiter"
    STRIKETHROUGH = "strikethrough"
    MATH = "math"
    FOOTNOTE = "footnote"
    REFERENCE_DEFINITION = "reference_definition"
    TASK = "task"


@dataclass(frozen=True, slots=True)
class Note:
    """One thing a reader of the output cannot see: its kind, its offset in the input, a short marker."""

    kind: NoteKind
    position: int
    marker: str = ""


class Notebook:
    """The account of one text, bounded: after `MAX_NOTES` it only counts."""

    __slots__ = ("_folded_before", "_folds", "_notes", "unrecorded")

    def __init__(self) -> None:
        self._notes: list[Note] = []
        self._folds: list[int] = []
        self._folded_before = 0
        self.unrecorded = 0

    def fold(self, position: int) -> None:
        """Remember that one input character vanished right after this position of the normalised text."""
        self._folds.append(position)
        if len(self._folds) > 2 * FOLDS_KEPT:
            del self._folds[:FOLDS_KEPT]
            self._folded_before += FOLDS_KEPT

    def offset(self, position: int) -> int:
        """The offset in the input of a position in the normalised text."""
        return position + self._folded_before + bisect_left(self._folds, position)

    def add(self, kind: NoteKind, position: int, marker: str = "") -> None:
        """Write one note down; the position is one of the normalised text."""
        if len(self._notes) < MAX_NOTES:
            self._notes.append(Note(kind, self.offset(position), marker[:MARKER_LENGTH]))
        else:
            self.unrecorded += 1

    @property
    def notes(self) -> tuple[Note, ...]:
        """All notes, in the order in which they were decided."""
        return tuple(self._notes)
