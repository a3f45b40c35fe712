"""Waits for the next thing of a stream, for so long and no longer, and not at all once the turn is cancelled.

A limit is held only while something is awaited, never across a `yield`: a slow reader costs its own turn no time.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, TypeVar

from accord.errors import TimedOutError, TurnCancelledError

ItemT = TypeVar("ItemT")
NOTHING_MORE: Final = object()


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """How long may be waited, in seconds: for packets of an agent, for pieces of a backend, for a whole turn."""

    first_packet_s: float = 120.0
    gap_s: float = 120.0
    turn_s: float = 600.0
    backend_first_s: float = 30.0
    backend_gap_s: float = 30.0


class Patience:
    """One turn's patience: it ends when a limit is reached, and at once when the turn is cancelled."""

    def __init__(self) -> None:
        self._scope: asyncio.Timeout | None = None
        self.is_cancelled = False

    def cancel(self) -> None:
        """Stop waiting, now and from now on."""
        self.is_cancelled = True
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())

    async def next(self, items: AsyncIterator[ItemT], seconds: float, what: str) -> ItemT | object:
        """The next item, or `NOTHING_MORE`; raises our error if it takes too long or is not wanted any more."""
        if self.is_cancelled:
            raise TurnCancelledError("The turn was cancelled")
        is_outermost = self._scope is None
        scope = asyncio.timeout(seconds)
        try:
            async with scope:
                # An agent waits for its backend inside of the engine waiting for the agent; cancelling ends the whole.
                self._scope = self._scope or scope
                return await anext(items, NOTHING_MORE)
        except TimeoutError:
            if not scope.expired():
                raise
            if self.is_cancelled:
                raise TurnCancelledError("The turn was cancelled") from None
            raise TimedOutError(f"Nothing came from {what} for {seconds:g} seconds") from None
        finally:
            if is_outermost:
                self._scope = None
