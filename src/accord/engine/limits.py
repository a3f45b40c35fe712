"""Waits for so long and no longer, and not at all once the turn is cancelled.

A limit is held only while something is awaited, never across a `yield`: a slow reader costs its own turn no time. One
timer serves all waits of a turn, since most of them are over long before it would ring.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf
from typing import Any, Final, TypeVar

from accord.engine.at_once import Now, begin
from accord.errors import AccordError, TimedOutError, TurnCancelledError

NOTHING_MORE: Final = object()

ResultT = TypeVar("ResultT")


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
        self.is_cancelled = False
        self._waits: Final[list[Wait]] = []
        self._timer: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        """Stop waiting, now and from now on."""
        self.is_cancelled = True
        if self._waits:
            # An agent waits for its backend inside of the engine waiting for the agent; ending the outer ends both.
            self._waits[0].end(TurnCancelledError("The turn was cancelled"))

    def wait(self, what: str, left: "Callable[[], float]" = lambda: inf) -> "Wait":
        """Waits for this again and again: `await wait.upto(seconds, …)`, and never longer than is left."""
        return Wait(self, what, left)

    def close(self) -> None:
        """Nothing will be waited for any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def begin(self, wait: "Wait") -> None:
        """Watch this wait, too."""
        if self.is_cancelled:
            raise TurnCancelledError("The turn was cancelled")
        self._waits.append(wait)
        timer = self._timer
        if timer is None or wait.until < timer.when():
            self._ring_at(wait.until)

    def end(self, wait: "Wait") -> None:
        """It came, or it does not matter any more."""
        self._waits.remove(wait)

    def _ring_at(self, when: float) -> None:
        self.close()
        self._timer = asyncio.get_running_loop().call_at(when, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for wait in self._waits:
            if wait.until <= now:
                wait.end(TimedOutError(f"Nothing came from {wait.what} for {wait.seconds:g} seconds"))
        if left := [wait.until for wait in self._waits if wait.until > now]:
            self._ring_at(min(left))


class Wait:
    """Waiting for one thing after another of the same kind. Used by one task at a time."""

    __slots__ = ("_cancelled_before", "_ended", "_left", "_patience", "_task", "seconds", "until", "what")

    def __init__(self, patience: Patience, what: str, left: Callable[[], float]) -> None:
        self.what: Final = what
        self.seconds = 0.0
        self.until = 0.0
        self._patience: Final = patience
        self._left: Final = left
        self._task: asyncio.Task[Any] | None = None
        self._cancelled_before = 0
        self._ended: AccordError | None = None

    async def upto(self, seconds: float, awaited: Awaitable[ResultT]) -> ResultT:
        """What is awaited; raises our error if it takes longer, or the turn is cancelled meanwhile."""
        if self._patience.is_cancelled:
            raise TurnCancelledError("The turn was cancelled")
        begun = begin(awaited)
        if isinstance(begun, Now):
            return begun.result
        self.seconds = min(seconds, max(0.0, self._left()))
        with self:
            return await begun

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        task = self._task = asyncio.current_task(loop)
        self._cancelled_before = task.cancelling() if task else 0
        self.until = loop.time() + self.seconds
        self._patience.begin(self)

    def __exit__(self, kind: type[BaseException] | None, raised: object, trace: object) -> None:
        self._patience.end(self)
        ended, self._ended = self._ended, None
        # As in asyncio.timeout: if somebody else cancelled the task as well, theirs is the one that counts.
        if ended is None or self._task is None or self._task.uncancel() > self._cancelled_before:
            return
        if kind is asyncio.CancelledError:
            raise ended from None

    def end(self, error: AccordError) -> None:
        """Stop waiting; whoever waits is told this."""
        if self._ended is None and self._task is not None:
            self._ended = error
            self._task.cancel()
