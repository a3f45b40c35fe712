"""Structured output: find JSON in a model's text, validate it, ask again; also for backends that declare it."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NoReturn

from accord.core.work.emulation.base import (
    DEFAULT_RETRIES,
    Accepted,
    AnswerReader,
    AnswerResult,
    PassthroughReader,
    PreparedOrder,
    Retry,
    inject_prompt,
    withhold,
)
from accord.core.work.emulation.engine import default_strategy
from accord.core.work.emulation.schema import AnswerProblem, SchemaChecker
from accord.wire.capability import Capability
from accord.wire.emulation import Effect, EffectKind, EmulationStrategy, PostProcessing
from accord.wire.message import only_json
from accord.wire.work import AnyPiece, EndPiece, TextPiece, ThinkingPiece, ToolCallPiece, WorkOrder, WorkPiece

# Finds JSON in what a model wrote: alone, in fences, or with other text around it.
#
# Candidates come in the order of the text. One of them may stand as the answer (`is_final`): the whole text, or a
# value that begins a line or fills a fence and has nothing after it. Everything else may be a quotation, for instance
# of a document that was to be judged, and is found only so that a contradiction is noticed. A fragment of a broken
# value is never a candidate: `{"a": {"b": 1},` is a broken answer, not `{"b": 1}`. Linear in the length of the text.


@dataclass(frozen=True, slots=True)
class JsonCandidate:
    """A JSON value, the text it was written as, and whether it stands where an answer stands."""

    text: str
    value: Any
    is_final: bool = True


@dataclass(frozen=True, slots=True)
class _Section:
    """A part of the text, in a fence or between two; `stop` ends its content, and `after` is where the next begins."""

    is_fenced: bool
    start: int
    stop: int
    after: int


_FENCE: Final = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*([\w+-]*)")
# An object begins with a key or ends at once; an array begins with a value. "[sic]" and "{name}" are prose.
_START: Final = re.compile(r'\{\s*["}]|\[\s*(?:[\]{\["\d-]|true|false|null)')
_STRUCTURE: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)


def find_json(text: str) -> Iterator[JsonCandidate]:
    """Every candidate, in the order of the text."""
    if whole := read_json(text):
        yield whole
        return
    end, has_structure = len(text.rstrip()), _START.search(text) is not None
    for section in _sections(text):
        if section.is_fenced and (fenced := read_json(text[section.start : section.stop])):
            yield JsonCandidate(fenced.text, fenced.value, is_final=section.after >= end)
        elif has_structure:
            yield from _values_in(text, section, end)
        elif not section.is_fenced:
            yield from _scalars_in(text, section, end)


def read_json(text: str) -> JsonCandidate | None:
    """The text as one JSON value with nothing around it, if it is that. Only what can be sent on counts as JSON."""
    text = text.strip()
    try:
        text.encode()
        value = _DECODER.decode(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
        return JsonCandidate(text, only_json(value))
    except (ValueError, RecursionError):  # not JSON, too deep, too many digits, half a surrogate pair
        return None


def structure_end(text: str, start: int) -> int | None:
    """The place after the bracket that closes the one here, broken as the inside may be."""
    depth = 0
    for token in _STRUCTURE.finditer(text, start):
        if token[0] in "{[":
            depth += 1
        elif token[0] in "}]":
            depth -= 1
        if depth == 0:
            return token.end()
    return None


def _sections(text: str) -> Iterator[_Section]:
    """The text between the fences and in them; a fence that is never closed reaches to the end."""
    mark, start, place = "", 0, 0
    for line in text.splitlines(keepends=True):
        stop, place = place, place + len(line)
        if not mark:
            if opened := _FENCE.match(line):
                yield _Section(False, start, stop, place)
                mark, start = opened[1], place
        elif line.strip().startswith(mark) and not line.strip(mark[0] + " \t\r\n"):
            yield _Section(True, start, stop, place)
            mark, start = "", place
    yield _Section(bool(mark), start, len(text), len(text))


def _values_in(text: str, section: _Section, end: int) -> Iterator[JsonCandidate]:
    # The end is looked for first, so that a broken value costs its own length and is skipped as a whole.
    stop: int | None = section.start
    while (opener := _START.search(text, stop, section.stop)) and (stop := structure_end(text, opener.start())):
        if candidate := read_json(text[opener.start() : stop]):
            line = text[text.rfind("\n", 0, opener.start()) + 1 : opener.start()]
            is_final = not section.is_fenced and not line.strip() and stop >= end
            yield JsonCandidate(candidate.text, candidate.value, is_final)


def _scalars_in(text: str, section: _Section, end: int) -> Iterator[JsonCandidate]:
    place = section.start
    for line in text[section.start : section.stop].splitlines(keepends=True):
        place += len(line)
        if candidate := read_json(line):
            yield JsonCandidate(candidate.text, candidate.value, is_final=place >= end)


# Gets JSON that fits a schema out of a model that only talks; and JSON of any shape, for `json_mode`.
#
# The schema goes into the prompt; the answer is held until it is complete (thoughts pass at once), JSON is found in
# it and held against the schema, and what does not fit is asked for again with the findings. What goes on is the
# model's own JSON text and nothing around it. An answer that calls tools or refuses is given on unjudged, as APIs do
# that can do this.
#
# Which JSON is the answer: the last value that fits, if nothing follows it, it does not stand inside a sentence, and
# no other value of its kind (object, array, …) in the text differs from it. A model may quote a document that holds
# JSON of the very same schema; whatever leaves a doubt is asked for again.

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

    def prepare(self, order: WorkOrder) -> PreparedOrder:
        """The order with the schema in its prompt instead of beside it."""
        schema = order.response_schema
        if schema is None:
            return PreparedOrder(order)
        SchemaChecker(schema, name="response_schema")
        written = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
        asking = inject_prompt(
            withhold(order, Capability.STRUCTURED_OUTPUT_JSON_SCHEMA), SCHEMA_PROMPT.format(schema=written)
        )
        return PreparedOrder(asking, (_effect(self.capability, EffectKind.PROMPT_INJECTED),))

    def reader(self, order: WorkOrder) -> AnswerReader:
        """Judges by the order's schema, if it has one."""
        schema = order.response_schema
        return PassthroughReader() if schema is None else _JsonReader(self.capability, schema)


@dataclass(frozen=True, slots=True)
class JsonMode:
    """Holds the answer to being a JSON object. An order with a schema has asked for more, and gets it elsewhere."""

    max_retries: int = DEFAULT_RETRIES
    capability: str = Capability.JSON_MODE
    strategy: EmulationStrategy = _OBJECT_LABEL

    def prepare(self, order: WorkOrder) -> PreparedOrder:
        """The order with the wish in its prompt."""
        asking = withhold(order, Capability.JSON_MODE)
        if not _wants_object(order):
            return PreparedOrder(asking)
        return PreparedOrder(
            inject_prompt(asking, OBJECT_PROMPT), (_effect(self.capability, EffectKind.PROMPT_INJECTED),)
        )

    def reader(self, order: WorkOrder) -> AnswerReader:
        """Judges whether the answer is an object, if the order asked for one."""
        return _JsonReader(self.capability, ANY_OBJECT) if _wants_object(order) else PassthroughReader()


def _wants_object(order: WorkOrder) -> bool:
    return order.json_mode and order.response_schema is None


class _JsonReader:
    def __init__(self, capability: str, schema: Mapping[str, Any]) -> None:
        self._capability = capability
        self._fit = SchemaChecker(schema, name="response_schema")
        self._held: list[AnyPiece] = []
        self._calls = False

    def feed(self, piece: AnyPiece) -> list[AnyPiece]:
        if isinstance(piece, ThinkingPiece | WorkPiece):
            return [piece]
        self._calls = self._calls or isinstance(piece, ToolCallPiece)
        self._held.append(piece)
        return []

    def finish(self, end: EndPiece) -> AnswerResult:
        if self._calls or end.reason == "refusal":
            return Accepted(end, tuple(self._held), (_effect(self._capability, EffectKind.JSON_NOT_JUDGED),))
        answer = "".join(piece.text for piece in self._held if isinstance(piece, TextPiece))
        candidates = [*islice(find_json(answer), MAX_CANDIDATES + 1)]
        chosen = self._choose(candidates)
        if isinstance(chosen, JsonCandidate):
            return self._done(end, chosen.text, around=len(answer.strip()) - len(chosen.text))
        if not candidates and end.reason == "max_tokens":
            chosen = [AnswerProblem(CUT_SHORT, CUT_SHORT)]
        listed = "\n".join(f"- {finding.message}" for finding in chosen)
        return Retry(answer, CORRECTION.format(problems=listed), tuple(finding.record for finding in chosen))

    def _choose(self, candidates: Sequence[JsonCandidate]) -> JsonCandidate | list[AnswerProblem]:
        """The answer among the candidates, or why there is none."""
        if not candidates:
            return [AnswerProblem(NO_JSON, NO_JSON)]
        if len(candidates) > MAX_CANDIDATES:
            return [AnswerProblem(SEVERAL, SEVERAL)]
        fitting = [candidate for candidate in candidates if self._fit.fits(candidate.value)]
        if not fitting:
            # Details of one candidate are enough to ask again, and collecting them is the expensive part.
            return self._fit.findings(max(candidates, key=lambda candidate: len(candidate.text)).value)
        answer = fitting[-1]
        rivals = {_written(each.value) for each in candidates if type(each.value) is type(answer.value)}
        if len(rivals) > 1:
            return [AnswerProblem(SEVERAL, SEVERAL)]
        return answer if answer.is_final else [AnswerProblem(NOT_ALONE, NOT_ALONE)]

    def _done(self, end: EndPiece, text: str, *, around: int) -> AnswerResult:
        effects = (_effect(self._capability, EffectKind.TEXT_AROUND_JSON, around),) if around else ()
        return Accepted(end, (TextPiece(text=text),), effects)


def _effect(capability: str, kind: EffectKind, count: int = 1) -> Effect:
    return Effect(capability=capability, kind=kind, count=count)


def _written(value: Any) -> str:
    """The value as text that tells 1 from true, which Python's comparison does not."""
    return json.dumps(value, sort_keys=True)


# Holds a backend to the JSON that it declares: its answer is judged, though nothing is emulated.
#
# While retries are left the answer is held until it was judged, as an emulated one is, and asked for again if it does
# not fit. With `max_retries = 0` text goes on as it comes, and an answer that does not fit fails the turn after it.

NOT_ONE_VALUE: Final = "the answer is not one JSON value and nothing else"


@dataclass(frozen=True, slots=True)
class CheckedOutput:
    """Judges the answer by the order's schema, or as an object for `json_mode`. It has no strategy: it is a check."""

    capability: str
    max_retries: int = DEFAULT_RETRIES
    strategy: None = None

    def prepare(self, order: WorkOrder) -> PreparedOrder:
        """The order as it is; raises `InvalidMessageError` if its schema is broken."""
        SchemaChecker(_schema(order), name="response_schema")
        return PreparedOrder(order)

    def reader(self, order: WorkOrder) -> AnswerReader:
        """Judges one answer."""
        return _CheckingReader(self, SchemaChecker(_schema(order), name="response_schema"))


def output_check(order: WorkOrder, max_retries: int) -> CheckedOutput | None:
    """The check of this order's answer, if it asks the backend for JSON."""
    if order.response_schema is not None:
        return CheckedOutput(Capability.STRUCTURED_OUTPUT_JSON_SCHEMA, max_retries)
    return CheckedOutput(Capability.JSON_MODE, max_retries) if order.json_mode else None


def _schema(order: WorkOrder) -> Mapping[str, Any]:
    return ANY_OBJECT if order.response_schema is None else order.response_schema


class _CheckingReader:
    def __init__(self, check: CheckedOutput, fit: SchemaChecker) -> None:
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

    def finish(self, end: EndPiece) -> AnswerResult:
        if self._calls or end.reason == "refusal":
            effect = Effect(capability=self._check.capability, kind=EffectKind.JSON_NOT_JUDGED)
            return Accepted(end, tuple(self._held), (effect,))
        answer = "".join(self._texts)
        candidate = read_json(answer)
        if candidate is None:
            sentence = CUT_SHORT if end.reason == "max_tokens" else NOT_ONE_VALUE
            findings = [AnswerProblem(sentence, sentence)]
        else:
            findings = self._fit.findings(candidate.value)
        if not findings:
            return Accepted(end, tuple(self._held))
        listed = "\n".join(f"- {finding.message}" for finding in findings)
        return Retry(answer, CORRECTION.format(problems=listed), tuple(finding.record for finding in findings))
