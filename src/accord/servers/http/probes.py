"""Health and metrics of a process that serves nothing else, such as a worker: for orchestrators and Prometheus."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.routing import Route, Router

from accord.config import ServerConfig
from accord.servers.http.app import RequireAuthentication, not_found
from accord.servers.http.information import probe_routes
from accord.servers.http.serve import address_of, server_of
from accord.servers.observability.metrics import Metrics
from accord.servers.service import Service
from accord.wire.routes import METRICS_PATH


def probe_application(service: Service, metrics: Metrics) -> Router:
    """The ASGI application; the metrics need a key of the operator where the service needs tokens."""
    routes = {**probe_routes(service, metrics)}
    endpoints = {**routes, METRICS_PATH: RequireAuthentication(service, routes[METRICS_PATH], operator_only=True)}
    return Router([Route(path, app) for path, app in endpoints.items()], redirect_slashes=False, default=not_found)


@asynccontextmanager
async def serving_probes(
    service: Service, metrics: Metrics, settings: ServerConfig, listener: socket.socket
) -> AsyncGenerator[str]:
    """Answer probes until the end of this context; gives the address."""
    server = server_of(probe_application(service, metrics), settings, has_lifespan=False)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield await address_of(server)
    finally:
        server.should_exit = True
        await asyncio.wait([serving])
