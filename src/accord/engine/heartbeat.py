"""Heartbeats of this process."""

from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Final

from accord.ports import SessionStore, SlotStore

BEATS_PER_LEASE: Final = 3
"""How many heartbeats a process sends in the time after which it counts as dead."""


class HeartbeatThread:
    """Writes heartbeats of one process from a thread, since an agent may block the event loop.

    The thread runs while `is_needed`, which it calls before each heartbeat. Without heartbeats, other processes may end
    the turns of this one and take its slots.
    """

    def __init__(
        self, store: SessionStore | SlotStore, runner: str, *, every_s: float, is_needed: Callable[[], bool]
    ) -> None:
        self._store: Final = store
        self._runner: Final = runner
        self._every_s: Final = every_s
        self._is_needed: Final = is_needed
        self._lock: Final = Lock()
        self._stopped = Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Start sending heartbeats, the first after one interval; does nothing if they are being sent."""
        with self._lock:
            if self._thread is None:
                self._stopped = Event()
                self._thread = Thread(target=self._run, args=(self._stopped,), name="accord-heartbeat", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Stop at once, without waiting for a heartbeat that is being written."""
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
                try:
                    connection.beat(self._runner)
                except Exception:  # noqa: BLE001 - the thread has to survive every failure of the store
                    # The turns notice themselves that the store fails. The next heartbeat opens a new connection.
                    with suppress(Exception):
                        connection.close()
        finally:
            connection.close()
