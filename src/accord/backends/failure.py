"""Every way in which a model endpoint fails, and what each means to us: one table for every API and every transport.

What an endpoint says of its failure may hold keys, prompts and addresses. So the error that a client gets is in our
words, with the status and the endpoint's own short code. The endpoint's message, without keys, is a note on the
exception: it goes to the operator's log, the receipt and `accord ask`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

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
"""What keys and account names of providers look like; the configured key itself is masked whatever it looks like."""


class Failure(StrEnum):
    """What is wrong, whoever says so."""

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
class Meaning:
    """Our code, our words, and whether the same request may be sent again: by us at once, by anybody later."""

    code: ErrorCode
    told: str
    again: bool = False
    later: bool = False


MEANINGS: Final[Mapping[Failure, Meaning]] = MappingProxyType(
    {
        Failure.BAD_KEY: Meaning(ErrorCode.BACKEND_FAILED, "the key is missing or not accepted"),
        Failure.FORBIDDEN: Meaning(ErrorCode.BACKEND_FAILED, "the key may not do this"),
        Failure.NO_SUCH_MODEL: Meaning(ErrorCode.BACKEND_FAILED, "there is no such model or address"),
        Failure.CONTEXT_TOO_LONG: Meaning(ErrorCode.TOO_LARGE, "the conversation is longer than the model takes"),
        Failure.CONTENT_REFUSED: Meaning(ErrorCode.BACKEND_FAILED, "the endpoint refuses this content"),
        Failure.TOO_LARGE: Meaning(ErrorCode.TOO_LARGE, "the request is larger than the endpoint takes"),
        Failure.UNSUPPORTED: Meaning(ErrorCode.BACKEND_FAILED, "the endpoint does not have what was asked for"),
        Failure.BAD_REQUEST: Meaning(ErrorCode.BACKEND_FAILED, "the endpoint does not accept the request"),
        Failure.RATE_LIMITED: Meaning(
            ErrorCode.RATE_LIMIT_EXCEEDED, "the endpoint takes no more requests for now", again=True, later=True
        ),
        Failure.OUT_OF_QUOTA: Meaning(ErrorCode.BACKEND_FAILED, "the account's quota is used up"),
        Failure.OVERLOADED: Meaning(ErrorCode.UNAVAILABLE, "the endpoint is overloaded", again=True, later=True),
        Failure.FAILED: Meaning(ErrorCode.BACKEND_FAILED, "the endpoint failed", again=True, later=True),
        Failure.UNREACHABLE: Meaning(
            ErrorCode.BACKEND_FAILED, "the endpoint cannot be reached", again=True, later=True
        ),
        # A certificate does not get better by looking at it again.
        Failure.UNTRUSTED: Meaning(ErrorCode.BACKEND_FAILED, "the endpoint's certificate is not trusted"),
        Failure.BROKEN_OFF: Meaning(ErrorCode.BACKEND_FAILED, "the answer broke off", again=True, later=True),
        Failure.TIMED_OUT: Meaning(ErrorCode.TIMED_OUT, "the endpoint did not answer in time", later=True),
        Failure.NOT_UNDERSTOOD: Meaning(ErrorCode.BACKEND_FAILED, "the answer cannot be understood", later=True),
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
"""What a status means if the body says nothing better."""


def failure_by_status(status: int) -> Failure:
    """What this status means on its own."""
    known = BY_STATUS.get(status)
    if known is not None:
        return known
    if status >= 500:
        return Failure.FAILED
    return Failure.BAD_REQUEST if status >= 400 else Failure.NOT_UNDERSTOOD


@dataclass(frozen=True, slots=True)
class Explained:
    """What an endpoint's answer says went wrong.

    `refused` names the capability that it turned out not to have, `short` is the endpoint's own code, `said` its own
    sentence, and `why` words of ours, which must not repeat what the endpoint sent.
    """

    failure: Failure
    refused: str | None = None
    short: str | None = None
    said: str | None = None
    why: str | None = None
    status: int | None = None
    retry_after_s: float | None = None


class EndpointError(BackendError):
    """A model endpoint failed. `again` says whether the same request may be sent once more, at once.

    `secrets` are masked in the endpoint's message.
    """

    def __init__(self, backend: str, explained: Explained, secrets: Iterable[str] = ()) -> None:
        meaning = MEANINGS[explained.failure]
        self.explained: Final = explained
        self.again: Final = meaning.again
        why = f": {explained.why}" if explained.why else ""
        status = f" ({explained.status})" if explained.status is not None else ""
        super().__init__(
            f"{backend}: {meaning.told}{why}{status}",
            retryable=meaning.later,
            refused=explained.refused,
            details=_details(backend, explained),
            code=meaning.code,
        )
        if explained.said:
            self.add_note(without_secrets(explained.said, secrets))


def _details(backend: str, explained: Explained) -> dict[str, Any]:
    short = explained.short if explained.short and _SHORT_CODE.fullmatch(explained.short) else None
    told = {
        "backend": backend,
        "failure": str(explained.failure),
        "status": explained.status,
        "endpoint_code": short,
        "retry_after": explained.retry_after_s,
    }
    return {name: value for name, value in told.items() if value is not None}


def without_secrets(message: str, secrets: Iterable[str] = ()) -> str:
    """An endpoint's message on one line, shortened, without these secrets and without what looks like a key."""
    for secret in secrets:
        message = message.replace(secret, MASK)
    return escape_line(" ".join(_SECRET.sub(MASK, message).split())[:MAX_NOTE_CHARS])


def text_of(body: bytes) -> str | None:
    """The message in the body of an error that is not the API's own, such as a proxy's page; None if there is none."""
    text = _TAG.sub(" ", body[:MAX_BODY_BYTES].decode(errors="replace")).strip()
    return text or None
