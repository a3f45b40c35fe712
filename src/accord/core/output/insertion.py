"""Where in streaming markdown other items may be inserted, and the queue of items that wait for such a boundary."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final, cast

from accord.wire.packet import EventPacket

# Finds the places in streaming markdown where something may be put between: after a block, or after a sentence's
# line.
#
# A description is never inserted inside a sentence or a code block. The answer depends on the characters read, never
# on how they were cut, and errs towards waiting: a list or an indented passage may always go on, a heading or a line
# that ends with a colon introduces what follows. What is inserted, and for whom, is not known here.

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
"""What keeps its blank lines to itself, and what ends it."""


class Boundary(IntEnum):
    """What may be put in here: nothing, an urgent line, anything."""

    NONE = 0
    LINE = 1
    BLOCK = 2


class _Kind(IntEnum):
    """What the last line that was not blank was."""

    TEXT = 0
    HEADING = 1
    LIST = 2
    INDENTED = 3
    CODE = 4
    INTRODUCTION = 5


_COMPLETE: Final = frozenset({_Kind.TEXT, _Kind.CODE})


class BlockTracker:
    """Where streaming markdown stands. The start of a text is a boundary."""

    __slots__ = ("_fence", "_head", "_in_list", "_kind", "_raw_end", "_tail", "_was_blank", "boundary")

    def __init__(self) -> None:
        self.boundary = Boundary.BLOCK
        self._fence = ""
        self._raw_end = ""
        self._head = self._tail = ""
        self._kind = _Kind.TEXT
        self._in_list = False
        self._was_blank = True

    @property
    def open_fence(self) -> str:
        """The fence that is still open, or nothing."""
        return self._fence

    def read(self, text: str) -> None:
        """Take more text."""
        first, *others = text.split("\n")
        self._extend(first)
        for line in others:
            self._end_line()
            if line:
                self._extend(line)

    def _extend(self, text: str) -> None:
        if not text:
            return
        self.boundary = Boundary.NONE
        if len(self._head) < HEAD_CHARS:
            self._head = (self._head + text)[:HEAD_CHARS]
        self._tail = (self._tail + text)[-TAIL_CHARS:]

    def _end_line(self) -> None:
        line, tail = self._head.rstrip(), self._tail.rstrip()
        self._head = self._tail = ""
        if self._fence:
            self.boundary = self._end_code(line)
        elif self._raw_end:
            self.boundary = self._end_raw(line, tail)
        elif not line:
            self.boundary = self._end_blank()
        elif opened := _FENCE.match(line):
            self._open(line, opened[1])
        else:
            self.boundary = self._end_text(line, tail)

    def _open(self, line: str, fence: str) -> None:
        self._fence = fence
        self._in_list = self._stays_in_list(line)
        self.boundary = Boundary.NONE

    def _stays_in_list(self, line: str) -> bool:
        return bool(_LIST.match(line)) or (self._in_list and (line[0] in " \t" or not self._was_blank))

    def _end_code(self, line: str) -> Boundary:
        mark = line.lstrip(" \t>")
        if len(mark) < len(self._fence) or mark.strip(self._fence[0]):
            return Boundary.NONE
        self._fence = ""
        self._kind = _Kind.CODE
        self._was_blank = False
        return Boundary.NONE if self._in_list else Boundary.BLOCK

    def _end_raw(self, line: str, tail: str) -> Boundary:
        if self._raw_end in line.lower() or self._raw_end in tail.lower():
            self._raw_end = ""
        return Boundary.NONE

    def _end_blank(self) -> Boundary:
        self._was_blank = True
        return Boundary.BLOCK if self._kind in _COMPLETE and not self._in_list else Boundary.NONE

    def _end_text(self, line: str, tail: str) -> Boundary:
        self._kind = self._kind_of(line, tail)
        self._was_blank = False
        self._begin_raw(line, tail)
        tells = self._kind in (_Kind.TEXT, _Kind.LIST) and not self._raw_end
        return Boundary.LINE if tells and _SENTENCE.search(tail) else Boundary.NONE

    def _begin_raw(self, line: str, tail: str) -> None:
        text = line.lower()
        for start, end in RAW_HTML.items():
            if (at := text.find(start)) >= 0 and end not in text[at:] and end not in tail.lower():
                self._raw_end = end

    def _kind_of(self, line: str, tail: str) -> _Kind:
        self._in_list = self._stays_in_list(line)
        if self._in_list:
            return _Kind.LIST
        may_be_code = self._was_blank or self._kind is _Kind.INDENTED
        if may_be_code and line.startswith(("    ", "\t")):
            return _Kind.INDENTED
        if _HEADING.match(line) or (not self._was_blank and _UNDERLINE.match(line)):
            return _Kind.HEADING
        return _Kind.INTRODUCTION if tail.endswith((":", "：")) else _Kind.TEXT


# Keeps what has to wait for a boundary in the text, and what cannot be shown at all, within limits.
#
# Urgent lines go first, the rest in the order of their coming. What may wait and where the boundaries are is not
# decided here; what does not fit is handed back to the caller, never lost in here.

WEIGHT_OF_A_VALUE: Final = 8
RESERVE_FOR_FAILURES: Final = 2


@dataclass(frozen=True, slots=True)
class AdaptLimits:
    """How much one adapter may keep, in items and in characters."""

    max_waiting: int = 64
    max_waiting_chars: int = 256 * 1024
    max_deferred: int = 256
    max_deferred_chars: int = 1024 * 1024
    max_entries: int = 10_000


@dataclass(frozen=True, slots=True)
class Waiter:
    """A text to be told, or an event to be sent, once the text before it is out."""

    text: str = ""
    packet: EventPacket | None = None
    urgent: bool = False
    weight: int = 0


class WaitingRoom:
    """What waits for the next boundary."""

    __slots__ = ("_limits", "_urgent", "_waiters", "_weight")

    def __init__(self, limits: AdaptLimits) -> None:
        self._limits = limits
        self._waiters: list[Waiter] = []
        self._weight = 0
        self._urgent = 0

    def __bool__(self) -> bool:
        return bool(self._waiters)

    @property
    def has_text(self) -> bool:
        """Whether anything that waits is going to be told."""
        return any(waiter.text for waiter in self._waiters)

    def has_room(self, weight: int, *, failure: bool = False) -> bool:
        """Whether one more of this weight may wait; failures find room for a while when others do not."""
        reserve = RESERVE_FOR_FAILURES if failure else 1
        few = len(self._waiters) < self._limits.max_waiting * reserve
        return few and self._weight + weight <= self._limits.max_waiting_chars * reserve

    def is_due(self, boundary: Boundary) -> bool:
        """Whether anyone may leave here."""
        return bool(self._waiters) if boundary is Boundary.BLOCK else bool(boundary) and self._urgent > 0

    def add(self, waiter: Waiter) -> None:
        """Let it wait."""
        self._waiters.append(waiter)
        self._weight += waiter.weight
        self._urgent += waiter.urgent

    def leave(self, boundary: Boundary) -> list[Waiter]:
        """Those whose time has come, urgent ones first."""
        if not self.is_due(boundary):
            return []
        urgent_only = boundary is Boundary.LINE
        urgent = [waiter for waiter in self._waiters if waiter.urgent]
        others = [waiter for waiter in self._waiters if not waiter.urgent]
        self._waiters = others if urgent_only else []
        leaving = urgent if urgent_only else urgent + others
        self._weight -= sum(waiter.weight for waiter in leaving)
        self._urgent = 0
        return leaving


class Deferred:
    """What could not be shown, kept to be fetched by its id."""

    __slots__ = ("_events", "_limits", "_weight")

    def __init__(self, limits: AdaptLimits) -> None:
        self._limits = limits
        self._events: dict[str, dict[str, Any]] = {}
        self._weight = 0

    @property
    def events(self) -> Mapping[str, dict[str, Any]]:
        """Everything kept, by id."""
        return MappingProxyType(self._events)

    def keep(self, name: str, ordinal: int, event: dict[str, Any]) -> str | None:
        """The id under which the event is kept; nothing if there is no room for it."""
        weight = estimate_chars(event, self._limits.max_deferred_chars)
        full = len(self._events) >= self._limits.max_deferred
        if full or self._weight + weight > self._limits.max_deferred_chars:
            return None
        key = f"{name}-{ordinal}" if name in self._events else name
        self._events[key] = event
        self._weight += weight
        return key


def estimate_chars(value: Any, enough: int) -> int:
    """Roughly how many characters a JSON value has; stops counting once there are more than enough."""
    weight = 0
    stack: list[Any] = [value]
    while stack and weight <= enough:
        one = stack.pop()
        weight += WEIGHT_OF_A_VALUE
        if isinstance(one, str):
            weight += len(one)
        elif isinstance(one, dict):
            inside = cast("dict[Any, Any]", one)
            weight += sum(len(key) for key in inside if isinstance(key, str))
            stack.extend(inside.values())
        elif isinstance(one, list | tuple):
            stack.extend(cast("list[Any]", one))
    return weight
