"""Heartbeats of this process: one thread for each store writes all of them."""

from collections.abc import Callable
from contextlib import suppress
from math import inf
from threading import Event, Lock, Thread
from typing import Final, Protocol
from weakref import WeakMethod

from accord.ports import BEATS_PER_LEASE


class HeartbeatConnection(Protocol):
    """Writes heartbeats from a thread, without waiting for the event loop."""

    def beat(self, runner: str) -> None:
        """Write that this process is alive; raises `StoreError` if the storage fails."""
        ...

    def close(self) -> None:
        """Close the connection; closing twice is no error."""
        ...


class HeartbeatThread:
    """A thread that runs while any name needs heartbeats, which it asks before each of them."""

    def __init__(self, connect: Callable[[], HeartbeatConnection]) -> None:
        self._connect: Final = WeakMethod(connect)  # a method of the store, which has this object
        self._lock: Final = Lock()
        self._needed: Final[dict[str, WeakMethod[Callable[[], bool]]]] = {}
        self._every_s = inf
        self._stopped = Event()

    def start(self, runner: str, is_needed: Callable[[], bool], *, lease_s: float) -> None:
        """Send heartbeats under this name, the first after one interval, as long as this method says so."""
        every_s = lease_s / BEATS_PER_LEASE
        with self._lock:
            if runner in self._needed:
                return
            is_idle, connect = not self._needed, self._connect()
            self._needed[runner] = WeakMethod(is_needed)  # the thread must not keep its object alive
            if connect is not None and (is_idle or every_s < self._every_s):
                self._stopped.set()
                self._every_s, self._stopped = every_s, Event()
                arguments = (connect(), self._stopped, every_s)
                Thread(target=self._run, args=arguments, name="accord-heartbeat", daemon=True).start()

    def stop(self, runner: str) -> None:
        """Send no more under this name, without waiting for a heartbeat that is being written."""
        with self._lock:
            self._needed.pop(runner, None)
            if not self._needed:
                self._stopped.set()

    def _run(self, connection: HeartbeatConnection, stopped: Event, every_s: float) -> None:
        try:
            while not stopped.wait(every_s):
                with self._lock:
                    # Decided under the lock: what begins meanwhile starts another thread.
                    if stopped.is_set():
                        return
                    self._forget_idle()
                    runners = [*self._needed]
                if not runners:
                    return
                try:
                    for runner in runners:
                        connection.beat(runner)
                except Exception:  # noqa: BLE001 - the thread has to survive every failure of the store
                    # Who uses the store notices that it fails. The next heartbeat opens a new connection.
                    with suppress(Exception):
                        connection.close()
        finally:
            connection.close()

    def _forget_idle(self) -> None:
        for runner, method in [*self._needed.items()]:
            if (is_needed := method()) is None or not is_needed():
                del self._needed[runner]
