"""Run the application on uvicorn until a signal stops it.

SIGTERM or SIGINT: accept no new requests, wait for running turns, then stop. A second one: stop now. SIGHUP: read
the configuration again, if the caller can do that.
A process that is stopping ends at a deadline, even if an agent blocks it.
"""

import asyncio
import errno
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from types import FrameType
from typing import Any, Final, Protocol, cast

import uvicorn

from accord.config import ServerConfig
from accord.errors import UsageError
from accord.servers.http.app import Application
from accord.servers.http.connection import with_limits
from accord.servers.http.exchange import App
from accord.servers.service import Service, tune_garbage_collector

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
CLOSE_S: Final = 5
"""How long connections may take to close after the last turn has ended."""
EXIT_STATUS: Final = 128
"""The exit status of a process that a signal has ended is this plus the signal's number."""
LISTEN_REMEDIES: Final[Mapping[int | None, str]] = {
    errno.EADDRINUSE: "stop the program that listens there, or give another --port (0 takes any free one)",
    errno.EACCES: "give a --port above 1023",
    errno.EADDRNOTAVAIL: "give a --host that is an address of this machine",
    socket.EAI_NONAME: "give a --host that is an address of this machine",
    socket.EAI_AGAIN: "give a --host that is an address of this machine",
}
"""What to do if the service cannot listen at its address, by the number of the error."""

ACCEPTED_AT_ONCE: Final = 64
ACCEPT_AGAIN_S: Final = 1.0
"""When connections are accepted again after the process had no file or memory left for one."""

LOGGER: Final = logging.getLogger("accord.servers")


async def serve(
    application: Application,
    *,
    started: Callable[[str], None] = lambda _: None,
    deadline: "ExitDeadline | None" = None,
    on_hangup: Callable[[], None] | None = None,
    listener: socket.socket | None = None,
) -> None:
    """Serve until a signal comes; `started` is called with the address when the service listens.

    A given `listener` is served instead of the address of the settings.
    `on_hangup` is called in the event loop when SIGHUP comes; without it, the signal is ignored.
    A given `deadline` also applies to what the caller closes after the service, and to tasks that do not end.
    """
    server = make_server(application)
    announcing = asyncio.create_task(_announce(server, started))
    tune_garbage_collector()
    with (
        ExitDeadline() if deadline is None else nullcontext(deadline) as used_deadline,
        SignalHandler(application.service, server, used_deadline, on_hangup).installed(),
    ):
        try:
            await server.serve(sockets=[listener or listen_at(server.config.host, server.config.port)])
        finally:
            announcing.cancel()


def make_server(application: Application) -> uvicorn.Server:
    """A uvicorn server with the limits of the application's settings."""
    return server_of(application, application.service.settings)


def server_of(app: App, settings: ServerConfig, *, has_lifespan: bool = True) -> uvicorn.Server:
    """A uvicorn server of any ASGI application, with these limits."""
    http, websocket = with_limits(settings)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=http,
        ws=websocket,
        ws_max_size=settings.max_frame_bytes,
        ws_per_message_deflate=False,  # 261 KB of a compressed message can unpack to 411 MB
        proxy_headers=bool(settings.trusted_proxies),  # uvicorn's default trusts every process on loopback
        forwarded_allow_ips=settings.trusted_proxies,
        lifespan="on" if has_lifespan else "off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=CLOSE_S,
    )
    return _UvicornServer(config)


class _UvicornServer(uvicorn.Server):
    """uvicorn without its signal handlers, which `SignalHandler` replaces, and with `Listener`s."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, then accept connections."""
        await super().startup(sockets=[])
        sockets = sockets or [listen_at(self.config.host, self.config.port)]
        self.servers = cast("Any", [Listener(each, self._new_connection) for each in sockets])

    def _new_connection(self) -> asyncio.Protocol:
        return cast("Any", self.config.http_protocol_class)(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )


class Listener:
    """Accepts connections, all that wait at a time.

    uvloop's own server accepts one in each round of the event loop: of 64 clients that connect at once to a busy
    service, the last one waited for 64 rounds.
    """

    def __init__(self, listener: socket.socket, new_connection: Callable[[], asyncio.Protocol]) -> None:
        self.sockets: Final = [listener]
        self._new_connection: Final = new_connection
        self._loop: Final = asyncio.get_running_loop()
        self._opening: Final[set[asyncio.Task[Any]]] = set()
        self._retry: asyncio.TimerHandle | None = None
        listener.setblocking(False)
        self._listen()

    def close(self) -> None:
        """Accept no more."""
        self._loop.remove_reader(self.sockets[0])
        self.sockets[0].close()
        if self._retry is not None:
            self._retry.cancel()

    async def wait_closed(self) -> None:
        """Wait until no connection is being opened any more."""
        await asyncio.gather(*self._opening)

    def _listen(self) -> None:
        self._loop.add_reader(self.sockets[0], self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                connection, _ = self.sockets[0].accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # No file or no memory is left: what waits is accepted when there may be some again.
                LOGGER.error("No connection can be accepted", extra={"fields": {"why": error.strerror}})
                self._loop.remove_reader(self.sockets[0])
                self._retry = self._loop.call_later(ACCEPT_AGAIN_S, self._listen)
                return
            connection.setblocking(False)
            if connection.family != getattr(socket, "AF_UNIX", None):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            opening = self._loop.create_task(self._open(connection))
            self._opening.add(opening)
            opening.add_done_callback(self._opening.discard)

    async def _open(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._new_connection, connection)
        except OSError:  # the client is gone
            connection.close()


def listen_at(host: str, port: int, *, is_shared: bool = False) -> socket.socket:
    """A listening socket; raises `UsageError` with the reason and what to do about it.

    The kernel divides new connections between the sockets that share an address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048, reuse_port=is_shared)
    except OSError as error:
        # `create_server` adds the address to the system's message, as a Python tuple.
        reason = str(error.strerror or error).partition(" (while attempting")[0]
        remedy = LISTEN_REMEDIES.get(error.errno, "give another --host or --port")
        raise UsageError(f"Cannot listen at {host} port {port}: {reason}; {remedy}") from error


async def address_of(server: uvicorn.Server) -> str:
    """Wait until the server listens and return its address."""
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for this
        await asyncio.sleep(0.01)
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


async def _announce(server: uvicorn.Server, started: Callable[[str], None]) -> None:
    started(await address_of(server))


class ExitDeadline:
    """Ends the process at a given moment, whatever the event loop, an agent or a library is doing then."""

    def __init__(self) -> None:
        # Unlike that of `Queue`, its `put` may be interrupted by a signal handler that calls it again.
        self._limits: Final[SimpleQueue[tuple[float, int] | None]] = SimpleQueue()
        self._thread: Final = Thread(target=self._enforce, name="accord-deadline", daemon=True)

    def __enter__(self) -> "ExitDeadline":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._limits.put(None)
        self._thread.join()

    def set(self, seconds: float, status: int) -> None:
        """Exit with this status in so many seconds; an earlier moment replaces a later one."""
        self._limits.put((monotonic() + seconds, status))

    def _enforce(self) -> None:
        limit: tuple[float, int] | None = None
        while True:
            try:
                new = self._limits.get(timeout=None if limit is None else max(0.0, limit[0] - monotonic()))
            except Empty:
                break
            if new is None:
                return
            limit = new if limit is None else min(limit, new)
        LOGGER.error("Exiting now: the service did not stop in time; an agent may ignore that its turn is cancelled")
        sys.stderr.flush()
        os._exit(limit[1] if limit else 1)


class StoppableServer(Protocol):
    """A server that stops when these flags are set, as uvicorn does."""

    should_exit: bool
    force_exit: bool


class SignalHandler:
    """Stops one served application when signals come.

    Handlers are installed with `signal.signal`, not with the event loop, so that they also run while an agent blocks
    the loop. They only make calls that are safe there; the rest is passed to the loop or to a thread.
    """

    def __init__(
        self,
        service: Service,
        server: StoppableServer,
        deadline: ExitDeadline,
        on_hangup: Callable[[], None] | None = None,
    ) -> None:
        self._service: Final = service
        self._server: Final = server
        self._deadline: Final = deadline
        self._on_hangup: Final = on_hangup or (lambda: LOGGER.info("Ignored SIGHUP"))
        self._loop: Final = asyncio.get_running_loop()
        self._draining: asyncio.Task[None] | None = None
        self._signals = 0

    @contextmanager
    def installed(self) -> Generator[None]:
        """Handle signals until the block ends; then restore the previous handlers."""
        handlers = dict.fromkeys(STOP_SIGNALS, self._stop)
        # `nohup` has SIGHUP ignored already; Windows has no SIGHUP.
        if (hangup := getattr(signal, "SIGHUP", None)) is not None and signal.getsignal(hangup) != signal.SIG_IGN:
            handlers[hangup] = self._hang_up
        for each in handlers:
            # Handlers that were given to the loop would be called as well. Windows' loop has none.
            with suppress(NotImplementedError):
                self._loop.remove_signal_handler(each)
        before = {each: signal.signal(each, handler) for each, handler in handlers.items()}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def _hang_up(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._loop.call_soon_threadsafe(self._on_hangup)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        del frame
        settings = self._service.settings
        self._signals += 1
        if self._signals == 1:
            self._deadline.set(settings.drain_s + CLOSE_S + settings.kill_s, EXIT_STATUS + number)
            self._loop.call_soon_threadsafe(self._begin_draining)
        else:
            self._deadline.set(settings.kill_s, EXIT_STATUS + number)
            self._loop.call_soon_threadsafe(self._stop_now)

    def _begin_draining(self) -> None:
        self._service.is_draining = True
        self._draining = self._loop.create_task(self._drain())

    async def _drain(self) -> None:
        running = self._service.sessions.running
        LOGGER.info("Stopping when the running turns have ended", extra={"fields": {"running_turns": running}})
        await self._service.sessions.drain(self._service.settings.drain_s)
        self._server.should_exit = True

    def _stop_now(self) -> None:
        LOGGER.warning("Stopping now: a second signal came")
        self._server.should_exit = self._server.force_exit = True
