"""Reads a request out of bytes: how many, how fast, how deep, and in which format. What it means is not known here."""

import re
from itertools import accumulate
from typing import Final

from accord.config import ServerConfig
from accord.errors import ErrorCode, RefusedError
from accord.servers.failing import ClientGoneError, Receive
from accord.servers.patience import within
from accord.servers.service import Headers
from accord.wire.request import ServiceRequest

# A text that never ends is one as well: looking for its end again from every quote in it would take for ever.
_TEXT: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
MAX_DIGITS: Final = 20


async def read_body(receive: Receive, headers: Headers, settings: ServerConfig) -> bytes:
    """The whole body, if it is JSON, not too long, and arrives in time."""
    _check_format(headers)
    announced = headers.get(b"content-length", b"")
    if announced.isdigit() and (len(announced) > MAX_DIGITS or int(announced) > settings.max_body_bytes):
        raise too_large(settings.max_body_bytes)
    try:
        return await within(settings.body_timeout_s, _read(receive, settings.max_body_bytes))
    except TimeoutError:
        told = f"The body did not arrive within {settings.body_timeout_s:g} seconds"
        raise RefusedError(told, ErrorCode.REQUEST_TIMED_OUT, {}) from None


async def _read(receive: Receive, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        part = message.get("body", b"")
        size += len(part)
        if size > max_bytes:
            raise too_large(max_bytes)
        parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def too_large(max_bytes: int) -> RefusedError:
    """The error of a message that is longer than allowed."""
    return RefusedError(f"The message is longer than {max_bytes} bytes", ErrorCode.TOO_LARGE, {"max_bytes": max_bytes})


def _check_format(headers: Headers) -> None:
    said = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if said and said != b"application/json" and not said.endswith(b"+json"):
        told = "The body should be JSON: send Content-Type: application/json"
        raise RefusedError(told, ErrorCode.UNSUPPORTED_MEDIA_TYPE, {"accepted": ["application/json"]})
    if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        raise RefusedError("The body should not be compressed", ErrorCode.UNSUPPORTED_MEDIA_TYPE, {})


def read_request(body: bytes, settings: ServerConfig) -> ServiceRequest:
    """The request in these bytes."""
    if is_deeper(body, settings.max_depth):
        told = f"The message is nested more than {settings.max_depth} deep"
        raise RefusedError(told, ErrorCode.INVALID_MESSAGE, {"max_depth": settings.max_depth})
    return ServiceRequest.parse(body)


def is_deeper(text: bytes, max_depth: int) -> bool:
    """Whether JSON text is nested deeper than this. Most has fewer brackets altogether, which is quick to see."""
    if text.count(b"[") + text.count(b"{") <= max_depth:
        return False
    steps = _TEXT.sub(b"", text).translate(_STEPS, _NOT_BRACKETS)
    return max(accumulate(memoryview(steps).cast("b")), default=0) > max_depth
