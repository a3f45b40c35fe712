"""Where descriptions and events may be inserted into streaming text, and the queue of items that wait for that.

A description is never inserted inside a sentence or a code block. The insertion points depend on the characters read,
not on how the text was cut. In doubt there is none: a list or an indented block may always continue, and a heading or a
line that ends with a colon introduces what follows. What is inserted, and for which client, is not known here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final, cast

from accord.wire.packet import EventPacket

# A line may have a million characters. Its kind shows in its first characters, the end of a sentence in its last ones.
HEAD_CHARS: Final = 256
TAIL_CHARS: Final = 16

_FENCE: Final = re.compile(r"(?:[ \t]|>|[-*+][ \t]|\d{1,9}[.)][ \t])*(`{3,}(?=[^`]*$)|~{3,}|\$\$(?=\s*$))")
_LIST: Final = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_HEADING: Final = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_UNDERLINE: Final = re.compile(r" {0,3}(?:-+|=+)[ \t]*$")
_SENTENCE: Final = re.compile(r"""[.!?…。！？]["'”’»)\]」』*_`]*$""")

RAW_HTML: Final[Mapping[str, str]] = MappingProxyType(
    {
        "<!--": "-->",
        "<pre": "</pre>",
        "<script": "</script>",
        "<style": "</style>",
        "<textarea": "</textarea>",
    }
)
"""HTML that may contain blank lines, and what ends it."""


class InsertionPoint(IntEnum):
    """What may be inserted here: nothing, urgent text (after a line that ends a sentence), or anything."""

    NONE = 0
    LINE = 1
    BLOCK = 2


class _Kind(IntEnum):
    """What the last line that was not blank is."""

    TEXT = 0
    HEADING = 1
    LIST = 2
    INDENTED = 3
    CODE = 4
    INTRODUCTION = 5


_COMPLETE: Final = frozenset({_Kind.TEXT, _Kind.CODE})


class BlockTracker:
    """Finds the insertion points of streaming markdown, line by line. The start of a text is one.

    Keeps only the first `HEAD_CHARS` and the last `TAIL_CHARS` of a line.
    """

    __slots__ = ("_fence", "_head", "_in_list", "_kind", "_raw_end", "_tail", "_was_blank", "insertion_point")

    def __init__(self) -> None:
        self.insertion_point = InsertionPoint.BLOCK
        self._fence = ""
        self._raw_end = ""
        self._head = self._tail = ""
        self._kind = _Kind.TEXT
        self._in_list = False
        self._was_blank = True

    @property
    def open_fence(self) -> str:
        """The fence of the code block that is open, or ""."""
        return self._fence

    def read(self, text: str) -> None:
        """Read more text."""
        first, *others = text.split("\n")
        self._extend(first)
        for line in others:
            self.insertion_point = self._end_line()
            if line:
                self._extend(line)

    def _extend(self, text: str) -> None:
        if not text:
            return
        self.insertion_point = InsertionPoint.NONE
        if len(self._head) < HEAD_CHARS:
            self._head = (self._head + text)[:HEAD_CHARS]
        self._tail = (self._tail + text)[-TAIL_CHARS:]

    def _end_line(self) -> InsertionPoint:
        line, tail = self._head.rstrip(), self._tail.rstrip()
        self._head = self._tail = ""
        if self._fence:
            mark = line.lstrip(" \t>")
            if len(mark) < len(self._fence) or mark.strip(self._fence[0]):
                return InsertionPoint.NONE
            self._fence = ""
            self._kind = _Kind.CODE
            self._was_blank = False
            return InsertionPoint.NONE if self._in_list else InsertionPoint.BLOCK
        if self._raw_end:
            if self._raw_end in line.lower() or self._raw_end in tail.lower():
                self._raw_end = ""
            return InsertionPoint.NONE
        if not line:
            self._was_blank = True
            is_complete = self._kind in _COMPLETE and not self._in_list
            return InsertionPoint.BLOCK if is_complete else InsertionPoint.NONE
        self._in_list = bool(_LIST.match(line)) or (self._in_list and (line[0] in " \t" or not self._was_blank))
        if fence := _FENCE.match(line):
            self._fence = fence[1]
            return InsertionPoint.NONE
        return self._end_text(line, tail)

    def _end_text(self, line: str, tail: str) -> InsertionPoint:
        if self._in_list:
            kind = _Kind.LIST
        elif (self._was_blank or self._kind is _Kind.INDENTED) and line.startswith(("    ", "\t")):
            kind = _Kind.INDENTED
        elif _HEADING.match(line) or (not self._was_blank and _UNDERLINE.match(line)):
            kind = _Kind.HEADING
        else:
            kind = _Kind.INTRODUCTION if tail.endswith((":", "：")) else _Kind.TEXT
        self._kind = kind
        self._was_blank = False
        if "<" in line:
            text = line.lower()
            for start, end in RAW_HTML.items():
                if (at := text.find(start)) >= 0 and end not in text[at:] and end not in tail.lower():
                    self._raw_end = end
        may_end_sentence = kind in (_Kind.TEXT, _Kind.LIST) and not self._raw_end
        return InsertionPoint.LINE if may_end_sentence and _SENTENCE.search(tail) else InsertionPoint.NONE


CHARS_PER_VALUE: Final = 8  # what a number, a literal or the punctuation around a value takes in JSON
FAILURE_RESERVE: Final = 2  # the limits of the queue are doubled for failures, which must not be deferred


@dataclass(frozen=True, slots=True)
class AdaptLimits:
    """How much one adapter may keep, in items and in characters."""

    max_waiting: int = 64
    max_waiting_chars: int = 256 * 1024
    max_notices: int = 256
    max_entries: int = 10_000


@dataclass(frozen=True, slots=True)
class QueuedItem:
    """A text or an event to send at the next insertion point; `size` is its estimated number of characters."""

    text: str = ""
    packet: EventPacket | None = None
    urgent: bool = False
    size: int = 0


class InsertionQueue:
    """The items that wait for an insertion point. Urgent ones go first, the others in order.

    The caller asks `has_room` before it adds an item.
    """

    __slots__ = ("_limits", "_size", "_urgent", "items")

    def __init__(self, limits: AdaptLimits) -> None:
        self._limits = limits
        self.items: list[QueuedItem] = []
        self._size = 0
        self._urgent = 0

    @property
    def has_text(self) -> bool:
        """Whether a text is queued."""
        return bool(self.items) and any(item.text for item in self.items)

    def has_room(self, size: int, *, failure: bool = False) -> bool:
        """Whether an item of this size may be added; for failures there is a reserve."""
        factor = FAILURE_RESERVE if failure else 1
        has_place = len(self.items) < self._limits.max_waiting * factor
        return has_place and self._size + size <= self._limits.max_waiting_chars * factor

    def is_due(self, point: InsertionPoint) -> bool:
        """Whether queued items may be sent at this insertion point."""
        return bool(self.items) if point is InsertionPoint.BLOCK else bool(point) and self._urgent > 0

    def add(self, item: QueuedItem) -> None:
        """Queue an item."""
        self.items.append(item)
        self._size += item.size
        self._urgent += item.urgent

    def take(self, point: InsertionPoint) -> list[QueuedItem]:
        """Remove and return the items that may be sent at this insertion point, urgent ones first."""
        if not self.is_due(point):
            return []
        urgent = [item for item in self.items if item.urgent]
        others = [item for item in self.items if not item.urgent]
        urgent_only = point is InsertionPoint.LINE
        self.items = others if urgent_only else []
        taken = urgent if urgent_only else urgent + others
        self._size -= sum(item.size for item in taken)
        self._urgent = 0
        return taken


def estimate_chars(value: Any, enough: int) -> int:
    """Estimate the number of characters of a JSON value; stop once it is more than `enough`."""
    size = 0
    stack: list[Any] = [value]
    while stack and size <= enough:
        one = stack.pop()
        size += CHARS_PER_VALUE
        if isinstance(one, str):
            size += len(one)
        elif isinstance(one, dict):
            members = cast("dict[Any, Any]", one)
            size += sum(len(key) for key in members if isinstance(key, str))
            stack.extend(members.values())
        elif isinstance(one, list | tuple):
            stack.extend(cast("list[Any]", one))
    return size
