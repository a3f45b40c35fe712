"""What signals do to a running service, and the latest moment at which a process that was told to stop is gone.

SIGTERM or SIGINT: take no new work, wait for running turns, then stop. The same again: stop now. SIGHUP is ignored.
Handlers are Python's own (`signal.signal`), not the event loop's: they also run while an agent blocks the loop. What
they do is limited to calls that are safe there; everything else is handed to the loop or to a thread.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from types import FrameType
from typing import Final, Protocol

from accord.servers.service import Service

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
CLOSE_S: Final = 5
"""How long connections may take to close after the last turn has ended."""
EXIT_STATUS: Final = 128
"""With the signal's number added: the status of a process that a signal has ended."""

LOGGER: Final = logging.getLogger("accord.servers")


class Stoppable(Protocol):
    """A server that looks at these flags, as uvicorn does."""

    should_exit: bool
    force_exit: bool


class Deadline:
    """Ends the process at a given moment, whatever the event loop, an agent or a library is doing then."""

    def __init__(self) -> None:
        # Its `put` may be interrupted by a signal handler that calls it again; that of `Queue` may not.
        self._limits: Final[SimpleQueue[tuple[float, int] | None]] = SimpleQueue()
        self._thread: Final = Thread(target=self._enforce, name="accord-deadline", daemon=True)

    def __enter__(self) -> "Deadline":
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


class Stopping:
    """Handles signals for one served application."""

    def __init__(self, service: Service, server: Stoppable, deadline: Deadline) -> None:
        self._service: Final = service
        self._server: Final = server
        self._deadline: Final = deadline
        self._loop: Final = asyncio.get_running_loop()
        self._draining: asyncio.Task[None] | None = None
        self._signals = 0

    @contextmanager
    def handling_signals(self) -> Generator[None]:
        """Handle signals until the block ends; then they do what they did before."""
        handlers = dict.fromkeys(STOP_SIGNALS, self._stop)
        # `nohup` has SIGHUP ignored already; Windows has no SIGHUP.
        if (hangup := getattr(signal, "SIGHUP", None)) is not None and signal.getsignal(hangup) != signal.SIG_IGN:
            handlers[hangup] = self._hang_up
        for each in handlers:
            # Handlers that were given to the loop would be called as well. Windows' loop takes none.
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
        self._loop.call_soon_threadsafe(LOGGER.info, "Ignored SIGHUP; restart to read the configuration again")

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
