"""The one shape of an emulation: what it does to the work, what it does to the answer, what it records.

An emulation is a frozen value. All that changes while an answer is read lives in its reader, which is made fresh for
every attempt. This file knows no particular emulation, and no backend.

    order ── prepare ──> order without what the backend cannot do ──> backend
    pieces that may go on <── feed, finish ── pieces of the answer <──┘
"""

from dataclasses import dataclass
from typing import Final, Protocol

from accord.wire.answer import AnyPiece, EndPiece
from accord.wire.attempt import Effect
from accord.wire.emulation import EmulationStrategy
from accord.wire.work import WorkOrder

DEFAULT_RETRIES: Final = 2
"""How often an answer that will not do is asked for again."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The work as the backend gets it, and what was done to it."""

    order: WorkOrder
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """The answer will do: the pieces still held, the end as it is told on, and what was done."""

    end: EndPiece
    pieces: tuple[AnyPiece, ...] = ()
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class AskAgain:
    """The answer will not do: what was answered, what to say to the model, and the findings for the record."""

    answer: str
    correction: str
    problems: tuple[str, ...]


Verdict = Done | AskAgain


class AnswerReader(Protocol):
    """Reads one answer. `feed` gets every piece but the end, `finish` gets the end and is called once."""

    def feed(self, piece: AnyPiece) -> list[AnyPiece]:
        """The pieces that may go on now."""
        ...

    def finish(self, end: EndPiece) -> Verdict:
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

    def prepare(self, order: WorkOrder) -> Prepared:
        """A changed copy of the order; raises `InvalidMessageError` if what it asks for is broken."""
        ...

    def reader(self, order: WorkOrder) -> AnswerReader:
        """A fresh reader for one attempt. The order is the one first given, before anything was prepared."""
        ...


class PassingReader:
    """Reads an answer that needs nothing done to it."""

    def feed(self, piece: AnyPiece) -> list[AnyPiece]:
        """The piece itself."""
        return [piece]

    def finish(self, end: EndPiece) -> Verdict:
        """Always done."""
        return Done(end)
