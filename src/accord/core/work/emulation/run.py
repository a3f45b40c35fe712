"""Run the emulations of one turn without I/O: orders to send come out, pieces of answers go in."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, cast

from accord.core.work.emulation.base import Accepted, AnswerReader, AnswerResult, Emulation, Retry, replace_messages
from accord.errors import ErrorCode
from accord.wire.capability import Capability
from accord.wire.conversation import ConversationMessage, Role, TextPart
from accord.wire.emulation import Attempt, Effect, EmulationEntry, EmulationRecord
from accord.wire.work import AnyPiece, EndPiece, WorkOrder

# Puts several emulations of one order in order: who prepares the work first, who reads the answer first.
#
# The two tables decide, each line with its reason; an emulation that they do not name goes first in both. Emulations
# know nothing of each other, and this file nothing of what they do.

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


def sort_emulations(emulations: Iterable[Emulation], table: Mapping[str, str]) -> tuple[Emulation, ...]:
    """The emulations as the table orders them."""
    emulations = tuple(emulations)
    if len(emulations) < 2:
        return emulations
    places = {name: place for place, name in enumerate(table)}
    return tuple(sorted(emulations, key=lambda emulation: places.get(emulation.capability, -1)))


def prepare_order(order: WorkOrder, emulations: Iterable[Emulation]) -> tuple[WorkOrder, list[Effect]]:
    """The order as the backend gets it, and all that was done to it."""
    effects: list[Effect] = []
    for emulation in sort_emulations(emulations, PREPARE_ORDER):
        prepared = emulation.prepare(order)
        order = prepared.order
        effects += prepared.effects
    return order, effects


@dataclass(frozen=True, slots=True)
class ChainResult:
    """How an attempt ended: the last pieces, the verdict, and whose it is if the answer will not do."""

    pieces: list[AnyPiece]
    verdict: AnswerResult
    by: Emulation | None = None


class ReaderChain:
    """The readers of one attempt, each fed by the one before it."""

    def __init__(self, emulations: Iterable[Emulation], order: WorkOrder) -> None:
        self._links: Final[Sequence[tuple[Emulation, AnswerReader]]] = [
            (emulation, emulation.reader(order)) for emulation in sort_emulations(emulations, READ_ORDER)
        ]

    def feed(self, piece: AnyPiece) -> list[AnyPiece]:
        """The pieces that all readers let go on."""
        return self._feed_from(0, [piece]) if self._links else [piece]

    def finish(self, end: EndPiece) -> ChainResult:
        """Ends every reader in turn; what one still holds goes through those after it. The first objection stands."""
        out: list[AnyPiece] = []
        effects: list[Effect] = []
        for place, (emulation, reader) in enumerate(self._links):
            verdict = reader.finish(end)
            if isinstance(verdict, Retry):
                return ChainResult(out, verdict, emulation)
            out += self._feed_from(place + 1, verdict.pieces)
            effects += verdict.effects
            end = verdict.end
        return ChainResult(out, Accepted(end, effects=tuple(effects)))

    def _feed_from(self, place: int, pieces: Iterable[AnyPiece]) -> list[AnyPiece]:
        going = [*pieces]
        for _, reader in self._links[place:]:
            going = [passed for piece in going for passed in reader.feed(piece)]
        return going


# Drives one emulated turn without doing I/O: orders to send come out, pieces of answers go in, pieces go on.
#
#     turn = EmulationRun(order, emulations)              # raises InvalidMessageError if the order itself is broken
#     while to_send := turn.next_order():
#         for piece in backend(to_send):
#             yield from turn.feed(piece)
#         yield from turn.finish()
#     turn.failure                                    # None, or why it did not succeed
#     turn.record                                     # every attempt and every effect, for the receipt
#
# That loop is all a caller needs, whatever is emulated. It knows no particular emulation. At most one order more is
# sent
# than all emulations together may retry. The end piece comes last and once, with the usage of all attempts added up.

NO_READERS: Final = ReaderChain((), WorkOrder())
EMPTY_ANSWER: Final = "(nothing)"
"""Stands for an empty answer when the model is asked again: many APIs refuse an empty message."""


class EmulationStage(StrEnum):
    """Where a turn stands."""

    TO_SEND = "to_send"
    READING = "reading"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class EmulationFailure:
    """Why a turn did not succeed; the attempts are in the record."""

    code: ErrorCode
    message: str
    attempts: int
    problems: tuple[str, ...] = ()


class EmulationRun:
    """One turn: an order, its emulations, and where it stands."""

    def __init__(self, order: WorkOrder, emulations: Iterable[Emulation]) -> None:
        self._emulations: Final = sort_emulations(emulations, PREPARE_ORDER)
        self._asked: Final = order
        self._to_send, effects = prepare_order(order, self._emulations)
        entries = [
            EmulationEntry.trusted(capability=each.capability, strategy=each.strategy)
            for each in self._emulations
            if each.strategy is not None
        ]
        self.record: Final = EmulationRecord.trusted(emulated=entries, effects=effects)
        self.stage = EmulationStage.TO_SEND
        self.failure: EmulationFailure | None = None
        self.contradicted: Final[Counter[str]] = Counter()
        """What the backend was asked for itself and did not do, and how often."""
        self._chain = NO_READERS
        self._retries: Final[dict[str, int]] = {}
        self._usage: dict[str, Any] | None = None

    @property
    def checks(self) -> list[str]:
        """What the backend was asked for itself, and is held to."""
        return [each.capability for each in self._emulations if each.strategy is None]

    @property
    def usage(self) -> dict[str, Any] | None:
        """What the attempts took together, as far as the backend told."""
        return self._usage

    def next_order(self) -> WorkOrder | None:
        """What to send to the backend now; nothing once the turn is over. Asking begins a new attempt."""
        if self.stage in (EmulationStage.DONE, EmulationStage.FAILED):
            return None
        self.stage = EmulationStage.READING
        self._chain = ReaderChain(self._emulations, self._asked) if self._emulations else NO_READERS
        return self._to_send

    def feed(self, piece: AnyPiece) -> list[AnyPiece]:
        """The pieces that may go on now. After an attempt's end piece, nothing does."""
        if self.stage is not EmulationStage.READING:
            return []
        return self._close(piece) if isinstance(piece, EndPiece) else self._chain.feed(piece)

    def finish(self) -> list[AnyPiece]:
        """Says that the backend's stream is over. One that broke off before its end piece has failed."""
        if self.stage is EmulationStage.READING:
            problem = "the answer broke off before its end"
            self._note(None, (problem,), usage=None)
            self._fail(ErrorCode.BACKEND_FAILED, f"The backend failed: {problem}", (problem,))
        return []

    def _close(self, end: EndPiece) -> list[AnyPiece]:
        self._usage = add_usage(self._usage, end.usage)
        closing = self._chain.finish(end)
        if isinstance(closing.verdict, Retry):
            self._object(closing, closing.verdict, end)
            return closing.pieces
        self._note(None, (), usage=end.usage)
        self.record.effects.extend(closing.verdict.effects)
        self.stage = EmulationStage.DONE
        told = closing.verdict.end
        whole = told if told.usage == self._usage else told.model_copy(update={"usage": self._usage})
        return [*closing.pieces, whole]

    def _object(self, closing: ChainResult, asking: Retry, end: EndPiece) -> None:
        by = cast("Emulation", closing.by)
        self._note(by.capability, asking.problems, usage=end.usage)
        retries = self._retries.get(by.capability, 0)
        is_check = by.strategy is None
        if is_check and end.reason != "max_tokens":  # an answer that was cut off says nothing about its form
            self.contradicted[by.capability] += 1
        if retries >= by.max_retries:
            attempts, problem = len(self.record.attempts), asking.problems[0]
            if is_check:
                sentence = f"The backend did not give the {by.capability} that it declares in {attempts} attempts"
                self._fail(ErrorCode.BACKEND_FAILED, f"{sentence}: {problem}", asking.problems)
            else:
                sentence = f"{by.capability} could not be emulated in {attempts} attempts"
                self._fail(ErrorCode.EMULATION_FAILED, f"{sentence}: {problem}", asking.problems)
            return
        self._retries[by.capability] = retries + 1
        said = ConversationMessage(role=Role.ASSISTANT, content=[TextPart(text=asking.answer or EMPTY_ANSWER)])
        told = ConversationMessage(role=Role.USER, content=[TextPart(text=asking.correction)])
        self._to_send = replace_messages(self._to_send, [*self._to_send.conversation.messages, said, told])
        self.stage = EmulationStage.TO_SEND

    def _note(self, capability: str | None, problems: tuple[str, ...], *, usage: dict[str, Any] | None) -> None:
        number = len(self.record.attempts) + 1
        self.record.attempts.append(
            Attempt.trusted(number=number, ok=not problems, capability=capability, problems=list(problems), usage=usage)
        )

    def _fail(self, code: ErrorCode, message: str, problems: tuple[str, ...]) -> None:
        self.failure = EmulationFailure(code, message, len(self.record.attempts), problems)
        self.stage = EmulationStage.FAILED


def add_usage(before: Mapping[str, Any] | None, more: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Two accounts of usage as one: numbers are added, objects likewise, of anything else the later word stands."""
    if before is None or more is None:
        return None if before is more else dict(before or more or {})
    return {**before, **{name: _added(before.get(name), value) for name, value in more.items()}}


def _added(before: Any, more: Any) -> Any:
    if isinstance(before, dict) and isinstance(more, dict):
        return add_usage(cast("dict[str, Any]", before), cast("dict[str, Any]", more))
    if _is_number(before) and _is_number(more):
        return before + more
    return more


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
