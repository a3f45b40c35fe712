"""Reads a request from bytes, with limits on size, time, depth, number of values and format."""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from accord.config import ServerConfig
from accord.core.ignored_members import find_ignored_members
from accord.core.sizes import find_excess
from accord.errors import ErrorCode, RefusedError
from accord.servers.http.exchange import ClientGoneError, Receive, within
from accord.servers.service import Headers
from accord.wire.request import ServiceRequest

LOG: Final = logging.getLogger("accord.servers")
MAX_DIGITS: Final = 20
LONG_BYTES: Final = 256 * 1024
_LONG_BODIES: Final = ThreadPoolExecutor(1, thread_name_prefix="accord-body")


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


async def read_request(body: bytes, settings: ServerConfig) -> tuple[ServiceRequest, Sequence[str]]:
    """The request in these bytes and warnings of members that were ignored, which are logged.

    Raises our error for what is no request, too deep or of too many values.
    A long body is read in a thread, so that others are served between the steps. There is one such thread: each step
    holds the interpreter's lock, so a second one would only take more memory.
    """
    if len(body) <= LONG_BYTES:
        request, warnings = _parse(body, settings)
    else:
        request, warnings = await asyncio.get_running_loop().run_in_executor(_LONG_BODIES, _parse, body, settings)
    if warnings:
        extra = {"request_id": str(request.request_id), "fields": {"warnings": warnings}}
        LOG.warning("The request has members that are ignored", extra=extra)
    return request, warnings


def check_size(body: bytes, settings: ServerConfig) -> None:
    """Refuse JSON that would be expensive to parse, before it is parsed."""
    excess = find_excess(body, max_values=settings.max_values, max_depth=settings.max_depth)
    if excess is None:
        return
    if excess.of == "depth":
        sentence = f"The message is nested more than {excess.limit} deep"
        raise RefusedError(sentence, ErrorCode.INVALID_MESSAGE, {"max_depth": excess.limit})
    sentence = f"The message has more than {excess.limit} values"
    raise RefusedError(sentence, ErrorCode.TOO_LARGE, {"max_values": excess.limit})


def _parse(body: bytes, settings: ServerConfig) -> tuple[ServiceRequest, list[str]]:
    check_size(body, settings)
    return ServiceRequest.parse(body), find_ignored_members(body)
