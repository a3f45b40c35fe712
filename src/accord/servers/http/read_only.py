"""Endpoints that only read: GET and HEAD, entity tags, and errors as problem bodies."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from starlette.types import Receive, Scope, Send

from accord.errors import AccordError, ErrorCode, RefusedError
from accord.servers.observability.logs import REQUEST_ID
from accord.wire.problem import PROBLEM_MEDIA_TYPE, problem_body

HTML: Final = "text/html; charset=utf-8"
ALLOWED: Final = ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class ReadOnlyResponse:
    """A whole HTTP response."""

    body: bytes
    media_type: str
    status: int = 200
    headers: Mapping[str, str] | None = None


class ReadOnlyEndpoint:
    """The ASGI application of a path that supports GET and HEAD only."""

    def __init__(self, read: Callable[[Scope], Awaitable[ReadOnlyResponse]]) -> None:
        self._read: Final = read

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request; its body is not read."""
        del receive
        if scope["method"] in ALLOWED:
            response = await self._read(scope)
        else:
            message = f"This method is not supported here; use {' or '.join(ALLOWED)}"
            error = RefusedError(message, ErrorCode.METHOD_NOT_FOUND, {"allowed": list(ALLOWED)})
            response = problem_response(error, {"allow": ", ".join(ALLOWED)})
        headers = {
            "content-type": response.media_type,
            "content-length": str(len(response.body)),
            "x-content-type-options": "nosniff",
            **(response.headers or {}),
        }
        if response.status == 304:
            del headers["content-length"], headers["content-type"]
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": response.status, "headers": raw})
        await send({"type": "http.response.body", "body": response.body if scope["method"] != "HEAD" else b""})


def problem_response(error: AccordError, headers: Mapping[str, str] | None = None) -> ReadOnlyResponse:
    """The error as a problem body."""
    body = problem_body(error, request_id=REQUEST_ID.get()).to_json().encode()
    return ReadOnlyResponse(body, PROBLEM_MEDIA_TYPE, error.facts.http, headers)


def with_etag(scope: Scope, body: bytes, media_type: str, headers: Mapping[str, str] | None = None) -> ReadOnlyResponse:
    """The body with its entity tag; 304 for a client that already has it."""
    tag = f'"{sha256(body).hexdigest()[:32]}"'
    headers = {"etag": tag, "cache-control": "no-cache", **(headers or {})}
    known = b",".join(value for name, value in scope["headers"] if name == b"if-none-match").decode("latin-1")
    if any(each.strip().removeprefix("W/") in (tag, "*") for each in known.split(",")):
        return ReadOnlyResponse(b"", media_type, 304, headers)
    return ReadOnlyResponse(body, media_type, headers=headers)
