"""Emulate structured output and JSON mode, and check the answers of backends that declare them.

`StructuredOutput` and `JsonMode` put the schema into the prompt, hold the answer until it is complete (thoughts pass at
once), find JSON in it and validate that. An answer without valid JSON is requested again with the problems. The model's
JSON text goes on, and nothing around it. An answer that calls tools or refuses goes on without validation, as with APIs
that have native support.

Which JSON is the answer: the last valid value, if nothing follows it, it does not stand inside a sentence, and no other
value of its kind (object, array, …) in the text differs from it. A model may quote a document that contains JSON of the
same schema; in doubt the answer is requested again.

`CheckedOutput` validates the answer of a backend that declares the capability. Nothing is emulated.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NoReturn

from accord.core.work.emulation.base import (
    DEFAULT_RETRIES,
    Accepted,
    AnswerPieceReader,
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


@dataclass(frozen=True, slots=True)
class JsonCandidate:
    """A JSON value, its text, and whether it stands where an answer stands."""

    text: str
    value: Any
    is_final: bool = True


@dataclass(frozen=True, slots=True)
class _Section:
    """A part of the text, in a code fence or between two; its content ends at `stop`, the next begins at `after`."""

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
    """Find JSON in a model's text: alone, in code fences, or with other text around it. Linear in the text's length.

    A candidate is final, and may be the answer, if it is the whole text, or begins a line or fills a fence and has
    nothing after it. Any other may be a quotation, and is found only to notice contradictions. A fragment of a broken
    value is no candidate: `{"a": {"b": 1},` is a broken answer, not `{"b": 1}`.
    """
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
    """The text as one JSON value with nothing around it, if it is one that JSON can encode again."""
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
    """The index after the bracket that closes the one at `start`, even if the content is not valid JSON."""
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
    """The parts between code fences and in them; a fence that is never closed reaches to the end."""
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
    # The end is found first, so that a broken value is skipped as a whole and costs only its length.
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
"""What native `json_mode` promises."""
ANY_JSON: Final[Mapping[str, Any]] = {}

_SCHEMA_LABEL = default_strategy(Capability.STRUCTURED_OUTPUT_JSON_SCHEMA)
_OBJECT_LABEL = PostProcessing(detail="Find a JSON object in the text response")


@dataclass(frozen=True, slots=True)
class StructuredOutput:
    """Emulates answers that are valid against the order's schema; with `json_mode` instead of one, a JSON object."""

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
        prompted = inject_prompt(
            withhold(order, Capability.STRUCTURED_OUTPUT_JSON_SCHEMA), SCHEMA_PROMPT.format(schema=written)
        )
        return PreparedOrder(prompted, (_effect(self.capability, EffectKind.PROMPT_INJECTED),))

    def reader(self, order: WorkOrder) -> AnswerPieceReader:
        """Validate by the order's schema, or as an object for `json_mode`, if the order has one of them."""
        if order.response_schema is None and not order.json_mode:
            return PassthroughReader()
        return _JsonReader(self.capability, _schema(order))


@dataclass(frozen=True, slots=True)
class JsonMode:
    """Emulates answers that are a JSON object, or any JSON for an order with a schema, which is checked elsewhere."""

    max_retries: int = DEFAULT_RETRIES
    capability: str = Capability.JSON_MODE
    strategy: EmulationStrategy = _OBJECT_LABEL

    def prepare(self, order: WorkOrder) -> PreparedOrder:
        """The order with the request in its prompt."""
        withheld = withhold(order, Capability.JSON_MODE)
        if not order.json_mode or order.response_schema is not None:
            return PreparedOrder(withheld)
        return PreparedOrder(
            inject_prompt(withheld, OBJECT_PROMPT), (_effect(self.capability, EffectKind.PROMPT_INJECTED),)
        )

    def reader(self, order: WorkOrder) -> AnswerPieceReader:
        """Check that the answer is an object, or JSON at all if the order has a schema."""
        if order.response_schema is not None:
            return _JsonReader(self.capability, ANY_JSON)
        return _JsonReader(self.capability, ANY_OBJECT) if order.json_mode else PassthroughReader()


class _JsonReader:
    def __init__(self, capability: str, schema: Mapping[str, Any]) -> None:
        self._capability = capability
        self._checker = SchemaChecker(schema, name="response_schema")
        self._held: list[AnyPiece] = []
        self._has_calls = False

    def feed(self, piece: AnyPiece) -> list[AnyPiece]:
        if isinstance(piece, ThinkingPiece | WorkPiece):
            return [piece]
        self._has_calls = self._has_calls or isinstance(piece, ToolCallPiece)
        self._held.append(piece)
        return []

    def finish(self, end: EndPiece) -> AnswerResult:
        if self._has_calls or end.reason == "refusal":
            return Accepted(end, tuple(self._held), (_effect(self._capability, EffectKind.JSON_NOT_JUDGED),))
        answer = "".join(piece.text for piece in self._held if isinstance(piece, TextPiece))
        candidates = [*islice(find_json(answer), MAX_CANDIDATES + 1)]
        if not candidates:
            return _retry(answer, [_problem(CUT_SHORT if end.reason == "max_tokens" else NO_JSON)])
        chosen = self._choose(candidates)
        if not isinstance(chosen, JsonCandidate):
            return _retry(answer, chosen)
        around = len(answer.strip()) - len(chosen.text)
        effects = (_effect(self._capability, EffectKind.TEXT_AROUND_JSON, around),) if around else ()
        return Accepted(end, (TextPiece(text=chosen.text),), effects)

    def _choose(self, candidates: Sequence[JsonCandidate]) -> JsonCandidate | list[AnswerProblem]:
        """The answer among the candidates, or why there is none."""
        if len(candidates) > MAX_CANDIDATES:
            return [_problem(SEVERAL)]
        valid = [candidate for candidate in candidates if self._checker.is_valid(candidate.value)]
        if not valid:
            # The problems of one candidate are enough for a retry, and collecting them is the expensive part.
            return self._checker.problems(max(candidates, key=lambda candidate: len(candidate.text)).value)
        answer = valid[-1]
        # Compared as JSON text, because in Python 1 equals true.
        rivals = {
            json.dumps(each.value, sort_keys=True) for each in candidates if type(each.value) is type(answer.value)
        }
        if len(rivals) > 1:
            return [_problem(SEVERAL)]
        return answer if answer.is_final else [_problem(NOT_ALONE)]


def _problem(sentence: str) -> AnswerProblem:
    return AnswerProblem(sentence, sentence)


def _retry(answer: str, problems: Sequence[AnswerProblem]) -> Retry:
    listed = "\n".join(f"- {problem.message}" for problem in problems)
    return Retry(answer, CORRECTION.format(problems=listed), tuple(problem.record for problem in problems))


def _effect(capability: str, kind: EffectKind, count: int = 1) -> Effect:
    return Effect(capability=capability, kind=kind, count=count)


NOT_ONE_VALUE: Final = "the answer is not one JSON value and nothing else"


@dataclass(frozen=True, slots=True)
class CheckedOutput:
    """Validates the answer by the order's schema, or as an object for `json_mode`. A check has no strategy.

    While retries are left the answer is held until it is validated, and requested again if it is not valid. With
    `max_retries = 0` text goes on as it comes, and an answer that is not valid fails the turn afterwards.
    """

    capability: str
    max_retries: int = DEFAULT_RETRIES
    strategy: None = None

    def prepare(self, order: WorkOrder) -> PreparedOrder:
        """The order unchanged; raises `InvalidMessageError` if its schema is invalid."""
        SchemaChecker(_schema(order), name="response_schema")
        return PreparedOrder(order)

    def reader(self, order: WorkOrder) -> AnswerPieceReader:
        """Validate one answer."""
        return _CheckingReader(self, SchemaChecker(_schema(order), name="response_schema"))


def output_check(order: WorkOrder, max_retries: int) -> CheckedOutput | None:
    """The check of this order's answer, if it requests JSON from the backend."""
    if order.response_schema is not None:
        return CheckedOutput(Capability.STRUCTURED_OUTPUT_JSON_SCHEMA, max_retries)
    return CheckedOutput(Capability.JSON_MODE, max_retries) if order.json_mode else None


def _schema(order: WorkOrder) -> Mapping[str, Any]:
    return ANY_OBJECT if order.response_schema is None else order.response_schema


class _CheckingReader:
    def __init__(self, check: CheckedOutput, checker: SchemaChecker) -> None:
        self._check, self._checker = check, checker
        self._texts: list[str] = []
        self._held: list[AnyPiece] = []
        self._has_calls = False

    def feed(self, piece: AnyPiece) -> list[AnyPiece]:
        if isinstance(piece, TextPiece):
            self._texts.append(piece.text)
        self._has_calls = self._has_calls or isinstance(piece, ToolCallPiece)
        if self._check.max_retries == 0 or isinstance(piece, ThinkingPiece | WorkPiece):
            return [piece]
        self._held.append(piece)
        return []

    def finish(self, end: EndPiece) -> AnswerResult:
        if self._has_calls or end.reason == "refusal":
            return Accepted(end, tuple(self._held), (_effect(self._check.capability, EffectKind.JSON_NOT_JUDGED),))
        answer = "".join(self._texts)
        candidate = read_json(answer)
        if candidate is None:
            problems = [_problem(CUT_SHORT if end.reason == "max_tokens" else NOT_ONE_VALUE)]
        else:
            problems = self._checker.problems(candidate.value)
        return _retry(answer, problems) if problems else Accepted(end, tuple(self._held))
