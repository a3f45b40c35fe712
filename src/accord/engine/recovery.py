"""Heartbeats of this process, and the retries of turns whose end the store could not write."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Final

from accord.engine.live import LiveTurn
from accord.errors import StoreError
from accord.ports import SessionStore

LOG: Final = logging.getLogger("accord.engine")
FIRST_RETRY_S: Final = 0.05
LAST_RETRY_S: Final = 2.0
"""The delay before the next attempt to write the end of a turn, at first and at most."""


class HeartbeatThread:
    """Writes heartbeats of one process from a thread, since an agent may block the event loop.

    The thread runs while `is_needed`, which it calls before each heartbeat: while turns run, and unless the event loop
    has been blocked for longer than any turn may take. Other processes may then end the turns of this one.
    """

    def __init__(self, store: SessionStore, runner: str, *, every_s: float, is_needed: Callable[[], bool]) -> None:
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


class UnwrittenEnds:
    """Turns of one process that are over but whose end the store could not write; writing is tried again.

    Their number is bounded: no turn begins while the store fails.
    """

    def __init__(self) -> None:
        self._turns: Final[dict[str, LiveTurn]] = {}
        self._retrying: asyncio.Task[None] | None = None

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._turns

    def __len__(self) -> int:
        return len(self._turns)

    def add(self, turn: LiveTurn) -> None:
        """Keep trying to write the end of this turn."""
        self._turns[turn.request_id] = turn
        if self._retrying is None or self._retrying.done():
            self._retrying = asyncio.create_task(self._retry())

    async def drain(self, seconds: float) -> None:
        """Wait up to so many seconds for all ends to be written; other processes end the turns that are left."""
        if self._retrying is not None:
            await asyncio.wait([self._retrying], timeout=seconds)
            self._retrying.cancel()

    async def _retry(self) -> None:
        wait_s = FIRST_RETRY_S
        while self._turns:
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, LAST_RETRY_S)
            for turn in list(self._turns.values()):
                try:
                    await turn.write_end()
                except StoreError:
                    if turn.is_end_unwritten:
                        break  # the store still fails, for the other turns as well
                except Exception:
                    # It would fail again. `Sessions.recover` ends rows that belong to no turn of this process.
                    LOG.exception("The end of a turn cannot be written; it is marked as interrupted later")
                del self._turns[turn.request_id]
                wait_s = FIRST_RETRY_S
