"""How an error leaves by HTTP: the problem body, its status and its headers, all from the one table."""

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final
from uuid import uuid4

from accord.errors import FACTS, AccordError, ErrorCode, RefusedError, StoreError
from accord.wire.problem import PROBLEM_MEDIA_TYPE, problem_body

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOGGER: Final = logging.getLogger("accord.servers")
CLOSE_CODES_FROM: Final = 4000
"""A WebSocket's close code is the HTTP status of the same error, in the range that is free for applications."""


class ClientGoneError(Exception):
    """The client hung up; there is nobody left to be told."""


class InternalError(AccordError):
    """Something of ours broke; the log knows what."""


def as_ours(error: Exception) -> AccordError:
    """What may be told of this error: our own as it is, of a store's or anybody else's only that it happened."""
    if isinstance(error, StoreError):
        # It names files and servers, for whoever runs the service.
        LOGGER.error("The store failed", exc_info=error, extra={"fields": {"why": error.message}})
        return RefusedError(error.facts.title, error.code, {})
    if isinstance(error, AccordError):
        return error
    LOGGER.error("A request failed", exc_info=error)
    return InternalError(FACTS[ErrorCode.INTERNAL].title)


def close_code(error: AccordError) -> int:
    """The close code of a WebSocket that ends with this error."""
    return CLOSE_CODES_FROM + error.facts.http


async def send_problem(send: Send, error: AccordError, *, request_id: str | None = None, allow: str = "") -> int:
    """Answer with this error; gives the status."""
    body = problem_body(error, request_id=request_id or str(uuid4())).to_json().encode()
    headers = [(b"content-type", PROBLEM_MEDIA_TYPE.encode()), (b"cache-control", b"no-store"), (b"vary", b"Accept")]
    if error.code is ErrorCode.UNAUTHENTICATED:
        headers.append((b"www-authenticate", b'Bearer realm="accord"'))
    if (seconds := error.details.get("retry_after")) is not None:
        headers.append((b"retry-after", str(seconds).encode()))
    if allow:
        headers.append((b"allow", allow.encode()))
    await send_whole(send, error.facts.http, headers, body)
    return error.facts.http


async def send_whole(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    """Answer with one body; raises `ClientGoneError` if there is nobody to take it."""
    headers = [*headers, (b"content-length", str(len(body)).encode()), (b"x-content-type-options", b"nosniff")]
    try:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
    except OSError:
        raise ClientGoneError from None
