"""Errors of the OpenAI APIs: one body for chat completions and responses. Pure.

The SDKs choose their exception by the HTTP status; programs look at `type` and `code`, which are OpenAI's words where
it has one for our code. The `accord` member has our own code and details: candidates, remedies, the request's id.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from accord.apis.codec import FIRST_SERVER_STATUS, api_status
from accord.errors import AccordError, ErrorCode

MAX_DETAIL_BYTES: Final = 16_384
"""Larger details are left out; the receipt has them."""

INVALID: Final = "invalid_request_error"
SERVER: Final = "server_error"

WORDS: Final[Mapping[ErrorCode, tuple[str, str | None]]] = MappingProxyType(
    {
        ErrorCode.PARSE_ERROR: (INVALID, None),
        ErrorCode.INVALID_MESSAGE: (INVALID, "invalid_value"),
        ErrorCode.UNAUTHENTICATED: (INVALID, "invalid_api_key"),
        ErrorCode.FORBIDDEN: ("permission_error", "permission_denied"),
        ErrorCode.QUOTA_EXCEEDED: ("insufficient_quota", "insufficient_quota"),
        ErrorCode.NOT_FOUND: (INVALID, "not_found"),
        ErrorCode.METHOD_NOT_FOUND: (INVALID, "method_not_supported"),
        ErrorCode.TOO_LARGE: (INVALID, "request_too_large"),
        ErrorCode.CAPABILITY_UNSUPPORTED: (INVALID, "unsupported_value"),
        ErrorCode.CONTENT_UNSUPPORTED: (INVALID, "unsupported_value"),
        ErrorCode.RATE_LIMIT_EXCEEDED: ("requests", "rate_limit_exceeded"),
        ErrorCode.INTERNAL: (SERVER, "server_error"),
        ErrorCode.UNAVAILABLE: (SERVER, "server_is_overloaded"),
    }
)
"""`type` and `code` of each of our codes that OpenAI has a word for; others keep their own code."""

CONTEXT_TOO_LONG: Final = "context_too_long"
"""The word for it in the details of a backend's error."""

_encode: Final = msgspec.json.Encoder().encode


def error_body(error: AccordError, request_id: str) -> dict[str, Any]:
    """The body of an error in OpenAI's shape, with Accord's own code and details beside it."""
    kind, code = _words(error)
    field = error.details.get("field")
    param = field if isinstance(field, str) else None
    accord: dict[str, Any] = {"code": str(error.code), "request_id": request_id}
    if details := small_details(error):
        accord["details"] = details
    return {"error": {"message": error.message, "type": kind, "param": param, "code": code}, "accord": accord}


def _words(error: AccordError) -> tuple[str, str | None]:
    details = error.details
    if isinstance(own := details.get("openai_code"), str):
        return INVALID, own
    if error.code is ErrorCode.TOO_LARGE and details.get("failure") == CONTEXT_TOO_LONG:
        return INVALID, "context_length_exceeded"
    if error.code is ErrorCode.NOT_FOUND and details.get("field") == "model":
        return INVALID, "model_not_found"
    general = SERVER if api_status(error) >= FIRST_SERVER_STATUS else INVALID
    return WORDS.get(error.code, (general, str(error.code).lower()))


def small_details(error: AccordError) -> dict[str, Any]:
    """The details of an error as plain JSON values; empty if they are too large, or hold what is not JSON."""
    if not error.details:
        return {}
    try:
        encoded = _encode(dict(error.details))
    except (TypeError, ValueError, RecursionError):
        return {}
    return msgspec.json.decode(encoded) if len(encoded) <= MAX_DETAIL_BYTES else {}
