"""What errors of the Messages API mean, whether they came as an answer or in the middle of one. Pure.

The API has few kinds of errors, and most refusals are of one kind: what exactly it does not take is in its sentence
only. The sentence itself goes into `said`, never into our words.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import msgspec

from accord.backends.failure import MAX_NOTE_CHARS, Explained, Failure, failure_by_status
from accord.wire.capability import Capability

BY_KIND: Final[Mapping[str, Failure]] = MappingProxyType(
    {
        "invalid_request_error": Failure.BAD_REQUEST,
        "authentication_error": Failure.BAD_KEY,
        "billing_error": Failure.OUT_OF_QUOTA,
        "permission_error": Failure.FORBIDDEN,
        "not_found_error": Failure.NO_SUCH_MODEL,
        "conflict_error": Failure.OVERLOADED,
        "request_too_large": Failure.TOO_LARGE,
        "rate_limit_error": Failure.RATE_LIMITED,
        "api_error": Failure.FAILED,
        "timeout_error": Failure.TIMED_OUT,
        "overloaded_error": Failure.OVERLOADED,
    }
)


@dataclass(frozen=True, slots=True)
class Sign:
    """Words in a sentence that say more than its kind."""

    words: re.Pattern[str]
    failure: Failure
    refused: str | None = None
    why: str | None = None


_NO = r"(?:deprecated|removed|unsupported|not (?:supported|permitted|available|allowed)|(?:does not|doesn't) support)"


def _sign(words: str, failure: Failure, refused: str | None = None, why: str | None = None) -> Sign:
    return Sign(re.compile(words, re.IGNORECASE | re.DOTALL), failure, refused, why)


def _lacks(words: str, capability: Capability, why: str | None = None) -> Sign:
    return _sign(words, Failure.UNSUPPORTED, capability, why)


SIGNS: Final = (
    _sign(r"prompt is too long|exceeds? (?:the )?(?:model's )?context", Failure.CONTEXT_TOO_LONG),
    _sign(r"credit balance|(?:usage|spend) limit", Failure.OUT_OF_QUOTA),
    _sign(r"content filter", Failure.CONTENT_REFUSED),
    _sign(
        r"signature.*thinking|thinking.*signature|thinking.*cannot be modified",
        Failure.BAD_REQUEST,
        why="it does not accept the seal on earlier reasoning, which another model may have set",
    ),
    _lacks(
        rf"^\W?(?:thinking\.type|adaptive thinking).*{_NO}|{_NO}.*\bthinking",
        Capability.EXTENDED_THINKING,
        "this model does not think in the way that `thinking_budget` asks for",
    ),
    *(
        _lacks(rf"^\W?{name}\b\W?(?: (?:is|are|parameter)|:).*{_NO}", capability)
        for name, capability in (
            ("temperature", Capability.TEMPERATURE),
            ("top_p", Capability.TOP_P),
            ("top_k", Capability.TOP_K),
        )
    ),
    _lacks(
        r"^\W?output_(?:config\.)?format|structured outputs?|compiled grammar",
        Capability.STRUCTURED_OUTPUT_JSON_SCHEMA,
        "this model has no structured output, or does not take this schema",
    ),
    _lacks(rf"{_NO} (?:image|vision)|\bimages? (?:input )?(?:is|are) not supported", Capability.IMAGE_INPUT),
    _lacks(rf"{_NO} (?:pdf|document)|\b(?:pdf|document)s? (?:input )?(?:is|are) not supported", Capability.PDF_INPUT),
    _lacks(rf"{_NO} tool|\btools? (?:use )?(?:is|are) not supported", Capability.TOOL_USE),
    _sign(
        r"could not process (?:image|pdf)|image exceeds", Failure.BAD_REQUEST, why="an image or a PDF is not readable"
    ),
)
"""The first that fits counts. A capability is refused only where the sentence is about it alone: that is remembered."""


class ErrorObject(msgspec.Struct):
    """What the API says went wrong."""

    type: str | None = None
    message: str | None = None


class _Envelope(msgspec.Struct):
    error: ErrorObject | None = None


_decode: Final = msgspec.json.Decoder(_Envelope).decode


def explain(status: int, body: bytes) -> Explained:
    """What an answer with this status says went wrong; whoever is in between may answer anything at all."""
    try:
        error = _decode(body).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        error = None
    by_status = failure_by_status(status)
    if error is None:
        return Explained(by_status, status=status)
    return explained(error, by_status, status)


def explained(error: ErrorObject, otherwise: Failure = Failure.FAILED, status: int | None = None) -> Explained:
    """What this error means; `otherwise` if its kind is not known."""
    failure = BY_KIND.get(error.type or "", otherwise)
    said = (error.message or "")[:MAX_NOTE_CHARS]
    sign = next((sign for sign in SIGNS if sign.words.search(said)), None) if failure in SPOKEN else None
    if sign is None:
        return Explained(failure, short=error.type, said=said or None, status=status)
    return Explained(sign.failure, sign.refused, error.type, said, sign.why, status)


SPOKEN: Final = frozenset({Failure.BAD_REQUEST, Failure.FORBIDDEN, Failure.TOO_LARGE, Failure.FAILED})
"""The failures whose sentence is looked at."""
