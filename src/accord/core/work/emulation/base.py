"""What every emulation is made of: its interface, prompts (decision 14), and marks in text that arrives in pieces."""

import re
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Protocol

from accord.wire.capability import ALIASES, Capability
from accord.wire.conversation import Conversation, ConversationMessage, Role, TextPart
from accord.wire.emulation import Effect, EmulationStrategy
from accord.wire.work import AnyPiece, EndPiece, WorkOrder

# The one shape of an emulation: what it does to the work, what it does to the answer, what it records.
#
# An emulation is a frozen value. All that changes while an answer is read lives in its reader, which is made fresh
# for
# every attempt. This file knows no particular emulation, and no backend.
#
#     order ── prepare ──> order without what the backend cannot do ──> backend
#     pieces that may go on <── feed, finish ── pieces of the answer <──┘

DEFAULT_RETRIES: Final = 2
"""How often an answer that will not do is asked for again."""


@dataclass(frozen=True, slots=True)
class PreparedOrder:
    """The work as the backend gets it, and what was done to it."""

    order: WorkOrder
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer will do: the pieces still held, the end as it is told on, and what was done."""

    end: EndPiece
    pieces: tuple[AnyPiece, ...] = ()
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class Retry:
    """The answer will not do: what was answered, what to say to the model, and the findings for the record."""

    answer: str
    correction: str
    problems: tuple[str, ...]


AnswerResult = Accepted | Retry


class AnswerReader(Protocol):
    """Reads one answer. `feed` gets every piece but the end, `finish` gets the end and is called once."""

    def feed(self, piece: AnyPiece) -> list[AnyPiece]:
        """The pieces that may go on now."""
        ...

    def finish(self, end: EndPiece) -> AnswerResult:
        """Whether the answer will do."""
        ...


class Emulation(Protocol):
    """Stands in for one capability."""

    @property
    def capability(self) -> str:
        """What is stood in for."""
        ...

    @property
    def strategy(self) -> EmulationStrategy | None:
        """How, as reports label it; nothing for a check, which stands in for nothing."""
        ...

    @property
    def max_retries(self) -> int:
        """How often its reader may ask again; 0 if it never does."""
        ...

    def prepare(self, order: WorkOrder) -> PreparedOrder:
        """A changed copy of the order; raises `InvalidMessageError` if what it asks for is broken."""
        ...

    def reader(self, order: WorkOrder) -> AnswerReader:
        """A fresh reader for one attempt. The order is the one first given, before anything was prepared."""
        ...


class PassthroughReader:
    """Reads an answer that needs nothing done to it."""

    def feed(self, piece: AnyPiece) -> list[AnyPiece]:
        """The piece itself."""
        return [piece]

    def finish(self, end: EndPiece) -> AnswerResult:
        """Always done."""
        return Accepted(end)


# Finds marks in text that comes in pieces, holding back only what could still become one.
#
# It decides nothing about what a mark means. The first mark to be complete wins, as for an API that looks after every
# character; of several completed by the same character, the longest. So the result cannot depend on where the text
# was cut, and nothing before the found mark contains a whole one.


@dataclass(frozen=True, slots=True)
class MarkMatch:
    """A mark, and what came after it."""

    mark: str
    after: str


class MarkWatch:
    """Watches one stream of text for the first of some marks."""

    def __init__(self, marks: Sequence[str]) -> None:
        self._marks = tuple(mark for mark in marks if mark)
        self._held = ""

    def feed(self, text: str) -> tuple[str, MarkMatch | None]:
        """The text that cannot be part of a mark any more, and the mark if one is complete."""
        text, self._held = self._held + text, ""
        if where := first_mark(text, self._marks):
            start, stop = where
            return text[:start], MarkMatch(text[start:stop], text[stop:])
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


# Follows text as it comes and tells whether what comes next would be quoted: in code, in a block quote, in quotes.
#
# What a model quotes it does not do. Only what comes before counts, so the answer never depends on how the text is
# cut.

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


# Puts a prompt into a conversation, and takes from an order what the backend must not be asked for (decision 14).
#
# It knows where system prompts go and which field of an order belongs to which capability, and no emulation.

REQUEST_FIELDS: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        Capability.TOOL_USE: {"tools": []},
        Capability.STRUCTURED_OUTPUT_JSON_SCHEMA: {"response_schema": None},
        Capability.JSON_MODE: {"json_mode": False},
        Capability.STOP_SEQUENCES: {"stop_sequences": []},
        Capability.STREAMING: {"stream": False},
        Capability.EXTENDED_THINKING: {"thinking": False},
    }
)
"""The fields by which an order asks for a capability, as they are when it does not."""


def messages_with_prompt(messages: Sequence[ConversationMessage], prompt: str) -> list[ConversationMessage]:
    """The messages with this prompt in the first system message, which is put first if there is none."""
    for index, message in enumerate(messages):
        if message.role is Role.SYSTEM:
            longer = message.model_copy(update={"content": [*message.content, TextPart(text=f"\n{prompt}")]})
            return [*messages[:index], longer, *messages[index + 1 :]]
    return [ConversationMessage(role=Role.SYSTEM, content=[TextPart(text=prompt)]), *messages]


def inject_prompt(order: WorkOrder, prompt: str) -> WorkOrder:
    """A copy of the order whose conversation carries this prompt."""
    return replace_messages(order, messages_with_prompt(order.conversation.messages, prompt))


def replace_messages(order: WorkOrder, messages: Sequence[ConversationMessage]) -> WorkOrder:
    """A copy of the order with these messages."""
    return order.model_copy(update={"conversation": Conversation(messages=list(messages))})


def withhold(order: WorkOrder, capability: str) -> WorkOrder:
    """A copy of the order that no longer asks the backend for this capability."""
    asked = REQUEST_FIELDS.get(capability) or REQUEST_FIELDS.get(ALIASES.get(capability, ""), {})
    return order.model_copy(update={field: copy(value) for field, value in asked.items()})


MAX_ADDRESS_CHARS: Final = 500


def printable_address(uri: str | None) -> str | None:
    """The address as text for a prompt; None if there is none, if it is the data itself, or has control characters."""
    if not uri or uri.startswith("data:") or not uri.isprintable():
        return None
    return uri if len(uri) <= MAX_ADDRESS_CHARS else uri[:MAX_ADDRESS_CHARS] + "…"
