"""What a Gemini endpoint's error means: Google's status first, then the reasons in its details, then its sentence.

The sentence decides only where nothing else tells the difference: a conversation that is too long, a request that is
too large, and a model that does not have what was asked for all come as INVALID_ARGUMENT. It is read, never repeated.
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from accord.backends.failure import Explained, Failure, failure_by_status
from accord.wire.capability import TOOL_RESULT_MEDIA, Capability

BY_GOOGLE_STATUS: Final[Mapping[str, Failure]] = MappingProxyType(
    {
        "INVALID_ARGUMENT": Failure.BAD_REQUEST,
        "OUT_OF_RANGE": Failure.BAD_REQUEST,
        "FAILED_PRECONDITION": Failure.FORBIDDEN,
        "UNAUTHENTICATED": Failure.BAD_KEY,
        "PERMISSION_DENIED": Failure.FORBIDDEN,
        "NOT_FOUND": Failure.NO_SUCH_MODEL,
        "RESOURCE_EXHAUSTED": Failure.RATE_LIMITED,
        "UNIMPLEMENTED": Failure.UNSUPPORTED,
        "ABORTED": Failure.OVERLOADED,
        "CANCELLED": Failure.FAILED,
        "UNAVAILABLE": Failure.OVERLOADED,
        "INTERNAL": Failure.FAILED,
        "UNKNOWN": Failure.FAILED,
        "DATA_LOSS": Failure.FAILED,
        "DEADLINE_EXCEEDED": Failure.TIMED_OUT,
    }
)

BY_REASON: Final[Mapping[str, Failure]] = MappingProxyType(
    {
        "API_KEY_INVALID": Failure.BAD_KEY,
        "API_KEY_EXPIRED": Failure.BAD_KEY,
        "ACCESS_TOKEN_EXPIRED": Failure.BAD_KEY,
        "CREDENTIALS_MISSING": Failure.BAD_KEY,
        "API_KEY_SERVICE_BLOCKED": Failure.FORBIDDEN,
        "SERVICE_DISABLED": Failure.FORBIDDEN,
        "BILLING_DISABLED": Failure.OUT_OF_QUOTA,
    }
)
"""What the `reason` of an ErrorInfo says better than the status."""

_REFUSED: Final = r"(?:is|are) (?:not|un)\s?(?:enabled|supported|allowed)"

BY_SENTENCE: Final[Sequence[tuple[re.Pattern[str], Failure, str | None]]] = tuple(
    (re.compile(pattern, re.IGNORECASE), failure, capability)
    for pattern, failure, capability in (
        (r"api key (?:not valid|expired|not found)", Failure.BAD_KEY, None),
        (r"unregistered callers|missing (?:a valid )?api key", Failure.BAD_KEY, None),
        (r"token count.{0,80}exceeds", Failure.CONTEXT_TOO_LONG, None),
        (r"payload size exceeds", Failure.TOO_LARGE, None),
        (rf"multimodal function responses? {_REFUSED}", Failure.UNSUPPORTED, TOOL_RESULT_MEDIA),
        (
            rf"response mime type.{{0,40}}{_REFUSED}",
            Failure.UNSUPPORTED,
            Capability.STRUCTURED_OUTPUT_JSON_SCHEMA,
        ),
        (rf"json mode {_REFUSED}", Failure.UNSUPPORTED, Capability.JSON_MODE),
        (
            rf"(?:response schema|controlled generation) {_REFUSED}",
            Failure.UNSUPPORTED,
            Capability.STRUCTURED_OUTPUT_JSON_SCHEMA,
        ),
        (rf"developer instruction {_REFUSED}", Failure.UNSUPPORTED, Capability.SYSTEM_MESSAGE),
        (rf"function calling {_REFUSED}|tool use {_REFUSED}", Failure.UNSUPPORTED, Capability.TOOL_USE),
        (rf"image input modality {_REFUSED}", Failure.UNSUPPORTED, Capability.IMAGE_INPUT),
        (rf"audio input modality {_REFUSED}", Failure.UNSUPPORTED, Capability.AUDIO),
        (rf"document input modality {_REFUSED}", Failure.UNSUPPORTED, Capability.PDF_INPUT),
        (rf"presence ?penalty {_REFUSED}", Failure.UNSUPPORTED, Capability.PRESENCE_PENALTY),
        (rf"penalty {_REFUSED}", Failure.UNSUPPORTED, Capability.FREQUENCY_PENALTY),
        (
            rf"thinking(?: config| level| budget)? {_REFUSED}|only enabled when thinking is enabled",
            Failure.UNSUPPORTED,
            Capability.EXTENDED_THINKING,
        ),
    )
)
"""What sentences are known to mean, the first that fits; the third column is the capability that is refused."""

SPOKEN_FOR: Final = frozenset({Failure.BAD_REQUEST, Failure.FORBIDDEN, Failure.RATE_LIMITED})
"""What a status says so broadly that the sentence is read too."""

_DAILY: Final = re.compile(r"PerDay", re.IGNORECASE)
_SECONDS: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")
_MAX_READ_CHARS: Final = 4_000


class Violation(msgspec.Struct, rename="camel"):
    """A quota that is used up."""

    quota_id: str | None = None


class Detail(msgspec.Struct, rename="camel"):
    """One detail of an error: an ErrorInfo has a reason, a RetryInfo a delay, a QuotaFailure violations."""

    reason: str | None = None
    retry_delay: str | None = None
    violations: list[Violation] | None = None


class Problem(msgspec.Struct):
    """An error as Google's APIs tell it; `details` are read apart, so that a strange one costs nothing else."""

    code: int | None = None
    status: str | None = None
    message: str | None = None
    details: list[msgspec.Raw] | None = None


class _Envelope(msgspec.Struct):
    error: Problem | None = None


_envelope: Final = msgspec.json.Decoder(_Envelope)
_listed: Final = msgspec.json.Decoder(list[_Envelope])
_detail: Final = msgspec.json.Decoder(Detail)
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def explain(status: int, body: bytes) -> Explained:
    """What an answer of this status says went wrong; one that cannot be read says what its status says."""
    try:
        envelopes = _listed.decode(body) if body.lstrip()[:1] == b"[" else [_envelope.decode(body)]
    except _UNREADABLE:
        return Explained(failure_by_status(status))
    problem = next((one.error for one in envelopes if one.error is not None), None)
    return Explained(failure_by_status(status)) if problem is None else explain_problem(problem, status)


def explain_problem(problem: Problem, status: int | None = None) -> Explained:
    """What an error says went wrong, be it an answer of its own or an event among others."""
    code = status if status is not None else problem.code
    details = [detail for raw in problem.details or () if (detail := _read(raw)) is not None]
    failure, refused = _meaning(problem, details, code)
    return Explained(
        failure,
        refused=refused,
        short=problem.status,
        said=problem.message,
        status=code,
        retry_after_s=_retry_after_s(details),
    )


def _meaning(problem: Problem, details: Sequence[Detail], code: int | None) -> tuple[Failure, str | None]:
    for detail in details:
        if (known := BY_REASON.get(detail.reason or "")) is not None:
            return known, None
    by_code = Failure.FAILED if code is None else failure_by_status(code)
    failure = BY_GOOGLE_STATUS.get(problem.status or "", by_code)
    if failure in SPOKEN_FOR:
        said = (problem.message or "")[:_MAX_READ_CHARS]
        for pattern, meant, refused in BY_SENTENCE:
            if pattern.search(said):
                return meant, refused
    if failure is Failure.RATE_LIMITED and _is_spent_for_today(details):
        return Failure.OUT_OF_QUOTA, None
    return failure, None


def _is_spent_for_today(details: Sequence[Detail]) -> bool:
    """Whether a quota of the day is used up: waiting as long as the endpoint says would not help."""
    return any(_DAILY.search(one.quota_id or "") for detail in details for one in detail.violations or ())


def _retry_after_s(details: Sequence[Detail]) -> float | None:
    for detail in details:
        if found := _SECONDS.fullmatch(detail.retry_delay or ""):
            return float(found[1])
    return None


def _read(raw: msgspec.Raw) -> Detail | None:
    try:
        return _detail.decode(raw)
    except _UNREADABLE:
        return None
