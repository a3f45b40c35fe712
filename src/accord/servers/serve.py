"""Runs the application on uvicorn until a signal stops it. What signals do is decided in `stopping.py`."""

import asyncio
import errno
import socket
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Final

import uvicorn

from accord.errors import UsageError
from accord.servers.app import Application
from accord.servers.collector import spare_the_collector
from accord.servers.connection import limited
from accord.servers.stopping import CLOSE_S, Deadline, Stopping

CURES: Final[Mapping[int | None, str]] = {
    errno.EADDRINUSE: "stop the program that listens there, or give another --port (0 takes any free one)",
    errno.EACCES: "give a --port above 1023",
    errno.EADDRNOTAVAIL: "give a --host that is an address of this machine",
    socket.EAI_NONAME: "give a --host that is an address of this machine",
    socket.EAI_AGAIN: "give a --host that is an address of this machine",
}
"""What to do about an address that cannot be listened at, by the error's number."""


class _Server(uvicorn.Server):
    """uvicorn, with signals left to us."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


async def serve(
    application: Application, *, started: Callable[[str], None] = lambda _: None, deadline: Deadline | None = None
) -> None:
    """Serve until a signal comes; `started` is called with the address once it is listened at.

    A `deadline` that is handed in also holds for what is closed after the service, and for tasks that do not end.
    """
    server = make_server(application)
    announcing = asyncio.create_task(_announce(server, started))
    spare_the_collector()
    with (
        Deadline() if deadline is None else nullcontext(deadline) as latest,
        Stopping(application.service, server, latest).handling_signals(),
    ):
        try:
            await server.serve(sockets=[listen_at(server.config.host, server.config.port)])
        finally:
            announcing.cancel()


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
        ws_max_size=settings.max_frame_bytes,
        ws_per_message_deflate=False,  # 261 KB of a compressed message can unpack to 411 MB
        proxy_headers=bool(settings.trusted_proxies),  # uvicorn's own default believes every process on loopback
        forwarded_allow_ips=settings.trusted_proxies,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=CLOSE_S,
    )
    return _Server(config)


def listen_at(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises `UsageError` with the reason and what to do about it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        # `create_server` adds the address to the system's sentence, as a Python tuple.
        reason = str(error.strerror or error).partition(" (while attempting")[0]
        cure = CURES.get(error.errno, "give another --host or --port")
        raise UsageError(f"Cannot listen at {host} port {port}: {reason}; {cure}") from error


async def address_of(server: uvicorn.Server) -> str:
    """Where the server listens, once it does."""
    while not server.started:  # noqa: ASYNC110 - uvicorn tells nobody
        await asyncio.sleep(0.01)
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


async def _announce(server: uvicorn.Server, started: Callable[[str], None]) -> None:
    started(await address_of(server))
