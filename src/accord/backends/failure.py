"""Every failure of a model endpoint, and the error that a client gets for it: one table for all APIs and transports.

What an endpoint says about its failure may hold keys, prompts and addresses. So the client's error has our sentence,
the status and the endpoint's short code. The endpoint's message, without keys, is a note on the exception: it goes to
the operator's log, the receipt and `accord ask`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from accord.errors import BackendError, ErrorCode
from accord.terminal import escape_line

MAX_NOTE_CHARS: Final = 2_000
MAX_BODY_BYTES: Final = 8_000
MASK: Final = "…"
_TAG: Final = re.compile(r"(?is)<(script|style)\b.*?</\1\s*>|<[^>]{0,500}>")
_SHORT_CODE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.\-]{0,63}")
_SECRET: Final = re.compile(
    r"\b(?:sk|pk|gsk|xox[a-z])[-_][\w*.\-]{6,}"
    r"|\b(?:key|api|org|proj|acct)[-_](?=[\w*.\-]*[\d*])[\w*.\-]{6,}"
    r"|\bAIza[\w\-]{10,}|\bbearer\s+(?=\S*[\d*])\S{6,}",
    re.IGNORECASE,
)
"""Patterns of providers' keys and account names; the configured key is masked whatever it looks like."""


class Failure(StrEnum):
    """The kinds of failure, independent of API and transport."""

    BAD_KEY = "bad_key"
    FORBIDDEN = "forbidden"
    NO_SUCH_MODEL = "no_such_model"
    CONTEXT_TOO_LONG = "context_too_long"
    CONTENT_REFUSED = "content_refused"
    TOO_LARGE = "too_large"
    UNSUPPORTED = "unsupported"
    BAD_REQUEST = "bad_request"
    RATE_LIMITED = "rate_limited"
    OUT_OF_QUOTA = "out_of_quota"
    OVERLOADED = "overloaded"
    FAILED = "failed"
    UNREACHABLE = "unreachable"
    UNTRUSTED = "untrusted"
    BROKEN_OFF = "broken_off"
    TIMED_OUT = "timed_out"
    NOT_UNDERSTOOD = "not_understood"


@dataclass(frozen=True, slots=True)
class FailureRule:
    """The error that a client gets for a failure.

    `may_resend`: the backend may send the same request again at once; `retryable`: the client may try again later.
    """

    code: ErrorCode
    sentence: str
    may_resend: bool = False
    retryable: bool = False


_FAILED: Final = ErrorCode.BACKEND_FAILED
FAILURE_RULES: Final[Mapping[Failure, FailureRule]] = MappingProxyType(
    {
        Failure.BAD_KEY: FailureRule(_FAILED, "the key is missing or not accepted"),
        Failure.FORBIDDEN: FailureRule(_FAILED, "the key may not do this"),
        Failure.NO_SUCH_MODEL: FailureRule(_FAILED, "there is no such model or address"),
        Failure.CONTEXT_TOO_LONG: FailureRule(ErrorCode.TOO_LARGE, "the conversation is longer than the model takes"),
        Failure.CONTENT_REFUSED: FailureRule(_FAILED, "the endpoint refuses this content"),
        Failure.TOO_LARGE: FailureRule(ErrorCode.TOO_LARGE, "the request is larger than the endpoint takes"),
        Failure.UNSUPPORTED: FailureRule(_FAILED, "the endpoint does not have what was asked for"),
        Failure.BAD_REQUEST: FailureRule(_FAILED, "the endpoint does not accept the request"),
        Failure.RATE_LIMITED: FailureRule(
            ErrorCode.RATE_LIMIT_EXCEEDED,
            "the endpoint takes no more requests for now",
            may_resend=True,
            retryable=True,
        ),
        Failure.OUT_OF_QUOTA: FailureRule(_FAILED, "the account's quota is used up"),
        Failure.OVERLOADED: FailureRule(
            ErrorCode.UNAVAILABLE, "the endpoint is overloaded", may_resend=True, retryable=True
        ),
        Failure.FAILED: FailureRule(_FAILED, "the endpoint failed", may_resend=True, retryable=True),
        Failure.UNREACHABLE: FailureRule(_FAILED, "the endpoint cannot be reached", may_resend=True, retryable=True),
        # A certificate is not trusted the second time either.
        Failure.UNTRUSTED: FailureRule(_FAILED, "the endpoint's certificate is not trusted"),
        Failure.BROKEN_OFF: FailureRule(_FAILED, "the answer broke off", may_resend=True, retryable=True),
        Failure.TIMED_OUT: FailureRule(ErrorCode.TIMED_OUT, "the endpoint did not answer in time", retryable=True),
        Failure.NOT_UNDERSTOOD: FailureRule(_FAILED, "the answer cannot be understood", retryable=True),
    }
)

BY_STATUS: Final[Mapping[int, Failure]] = MappingProxyType(
    {
        401: Failure.BAD_KEY,
        402: Failure.OUT_OF_QUOTA,
        403: Failure.FORBIDDEN,
        404: Failure.NO_SUCH_MODEL,
        408: Failure.OVERLOADED,
        409: Failure.OVERLOADED,
        413: Failure.TOO_LARGE,
        429: Failure.RATE_LIMITED,
        503: Failure.OVERLOADED,
        529: Failure.OVERLOADED,
    }
)
"""The failure of a status, if the body says nothing more exact."""


def failure_by_status(status: int) -> Failure:
    """Return the failure that this status means without a body."""
    known = BY_STATUS.get(status)
    if known is not None:
        return known
    if status >= 500:
        return Failure.FAILED
    return Failure.BAD_REQUEST if status >= 400 else Failure.NOT_UNDERSTOOD


@dataclass(frozen=True, slots=True)
class FailureReport:
    """What an endpoint's answer says went wrong.

    `refused` is the capability that the endpoint turned out not to have; `code` and `message` are the endpoint's own;
    `reason` is our text, which must not repeat what the endpoint sent.
    """

    failure: Failure
    refused: str | None = None
    code: str | None = None
    message: str | None = None
    reason: str | None = None
    status: int | None = None
    retry_after_s: float | None = None


class EndpointError(BackendError):
    """A model endpoint failed; `may_resend` says whether the same request may be sent again at once.

    `secrets` are masked in the endpoint's message.
    """

    def __init__(self, backend: str, report: FailureReport, secrets: Iterable[str] = ()) -> None:
        rule = FAILURE_RULES[report.failure]
        self.report: Final = report
        self.may_resend: Final = rule.may_resend
        reason = f": {report.reason}" if report.reason else ""
        status = f" ({report.status})" if report.status is not None else ""
        details = {
            "backend": backend,
            "failure": str(report.failure),
            "status": report.status,
            # Anything but a short word could hold what must not reach a client.
            "endpoint_code": report.code if report.code and _SHORT_CODE.fullmatch(report.code) else None,
            "retry_after": report.retry_after_s,
        }
        super().__init__(
            f"{backend}: {rule.sentence}{reason}{status}",
            retryable=rule.retryable,
            refused=report.refused,
            details={name: value for name, value in details.items() if value is not None},
            code=rule.code,
        )
        if report.message:
            self.add_note(without_secrets(report.message, secrets))


def without_secrets(message: str, secrets: Iterable[str] = ()) -> str:
    """Return an endpoint's message on one line, shortened, without these secrets and anything that looks like a key."""
    for secret in secrets:
        message = message.replace(secret, MASK)
    return escape_line(" ".join(_SECRET.sub(MASK, message).split())[:MAX_NOTE_CHARS])


def text_of(body: bytes) -> str | None:
    """Return the text of an error body that is not the API's, such as a proxy's HTML page; None if it is empty."""
    text = _TAG.sub(" ", body[:MAX_BODY_BYTES].decode(errors="replace")).strip()
    return text or None
