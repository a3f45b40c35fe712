"""Heartbeats of this process."""

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from math import inf
from threading import Event, Lock, Thread
from time import monotonic
from typing import Final, Protocol

from accord.errors import StoreError
from accord.ports import SessionStore, SlotStore, UsageStore

LOG: Final = logging.getLogger("accord.run")
BEATS_PER_LEASE: Final = 3
"""How many heartbeats a process sends in the time after which it counts as dead."""


class HeartbeatThread:
    """Writes heartbeats of one process from a thread, since an agent may block the event loop.

    The thread runs while `is_needed`, which it calls before each heartbeat. Without heartbeats, other processes may end
    the turns of this one, take its slots and spend what it has reserved of budgets.
    """

    def __init__(
        self,
        store: SessionStore | SlotStore | UsageStore,
        runner: str,
        *,
        every_s: float,
        is_needed: Callable[[], bool],
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


class StoreClock(Protocol):
    """A store that tells the time by which it judges heartbeats."""

    async def clock_s(self) -> float:
        """The time in seconds."""
        ...


class OutageGuard:
    """Notes when a silent process may be alive: when the store was away, and when its clock was set forward.

    No process could send heartbeats while it was away. After a step of its clock, every last heartbeat looks old.
    """

    def __init__(self, lease_s: float) -> None:
        self._lease_s: Final = lease_s
        self._over_at: float | None = -inf
        self._last_reading: tuple[float, float] | None = None
        """The time of the store's clock, and before that the time of ours."""

    async def check_clock(self, store: StoreClock) -> None:
        """Note whether the store's clock went on much faster than ours since the last check."""
        began_at = monotonic()
        now_s = await store.clock_s()
        if self._last_reading is not None:
            passed_s, ours_s = now_s - self._last_reading[0], monotonic() - self._last_reading[1]
            if passed_s - ours_s > self._lease_s / BEATS_PER_LEASE:
                self._over_at = monotonic()
                LOG.warning(
                    "The clock of the store was set forward", extra={"fields": {"by_s": round(passed_s - ours_s, 3)}}
                )
        self._last_reading = now_s, began_at

    @contextmanager
    def noted(self) -> Generator[None]:
        """Note whether the store answers the calls in this block."""
        try:
            yield
        except StoreError:
            self._over_at = None
            raise
        if self._over_at is None:
            self._over_at = monotonic()

    @property
    def can_judge(self) -> bool:
        """Whether every living process has had the time to send a heartbeat, as far as this process knows."""
        return self._over_at is not None and monotonic() - self._over_at >= self._lease_s
