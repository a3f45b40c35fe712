"""Sends a process's heartbeats from a thread, so that an agent that blocks the event loop costs nobody their turns.

Heartbeats are sent while turns run and the thread ends when none do. It also ends when the event loop has been blocked
for longer than any turn may take: such a process is as good as dead, and others may end its turns.
"""

from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Final

from accord.ports import Heartbeat, SessionStore


class HeartbeatThread:
    """Heartbeats of one process. `is_needed` is called in the thread, once before each of them."""

    def __init__(self, store: SessionStore, runner: str, *, every_s: float, is_needed: Callable[[], bool]) -> None:
        self._store: Final = store
        self._runner: Final = runner
        self._every_s: Final = every_s
        self._is_needed: Final = is_needed
        self._lock: Final = Lock()
        self._stopped = Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Send heartbeats from now on, the first after the usual interval; does nothing while they are being sent."""
        with self._lock:
            if self._thread is None:
                self._stopped = Event()
                self._thread = Thread(target=self._run, args=(self._stopped,), name="accord-heartbeat", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Send no more, now and not after the next interval. Does not wait for a heartbeat that is being written."""
        with self._lock:
            self._stopped.set()
            self._thread = None

    def _run(self, stopped: Event) -> None:
        connection = self._store.heartbeat()
        try:
            while not stopped.wait(self._every_s):
                with self._lock:
                    # Decided under the lock: a turn that begins meanwhile starts another thread.
                    if stopped.is_set() or not self._is_needed():
                        if self._stopped is stopped:
                            self._thread = None
                        return
                self._beat(connection)
        finally:
            connection.close()

    def _beat(self, connection: Heartbeat) -> None:
        try:
            connection.beat(self._runner)
        except Exception:  # noqa: BLE001 - the thread has to outlive every failure of the store
            # The turns themselves find out that the store is away. The next heartbeat is sent on a new connection.
            with suppress(Exception):
                connection.close()
