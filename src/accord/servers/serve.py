"""Runs the application on uvicorn until it is told to stop, and lets running turns finish first.

At the first signal the service takes no new work, says so, and waits for its turns; at the second it goes at once.
"""

import asyncio
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

import uvicorn

from accord.errors import UsageError
from accord.servers.app import Application
from accord.servers.collector import spare_the_collector
from accord.servers.connection import limited
from accord.servers.failing import LOGGER

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class _Server(uvicorn.Server):
    """uvicorn, with signals left to us."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


async def serve(application: Application, *, started: Callable[[str], None] = lambda _: None) -> None:
    """Serve until a signal comes; `started` is told the address once it is listened at."""
    server = make_server(application)
    leaving = _Leaving(application, server)
    leaving.listen()
    announcing = asyncio.create_task(_announce(server, started))
    spare_the_collector()
    try:
        await server.serve(sockets=[listen_at(server.config.host, server.config.port)])
    finally:
        announcing.cancel()
        leaving.stop_listening()


def make_server(application: Application) -> uvicorn.Server:
    """The server that serves this application as its settings say."""
    settings = application.service.settings
    http, websocket = limited(settings)
    config = uvicorn.Config(
        application,
        host=settings.host,
        port=settings.port,
        http=http,
        ws=websocket,
        ws_max_size=settings.max_body_bytes,
        ws_per_message_deflate=False,  # 261 KB of a compressed message can unpack to 411 MB
        proxy_headers=bool(settings.trusted_proxies),  # uvicorn's own default believes every process on loopback
        forwarded_allow_ips=settings.trusted_proxies,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=5,
    )
    return _Server(config)


def listen_at(host: str, port: int) -> socket.socket:
    """A socket that listens there; a port that is taken is the operator's to know, in one line."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise UsageError(f"Cannot listen at {host} port {port}: {error.strerror or error}; try --port 0") from error


async def address_of(server: uvicorn.Server) -> str:
    """Where the server listens, once it does."""
    while not server.started:  # noqa: ASYNC110 - uvicorn tells nobody
        await asyncio.sleep(0.01)
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


async def _announce(server: uvicorn.Server, started: Callable[[str], None]) -> None:
    started(await address_of(server))


class _Leaving:
    """What is done when a signal comes."""

    def __init__(self, application: Application, server: uvicorn.Server) -> None:
        self._service: Final = application.service
        self._server: Final = server
        self._task: asyncio.Task[None] | None = None

    def listen(self) -> None:
        loop = asyncio.get_running_loop()
        for each in SIGNALS:
            loop.add_signal_handler(each, self._called)

    def stop_listening(self) -> None:
        loop = asyncio.get_running_loop()
        for each in SIGNALS:
            loop.remove_signal_handler(each)

    def _called(self) -> None:
        if self._task is not None:
            LOGGER.warning("Told twice to stop: stopping at once")
            self._server.should_exit = self._server.force_exit = True
            return
        self._service.is_draining = True
        self._task = asyncio.create_task(self._leave())

    async def _leave(self) -> None:
        running = self._service.sessions.running
        LOGGER.info("Stopping", extra={"fields": {"running_turns": running}})
        await self._service.sessions.drain(self._service.settings.drain_s)
        self._server.should_exit = True
