"""The questions that `accord backends probe` sends to a model, and the verdicts on its answers. Pure.

An endpoint may accept a field and ignore it, so each question has a right answer that is impossible without the
capability. An answer that shows neither is inconclusive: a weak model's mistake is no evidence.
"""

import base64
import json
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, cast

from accord.apis.failure import EndpointError, Failure
from accord.core.vocabulary import PROBED
from accord.errors import AccordError
from accord.wire.capability import Capability
from accord.wire.manifest import CapabilityManifest, SupportLevel
from accord.wire.work import AnyPiece, EndPiece, TextPiece, ThinkingPiece, ToolCallPiece, WorkOrder

MAX_TOKENS: Final = 256
MAX_THINKING_TOKENS: Final = 2_048
SIDE: Final = 32
CODE: Final = "7391"
WORD: Final = "pineapple"
TOOL: Final = "look_up"
FIELD: Final = "legs_of_a_cat"
SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {FIELD: {"type": "integer"}},
    "required": [FIELD],
    "additionalProperties": False,
}


class ProbeFinding(StrEnum):
    """What an answer shows of a capability."""

    WORKS = "works"
    REFUSED = "refused"
    IGNORED = "accepted but ignored"
    INCONCLUSIVE = "cannot be told"


LEVELS: Final[Mapping[ProbeFinding, SupportLevel]] = {
    ProbeFinding.WORKS: SupportLevel.NATIVE,
    ProbeFinding.REFUSED: SupportLevel.UNSUPPORTED,
    ProbeFinding.IGNORED: SupportLevel.UNSUPPORTED,
}
"""The level that each finding is evidence of; an inconclusive one is evidence of nothing."""

REFUSALS: Final = frozenset({Failure.UNSUPPORTED, Failure.BAD_REQUEST, Failure.CONTENT_REFUSED, Failure.TOO_LARGE})
"""Failures that refuse this one question, given that the endpoint answers others."""


@dataclass(frozen=True, slots=True)
class ProbeVerdict:
    """A finding, and the reason if it is not `works`."""

    finding: ProbeFinding
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ProbeQuestion:
    """A work order that tests one capability, and the function that judges its answer."""

    capability: str
    order: WorkOrder
    judge: Callable[[Sequence[AnyPiece]], ProbeVerdict]

    def verdict(self, pieces: Sequence[AnyPiece]) -> ProbeVerdict:
        """Return what the answer shows."""
        verdict = self.judge(pieces)
        last = pieces[-1] if pieces else None
        if verdict.finding is not ProbeFinding.WORKS and isinstance(last, EndPiece) and last.reason == "max_tokens":
            return _inconclusive("the answer was cut off for its length")
        return verdict


WORKS: Final = ProbeVerdict(ProbeFinding.WORKS)


def probe_questions(unsupported: Mapping[str, str]) -> tuple[ProbeQuestion, ...]:
    """Return a question for each capability that a probe tests, without those that the API cannot carry."""
    limits = _limits(unsupported)
    all_questions = (
        _question(Capability.STREAMING, _streams, limits, "Count from 1 to 20, with spaces.", stream=True),
        _question(
            Capability.SYSTEM_MESSAGE,
            _says(WORD, "the instruction was not followed"),
            limits,
            "What is the capital of France?",
            system=f"Whatever you are asked, answer with the one word {WORD} and nothing else.",
        ),
        _question(
            Capability.STOP_SEQUENCES,
            _stops,
            limits,
            "Write these words and nothing else: one two three four five",
            stop_sequences=["four"],
        ),
        _question(
            Capability.TOOL_USE,
            _calls,
            limits,
            f"Call the tool {TOOL} for the word {WORD}. Do not answer in any other way.",
            tools=[
                {
                    "name": TOOL,
                    "description": "Looks a word up.",
                    "input_schema": {
                        "type": "object",
                        "properties": {"word": {"type": "string"}},
                        "required": ["word"],
                    },
                }
            ],
        ),
        _question(
            Capability.IMAGE_INPUT,
            _says("red", "the answer does not show that the image was seen"),
            limits,
            "Which colour is this image? Answer with one word.",
            parts=[{"type": "image", "media_type": "image/png", "data": _base64(red_png())}],
        ),
        _question(
            Capability.PDF_INPUT,
            _says(CODE, "the answer does not show that the document was read"),
            limits,
            "Which number is in this document? Answer with the number.",
            parts=[
                {
                    "type": "resource",
                    "uri": "file:///number.pdf",
                    "media_type": "application/pdf",
                    "data": _base64(small_pdf(f"The number is {CODE}.")),
                }
            ],
        ),
        _question(
            Capability.JSON_MODE, _is_json, limits, "Give your name and your favourite colour as JSON.", json_mode=True
        ),
        _question(
            Capability.STRUCTURED_OUTPUT_JSON_SCHEMA,
            _fits,
            limits,
            "How many legs does a cat have?",
            response_schema=dict(SCHEMA),
        ),
        _question(
            Capability.EXTENDED_THINKING,
            _thinks,
            {"max_tokens": MAX_THINKING_TOKENS} if limits else {},
            "Which is larger, 17 times 23 or 391? Think about it.",
            thinking=True,
        ),
    )
    by_name = {question.capability: question for question in all_questions}
    return tuple(by_name[name] for name in PROBED if name not in unsupported)


def first_order(unsupported: Mapping[str, str]) -> WorkOrder:
    """Return a work order that any model can answer; a model that does not is not probed further."""
    return _question(Capability.STREAMING, _streams, _limits(unsupported), "Say hello.").order


def verdict_of_error(error: AccordError) -> ProbeVerdict:
    """Return what a failed question shows, given that the endpoint answers others."""
    if isinstance(error, EndpointError) and error.report.failure in REFUSALS:
        return ProbeVerdict(ProbeFinding.REFUSED, error.message)
    return _inconclusive(error.message)


def manifest_of_verdicts(verdicts: Mapping[str, ProbeVerdict]) -> CapabilityManifest:
    """Return the levels that the verdicts are evidence of."""
    return CapabilityManifest(
        {name: LEVELS[verdict.finding] for name, verdict in verdicts.items() if verdict.finding in LEVELS}
    )


def differs_from(level: SupportLevel | None, finding: ProbeFinding) -> bool:
    """Whether the finding contradicts the declared level, or there is none."""
    found = LEVELS.get(finding)
    return found is not None and (level is None or (level.kind == "unsupported") is not (found.kind == "unsupported"))


def _limits(unsupported: Mapping[str, str]) -> dict[str, int]:
    return {} if Capability.MAX_TOKENS in unsupported else {"max_tokens": MAX_TOKENS}


def _question(  # noqa: PLR0913 - the parts of an order
    capability: str,
    judge: Callable[[Sequence[AnyPiece]], ProbeVerdict],
    limits: Mapping[str, Any],
    prompt: str,
    *,
    system: str | None = None,
    parts: Sequence[Mapping[str, Any]] = (),
    **fields: Any,
) -> ProbeQuestion:
    messages: list[Any] = [{"role": "system", "content": [{"type": "text", "text": system}]}] if system else []
    messages.append({"role": "user", "content": [{"type": "text", "text": prompt}, *parts]})
    order = WorkOrder.model_validate({"conversation": {"messages": messages}, "parameters": dict(limits), **fields})
    return ProbeQuestion(capability, order, judge)


def _text(pieces: Sequence[AnyPiece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))


def _inconclusive(reason: str) -> ProbeVerdict:
    return ProbeVerdict(ProbeFinding.INCONCLUSIVE, reason)


def _streams(pieces: Sequence[AnyPiece]) -> ProbeVerdict:
    if sum(isinstance(piece, TextPiece) for piece in pieces) > 1:
        return WORKS
    return _inconclusive("the answer came in one piece")


def _says(word: str, otherwise: str) -> Callable[[Sequence[AnyPiece]], ProbeVerdict]:
    return lambda pieces: WORKS if word in _text(pieces).lower() else _inconclusive(otherwise)


def _stops(pieces: Sequence[AnyPiece]) -> ProbeVerdict:
    text = _text(pieces).lower()
    if "four" in text:
        return ProbeVerdict(ProbeFinding.IGNORED, "the answer goes on after the stop sequence")
    return WORKS if "three" in text else _inconclusive("the answer ends before the stop sequence")


def _calls(pieces: Sequence[AnyPiece]) -> ProbeVerdict:
    if any(isinstance(piece, ToolCallPiece) and piece.name == TOOL for piece in pieces):
        return WORKS
    return _inconclusive("the model did not call the tool, which it may decide")


def _is_json(pieces: Sequence[AnyPiece]) -> ProbeVerdict:
    return WORKS if _value(pieces) is not None else ProbeVerdict(ProbeFinding.IGNORED, "the answer is not JSON")


def _fits(pieces: Sequence[AnyPiece]) -> ProbeVerdict:
    value = _value(pieces)
    found: dict[str, Any] = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if [*found] == [FIELD] and type(found[FIELD]) is int:
        return WORKS
    return ProbeVerdict(ProbeFinding.IGNORED, "the answer does not fit the schema")


def _thinks(pieces: Sequence[AnyPiece]) -> ProbeVerdict:
    counts = [(piece.usage or {}).get("reasoning_tokens") for piece in pieces if isinstance(piece, EndPiece)]
    if any(isinstance(piece, ThinkingPiece) for piece in pieces) or any(counts):
        return WORKS
    return _inconclusive("the answer shows no thinking")


def _value(pieces: Sequence[AnyPiece]) -> Any:
    try:
        return json.loads(_text(pieces))
    except ValueError:
        return None


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def red_png() -> bytes:
    """Return a small red square; some endpoints refuse images of a few pixels."""
    rows = (b"\0" + b"\xff\0\0" * SIDE) * SIDE
    chunks = (b"IHDR" + struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0), b"IDAT" + zlib.compress(rows), b"IEND")
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks
    )


def small_pdf(text: str) -> bytes:
    """Return a document of one page with this text."""
    drawn = f"BT /F1 24 Tf 72 700 Td ({text}) Tj ET".encode()
    objects = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(drawn), drawn),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    )
    written, places = b"%PDF-1.4\n", list[int]()
    for number, body in enumerate(objects, 1):
        places.append(len(written))
        written += b"%d 0 obj%s endobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size, start = len(objects) + 1, len(written)
    end = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (size, start)
    return written + b"xref\n0 %d\n0000000000 65535 f \n" % size + table + end
