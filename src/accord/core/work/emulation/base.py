"""What every emulation is made of: its interface, changes to an order, and searching text that arrives in pieces.

    order ── prepare ──> order without what the backend lacks ──> backend
    pieces that go on <── feed, finish ── pieces of the answer <────┘

An emulation is a frozen value. What changes while an answer is read is in its reader, which is new for every attempt.
This module knows no particular emulation and no backend.
"""

import re
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Protocol

from accord.wire.capability import Capability, canonical_name
from accord.wire.conversation import Conversation, ConversationMessage, Role, TextPart
from accord.wire.emulation import Effect, EmulationStrategy
from accord.wire.work import AnyPiece, EndPiece, WorkOrder

DEFAULT_RETRIES: Final = 2
"""How often a new answer is requested in place of one that cannot be used."""


@dataclass(frozen=True, slots=True)
class PreparedOrder:
    """The order as the backend gets it, and what was changed."""

    order: WorkOrder
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer can be used: the pieces that were held back, the end piece to send on, and what was changed."""

    end: EndPiece
    pieces: tuple[AnyPiece, ...] = ()
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class Retry:
    """The answer cannot be used: its text, the correction to send to the model, and the problems for the record."""

    answer: str
    correction: str
    problems: tuple[str, ...]


AnswerResult = Accepted | Retry


class AnswerPieceReader(Protocol):
    """Reads one answer. `feed` gets every piece but the end; `finish` gets the end and is called once."""

    def feed(self, piece: AnyPiece) -> list[AnyPiece]:
        """Return the pieces that can go on now."""
        ...

    def finish(self, end: EndPiece) -> AnswerResult:
        """Return whether the answer can be used."""
        ...


class Emulation(Protocol):
    """Emulates one capability."""

    @property
    def capability(self) -> str:
        """The capability that is emulated."""
        ...

    @property
    def strategy(self) -> EmulationStrategy | None:
        """The strategy as reports label it; None for a check, which emulates nothing."""
        ...

    @property
    def max_retries(self) -> int:
        """How often its reader may ask for a retry; 0 if it never does."""
        ...

    def prepare(self, order: WorkOrder) -> PreparedOrder:
        """Return a changed copy of the order; raise `InvalidMessageError` if what it requests is invalid."""
        ...

    def reader(self, order: WorkOrder) -> AnswerPieceReader:
        """Return a new reader for one attempt at the original order, from before any `prepare`."""
        ...


class PassthroughReader:
    """Accepts every answer unchanged."""

    def feed(self, piece: AnyPiece) -> list[AnyPiece]:
        """Return the piece itself."""
        return [piece]

    def finish(self, end: EndPiece) -> AnswerResult:
        """Accept the answer."""
        return Accepted(end)


REQUEST_FIELDS: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        Capability.TOOL_USE: {"tools": [], "tool_choice": None, "parallel_tool_calls": None},
        Capability.STRUCTURED_OUTPUT_JSON_SCHEMA: {"response_schema": None},
        Capability.JSON_MODE: {"json_mode": False},
        Capability.STOP_SEQUENCES: {"stop_sequences": []},
        Capability.STREAMING: {"stream": False},
        Capability.EXTENDED_THINKING: {"thinking": False, "reasoning": None},
    }
)
"""The fields by which an order requests a capability, with the values that request nothing."""


def withhold(order: WorkOrder, capability: str) -> WorkOrder:
    """A copy of the order that does not request this capability from the backend."""
    fields = REQUEST_FIELDS.get(canonical_name(capability), {})
    return order.model_copy(update={field: copy(value) for field, value in fields.items()})


def replace_messages(order: WorkOrder, messages: Sequence[ConversationMessage]) -> WorkOrder:
    """A copy of the order with these messages."""
    return order.model_copy(update={"conversation": Conversation(messages=list(messages))})


def inject_prompt(order: WorkOrder, prompt: str) -> WorkOrder:
    """A copy of the order with this prompt in its system message."""
    return replace_messages(order, messages_with_prompt(order.conversation.messages, prompt))


def messages_with_prompt(messages: Sequence[ConversationMessage], prompt: str) -> list[ConversationMessage]:
    """The messages with this prompt at the end of the first system message, or in a new one at the front."""
    for index, message in enumerate(messages):
        if message.role is Role.SYSTEM:
            longer = message.model_copy(update={"content": [*message.content, TextPart(text=f"\n{prompt}")]})
            return [*messages[:index], longer, *messages[index + 1 :]]
    return [ConversationMessage(role=Role.SYSTEM, content=[TextPart(text=prompt)]), *messages]


MAX_ADDRESS_CHARS: Final = 500


def printable_address(uri: str | None) -> str | None:
    """The address as text for a prompt; None if there is none, if it is the data itself, or has control characters."""
    if not uri or uri.startswith("data:") or not uri.isprintable():
        return None
    return uri if len(uri) <= MAX_ADDRESS_CHARS else uri[:MAX_ADDRESS_CHARS] + "…"


@dataclass(frozen=True, slots=True)
class MarkMatch:
    """A mark, and the text after it."""

    mark: str
    after: str


class MarkWatch:
    """Finds the first of some marks in text that arrives in pieces, and holds back only what could become one.

    The mark that is complete first wins, as in an API that looks after every character; of several that the same
    character completes, the longest. So the result does not depend on where the text was cut.
    """

    def __init__(self, marks: Sequence[str]) -> None:
        self._marks = tuple(mark for mark in marks if mark)
        self._held = ""

    def feed(self, text: str) -> tuple[str, MarkMatch | None]:
        """Return the text that is certainly not part of a mark, and the mark if one is complete."""
        text, self._held = self._held + text, ""
        if span := first_mark(text, self._marks):
            start, stop = span
            return text[:start], MarkMatch(text[start:stop], text[stop:])
        keep = held_back(text, self._marks)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep], None

    def flush(self) -> str:
        """Return what was held back; it is not part of a mark after all."""
        text, self._held = self._held, ""
        return text


def first_mark(text: str, marks: Sequence[str]) -> tuple[int, int] | None:
    """The start and end of the mark that is complete first."""
    found = [(start + len(mark), start) for mark in marks if (start := text.find(mark)) >= 0]
    if not found:
        return None
    stop, start = min(found)
    return start, stop


def held_back(text: str, marks: Sequence[str]) -> int:
    """The length of the longest end of the text that a mark could begin with."""
    longest = max((len(mark) for mark in marks), default=0) - 1
    for size in range(min(longest, len(text)), 0, -1):
        tail = text[len(text) - size :]
        if any(mark.startswith(tail) for mark in marks):
            return size
    return 0


_FENCE: Final = re.compile(r"[ \t>]*(`{3,}|~{3,})")
_QUOTES: Final = "\"'\u2018\u201c\u201e\u00ab\u2039\u300c\u300e"


class Quotation:
    """Tracks whether the next character of a text would be quoted: in code, in a block quote, in quotation marks.

    A call that a model quotes is not a call. Only the text before counts, so the answer does not depend on the cuts.
    """

    __slots__ = ("_fence", "_line")

    def __init__(self) -> None:
        self._fence = ""
        self._line: list[str] = []

    def feed(self, text: str) -> None:
        """Add the next piece of the text."""
        first, *others = text.split("\n")
        self._line.append(first)
        for line in others:
            self._end_line("".join(self._line))
            self._line = [line]

    @property
    def is_open(self) -> bool:
        """Whether the next character is in a fence, a code span, a block quote or quotation marks."""
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
