"""Holds a backend to the JSON that it declares: its answer is judged, though nothing is emulated.

While retries are left the answer is held until it was judged, as an emulated one is, and asked for again if it does not
fit. With `max_retries = 0` text goes on as it comes, and an answer that does not fit fails the turn after it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from accord.core.emulate.find_json import read_json
from accord.core.emulate.fit_schema import Finding, SchemaFit
from accord.core.emulate.shape import DEFAULT_RETRIES, AnswerReader, AskAgain, Done, Prepared, Verdict
from accord.core.emulate.structured_output import ANY_OBJECT, CORRECTION, CUT_SHORT
from accord.wire.answer import AnyPiece, EndPiece, TextPiece, ThinkingPiece, ToolCallPiece, WorkPiece
from accord.wire.attempt import Effect, EffectKind
from accord.wire.capability import Capability
from accord.wire.work import WorkOrder

NOT_ONE_VALUE: Final = "the answer is not one JSON value and nothing else"


@dataclass(frozen=True, slots=True)
class CheckedOutput:
    """Judges the answer by the order's schema, or as an object for `json_mode`. It has no strategy: it is a check."""

    capability: str
    max_retries: int = DEFAULT_RETRIES
    strategy: None = None

    def prepare(self, order: WorkOrder) -> Prepared:
        """The order as it is; raises `InvalidMessageError` if its schema is broken."""
        SchemaFit(_schema(order), name="response_schema")
        return Prepared(order)

    def reader(self, order: WorkOrder) -> AnswerReader:
        """Judges one answer."""
        return _CheckingReader(self, SchemaFit(_schema(order), name="response_schema"))


def check_for(order: WorkOrder, max_retries: int) -> CheckedOutput | None:
    """The check of this order's answer, if it asks the backend for JSON."""
    if order.response_schema is not None:
        return CheckedOutput(Capability.STRUCTURED_OUTPUT_JSON_SCHEMA, max_retries)
    return CheckedOutput(Capability.JSON_MODE, max_retries) if order.json_mode else None


def _schema(order: WorkOrder) -> Mapping[str, Any]:
    return ANY_OBJECT if order.response_schema is None else order.response_schema


class _CheckingReader:
    def __init__(self, check: CheckedOutput, fit: SchemaFit) -> None:
        self._check, self._fit = check, fit
        self._texts: list[str] = []
        self._held: list[AnyPiece] = []
        self._calls = False

    def feed(self, piece: AnyPiece) -> list[AnyPiece]:
        if isinstance(piece, TextPiece):
            self._texts.append(piece.text)
        self._calls = self._calls or isinstance(piece, ToolCallPiece)
        if self._check.max_retries == 0 or isinstance(piece, ThinkingPiece | WorkPiece):
            return [piece]
        self._held.append(piece)
        return []

    def finish(self, end: EndPiece) -> Verdict:
        if self._calls or end.reason == "refusal":
            effect = Effect(capability=self._check.capability, kind=EffectKind.JSON_NOT_JUDGED)
            return Done(end, tuple(self._held), (effect,))
        answer = "".join(self._texts)
        candidate = read_json(answer)
        if candidate is None:
            sentence = CUT_SHORT if end.reason == "max_tokens" else NOT_ONE_VALUE
            findings = [Finding(sentence, sentence)]
        else:
            findings = self._fit.findings(candidate.value)
        if not findings:
            return Done(end, tuple(self._held))
        listed = "\n".join(f"- {finding.message}" for finding in findings)
        return AskAgain(answer, CORRECTION.format(problems=listed), tuple(finding.record for finding in findings))
