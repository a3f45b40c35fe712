"""The HTTP service of an agent for this process alone, so that a terminal uses it as any other client does.

It listens on a free port of the loopback address and accepts only requests with a secret that this process makes.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from accord.assembly.parts import build_other_engines
from accord.assembly.reload import make_model_calls
from accord.assembly.service import make_application, make_service
from accord.assembly.store import open_store_and_backends
from accord.config import LoadedConfig
from accord.run import Engine
from accord.run.model_calls import ModelCallsRef
from accord.servers.http.authentication import UNKNOWN, request_token, unauthenticated
from accord.servers.http.serve import address_of, listen_at, make_server
from accord.servers.service import AllowAll, Caller, Headers

HOST: Final = "127.0.0.1"
DRAIN_S: Final = 1.0
"""How long turns that still run may take to end when the service is closed."""


@dataclass(frozen=True, slots=True)
class LocalService:
    """Where the service listens, and the token that it accepts."""

    address: str
    token: str


class OneTokenAuthenticator(AllowAll):
    """Accept the requests that have this token, as those of one user. There is no rate limit."""

    def __init__(self, token: str, user: str) -> None:
        self._token: Final = token
        self._caller: Final = Caller(user)

    async def authenticate(self, headers: Headers) -> Caller:
        """Return the user; raises `RefusedError` with `UNAUTHENTICATED` for another token."""
        if not secrets.compare_digest(request_token(headers), self._token):
            raise unauthenticated(UNKNOWN)
        return self._caller


@asynccontextmanager
async def open_local_service(loaded: LoadedConfig, engine: Engine, user: str) -> AsyncGenerator[LocalService]:
    """Serve the agent of this engine to this user until the context ends."""
    settings = loaded.config.server.model_copy(update={"host": HOST, "port": 0, "drain_s": DRAIN_S})
    token = secrets.token_urlsafe(32)
    async with open_store_and_backends(loaded, engine) as store:
        others = build_other_engines(loaded, engine)
        service, metrics = make_service(loaded, settings, engine, store, OneTokenAuthenticator(token, user), others)
        calls = ModelCallsRef(make_model_calls(loaded, engine.dispatcher, engine.clock))
        server = make_server(make_application(loaded, service, metrics, calls, loopback_only=True))
        serving = asyncio.create_task(server.serve(sockets=[listen_at(HOST, 0)]))
        address = asyncio.create_task(address_of(server))
        try:
            # If it cannot start, its address never comes.
            await asyncio.wait((serving, address), return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
            yield LocalService(await address, token)
        finally:
            address.cancel()
            server.should_exit = True
            await serving
