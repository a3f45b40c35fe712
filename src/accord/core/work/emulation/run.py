"""Run the emulations of one answer without I/O: orders to send come out, pieces of answers go in, pieces go on.

    run = EmulationRun(order, emulations)           # raises InvalidMessageError if the order is invalid
    while to_send := run.next_order():
        for piece in backend(to_send):
            yield from run.feed(piece)
        yield from run.finish()
    run.failure                                     # None, or why it failed
    run.record                                      # every attempt and every effect, for the receipt

A caller needs this loop and nothing else, whatever is emulated. The number of orders is at most one more than all
emulations together may retry. The end piece comes last and once, with the usage of all attempts added up.

Emulations are independent of each other; two tables here say in which order they prepare and read.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, cast

import msgspec

from accord.core.work.emulation.base import (
    Accepted,
    AnswerPieceReader,
    AnswerResult,
    Emulation,
    Retry,
    replace_messages,
)
from accord.errors import ErrorCode
from accord.wire.capability import Capability
from accord.wire.conversation import ConversationMessage, Role, TextPart
from accord.wire.emulation import Attempt, Effect, EmulationEntry, EmulationRecord
from accord.wire.work import AnyPiece, EndPiece, ToolCallDelta, WorkOrder

PREPARE_ORDER: Final[Mapping[str, str]] = MappingProxyType(
    {
        Capability.IMAGE_INPUT: "images inside tool results are found before those are written out as text",
        Capability.TOOL_USE: "the prompt lists the tools before the form of the answer",
        Capability.STRUCTURED_OUTPUT_JSON_SCHEMA: "the form of the answer comes after the tools",
        Capability.JSON_MODE: "as structured_output_json_schema",
        Capability.EXTENDED_THINKING: "thinking is requested right before the question",
        Capability.STOP_SEQUENCES: "touches no message",
        Capability.STREAMING: "touches no message",
        Capability.SYSTEM_MESSAGE: "folds in every prompt that the others injected",
    }
)
"""The order in which emulations prepare an order, with the reason for each place. Others go first."""

READ_ORDER: Final[Mapping[str, str]] = MappingProxyType(
    {
        Capability.SYSTEM_MESSAGE: "reads nothing",
        Capability.IMAGE_INPUT: "reads nothing",
        Capability.EXTENDED_THINKING: "nothing inside a thought is a call, a stop or an answer",
        Capability.TOOL_USE: "a stop sequence inside a call's arguments is not text and must not cut the call",
        Capability.STOP_SEQUENCES: "an API cuts the answer before it is validated",
        Capability.STRUCTURED_OUTPUT_JSON_SCHEMA: "validates the text that is left",
        Capability.JSON_MODE: "as structured_output_json_schema",
        Capability.STREAMING: "cuts only what the others pass on",
    }
)
"""The order in which emulations read an answer, with the reason for each place. Others go first."""


def sort_emulations(emulations: Iterable[Emulation], table: Mapping[str, str]) -> tuple[Emulation, ...]:
    """The emulations in the order of the table."""
    emulations = tuple(emulations)
    if len(emulations) < 2:
        return emulations
    places = {name: place for place, name in enumerate(table)}
    return tuple(sorted(emulations, key=lambda emulation: places.get(emulation.capability, -1)))


def prepare_order(order: WorkOrder, emulations: Iterable[Emulation]) -> tuple[WorkOrder, list[Effect]]:
    """The order as the backend gets it, and everything that was changed."""
    effects: list[Effect] = []
    for emulation in sort_emulations(emulations, PREPARE_ORDER):
        prepared = emulation.prepare(order)
        order = prepared.order
        effects += prepared.effects
    return order, effects


@dataclass(frozen=True, slots=True)
class ChainResult:
    """How an attempt ended: the last pieces, the result, and the emulation that wants a retry."""

    pieces: list[AnyPiece]
    result: AnswerResult
    by: Emulation | None = None


class ReaderChain:
    """The readers of one attempt, each fed by the one before it."""

    def __init__(self, emulations: Iterable[Emulation], order: WorkOrder) -> None:
        self._links: Final[Sequence[tuple[Emulation, AnswerPieceReader]]] = [
            (emulation, emulation.reader(order)) for emulation in sort_emulations(emulations, READ_ORDER)
        ]

    def feed(self, piece: AnyPiece) -> list[AnyPiece]:
        """Return the pieces that all readers pass on."""
        if not self._links:
            return [piece]
        # Emulations look at complete calls.
        return [] if isinstance(piece, ToolCallDelta) else self._feed_from(0, [piece])

    def finish(self, end: EndPiece) -> ChainResult:
        """End every reader in turn; what one still holds goes through those after it. The first retry counts."""
        out: list[AnyPiece] = []
        effects: list[Effect] = []
        for place, (emulation, reader) in enumerate(self._links):
            result = reader.finish(end)
            if isinstance(result, Retry):
                return ChainResult(out, result, emulation)
            out += self._feed_from(place + 1, result.pieces)
            effects += result.effects
            end = result.end
        return ChainResult(out, Accepted(end, effects=tuple(effects)))

    def _feed_from(self, place: int, pieces: Iterable[AnyPiece]) -> list[AnyPiece]:
        going = [*pieces]
        for _, reader in self._links[place:]:
            going = [passed for piece in going for passed in reader.feed(piece)]
        return going


NO_READERS: Final = ReaderChain((), WorkOrder())
EMPTY_ANSWER: Final = "(nothing)"
"""Replaces an empty answer in a retry: many APIs refuse an empty message."""


class EmulationStage(StrEnum):
    """What a run waits for, or how it ended."""

    TO_SEND = "to_send"
    READING = "reading"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class EmulationFailure:
    """Why a run failed; its attempts are in the record."""

    code: ErrorCode
    message: str
    attempts: int
    problems: tuple[str, ...] = ()


class EmulationRun:
    """One order, its emulations, and the attempts at an answer."""

    def __init__(self, order: WorkOrder, emulations: Iterable[Emulation]) -> None:
        self._emulations: Final = sort_emulations(emulations, PREPARE_ORDER)
        self._order: Final = order
        self._to_send, effects = prepare_order(order, self._emulations)
        entries = [
            EmulationEntry(capability=each.capability, strategy=each.strategy)
            for each in self._emulations
            if each.strategy is not None
        ]
        self.record: Final = EmulationRecord(emulated=entries, effects=effects)
        self.stage = EmulationStage.TO_SEND
        self.failure: EmulationFailure | None = None
        self.contradicted: Final[Counter[str]] = Counter()
        """The capabilities that the backend declares and did not give, and how often."""
        self._chain = NO_READERS
        self._retries: Final[dict[str, int]] = {}
        self._usage: dict[str, Any] | None = None

    @property
    def checks(self) -> list[str]:
        """The capabilities that are the backend's own and are checked, not emulated."""
        return [each.capability for each in self._emulations if each.strategy is None]

    @property
    def usage(self) -> dict[str, Any] | None:
        """The usage of all attempts together, as far as the backend reported it."""
        return self._usage

    def next_order(self) -> WorkOrder | None:
        """Begin an attempt: return the order to send to the backend now, or None once the run is over."""
        if self.stage in (EmulationStage.DONE, EmulationStage.FAILED):
            return None
        self.stage = EmulationStage.READING
        self._chain = ReaderChain(self._emulations, self._order) if self._emulations else NO_READERS
        return self._to_send

    def feed(self, piece: AnyPiece) -> list[AnyPiece]:
        """Return the pieces that can go on now. After an attempt's end piece there are none."""
        if self.stage is not EmulationStage.READING:
            return []
        return self._end_attempt(piece) if isinstance(piece, EndPiece) else self._chain.feed(piece)

    def finish(self) -> list[AnyPiece]:
        """Note that the backend's stream is over. A stream that broke off before its end piece is a failure."""
        if self.stage is EmulationStage.READING:
            problem = "the answer broke off before its end"
            self._record_attempt(None, (problem,), usage=None)
            self._fail(ErrorCode.BACKEND_FAILED, f"The backend failed: {problem}", (problem,))
        return []

    def _end_attempt(self, end: EndPiece) -> list[AnyPiece]:
        self._usage = add_usage(self._usage, end.usage)
        closing = self._chain.finish(end)
        if isinstance(closing.result, Retry):
            self._retry_or_fail(cast("Emulation", closing.by), closing.result, end)
            return closing.pieces
        self._record_attempt(None, (), usage=end.usage)
        self.record.effects.extend(closing.result.effects)
        self.stage = EmulationStage.DONE
        return [*closing.pieces, msgspec.structs.replace(closing.result.end, usage=self._usage)]

    def _retry_or_fail(self, by: Emulation, retry: Retry, end: EndPiece) -> None:
        self._record_attempt(by.capability, retry.problems, usage=end.usage)
        retries = self._retries.get(by.capability, 0)
        is_check = by.strategy is None
        if is_check and end.reason != "max_tokens":  # an answer that was cut off proves nothing about its form
            self.contradicted[by.capability] += 1
        if retries >= by.max_retries:
            attempts, problem = len(self.record.attempts), retry.problems[0]
            if is_check:
                sentence = f"The backend did not give the {by.capability} that it declares in {attempts} attempts"
                self._fail(ErrorCode.BACKEND_FAILED, f"{sentence}: {problem}", retry.problems)
            else:
                sentence = f"{by.capability} could not be emulated in {attempts} attempts"
                self._fail(ErrorCode.EMULATION_FAILED, f"{sentence}: {problem}", retry.problems)
            return
        self._retries[by.capability] = retries + 1
        answer = ConversationMessage(role=Role.ASSISTANT, content=[TextPart(text=retry.answer or EMPTY_ANSWER)])
        correction = ConversationMessage(role=Role.USER, content=[TextPart(text=retry.correction)])
        self._to_send = replace_messages(self._to_send, [*self._to_send.conversation.messages, answer, correction])
        self.stage = EmulationStage.TO_SEND

    def _record_attempt(
        self, capability: str | None, problems: tuple[str, ...], *, usage: dict[str, Any] | None
    ) -> None:
        number = len(self.record.attempts) + 1
        self.record.attempts.append(
            Attempt(number=number, ok=not problems, capability=capability, problems=list(problems), usage=usage)
        )

    def _fail(self, code: ErrorCode, message: str, problems: tuple[str, ...]) -> None:
        self.failure = EmulationFailure(code, message, len(self.record.attempts), problems)
        self.stage = EmulationStage.FAILED


def add_usage(before: Mapping[str, Any] | None, more: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Two usage objects as one: numbers and nested objects are added, of anything else the later value counts."""
    if before is None or more is None:
        return None if before is more else dict(before or more or {})
    total = dict(before)
    for name, value in more.items():
        earlier = before.get(name)
        if isinstance(earlier, dict) and isinstance(value, dict):
            total[name] = add_usage(cast("dict[str, Any]", earlier), cast("dict[str, Any]", value))
        else:
            total[name] = earlier + value if _is_number(earlier) and _is_number(value) else value
    return total


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
