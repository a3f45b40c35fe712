"""Reads a request from bytes, with limits on size, time, depth, number of values and format."""

import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
from pydantic_core import from_json, to_json

from accord.config import ServerConfig
from accord.core.ignored_members import find_ignored_members
from accord.core.sizes import find_excess
from accord.errors import ErrorCode, InvalidMessageError, RefusedError
from accord.off_loop import off_loop
from accord.run import SentContent
from accord.servers.http.exchange import ClientGoneError, Receive, within
from accord.servers.service import Headers
from accord.wire.request import ServiceRequest

LOGGER: Final = logging.getLogger("accord.servers")
MAX_DIGITS: Final = 20
"""A Content-Length with more digits is too large; Python refuses to parse numbers of thousands of digits."""
SMALL_BYTES: Final = 64 * 1024
"""The limit of requests that are never long."""
CONTENT_FIELDS: Final = ("payload.content", "payload.payload.content")
"""Where a request has content blocks; the second place is that of the older shape."""


async def read_body(receive: Receive, headers: Headers, settings: ServerConfig) -> bytes:
    """The whole body; raises `RefusedError` if it is not JSON, too long or too slow."""
    media_type = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if media_type and media_type != b"application/json" and not media_type.endswith(b"+json"):
        message = "The body is not declared as JSON; send Content-Type: application/json"
        raise RefusedError(message, ErrorCode.UNSUPPORTED_MEDIA_TYPE, {"accepted": ["application/json"]})
    if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        message = "Compressed bodies are not supported; send the body without Content-Encoding"
        raise RefusedError(message, ErrorCode.UNSUPPORTED_MEDIA_TYPE, {})
    length = headers.get(b"content-length", b"")
    if length.isdigit() and (len(length) > MAX_DIGITS or int(length) > settings.max_body_bytes):
        raise too_large(settings.max_body_bytes)
    try:
        return await within(settings.body_timeout_s, _receive_body(receive, settings.max_body_bytes))
    except TimeoutError:
        message = f"The body did not arrive within {settings.body_timeout_s:g} seconds; send the request again"
        raise RefusedError(message, ErrorCode.REQUEST_TIMED_OUT, {}) from None


async def read_small_body(receive: Receive, headers: Headers, settings: ServerConfig) -> bytes:
    """The body of a request that is never long; raises as `read_body` does."""
    body = await read_body(receive, headers, settings)
    if len(body) > SMALL_BYTES:
        raise too_large(SMALL_BYTES)
    return body


async def _receive_body(receive: Receive, max_bytes: int) -> bytes:
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
    """The error of a message that is longer than the limit."""
    message = f"The message is longer than the limit of {max_bytes} bytes; send a shorter one"
    return RefusedError(message, ErrorCode.TOO_LARGE, {"max_bytes": max_bytes})


class ReadRequest(NamedTuple):
    """A request, warnings about its ignored members, and its content blocks if they could not be parsed."""

    request: ServiceRequest
    warnings: Sequence[str]
    sent: SentContent | None = None


async def read_request(body: bytes, settings: ServerConfig) -> ReadRequest:
    """Parse a request; warnings about ignored members are also logged.

    Raises an `AccordError` for a body that is not a request, is nested too deep or has too many values.
    """
    read = await off_loop(len(body), _parse, body, settings)
    if read.warnings:
        extra = {"request_id": str(read.request.request_id), "fields": {"warnings": read.warnings}}
        LOGGER.warning("The request has members that are ignored", extra=extra)
    return read


def check_values(body: bytes, settings: ServerConfig) -> None:
    """Raise `RefusedError` for JSON whose values are too deep or too many, before parsing it would be expensive."""
    excess = find_excess(body, max_values=settings.max_values, max_depth=settings.max_depth)
    if excess is not None and excess.of == "depth":
        message = f"The message is nested more than {excess.limit} levels deep, which is the limit"
        raise RefusedError(message, ErrorCode.INVALID_MESSAGE, {"max_depth": excess.limit})
    if excess is not None:
        message = f"The message has more than {excess.limit} JSON values, which is the limit; send a smaller one"
        raise RefusedError(message, ErrorCode.TOO_LARGE, {"max_values": excess.limit})


def _parse(body: bytes, settings: ServerConfig) -> ReadRequest:
    check_values(body, settings)
    try:
        return ReadRequest(ServiceRequest.parse(body), find_ignored_members(body))
    except InvalidMessageError as error:
        for field in CONTENT_FIELDS:
            if all(problem.field.startswith(field) for problem in error.problems):
                return _parse_without_content(body, field.split("."), error)
        raise


_decode_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def _parse_without_content(body: bytes, path: Sequence[str], error: InvalidMessageError) -> ReadRequest:
    """Read a request whose content blocks are malformed: what is wrong with them is decided at admission."""
    blocks = body
    try:
        for name in path:
            blocks = bytes(_decode_members(blocks)[name])
    except (msgspec.MsgspecError, KeyError):  # not the same JSON to this parser
        raise error from None
    members = holder = from_json(body)
    for name in path[:-1]:
        holder = holder[name]
    del holder[path[-1]]
    request = ServiceRequest.parse(to_json(members))
    return ReadRequest(request, find_ignored_members(body), SentContent(blocks, unparsed=error))
