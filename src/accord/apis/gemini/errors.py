"""Errors of the Gemini API, both directions: Google's error model, in a reply or in an event of a stream. Pure."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final

import msgspec

from accord.apis.codec import FIRST_SERVER_STATUS, api_status, untyped_event
from accord.apis.failure import NAMES_FIELDS, Failure, FailureReport, failure_by_status
from accord.apis.named_fields import named_fields
from accord.apis.openai.errors import small_details
from accord.errors import AccordError
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
"""Reasons of an ErrorInfo, which are more exact than the status."""

_REFUSED: Final = r"(?:is|are) (?:not|un)\s?(?:enabled|supported|allowed)"

MESSAGE_RULES: Final[Sequence[tuple[re.Pattern[str], Failure, str | None]]] = tuple(
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
        (rf"logprobs {_REFUSED}", Failure.UNSUPPORTED, Capability.LOGPROBS),
        (rf"penalty {_REFUSED}", Failure.UNSUPPORTED, Capability.FREQUENCY_PENALTY),
        (
            rf"thinking(?: config| level| budget)? {_REFUSED}|only enabled when thinking is enabled",
            Failure.UNSUPPORTED,
            Capability.EXTENDED_THINKING,
        ),
    )
)
"""Patterns of error messages, the first match counts; the third column is the capability that is refused."""

READ_MESSAGES_OF: Final = frozenset({Failure.BAD_REQUEST, Failure.FORBIDDEN, Failure.RATE_LIMITED})
"""Failures whose message is matched against `MESSAGE_RULES`: INVALID_ARGUMENT alone has a dozen meanings."""

_DAILY: Final = re.compile(r"PerDay", re.IGNORECASE)
_SECONDS: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")
_MAX_READ_CHARS: Final = 4_000


class GeminiViolation(msgspec.Struct, rename="camel"):
    """A quota that is used up."""

    quota_id: str | None = None


class GeminiErrorDetail(msgspec.Struct, rename="camel"):
    """One detail of an error: an ErrorInfo has a reason, a RetryInfo a delay, a QuotaFailure violations."""

    reason: str | None = None
    retry_delay: str | None = None
    violations: list[GeminiViolation] | None = None


class GeminiError(msgspec.Struct):
    """An error of Google's APIs. `details` are decoded one by one, so that an unknown one does not hide the rest."""

    code: int | None = None
    status: str | None = None
    message: str | None = None
    details: list[msgspec.Raw] | None = None


class GeminiErrorBody(msgspec.Struct):
    """The body of an error."""

    error: GeminiError | None = None


_decode_error: Final = msgspec.json.Decoder(GeminiErrorBody).decode
_decode_errors: Final = msgspec.json.Decoder(list[GeminiErrorBody]).decode
_decode_detail: Final = msgspec.json.Decoder(GeminiErrorDetail).decode
UNDECODABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def read_error(status: int, body: bytes) -> FailureReport:
    """Return what a reply with this status says went wrong."""
    try:
        bodies = _decode_errors(body) if body.lstrip()[:1] == b"[" else [_decode_error(body)]
    except UNDECODABLE:
        return FailureReport(failure_by_status(status))
    error = next((each.error for each in bodies if each.error is not None), None)
    return FailureReport(failure_by_status(status)) if error is None else failure_report(error, status)


def failure_report(error: GeminiError, status: int | None = None) -> FailureReport:
    """Return what an error means, in a reply of its own or in an event of a stream."""
    code = status if status is not None else error.code
    details: list[GeminiErrorDetail] = []
    for raw in error.details or ():
        with suppress(*UNDECODABLE):
            details.append(_decode_detail(raw))
    failure, refused = _classify(error, details, code)
    delays = (match for detail in details if (match := _SECONDS.fullmatch(detail.retry_delay or "")))
    return FailureReport(
        failure,
        refused=refused,
        code=error.status,
        message=error.message,
        status=code,
        retry_after_s=next((float(match[1]) for match in delays), None),
        fields=named_fields(error.message or "") if failure in NAMES_FIELDS else (),
    )


def _classify(error: GeminiError, details: Sequence[GeminiErrorDetail], code: int | None) -> tuple[Failure, str | None]:
    """Return the failure and the refused capability: by a reason in the details, else the status, else the message."""
    for detail in details:
        if (by_reason := BY_REASON.get(detail.reason or "")) is not None:
            return by_reason, None
    by_code = Failure.FAILED if code is None else failure_by_status(code)
    failure = BY_GOOGLE_STATUS.get(error.status or "", by_code)
    if failure in READ_MESSAGES_OF:
        message = (error.message or "")[:_MAX_READ_CHARS]
        for pattern, meant, refused in MESSAGE_RULES:
            if pattern.search(message):
                return meant, refused
    violations = [violation for detail in details for violation in detail.violations or ()]
    if failure is Failure.RATE_LIMITED and any(_DAILY.search(each.quota_id or "") for each in violations):
        return Failure.OUT_OF_QUOTA, None  # the day's quota: waiting as long as the endpoint says does not help
    return failure, None


STATUSES: Final[Mapping[int, str]] = MappingProxyType(
    {
        401: "UNAUTHENTICATED",
        403: "PERMISSION_DENIED",
        404: "NOT_FOUND",
        408: "DEADLINE_EXCEEDED",
        409: "ABORTED",
        429: "RESOURCE_EXHAUSTED",
        499: "CANCELLED",
        501: "UNIMPLEMENTED",
        503: "UNAVAILABLE",
        504: "DEADLINE_EXCEEDED",
    }
)
"""Google's word for each HTTP status; any other one is an invalid argument, or from 500 on internal."""


def write_error(error: AccordError, request_id: str) -> dict[str, Any]:
    """The body of an error in Google's shape, with Accord's own code and details beside it."""
    code = api_status(error)
    general = "INTERNAL" if code >= FIRST_SERVER_STATUS else "INVALID_ARGUMENT"
    accord: dict[str, Any] = {"code": str(error.code), "request_id": request_id}
    if details := small_details(error):
        accord["details"] = details
    return {"error": {"code": code, "message": error.message, "status": STATUSES.get(code, general)}, "accord": accord}


def write_error_event(error: AccordError, request_id: str) -> bytes:
    """The event that ends a stream with an error."""
    return untyped_event(write_error(error, request_id))
