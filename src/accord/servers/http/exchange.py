"""One HTTP exchange: method, format, authentication, and every failure as one problem body."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from time import perf_counter
from typing import Any, Final, TypeVar
from uuid import uuid4

from accord.engine.limits import Now, begin
from accord.errors import ERROR_FACTS, AccordError, ErrorCode, RefusedError, StoreError
from accord.servers.service import ANONYMOUS, Caller, Headers, Service
from accord.wire.message import Message
from accord.wire.problem import PROBLEM_MEDIA_TYPE, problem_body

# Waits for something for so long, and pays for a timer only if it is not there at once. Knows nothing of what it is.
#
# `asyncio.timeout` costs more than most of what it is put around: a body that came with its head, a write that fits
# the buffer. So the first step is taken without it.

ResultT = TypeVar("ResultT")


async def within(seconds: float, waited_for: Awaitable[ResultT]) -> ResultT:
    """What is waited for; raises `TimeoutError` if it does not come in time."""
    begun = begin(waited_for)
    if isinstance(begun, Now):
        return begun.result
    async with asyncio.timeout(seconds):
        return await begun


# Which of the formats on offer a client wants (RFC 9110, proactive negotiation). Pure; knows no route.

JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"
OFFERED: Final = (JSON, EVENT_STREAM)
"""What a turn can be answered as; the first is given to whoever does not mind."""

MAX_RANGES: Final = 64


@lru_cache(maxsize=256)
def choose_format(accept: str | None, offered: Sequence[str] = OFFERED) -> str | None:
    """The offer that the client likes best, the earlier of equals; None if it likes none of them."""
    if accept is None or not accept.strip():
        return offered[0]
    ranges = [_range(part) for part in accept.split(",")[:MAX_RANGES] if part.strip()]
    best = max(offered, key=lambda offer: _quality(offer, ranges))
    return best if _quality(best, ranges) > 0 else None


def _range(part: str) -> tuple[str, float]:
    """A media range and how much it is liked; parameters other than `q` do not matter here."""
    media, *parameters = (piece.strip().lower() for piece in part.split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            return media, _number(value.strip())
    return media, 1.0


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        return 0.0
    return min(max(number, 0.0), 1.0) if isfinite(number) else 0.0  # NaN compares with nothing


def _quality(offer: str, ranges: Sequence[tuple[str, float]]) -> float:
    """What the most specific range that fits says of this offer."""
    kind = offer.partition("/")[0]
    for fitting in (offer, f"{kind}/*", "*/*"):
        said = [quality for media, quality in ranges if media == fitting]
        if said:
            return max(said)
    return 0.0


# How an error leaves by HTTP: the problem body, its status and its headers, all from the one table.

AsgiMessage = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOGGER: Final = logging.getLogger("accord.servers")
CLOSE_CODES_FROM: Final = 4000
"""A WebSocket's close code is the HTTP status of the same error, in the range that is free for applications."""


class ClientGoneError(Exception):
    """The client hung up; there is nobody left to be told."""


class InternalError(AccordError):
    """Something of ours broke; the log knows what."""


def to_accord_error(error: Exception) -> AccordError:
    """What may be told of this error: our own as it is, of a store's or anybody else's only that it happened."""
    if isinstance(error, StoreError):
        # It names files and servers, for whoever runs the service.
        LOGGER.error("The store failed", exc_info=error, extra={"fields": {"why": error.message}})
        return RefusedError(error.facts.title, error.code, {})
    if isinstance(error, AccordError):
        return error
    LOGGER.error("A request failed", exc_info=error)
    return InternalError(ERROR_FACTS[ErrorCode.INTERNAL].title)


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


# One address of the service over HTTP: the method, who asks, every failure in one form. Not what is asked.

JSON_HEADERS: Final = [(b"content-type", b"application/json"), (b"vary", b"Accept"), (b"cache-control", b"no-store")]
HEADERS: Final = "accord.headers"
"""Where the scope of a request has its headers once they were read."""
CLIENT_CLOSED_REQUEST: Final = 499
"""The status that the log has for a client who hung up before an answer."""


@dataclass(slots=True)
class Exchange:
    """One HTTP request and the way to answer it. `request_id` is told in whatever goes wrong."""

    scope: Scope
    receive: Receive
    send: Send
    headers: Headers
    caller: Caller
    request_id: str | None = None

    def named(self, name: str) -> str:
        """The part of the path that has this name."""
        return str(self.scope["path_params"][name])

    def wanted_format(self) -> str:
        """What the client wants to be answered with; raises our error if it is not offered."""
        accept = self.headers.get(b"accept")
        chosen = choose_format(None if accept is None else accept.decode("latin-1"))
        if chosen is None:
            told = f"Offered are {' and '.join(OFFERED)}"
            raise RefusedError(told, ErrorCode.NOT_ACCEPTABLE, {"offered": list(OFFERED)})
        return chosen

    async def answer(self, body: Message | str, status: int = 200) -> int:
        """Answer with this message, whole."""
        text = body if isinstance(body, str) else body.to_json()
        await send_whole(self.send, status, JSON_HEADERS, text.encode())
        return status


Handler = Callable[[Exchange], Awaitable[int]]
"""Answers a request and gives the status."""


class HttpEndpoint:
    """One address and what it does for each method."""

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
            cut_off(scope)
        finally:
            self._service.observer.request_done(method, self.route, status, perf_counter() - began_at)

    async def _answer(self, method: str, exchange: Exchange) -> int:
        try:
            handler = self._methods.get(method)
            if handler is None:
                raise RefusedError(f"This address takes {self._allowed}", ErrorCode.METHOD_NOT_FOUND, {})
            exchange.caller = await authenticate_caller(self._service, exchange.scope, exchange.headers)
            return await handler(exchange)
        except ClientGoneError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever happens is told in one form, and never ends the server
            told = to_accord_error(error)
            allow = self._allowed if told.code is ErrorCode.METHOD_NOT_FOUND else ""
            return await send_problem(exchange.send, told, request_id=exchange.request_id, allow=allow)


def read_headers(scope: Scope) -> Headers:
    """The headers by name; what came several times is joined, so that nothing hides behind a second one."""
    known: Headers | None = scope.get(HEADERS)
    if known is not None:
        return known
    headers: dict[bytes, bytes] = scope.setdefault(HEADERS, {})
    for name, value in scope["headers"]:
        headers[name] = headers[name] + b"," + value if name in headers else value
    return headers


async def authenticate_caller(service: Service, scope: Scope, headers: Headers) -> Caller:
    """Who asks, if they are known and have not asked too often; whoever is not known is counted by address."""
    try:
        caller = await service.authenticator.authenticate(headers)
    except RefusedError:
        await service.authenticator.count_request(ANONYMOUS, client_address(scope))
        raise
    await service.authenticator.count_request(caller, client_address(scope))
    return caller


def client_address(scope: Scope) -> str:
    """Where the client is, as far as the server knows."""
    client: Any = scope.get("client")
    return str(client[0]) if client else ""


def check_origin(headers: Headers, allowed: list[str]) -> None:
    """Refuse pages of other sites: a browser asks nobody before it opens a WebSocket or posts bytes without a type."""
    if not headers.get(b"origin"):
        return
    origin = headers[b"origin"].decode("latin-1").lower()
    if origin in map(str.lower, allowed):
        return
    host = headers.get(b"host", b"").decode("latin-1").lower()
    if origin not in (f"http://{host}", f"https://{host}"):
        raise RefusedError("This origin may not connect", ErrorCode.FORBIDDEN, {})


def cut_off(scope: Scope) -> None:
    """End the connection of a client that does not read, at once, where the server lets us."""
    abort: Any = (scope.get("extensions") or dict[str, Any]()).get("accord.abort")
    if abort is not None:
        abort()
