"""The HTTP service as one ASGI application: routes, start and stop. It runs under any ASGI server."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from accord.extras import naming_extra

with naming_extra("accord.servers.http"):
    from starlette.applications import Starlette
    from starlette.middleware.cors import CORSMiddleware
    from starlette.routing import BaseRoute, Route, WebSocketRoute

from accord.errors import AccordError, ErrorCode, RefusedError, StoreError
from accord.run.call_log import CALL_RETENTION_DAYS
from accord.servers.http.admin import AdminEndpoints
from accord.servers.http.assist import assist_endpoint
from accord.servers.http.exchange import (
    CALLER_KEY,
    LOGGER,
    App,
    ClientGoneError,
    Receive,
    Scope,
    Send,
    authenticate_caller,
    check_origin,
    read_headers,
    send_problem,
)
from accord.servers.http.plan import plan_endpoint
from accord.servers.http.requests import RequestEndpoints, not_found_error
from accord.servers.http.websocket import WebSocketEndpoint, reject_websocket
from accord.servers.service import Service, is_operator
from accord.stores import opened_store
from accord.wire.routes import (
    CAPABILITIES_HEADER,
    CHAT_PATH,
    DISPOSITIONS_HEADER,
    MESSAGES_PATH,
    POLICY_HEADER,
    RECEIPT_HEADER,
    RESPONSES_PATH,
    SERVED_BY_HEADER,
    WEBSOCKET_PATH,
)

EXPOSED_HEADERS: Final = ("Retry-After", "ETag", DISPOSITIONS_HEADER, RECEIPT_HEADER, SERVED_BY_HEADER)
DIRECT_PATHS: Final = frozenset({CHAT_PATH, RESPONSES_PATH, MESSAGES_PATH})
ALLOWED_HEADERS: Final = (
    "Authorization",
    "x-api-key",
    "Content-Type",
    "Last-Event-ID",
    "Accept",
    CAPABILITIES_HEADER,
    POLICY_HEADER,
    "X-API-Key",
    "traceparent",
)
LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
MAINTENANCE_EVERY_S: Final = 10.0
OPERATOR_ONLY: Final = (
    "This shows what all keys do, and needs a key of the operator; `accord keys add USER --admin` makes one"
)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class RequireAuthentication:
    """An ASGI application behind authentication and the rate limit, for one that checks neither itself.

    With `operator_only`, a key needs the rule `is_admin`.
    """

    def __init__(self, service: Service, app: App, *, operator_only: bool = False) -> None:
        self._service = service
        self._app = app
        self._operator_only = operator_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass an authenticated request on; answer any other with its error."""
        try:
            caller = scope[CALLER_KEY] = await authenticate_caller(self._service, scope, read_headers(scope))
            if self._operator_only and not is_operator(caller):
                raise RefusedError(OPERATOR_ONLY, ErrorCode.FORBIDDEN, {})
        except AccordError as error:
            await send_problem(send, error)
        else:
            await self._app(scope, receive, send)


class Application:
    """A service as an ASGI application.

    `more` are further ASGI endpoints by path: objects, since Starlette takes a function for a request handler. Sessions
    are deleted after `retention_days`; if these are not given, only those of calls, after `CALL_RETENTION_DAYS`. With
    `loopback_only`, requests under another host name than localhost are refused. The store is opened and closed with
    the application, unless the caller does that (`opens_store=False`).
    """

    def __init__(
        self,
        service: Service,
        more: Mapping[str, App] | None = None,
        *,
        retention_days: int | None = None,
        loopback_only: bool = False,
        opens_store: bool = True,
    ) -> None:
        self.service: Final = service
        self._kept_turns: Final = None if retention_days is None else timedelta(days=retention_days)
        self._kept_calls: Final = timedelta(days=retention_days or CALL_RETENTION_DAYS)
        self._loopback_only: Final = loopback_only
        self._opens_store: Final = opens_store
        assist = assist_endpoint(service)
        routes: list[BaseRoute] = [Route(path, app) for path, app in (more or {}).items()]
        endpoints = (
            *RequestEndpoints(service).endpoints(),
            *AdminEndpoints(service).endpoints(),
            plan_endpoint(service),
            assist,
        )
        routes += [Route(each.route, each) for each in endpoints]
        routes.append(WebSocketRoute(WEBSOCKET_PATH, WebSocketEndpoint(service)))
        starlette = Starlette(routes=routes, lifespan=self._lifespan)
        starlette.router.default = not_found
        # A redirect would go to whatever host name the request contains.
        starlette.router.redirect_slashes = False
        self._routed: Final[Any] = self._with_cors(starlette)
        # The hot routes do without Starlette's router.
        direct = {assist.route: assist, **{path: app for path, app in (more or {}).items() if path in DIRECT_PATHS}}
        self._direct: Final[Mapping[str, Any]] = {path: self._with_cors(app) for path, app in direct.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or run the lifespan."""
        if self._loopback_only and scope["type"] != "lifespan" and (error := self._check_is_local(scope)) is not None:
            await _reject(scope, receive, send, error)
        elif scope["type"] == "http" and (direct := self._direct.get(scope["path"])) is not None:
            await direct(scope, receive, send)
        else:
            await self._routed(scope, receive, send)

    def _check_is_local(self, scope: Scope) -> AccordError | None:
        """The error for a request by another host name or from a page of another site."""
        headers = read_headers(scope)
        if not _is_loopback(headers.get(b"host", b"")):
            message = "This service answers requests for localhost only; use http://localhost or http://127.0.0.1"
            return RefusedError(message, ErrorCode.FORBIDDEN, {})
        try:
            check_origin(headers, self.service.settings.allow_origins)
        except RefusedError as error:
            return error
        return None

    def _with_cors(self, app: Any) -> Any:
        origins = self.service.settings.allow_origins
        if not origins:
            return app
        return CORSMiddleware(
            app,
            allow_origins=origins,
            allow_methods=["GET", "POST", "PATCH", "DELETE"],
            allow_headers=ALLOWED_HEADERS,
            expose_headers=EXPOSED_HEADERS,
        )

    @asynccontextmanager
    async def _lifespan(self, app: Any) -> AsyncGenerator[None]:
        del app
        async with AsyncExitStack() as stack:
            if self._opens_store:
                await stack.enter_async_context(opened_store(self.service.sessions.store))
            tasks = [asyncio.create_task(self._maintain_store())]
            try:
                yield
            finally:
                self.service.is_draining = True
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await self.service.sessions.drain(self.service.settings.drain_s)
                if self.service.call_log is not None:
                    await self.service.call_log.close()
                if self.service.budgets is not None:
                    await self.service.budgets.close()

    async def _maintain_store(self) -> None:
        """Every few seconds, end the turns of dead processes and delete what is older than the retention period."""
        sessions = self.service.sessions
        while True:
            try:
                ended = await sessions.recover()
                if ended:
                    LOGGER.warning(
                        "Ended or restarted turns of a process that stopped", extra={"fields": {"turns": ended}}
                    )
                # Also if nothing expires, a deletion that was interrupted is finished.
                now = sessions.engine.clock.now()
                before = EPOCH if self._kept_turns is None else now - self._kept_turns
                await sessions.store.expire(before, calls=now - self._kept_calls)
            except StoreError as error:
                LOGGER.error("The maintenance of the store failed", extra={"fields": {"why": error.message}})
            except Exception:  # noqa: BLE001 - without this task the turns of dead processes would never be ended
                LOGGER.exception("The maintenance of the store failed")
            await asyncio.sleep(MAINTENANCE_EVERY_S)


async def not_found(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer 404 for an unknown path."""
    await _reject(scope, receive, send, not_found_error("Nothing is served at this path; check its spelling"))


async def _reject(scope: Scope, receive: Receive, send: Send, error: AccordError) -> None:
    """Answer a request, or the handshake of a WebSocket, with this error."""
    with suppress(ClientGoneError):
        if scope["type"] == "websocket":
            await receive()
            await reject_websocket(scope, send, error)
        else:
            await send_problem(send, error)


@lru_cache(maxsize=64)
def _is_loopback(host_header: bytes) -> bool:
    """Whether the request names this machine as its host.

    A page of another site can make its own host name resolve to this machine; the browser then still sends that name.
    """
    host = host_header.decode("latin-1").lower()
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    return name in LOOPBACK_NAMES
