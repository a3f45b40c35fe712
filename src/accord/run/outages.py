"""When the silence of another process means that it is dead."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from math import inf
from time import monotonic
from typing import Final, Protocol

from accord.errors import StoreError
from accord.ports import BEATS_PER_LEASE

LOG: Final = logging.getLogger("accord.run")


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
