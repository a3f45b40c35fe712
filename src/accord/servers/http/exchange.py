"""One HTTP exchange: method, format, authentication, and every failure as one problem body.

What an endpoint answers is not decided here; see `assist.py`, `requests.py` and `information.py`.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, isfinite
from secrets import token_hex
from time import perf_counter
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs

from pydantic_core import to_json

from accord.backends.upstream import CALLER
from accord.core.output.profile import NAMED_CLIENTS
from accord.core.vocabulary import unknown_name
from accord.errors import ERROR_FACTS, AccordError, ErrorCode, RefusedError, StoreError
from accord.run import Reader
from accord.run.limits import Ready, poll
from accord.servers.service import ANONYMOUS, Caller, Headers, Service
from accord.wire.message import Message
from accord.wire.problem import PROBLEM_MEDIA_TYPE, problem_body
from accord.wire.request import ClientCapabilities
from accord.wire.routes import CAPABILITIES_HEADER, CAPABILITIES_PARAMETER

AsgiMessage = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
ResultT = TypeVar("ResultT")

JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"
OFFERED: Final = (JSON, EVENT_STREAM)
"""The formats of a turn's answer; the first is the default."""
MAX_RANGES: Final = 64
"""How many media ranges of an Accept header are read."""
JSON_HEADERS: Final = [(b"content-type", b"application/json"), (b"vary", b"Accept"), (b"cache-control", b"no-store")]
CALLER_KEY: Final = "accord.caller"
"""The key of the authenticated caller in the scope of a request to an endpoint that does not authenticate itself."""
HEADERS_KEY: Final = "accord.headers"
"""The key of the parsed headers in a request's scope."""
CLIENT_CLOSED_REQUEST: Final = 499
"""The status in logs and metrics of a request whose client disconnected before it was answered."""
FIRST_CLOSE_CODE: Final = 4000
"""A WebSocket's close code is this plus the HTTP status of the same error: 4000 to 4999 are free for applications."""

MAX_HEADER_CHARS: Final = 4_000
_NOT_IN_HEADERS: Final = re.compile(r"[^ -~]")

LOGGER: Final = logging.getLogger("accord.servers")


class ClientGoneError(Exception):
    """The client has disconnected, so no answer can be sent."""


class InternalError(AccordError):
    """An unexpected failure. The client gets no details; they are in the log."""


@dataclass(slots=True)
class Exchange:
    """One HTTP request and the means to answer it. Problem bodies contain `request_id`."""

    scope: Scope
    receive: Receive
    send: Send
    headers: Headers
    caller: Caller
    request_id: str | None = None
    started_turn: str | None = None
    """The id of the turn that this request has started."""

    @property
    def trace_context(self) -> str | None:
        """The W3C trace context that the client sent."""
        header = self.headers.get(b"traceparent")
        return None if header is None else header.decode("latin-1")

    def path_parameter(self, name: str) -> str:
        """A part of the path, by its name in the route."""
        return str(self.scope["path_params"][name])

    def choose_format(self) -> str:
        """The format that the Accept header asks for; raises `RefusedError` if it is not offered."""
        accept = self.headers.get(b"accept")
        chosen = choose_format(None if accept is None else accept.decode("latin-1"))
        if chosen is None:
            message = f"None of the formats in Accept is offered; ask for {' or '.join(OFFERED)}"
            raise RefusedError(message, ErrorCode.NOT_ACCEPTABLE, {"offered": list(OFFERED)})
        return chosen

    def declares_reader(self) -> bool:
        """Whether the header or the query declares capabilities."""
        return CAPABILITIES_HEADER.lower().encode() in self.headers or (
            CAPABILITIES_PARAMETER.encode() in self.scope.get("query_string", b"")
        )

    def read_reader(self) -> Reader | None:
        """The reader that the header or the query declares; None if neither does."""
        if not self.declares_reader():
            return None
        header = self.headers.get(CAPABILITIES_HEADER.lower().encode())
        query = parse_qs(self.scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        declared = query.get(CAPABILITIES_PARAMETER, [])
        if header is not None:
            declared.append(header.decode("utf-8", "replace"))
        if not declared:
            return None
        if len(declared) > 1:
            message = f"Declare the capabilities once: in {CAPABILITIES_HEADER} or in ?{CAPABILITIES_PARAMETER}="
            raise RefusedError(message, ErrorCode.INVALID_MESSAGE, {})
        return parse_reader(declared[0])

    async def answer(self, body: Message | str, status: int = 200) -> int:
        """Answer with one JSON message; returns the status."""
        text = body if isinstance(body, str) else body.to_json()
        await send_response(self.send, status, JSON_HEADERS, text.encode())
        return status


Handler = Callable[[Exchange], Awaitable[int]]
"""Answers a request and returns the status."""


class HttpEndpoint:
    """The ASGI application of one path, with a handler for each method."""

    def __init__(self, service: Service, route: str, methods: Mapping[str, Handler]) -> None:
        self.route: Final = route
        self._service: Final = service
        self._methods: Final = {**methods, **({"HEAD": methods["GET"]} if "GET" in methods else {})}
        self._allowed: Final = ", ".join(methods)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        began_at, method = perf_counter(), str(scope["method"])
        exchange = Exchange(scope, receive, send, read_headers(scope), ANONYMOUS)
        status = CLIENT_CLOSED_REQUEST
        try:
            status = await self._answer(method, exchange)
        except ClientGoneError:
            abort_connection(scope)
        finally:
            seconds = perf_counter() - began_at
            self._service.observer.request_done(method, self.route, status, seconds, started_turn=exchange.started_turn)

    async def _answer(self, method: str, exchange: Exchange) -> int:
        try:
            handler = self._methods.get(method)
            if handler is None:
                message = f"This method is not supported here; use {self._allowed}"
                raise RefusedError(message, ErrorCode.METHOD_NOT_FOUND, {})
            exchange.caller = await self.authenticate(exchange)
            CALLER.set(exchange.caller.id or "")
            return await handler(exchange)
        except ClientGoneError:
            raise
        except Exception as error:  # noqa: BLE001 - every failure is answered in one form and never ends the server
            known = to_accord_error(error)
            allow = self._allowed if known.code is ErrorCode.METHOD_NOT_FOUND else ""
            try:
                return await self.send_error(exchange, known, allow)
            finally:
                forget_frames(error)

    async def authenticate(self, exchange: Exchange) -> Caller:
        """Authenticate the caller and apply the rate limit."""
        return await authenticate_caller(self._service, exchange.scope, exchange.headers)

    async def send_error(self, exchange: Exchange, error: AccordError, allow: str) -> int:
        """Answer with this error; returns the status."""
        return await send_problem(exchange.send, error, request_id=exchange.request_id, allow=allow)


class RequestIds:
    """Makes random UUIDs. A call of the system for each would cost more than everything else about them."""

    def __init__(self, at_once: int = 256) -> None:
        self._at_once: Final = at_once
        self._random = ""

    def __call__(self) -> str:
        """Return a new id."""
        if not self._random:
            self._random = token_hex(16 * self._at_once)
        digits, self._random = self._random[:32], self._random[32:]
        variant = "89ab"[int(digits[16], 16) & 3]
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


new_request_id: Final = RequestIds()


def read_headers(scope: Scope) -> Headers:
    """The headers by name. Repeated ones are joined, so that a second value is never ignored."""
    known: Headers | None = scope.get(HEADERS_KEY)
    if known is not None:
        return known
    headers: dict[bytes, bytes] = scope.setdefault(HEADERS_KEY, {})
    for name, value in scope["headers"]:
        headers[name] = headers[name] + b"," + value if name in headers else value
    return headers


async def authenticate_caller(service: Service, scope: Scope, headers: Headers) -> Caller:
    """Authenticate the caller and apply the rate limit; failed attempts are counted by address."""
    try:
        caller = await service.authenticator.authenticate(headers)
    except RefusedError:
        await service.authenticator.count_request(ANONYMOUS, client_address(scope))
        raise
    await service.authenticator.count_request(caller, client_address(scope))
    return caller


def parse_reader(declared: str | dict[str, Any]) -> Reader:
    """The reader that a declaration describes: `ClientCapabilities`, the same as JSON text, or the name of a client."""
    if isinstance(declared, dict):
        return Reader(ClientCapabilities.parse(to_json(declared)))
    if declared in NAMED_CLIENTS:
        return Reader(NAMED_CLIENTS[declared])
    if not declared.lstrip().startswith("{"):
        unknown = unknown_name("client", declared[:100], NAMED_CLIENTS)
        message = f"capabilities: {unknown} (ClientCapabilities as a JSON object are accepted, too)"
        raise RefusedError(message, ErrorCode.INVALID_MESSAGE, {"clients": list(NAMED_CLIENTS)})
    return Reader(ClientCapabilities.parse(declared))


def header_value(text: str) -> bytes:
    """This text as the value of a header: printable ASCII, "?" for any other character, and of bounded length."""
    text = text[:MAX_HEADER_CHARS]
    return (text if text.isascii() and text.isprintable() else _NOT_IN_HEADERS.sub("?", text)).encode()


def client_address(scope: Scope) -> str:
    """The client's network address, or an empty text if the server does not pass it on."""
    client: Any = scope.get("client")
    return str(client[0]) if client else ""


def check_origin(headers: Headers, allowed: list[str]) -> None:
    """Refuse pages of other sites: browsers open WebSockets and send untyped posts to any site without a preflight."""
    if not headers.get(b"origin"):
        return
    origin = headers[b"origin"].decode("latin-1").lower()
    if origin in map(str.lower, allowed):
        return
    host = headers.get(b"host", b"").decode("latin-1").lower()
    if origin not in (f"http://{host}", f"https://{host}"):
        message = (
            "Pages of this origin may not use the service; the operator can add the origin to server.allow_origins"
        )
        raise RefusedError(message, ErrorCode.FORBIDDEN, {})


def abort_connection(scope: Scope) -> None:
    """Close the connection at once, if the server supports that: a proper close would wait for the client to read."""
    abort: Any = (scope.get("extensions") or dict[str, Any]()).get("accord.abort")
    if abort is not None:
        abort()


async def within(seconds: float, awaited: Awaitable[ResultT]) -> ResultT:
    """Await this; raises `TimeoutError` after so many seconds.

    The first step is taken without `asyncio.timeout`, which costs more than most of what is awaited here: a body that
    arrived with its headers, a write that fits the buffer.
    """
    polled = poll(awaited)
    if isinstance(polled, Ready):
        return polled[0]
    async with asyncio.timeout(seconds):
        return await polled


@lru_cache(maxsize=256)
def choose_format(accept: str | None, offered: Sequence[str] = OFFERED) -> str | None:
    """The offered format that an Accept header prefers (RFC 9110), the earlier of equals; None if it accepts none."""
    if accept is None or not accept.strip():
        return offered[0]
    ranges = [parse_range(part) for part in accept.split(",")[:MAX_RANGES] if part.strip()]
    best = max(offered, key=lambda offer: _quality(offer, ranges))
    return best if _quality(best, ranges) > 0 else None


def parse_range(part: str) -> tuple[str, float]:
    """A media range, or another accepted value, and its quality; parameters other than `q` are ignored."""
    media, *parameters = (piece.strip().lower() for piece in part.split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                quality = float(value.strip())
            except ValueError:
                return media, 0.0
            return media, min(max(quality, 0.0), 1.0) if isfinite(quality) else 0.0  # NaN compares with nothing
    return media, 1.0


def _quality(offer: str, ranges: Sequence[tuple[str, float]]) -> float:
    """The quality that the most specific matching range gives to this format."""
    kind = offer.partition("/")[0]
    for matching in (offer, f"{kind}/*", "*/*"):
        if qualities := [quality for media, quality in ranges if media == matching]:
            return max(qualities)
    return 0.0


def to_accord_error(error: Exception) -> AccordError:
    """The error that a client gets. Details of a failed store or of an unexpected exception are only logged."""
    if isinstance(error, StoreError):
        # Its message names files and servers, which are the operator's business.
        LOGGER.error("The store failed", exc_info=error, extra={"fields": {"why": error.message}})
        return RefusedError(error.facts.title, error.code, {})
    if isinstance(error, AccordError):
        return error
    LOGGER.error("A request failed", exc_info=error)
    return InternalError(ERROR_FACTS[ErrorCode.INTERNAL].title)


def forget_frames(error: BaseException | None) -> None:
    """Drop the frames of an error that is over, and of those that led to it.

    They refer to the request, and what is recorded of the request to the error: its memory would only be freed by the
    next search for reference cycles, which is rare (`GC_THRESHOLD`).
    """
    while error is not None and error.__traceback__ is not None:  # one that led to itself has none the second time
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def close_code(error: AccordError) -> int:
    """The close code of a WebSocket that ends with this error."""
    return FIRST_CLOSE_CODE + error.facts.http


async def send_problem(send: Send, error: AccordError, *, request_id: str | None = None, allow: str = "") -> int:
    """Answer with this error as a problem body; returns the status."""
    body = problem_body(error, request_id=request_id or new_request_id()).to_json().encode()
    headers = [(b"content-type", PROBLEM_MEDIA_TYPE.encode()), (b"cache-control", b"no-store"), (b"vary", b"Accept")]
    if error.code is ErrorCode.UNAUTHENTICATED:
        headers.append((b"www-authenticate", b'Bearer realm="accord"'))
    # An agent may report a rate limit of its own; repeating the request would only repeat its answer.
    if (seconds := error.details.get("retry_after")) is not None and not error.ended_turn:
        headers.append(retry_after(seconds))
    if allow:
        headers.append((b"allow", allow.encode()))
    await send_response(send, error.facts.http, headers, body)
    return error.facts.http


def retry_after(seconds: float) -> tuple[bytes, bytes]:
    """The header that says how long to wait: HTTP knows whole seconds only."""
    return b"retry-after", str(ceil(seconds)).encode()


async def send_response(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    """Answer with one body; raises `ClientGoneError` if the client has disconnected."""
    headers = [*headers, (b"content-length", str(len(body)).encode()), (b"x-content-type-options", b"nosniff")]
    try:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
    except OSError:
        raise ClientGoneError from None
