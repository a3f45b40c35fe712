"""One address of the service over HTTP: the method, who asks, every failure in one form. Not what is asked."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

from accord.errors import ErrorCode, RefusedError
from accord.servers.accept import OFFERED, choose_format
from accord.servers.failing import ClientGoneError, Receive, Scope, Send, as_ours, send_problem, send_whole
from accord.servers.service import NOBODY, Caller, Headers, Service
from accord.wire.message import Message

JSON_HEADERS: Final = [(b"content-type", b"application/json"), (b"vary", b"Accept"), (b"cache-control", b"no-store")]
HEADERS: Final = "accord.headers"
"""Where the scope of a request has its headers once they were read."""
NOBODY_LEFT: Final = 499
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


class Address:
    """One address and what it does for each method."""

    def __init__(self, service: Service, route: str, methods: Mapping[str, Handler]) -> None:
        self.route: Final = route
        self._service: Final = service
        self._methods: Final = {**methods, **({"HEAD": methods["GET"]} if "GET" in methods else {})}
        self._allowed: Final = ", ".join(methods)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        began_at, method = perf_counter(), str(scope["method"])
        exchange = Exchange(scope, receive, send, read_headers(scope), NOBODY)
        status = NOBODY_LEFT
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
            exchange.caller = await let_in(self._service, exchange.scope, exchange.headers)
            return await handler(exchange)
        except ClientGoneError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever happens is told in one form, and never ends the server
            told = as_ours(error)
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


async def let_in(service: Service, scope: Scope, headers: Headers) -> Caller:
    """Who asks, if they are known and have not asked too often; whoever is not known is counted by address."""
    try:
        caller = await service.gate.admit(headers)
    except RefusedError:
        await service.gate.take(NOBODY, client_address(scope))
        raise
    await service.gate.take(caller, client_address(scope))
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
