"""Gets JSON that fits a schema out of a model that only talks; and JSON of any shape, for `json_mode`.

The schema goes into the prompt; the answer is held until it is complete (thoughts pass at once), JSON is found in it
and held against the schema, and what does not fit is asked for again with the findings. What goes on is the model's
own JSON text and nothing around it. An answer that calls tools or refuses is given on unjudged, as APIs do that can
do this.

Which JSON is the answer: the last value that fits, if nothing follows it, it does not stand inside a sentence, and no
other value of its kind (object, array, …) in the text differs from it. A model may quote a document that holds JSON of
the very same schema; whatever leaves a doubt is asked for again.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from accord.core.emulate.engine import default_strategy
from accord.core.emulate.find_json import Candidate, find_json
from accord.core.emulate.fit_schema import Finding, SchemaFit
from accord.core.emulate.inject import prompted, withheld
from accord.core.emulate.shape import DEFAULT_RETRIES, AnswerReader, AskAgain, Done, PassingReader, Prepared, Verdict
from accord.wire.answer import AnyPiece, EndPiece, TextPiece, ThinkingPiece, ToolCallPiece, WorkPiece
from accord.wire.attempt import Effect, EffectKind
from accord.wire.capability import Capability
from accord.wire.emulation import EmulationStrategy, PostProcessing
from accord.wire.work import WorkOrder

SCHEMA_PROMPT: Final = (
    "Answer with one JSON value that is valid against the JSON Schema below, and with nothing else: "
    "no explanation before or after it, no code fence.\n{schema}"
)
OBJECT_PROMPT: Final = (
    "Answer with one JSON object and with nothing else: no explanation before or after it, no code fence."
)
CORRECTION: Final = (
    "That answer cannot be used:\n{problems}\nAnswer again with the whole corrected JSON and with nothing else."
)
NO_JSON: Final = "there is no complete JSON value in the answer"
CUT_SHORT: Final = "the answer was cut off by the length limit before its JSON was complete: make it shorter"

SEVERAL: Final = "there is more than one JSON value in the answer, and it is not clear which one counts"
NOT_ALONE: Final = "the JSON stands inside a sentence or has text after it: write it alone"
MAX_CANDIDATES: Final = 100

ANY_OBJECT: Final[Mapping[str, Any]] = {"type": "object"}
"""What `json_mode` promises where it is native."""

_SCHEMA_LABEL = default_strategy(Capability.STRUCTURED_OUTPUT_JSON_SCHEMA)
_OBJECT_LABEL = PostProcessing(detail="Find a JSON object in the text response")


@dataclass(frozen=True, slots=True)
class StructuredOutput:
    """Holds the answer to the order's schema."""

    max_retries: int = DEFAULT_RETRIES
    capability: str = Capability.STRUCTURED_OUTPUT_JSON_SCHEMA
    strategy: EmulationStrategy = _SCHEMA_LABEL

    def prepare(self, order: WorkOrder) -> Prepared:
        """The order with the schema in its prompt instead of beside it."""
        schema = order.response_schema
        if schema is None:
            return Prepared(order)
        SchemaFit(schema, name="response_schema")
        written = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
        asking = prompted(
            withheld(order, Capability.STRUCTURED_OUTPUT_JSON_SCHEMA), SCHEMA_PROMPT.format(schema=written)
        )
        return Prepared(asking, (_effect(self.capability, EffectKind.PROMPT_INJECTED),))

    def reader(self, order: WorkOrder) -> AnswerReader:
        """Judges by the order's schema, if it has one."""
        schema = order.response_schema
        return PassingReader() if schema is None else _JsonReader(self.capability, schema)


@dataclass(frozen=True, slots=True)
class JsonMode:
    """Holds the answer to being a JSON object. An order with a schema has asked for more, and gets it elsewhere."""

    max_retries: int = DEFAULT_RETRIES
    capability: str = Capability.JSON_MODE
    strategy: EmulationStrategy = _OBJECT_LABEL

    def prepare(self, order: WorkOrder) -> Prepared:
        """The order with the wish in its prompt."""
        asking = withheld(order, Capability.JSON_MODE)
        if not _wants_object(order):
            return Prepared(asking)
        return Prepared(prompted(asking, OBJECT_PROMPT), (_effect(self.capability, EffectKind.PROMPT_INJECTED),))

    def reader(self, order: WorkOrder) -> AnswerReader:
        """Judges whether the answer is an object, if the order asked for one."""
        return _JsonReader(self.capability, ANY_OBJECT) if _wants_object(order) else PassingReader()


def _wants_object(order: WorkOrder) -> bool:
    return order.json_mode and order.response_schema is None


class _JsonReader:
    def __init__(self, capability: str, schema: Mapping[str, Any]) -> None:
        self._capability = capability
        self._fit = SchemaFit(schema, name="response_schema")
        self._held: list[AnyPiece] = []
        self._calls = False

    def feed(self, piece: AnyPiece) -> list[AnyPiece]:
        if isinstance(piece, ThinkingPiece | WorkPiece):
            return [piece]
        self._calls = self._calls or isinstance(piece, ToolCallPiece)
        self._held.append(piece)
        return []

    def finish(self, end: EndPiece) -> Verdict:
        if self._calls or end.reason == "refusal":
            return Done(end, tuple(self._held), (_effect(self._capability, EffectKind.JSON_NOT_JUDGED),))
        answer = "".join(piece.text for piece in self._held if isinstance(piece, TextPiece))
        candidates = [*islice(find_json(answer), MAX_CANDIDATES + 1)]
        chosen = self._choose(candidates)
        if isinstance(chosen, Candidate):
            return self._done(end, chosen.text, around=len(answer.strip()) - len(chosen.text))
        if not candidates and end.reason == "max_tokens":
            chosen = [Finding(CUT_SHORT, CUT_SHORT)]
        listed = "\n".join(f"- {finding.message}" for finding in chosen)
        return AskAgain(answer, CORRECTION.format(problems=listed), tuple(finding.record for finding in chosen))

    def _choose(self, candidates: Sequence[Candidate]) -> Candidate | list[Finding]:
        """The answer among the candidates, or why there is none."""
        if not candidates:
            return [Finding(NO_JSON, NO_JSON)]
        if len(candidates) > MAX_CANDIDATES:
            return [Finding(SEVERAL, SEVERAL)]
        fitting = [candidate for candidate in candidates if self._fit.fits(candidate.value)]
        if not fitting:
            # Details of one candidate are enough to ask again, and collecting them is the expensive part.
            return self._fit.findings(max(candidates, key=lambda candidate: len(candidate.text)).value)
        answer = fitting[-1]
        rivals = {_written(each.value) for each in candidates if type(each.value) is type(answer.value)}
        if len(rivals) > 1:
            return [Finding(SEVERAL, SEVERAL)]
        return answer if answer.is_final else [Finding(NOT_ALONE, NOT_ALONE)]

    def _done(self, end: EndPiece, text: str, *, around: int) -> Verdict:
        effects = (_effect(self._capability, EffectKind.TEXT_AROUND_JSON, around),) if around else ()
        return Done(end, (TextPiece(text=text),), effects)


def _effect(capability: str, kind: EffectKind, count: int = 1) -> Effect:
    return Effect(capability=capability, kind=kind, count=count)


def _written(value: Any) -> str:
    """The value as text that tells 1 from true, which Python's comparison does not."""
    return json.dumps(value, sort_keys=True)
