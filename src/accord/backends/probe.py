"""Finds out what a model can do by asking it: which small questions are put, and what an answer shows. Pure.

An endpoint may take what it is given and overlook it, so a question is put such that a right answer could not have
been given without. What an answer does not show is said not to be known: a weak model's mistake is no evidence.
"""

import base64
import json
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, cast

from accord.backends.failure import EndpointError, Failure
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


class Finding(StrEnum):
    """What was seen."""

    WORKS = "works"
    REFUSED = "refused"
    IGNORED = "accepted but ignored"
    UNTOLD = "cannot be told"


LEVELS: Final[Mapping[Finding, SupportLevel]] = {
    Finding.WORKS: SupportLevel.NATIVE,
    Finding.REFUSED: SupportLevel.UNSUPPORTED,
    Finding.IGNORED: SupportLevel.UNSUPPORTED,
}
"""What each finding says of a capability; what cannot be told says nothing."""

NO: Final = frozenset({Failure.UNSUPPORTED, Failure.BAD_REQUEST, Failure.CONTENT_REFUSED, Failure.TOO_LARGE})
"""Failures by which an endpoint that answers otherwise says that it does not take this."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was seen, and why nothing better can be said."""

    finding: Finding
    why: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked to learn of one capability."""

    capability: str
    order: WorkOrder
    judge: Callable[[Sequence[AnyPiece]], Verdict]

    def judged(self, pieces: Sequence[AnyPiece]) -> Verdict:
        """What the answer shows."""
        verdict = self.judge(pieces)
        ended = pieces[-1] if pieces else None
        if verdict.finding is not Finding.WORKS and isinstance(ended, EndPiece) and ended.reason == "max_tokens":
            return Verdict(Finding.UNTOLD, "the answer was cut off for its length")
        return verdict


WORKS: Final = Verdict(Finding.WORKS)


def questions(cannot: Mapping[str, str]) -> tuple[Question, ...]:
    """A question for each capability that a probe finds out, except for those that the API cannot carry."""
    limits = _limits(cannot)
    made = (
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
    by_name = {question.capability: question for question in made}
    return tuple(by_name[name] for name in PROBED if name not in cannot)


def plain_question(lacks: Mapping[str, str]) -> WorkOrder:
    """The question that any model can answer; whoever does not is asked nothing else."""
    return _question(Capability.STREAMING, _streams, _limits(lacks), "Say hello.").order


def refusal_of(error: AccordError) -> Verdict:
    """What a failure shows: an endpoint that answers otherwise and says no to this does not take it."""
    if isinstance(error, EndpointError) and error.report.failure in NO:
        return Verdict(Finding.REFUSED, error.message)
    return Verdict(Finding.UNTOLD, error.message)


def found_by(verdicts: Mapping[str, Verdict]) -> CapabilityManifest:
    """What is to be kept of the verdicts."""
    return CapabilityManifest(
        {name: LEVELS[verdict.finding] for name, verdict in verdicts.items() if verdict.finding in LEVELS}
    )


def is_news(level: SupportLevel | None, finding: Finding) -> bool:
    """Whether what was seen differs from what is said."""
    seen = LEVELS.get(finding)
    return seen is not None and (level is None or (level.kind == "unsupported") is not (seen.kind == "unsupported"))


def _limits(lacks: Mapping[str, str]) -> dict[str, int]:
    return {} if Capability.MAX_TOKENS in lacks else {"max_tokens": MAX_TOKENS}


def _question(  # noqa: PLR0913 - the parts of an order
    capability: str,
    judge: Callable[[Sequence[AnyPiece]], Verdict],
    limits: Mapping[str, Any],
    prompt: str,
    *,
    system: str | None = None,
    parts: Sequence[Mapping[str, Any]] = (),
    **fields: Any,
) -> Question:
    told = [{"role": "system", "content": [{"type": "text", "text": system}]}] if system else []
    asked = {"role": "user", "content": [{"type": "text", "text": prompt}, *parts]}
    order = WorkOrder.model_validate(
        {"conversation": {"messages": [*told, asked]}, "parameters": dict(limits), **fields}
    )
    return Question(capability, order, judge)


def _text(pieces: Sequence[AnyPiece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))


def _streams(pieces: Sequence[AnyPiece]) -> Verdict:
    if sum(isinstance(piece, TextPiece) for piece in pieces) > 1:
        return WORKS
    return Verdict(Finding.UNTOLD, "the answer came in one piece")


def _says(word: str, otherwise: str) -> Callable[[Sequence[AnyPiece]], Verdict]:
    return lambda pieces: WORKS if word in _text(pieces).lower() else Verdict(Finding.UNTOLD, otherwise)


def _stops(pieces: Sequence[AnyPiece]) -> Verdict:
    said = _text(pieces).lower()
    if "four" in said:
        return Verdict(Finding.IGNORED, "it went on after the text that it was to stop at")
    return WORKS if "three" in said else Verdict(Finding.UNTOLD, "it did not come to the text that it was to stop at")


def _calls(pieces: Sequence[AnyPiece]) -> Verdict:
    if any(isinstance(piece, ToolCallPiece) and piece.name == TOOL for piece in pieces):
        return WORKS
    return Verdict(Finding.UNTOLD, "it did not call the tool, which a model may decide")


def _is_json(pieces: Sequence[AnyPiece]) -> Verdict:
    return WORKS if _value(pieces) is not None else Verdict(Finding.IGNORED, "the answer is not JSON")


def _fits(pieces: Sequence[AnyPiece]) -> Verdict:
    value = _value(pieces)
    found: dict[str, Any] = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if [*found] == [FIELD] and type(found[FIELD]) is int:
        return WORKS
    return Verdict(Finding.IGNORED, "the answer does not fit the schema")


def _thinks(pieces: Sequence[AnyPiece]) -> Verdict:
    counted = [(piece.usage or {}).get("reasoning_tokens") for piece in pieces if isinstance(piece, EndPiece)]
    if any(isinstance(piece, ThinkingPiece) for piece in pieces) or any(counted):
        return WORKS
    return Verdict(Finding.UNTOLD, "it did not show that it thought")


def _value(pieces: Sequence[AnyPiece]) -> Any:
    try:
        return json.loads(_text(pieces))
    except ValueError:
        return None


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def red_png() -> bytes:
    """A small red square; some endpoints refuse pictures of a few pixels."""
    rows = (b"\0" + b"\xff\0\0" * SIDE) * SIDE
    chunks = (b"IHDR" + struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0), b"IDAT" + zlib.compress(rows), b"IEND")
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks
    )


def small_pdf(text: str) -> bytes:
    """A document of one page that says this."""
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
