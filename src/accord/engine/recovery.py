"""Heartbeats of this process, and turns whose end the store could not write yet."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Final

from accord.engine.live import LiveTurn
from accord.errors import StoreError
from accord.ports import Heartbeat, SessionStore

# Sends a process's heartbeats from a thread, so that an agent that blocks the event loop costs nobody their turns.
#
# Heartbeats are sent while turns run and the thread ends when none do. It also ends when the event loop has been
# blocked for longer than any turn may take: such a process is as good as dead, and others may end its turns.


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


# Turns that are over but whose end the store could not write: it is tried again until the store is back.

LOG: Final = logging.getLogger("accord.engine")
FIRST_RETRY_S: Final = 0.05
LAST_RETRY_S: Final = 2.0
"""How long is waited before the next attempt, at first and at most."""


class UnendedTurns:
    """Such turns of one process. Their number is bounded: no turn begins while the store is away."""

    def __init__(self) -> None:
        self._turns: Final[dict[str, LiveTurn]] = {}
        self._retrying: asyncio.Task[None] | None = None

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._turns

    def __len__(self) -> int:
        return len(self._turns)

    def add(self, turn: LiveTurn) -> None:
        """Try to write the end of this turn from now on."""
        self._turns[turn.request_id] = turn
        if self._retrying is None or self._retrying.done():
            self._retrying = asyncio.create_task(self._retry())

    async def drain(self, seconds: float) -> None:
        """Wait so long until every end is written, then give up: other processes end the turns that are left."""
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
                    if turn.is_unended:
                        break  # the store is still away, for the others as well
                except Exception:
                    # It would fail again. A row that no turn here belongs to is ended by `Sessions.recover`.
                    LOG.exception("The end of a turn cannot be written")
                del self._turns[turn.request_id]
                wait_s = FIRST_RETRY_S
