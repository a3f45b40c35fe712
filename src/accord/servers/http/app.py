"""The HTTP service as one ASGI application: routes, start and stop."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute, Route, WebSocketRoute

from accord.errors import AccordError, ErrorCode, RefusedError, StoreError
from accord.servers.http.assist import assist
from accord.servers.http.exchange import (
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
from accord.servers.http.requests import RequestEndpoints, missing
from accord.servers.http.websocket import WebSocketEndpoint, refuse
from accord.servers.service import Service
from accord.wire.routes import ASSIST_PATH, WEBSOCKET_PATH

# Puts the gate before an application that does not ask who comes. Knows nothing of what is behind it.


class RequireAuthentication:
    """The application, for those who are let in."""

    def __init__(self, service: Service, app: App) -> None:
        self._service = service
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through, or say why not."""
        try:
            await authenticate_caller(self._service, scope, read_headers(scope))
        except AccordError as error:
            await send_problem(send, error)
        else:
            await self._app(scope, receive, send)


# The service as one ASGI application: which transport is behind which address, and what happens at start and stop.
#
# It runs under any ASGI server. The hot route is looked at first; everything else goes through Starlette's router.

EXPOSED_HEADERS: Final = ("Retry-After", "ETag")
ALLOWED_HEADERS: Final = ("Authorization", "Content-Type", "Last-Event-ID", "Accept", "traceparent")
LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
TIDY_EVERY_S: Final = 10.0
NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Application:
    """The service, ready to be served."""

    def __init__(
        self,
        service: Service,
        more: Mapping[str, App] | None = None,
        *,
        retention: timedelta | None = None,
        loopback_only: bool = False,
    ) -> None:
        self.service: Final = service
        self._retention: Final = retention
        self._loopback_only: Final = loopback_only
        self._assist: Final = assist(service)
        routes: list[BaseRoute] = [Route(route, _Endpoint(app)) for route, app in (more or {}).items()]
        routes += [Route(address.route, address) for address in (*RequestEndpoints(service).addresses(), self._assist)]
        routes.append(WebSocketRoute(WEBSOCKET_PATH, WebSocketEndpoint(service)))
        starlette = Starlette(routes=routes, lifespan=self._life)
        starlette.router.default = not_found
        # It would send people to whatever host they name.
        starlette.router.redirect_slashes = False
        self._rest: Final[Any] = self._with_cors(starlette)
        self._hot: Final[Any] = self._with_cors(self._assist)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or live through one life."""
        if self._loopback_only and (error := self._stranger(scope)) is not None:
            await _reject(scope, receive, send, error)
        elif scope["type"] == "http" and scope["path"] == ASSIST_PATH:
            await self._hot(scope, receive, send)
        else:
            await self._rest(scope, receive, send)

    def _stranger(self, scope: Scope) -> AccordError | None:
        """Why this request is not one of this machine's own, if it is not."""
        if scope["type"] == "lifespan":
            return None
        headers = read_headers(scope)
        if not _is_loopback(headers.get(b"host", b"")):
            return RefusedError("This service answers to localhost only", ErrorCode.FORBIDDEN, {})
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
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=ALLOWED_HEADERS,
            expose_headers=EXPOSED_HEADERS,
        )

    @asynccontextmanager
    async def _life(self, app: Any) -> AsyncGenerator[None]:
        del app
        store = self.service.sessions.store
        await store.open()
        tidying = asyncio.create_task(self._tidy())
        try:
            yield
        finally:
            self.service.is_draining = True
            tidying.cancel()
            with suppress(asyncio.CancelledError):
                await tidying
            await self.service.sessions.drain(self.service.settings.drain_s)
            await store.close()

    async def _tidy(self) -> None:
        """Every few seconds, end the turns of dead processes and delete what is older than the retention period."""
        sessions = self.service.sessions
        while True:
            try:
                ended = await sessions.recover()
                if ended:
                    LOGGER.warning("Ended turns that another process left", extra={"fields": {"turns": ended}})
                # Without an age nothing expires, but a deletion that was interrupted is finished.
                before = sessions.engine.clock.now() - self._retention if self._retention else NEVER
                await sessions.store.expire(before)
            except StoreError as error:
                LOGGER.error("The store cannot be tidied", extra={"fields": {"why": error.message}})
            except Exception:  # noqa: BLE001 - without this task the turns of dead processes would never be ended
                LOGGER.exception("Tidying the store failed")
            await asyncio.sleep(TIDY_EVERY_S)


class _Endpoint:
    """An application at one address; Starlette would take a plain function for something else."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


async def not_found(scope: Scope, receive: Receive, send: Send) -> None:
    """Whoever comes here is lost."""
    await _reject(scope, receive, send, missing("There is nothing at this address"))


@lru_cache(maxsize=64)
def _is_loopback(named: bytes) -> bool:
    """Whether the client asked for this machine by its own name.

    A page of another site can make its own name point here; the browser then still sends that name.
    """
    host = named.decode("latin-1").lower()
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    return name in LOOPBACK_NAMES


async def _reject(scope: Scope, receive: Receive, send: Send, error: AccordError) -> None:
    with suppress(ClientGoneError):
        if scope["type"] == "websocket":
            await receive()
            await refuse(scope, send, error)
        else:
            await send_problem(send, error)
