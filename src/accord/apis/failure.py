"""Every failure of a model endpoint, and the error that a client gets for it: one table for all APIs and transports.

What an endpoint says about its failure may hold keys, prompts and addresses. So the client's error has our sentence,
the status and the endpoint's short code. The endpoint's message, without keys, is a note on the exception: it goes to
the operator's log, the receipt and `accord ask`. The client gets it as well where the request is at fault, since only
the client can correct that; of the operator's account and the endpoint's insides it gets nothing.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from accord.errors import BackendError, ErrorCode
from accord.terminal import escape_line

MAX_NOTE_CHARS: Final = 2_000
MAX_CLIENT_CHARS: Final = 500
"""Of an endpoint's message, where the client gets it."""
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

    `caller_status` is the HTTP status for a client of a model API, which called the endpoint through Accord. With
    `is_callers_fault`, the client also gets the endpoint's message. `may_resend`: the backend may send the same request
    again at once; `retryable`: the client may try again later; `is_outage`: it speaks against the backend, so that
    others are better tried first for a while.
    """

    code: ErrorCode
    caller_status: int
    sentence: str
    is_callers_fault: bool = False
    may_resend: bool = False
    retryable: bool = False
    is_outage: bool = False


_FAILED: Final = ErrorCode.BACKEND_FAILED
_Flags = dict[str, bool]
_CALLERS_FAULT: Final[_Flags] = {"is_callers_fault": True}
_MAY_PASS: Final[_Flags] = {"may_resend": True, "retryable": True}
_OUTAGE: Final[_Flags] = {"retryable": True, "is_outage": True}
FAILURE_RULES: Final[Mapping[Failure, FailureRule]] = MappingProxyType(
    {
        # The key and the account are the operator's, so these are no 401, 403 or 402 for the client.
        Failure.BAD_KEY: FailureRule(_FAILED, 502, "the key is missing or not accepted"),
        Failure.FORBIDDEN: FailureRule(_FAILED, 502, "the key may not do this"),
        Failure.NO_SUCH_MODEL: FailureRule(_FAILED, 404, "there is no such model or address", **_CALLERS_FAULT),
        Failure.CONTEXT_TOO_LONG: FailureRule(
            # OpenAI and Anthropic answer 400, and their clients shorten the conversation on it.
            ErrorCode.TOO_LARGE,
            400,
            "the conversation is longer than the model takes",
            **_CALLERS_FAULT,
        ),
        Failure.CONTENT_REFUSED: FailureRule(_FAILED, 400, "the endpoint refuses this content", **_CALLERS_FAULT),
        Failure.TOO_LARGE: FailureRule(
            ErrorCode.TOO_LARGE, 413, "the request is larger than the endpoint takes", **_CALLERS_FAULT
        ),
        Failure.UNSUPPORTED: FailureRule(
            _FAILED, 400, "the endpoint does not have what was asked for", **_CALLERS_FAULT
        ),
        Failure.BAD_REQUEST: FailureRule(_FAILED, 400, "the endpoint does not accept the request", **_CALLERS_FAULT),
        Failure.RATE_LIMITED: FailureRule(
            ErrorCode.RATE_LIMIT_EXCEEDED, 429, "the endpoint takes no more requests for now", **_MAY_PASS
        ),
        Failure.OUT_OF_QUOTA: FailureRule(_FAILED, 502, "the account's quota is used up"),
        Failure.OVERLOADED: FailureRule(
            ErrorCode.UNAVAILABLE, 503, "the endpoint is overloaded", may_resend=True, **_OUTAGE
        ),
        Failure.FAILED: FailureRule(_FAILED, 502, "the endpoint failed", may_resend=True, **_OUTAGE),
        Failure.UNREACHABLE: FailureRule(_FAILED, 502, "the endpoint cannot be reached", may_resend=True, **_OUTAGE),
        # A certificate is not trusted the second time either.
        Failure.UNTRUSTED: FailureRule(_FAILED, 502, "the endpoint's certificate is not trusted", is_outage=True),
        Failure.BROKEN_OFF: FailureRule(_FAILED, 502, "the answer broke off", may_resend=True, **_OUTAGE),
        Failure.TIMED_OUT: FailureRule(ErrorCode.TIMED_OUT, 504, "the endpoint did not answer in time", **_OUTAGE),
        Failure.NOT_UNDERSTOOD: FailureRule(_FAILED, 502, "the answer cannot be understood", retryable=True),
    }
)

NAMES_FIELDS: Final = frozenset({Failure.UNSUPPORTED, Failure.BAD_REQUEST})
"""The failures whose message may name fields of the request that the endpoint does not take."""

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


FAILED_ENDS: Final[Mapping[str, Failure]] = MappingProxyType(
    {
        "error": Failure.FAILED,
        "failed": Failure.FAILED,
        "abort": Failure.FAILED,
        "network_error": Failure.FAILED,
        "insufficient_system_resource": Failure.OVERLOADED,
    }
)
"""Reasons with which an answer has failed: words of OpenRouter, Mistral, vLLM, SGLang, GLM and DeepSeek.

Most of these servers speak several APIs.
"""

MODES: Final = frozenset({"stream", "response_format", "response_format.type", "text.format", "text.format.type"})
"""Fields whose values are capabilities."""
PARTS: Final = frozenset({"include", "parallel_tool_calls", "text", "tool_choice", "top_logprobs"})
"""Fields without which an endpoint still has the capability that they belong to."""
_CONDITION: Final = re.compile(
    r"\b(?:when|while|unless|if|together|both|combin\w+|simultaneous\w*|at the same time|adaptive)\b", re.IGNORECASE
)
"""The endpoint refuses fields beside each other, or one form of a capability."""
_UNSUPPORTED: Final = re.compile(
    r"unsupported|deprecated|removed|not[ _](?:supported|permitted|available|enabled|allowed)|unknown|unrecognized"
    r"|(?:does not|doesn't|no endpoints? .{0,40}) support|requires|at most 0|not a multimodal|invalid content type",
    re.IGNORECASE,
)
_NO_MEMBER: Final = re.compile(
    r"(?:unknown|unsupported|unrecognized|unexpected)[ _](?:\w+ ){0,2}(?:name|param|field|key|argument|property)"
    r"|(?:extra inputs|additional properties) are not (?:permitted|allowed)|extraneous key",
    re.IGNORECASE,
)
_VALUE: Final = re.compile(
    r"unsupported_value|(?:unsupported|invalid) value|does not support ['\"`\d]|expected a", re.IGNORECASE
)
_ONLY_DEFAULT: Final = re.compile(r"only the default", re.IGNORECASE)
_SYSTEM_ROLE: Final = re.compile(r"['\"`]system['\"`]")


@dataclass(frozen=True, slots=True)
class FailureReport:
    """What an endpoint's answer says went wrong.

    `refused` is the capability that the failure is about; `code` and `message` are the endpoint's own, `page` is the
    text of a body that is no error of the API; `reason` is our text, which must not repeat what the endpoint sent.
    `fields` are the fields of the request that the message names (see `named_fields.py`). `capability` is what Accord
    itself cannot put into a request of this API.
    """

    failure: Failure
    refused: str | None = None
    code: str | None = None
    message: str | None = None
    reason: str | None = None
    status: int | None = None
    retry_after_s: float | None = None
    page: str | None = None
    fields: Sequence[str] = ()
    capability: str | None = None

    @property
    def field(self) -> str | None:
        """The first of the fields."""
        return next(iter(self.fields), None)

    @property
    def is_own(self) -> bool:
        """Whether Accord refused the request before anything was sent, which says nothing about the endpoint."""
        return self.capability is not None

    @property
    def is_lasting(self) -> bool:
        """Whether the endpoint says that it does not take this, whatever else a request has."""
        return not self.is_own and _CONDITION.search(self.message or "") is None

    @property
    def refuses_member(self) -> bool:
        """Whether the endpoint says that it does not have the fields at all, whatever their values."""
        text = f"{self.code}: {self.message}"
        return self.is_lasting and _NO_MEMBER.search(text) is not None and _VALUE.search(text) is None

    @property
    def lacks(self) -> str | None:
        """The capability that the endpoint says it does not have; None if it refuses only a part or a value of it."""
        text, field = f"{self.code}: {self.message}", self.field
        if self.refused is None or not self.is_lasting or _UNSUPPORTED.search(text) is None:
            return None
        if field is None or field in MODES:
            is_whole = True
        elif field.endswith("[].role"):
            is_whole = _SYSTEM_ROLE.search(text) is not None
        elif _VALUE.search(text) is not None:
            is_whole = _ONLY_DEFAULT.search(text) is not None
        else:
            is_whole = field.isidentifier() and field not in PARTS
        return self.refused if is_whole else None


def failure_of_end(reason: str | None, words: Mapping[str, Failure] = FAILED_ENDS) -> FailureReport | None:
    """What went wrong, if this is why an answer ended that failed."""
    failure = words.get(reason.lower()) if reason else None
    return None if failure is None else FailureReport(failure, code=reason, reason="the answer ended with an error")


class EndpointError(BackendError):
    """A model endpoint failed; `may_resend` says whether the same request may be sent again at once.

    `caller_status` is the HTTP status for a client of a model API. Its 404 is for a model that the client chose by
    name. `secrets` are masked in the endpoint's message.
    """

    def __init__(self, backend: str, report: FailureReport, secrets: Iterable[str] = ()) -> None:
        rule = FAILURE_RULES[report.failure]
        self.report: Final = report
        self.may_resend: Final = rule.may_resend
        self.caller_status: Final = rule.caller_status
        reason = f": {report.reason}" if report.reason else ""
        status = f" ({report.status})" if report.status is not None else ""
        note = without_secrets(report.message or report.page or "", secrets)
        # A proxy's page is not about the request.
        for_client = f": {_shorten(note)}" if note and report.message and rule.is_callers_fault else ""
        details = {
            "backend": backend,
            "failure": str(report.failure),
            "status": report.status,
            # Anything but a short word could hold what must not reach a client.
            "endpoint_code": report.code if report.code and _SHORT_CODE.fullmatch(report.code) else None,
            "retry_after": report.retry_after_s,
            "field": report.field,
        }
        super().__init__(
            f"{backend}: {rule.sentence}{reason}{status}{for_client}",
            retryable=rule.retryable,
            refused=report.lacks,
            details={name: value for name, value in details.items() if value is not None},
            code=rule.code,
            is_outage=rule.is_outage,
            retry_after_s=report.retry_after_s,
        )
        if note:
            self.add_note(note)


def _shorten(message: str) -> str:
    return message if len(message) <= MAX_CLIENT_CHARS else message[: MAX_CLIENT_CHARS - 1] + MASK


def without_secrets(message: str, secrets: Iterable[str] = ()) -> str:
    """Return an endpoint's message on one line, shortened, without these secrets and anything that looks like a key."""
    for secret in secrets:
        message = message.replace(secret, MASK)
    return escape_line(" ".join(_SECRET.sub(MASK, message).split())[:MAX_NOTE_CHARS])


def text_of(body: bytes) -> str | None:
    """Return the text of an error body that is not the API's, such as a proxy's HTML page; None if it is empty."""
    text = _TAG.sub(" ", body[:MAX_BODY_BYTES].decode(errors="replace")).strip()
    return text or None
