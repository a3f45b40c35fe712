"""Puts several emulations of one order in order: who prepares the work first, who reads the answer first.

The two tables decide, each line with its reason; an emulation that they do not name goes first in both. Emulations know
nothing of each other, and this file nothing of what they do.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from accord.core.emulate.shape import AnswerReader, AskAgain, Done, Emulation, Verdict
from accord.wire.answer import AnyPiece, EndPiece
from accord.wire.attempt import Effect
from accord.wire.capability import Capability
from accord.wire.work import WorkOrder

PREPARE_ORDER: Final[Mapping[str, str]] = MappingProxyType(
    {
        Capability.IMAGE_INPUT: "images inside tool results are found before those are written out as text",
        Capability.TOOL_USE: "what can be done is told before the form of the answer",
        Capability.STRUCTURED_OUTPUT_JSON_SCHEMA: "the form of the answer comes after the tools",
        Capability.JSON_MODE: "as its stricter brother",
        Capability.EXTENDED_THINKING: "thinking is asked for right before the question",
        Capability.STOP_SEQUENCES: "touches no message",
        Capability.STREAMING: "touches no message",
        Capability.SYSTEM_MESSAGE: "folds in every prompt that the others injected",
    }
)
"""Who prepares the work after whom, and why there."""

READ_ORDER: Final[Mapping[str, str]] = MappingProxyType(
    {
        Capability.SYSTEM_MESSAGE: "reads nothing",
        Capability.IMAGE_INPUT: "reads nothing",
        Capability.EXTENDED_THINKING: "nothing inside a thought is a call, a stop or an answer",
        Capability.TOOL_USE: "a stop sequence inside a call's arguments is not text and must not cut the call",
        Capability.STOP_SEQUENCES: "an API cuts what the model says, before anyone judges it",
        Capability.STRUCTURED_OUTPUT_JSON_SCHEMA: "judges the text that is left",
        Capability.JSON_MODE: "as its stricter brother",
        Capability.STREAMING: "cuts only what the others let go on",
    }
)
"""Who reads the answer after whom, and why there."""


def in_order(emulations: Iterable[Emulation], table: Mapping[str, str]) -> tuple[Emulation, ...]:
    """The emulations as the table orders them."""
    emulations = tuple(emulations)
    if len(emulations) < 2:
        return emulations
    places = {name: place for place, name in enumerate(table)}
    return tuple(sorted(emulations, key=lambda emulation: places.get(emulation.capability, -1)))


def prepare_all(order: WorkOrder, emulations: Iterable[Emulation]) -> tuple[WorkOrder, list[Effect]]:
    """The order as the backend gets it, and all that was done to it."""
    effects: list[Effect] = []
    for emulation in in_order(emulations, PREPARE_ORDER):
        prepared = emulation.prepare(order)
        order = prepared.order
        effects += prepared.effects
    return order, effects


@dataclass(frozen=True, slots=True)
class Closing:
    """How an attempt ended: the last pieces, the verdict, and whose it is if the answer will not do."""

    pieces: list[AnyPiece]
    verdict: Verdict
    by: Emulation | None = None


class ReaderChain:
    """The readers of one attempt, each fed by the one before it."""

    def __init__(self, emulations: Iterable[Emulation], order: WorkOrder) -> None:
        self._links: Final[Sequence[tuple[Emulation, AnswerReader]]] = [
            (emulation, emulation.reader(order)) for emulation in in_order(emulations, READ_ORDER)
        ]

    def feed(self, piece: AnyPiece) -> list[AnyPiece]:
        """The pieces that all readers let go on."""
        return self._feed_from(0, [piece]) if self._links else [piece]

    def finish(self, end: EndPiece) -> Closing:
        """Ends every reader in turn; what one still holds goes through those after it. The first objection stands."""
        out: list[AnyPiece] = []
        effects: list[Effect] = []
        for place, (emulation, reader) in enumerate(self._links):
            verdict = reader.finish(end)
            if isinstance(verdict, AskAgain):
                return Closing(out, verdict, emulation)
            out += self._feed_from(place + 1, verdict.pieces)
            effects += verdict.effects
            end = verdict.end
        return Closing(out, Done(end, effects=tuple(effects)))

    def _feed_from(self, place: int, pieces: Iterable[AnyPiece]) -> list[AnyPiece]:
        going = [*pieces]
        for _, reader in self._links[place:]:
            going = [passed for piece in going for passed in reader.feed(piece)]
        return going
