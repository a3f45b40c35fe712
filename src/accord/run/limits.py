"""Time limits: wait for an agent or a backend for a limited time, and not at all once the turn is over.

The limit of the whole turn always counts. The others count only while something is awaited, never across a `yield`: a
slow reader costs its turn none of them. Most of what is awaited is ready at once. One timer serves all limits of a
turn, since most waits end long before it would fire. While a user decides on a permission, the agent's time is paused;
a backend's is not.
"""

import asyncio
from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from types import coroutine
from typing import Any, Final, TypeVar

from accord.errors import AccordError, BackendError, TimedOutError, TurnCancelledError
from accord.run.agent_errors import agent_failed, count_cancels

NOTHING_MORE: Final = object()
"""The default for `anext`: an iterator has ended."""
CANCELLED: Final = "The turn was cancelled"

ResultT = TypeVar("ResultT")


class Ready(tuple[ResultT]):
    """The result of an awaitable that finished without having to wait, as a tuple of one."""

    __slots__ = ()


@coroutine
def _rest(blocker: Any, steps: Generator[Any, Any, ResultT]) -> Generator[Any, Any, ResultT]:
    """What is left of an awaitable that was started and has to wait for this."""
    while True:
        try:
            yield blocker
        except BaseException as thrown:  # noqa: BLE001 - passed on to the code that waits inside
            try:
                blocker = steps.throw(thrown)
            except StopIteration as done:
                return done.value
        else:
            return (yield from steps)


def poll(awaitable: Awaitable[ResultT]) -> Ready[ResultT] | Awaitable[ResultT]:
    """Run an awaitable until it finishes or has to wait for the first time; the task that ran it awaits the rest."""
    steps: Generator[Any, Any, ResultT] = awaitable.__await__()
    try:
        blocker = next(steps)
    except StopIteration as done:
        return Ready((done.value,))
    return _rest(blocker, steps)


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Time limits in seconds: for packets of an agent, for pieces of a backend, for a whole turn."""

    first_packet_s: float = 120.0
    gap_s: float = 120.0
    turn_s: float = 600.0
    backend_first_s: float = 30.0
    backend_gap_s: float = 30.0


class RunTimer:
    """The time limits of one turn while it runs, and its cancellation.

    Once it is over, everything that waits is ended and nothing more is waited for, whatever the agent makes of that.
    """

    def __init__(self) -> None:
        self.over: AccordError | None = None
        """Why the turn is over: a limit or a cancellation."""
        self.waits: Final[list[Wait]] = []
        """Those that have begun."""
        self._timer: asyncio.TimerHandle | None = None
        self._turn_s = 0.0
        self._deadline = inf
        self._left_s = inf
        """What was left until the deadline when a pause began."""
        self._pauses = 0
        self._watcher: asyncio.Future[None] | None = None

    def start(self, turn_s: float) -> None:
        """Begin the time of the whole turn."""
        self._turn_s, self._deadline = turn_s, asyncio.get_running_loop().time() + turn_s

    def arm(self) -> None:
        """Have the time of the turn watched while something is awaited that is not waited for here."""
        if self._timer is None:
            self._set_timer(self._deadline)

    @contextmanager
    def paused(self) -> Generator[None]:
        """Pause the agent's time; when pauses overlap, until the last of them ends."""
        loop = asyncio.get_running_loop()
        if not self._pauses:
            now = loop.time()
            self._left_s, self._deadline = self._deadline - now, inf
            for wait in self.waits:
                wait.pause(wait.until - now)
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                now = loop.time()
                self._deadline = now + self._left_s
                for wait in self.waits:
                    wait.resume(now)
                self._set_timer(min([self._deadline, *(wait.until for wait in self.waits)]))

    def raise_if_over(self) -> None:
        """Raise the error with which the turn is over, if it is."""
        if self.over is not None:
            # Each raise adds to a traceback, and an agent that goes on may get this error thousands of times a second.
            raise self.over.with_traceback(None)

    def cancel(self) -> None:
        """Stop waiting, now and from now on."""
        self.end(TurnCancelledError(CANCELLED))

    def end(self, error: AccordError) -> None:
        """End everything that waits with this error, now and from now on; the first error counts."""
        if self.over is not None:
            return
        self.over = error
        self.close()
        # An agent waits for its backend inside of the engine waiting for the agent; ending the outer ends both. A task
        # that the agent started waits for itself.
        for wait in {wait.task: wait for wait in reversed(self.waits)}.values():
            wait.end(error)
        if self._watcher is not None and not self._watcher.done():
            self._watcher.set_result(None)

    async def until_over(self, task: asyncio.Task[None]) -> None:
        """Wait until the turn is over or this task has ended."""
        if self.over is None and not task.done():
            watcher = self._watcher = asyncio.get_running_loop().create_future()
            task.add_done_callback(lambda _: watcher.done() or watcher.set_result(None))
            await watcher

    def close(self) -> None:
        """Stop the timer: nothing is waited for any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def watch(self, wait: "Wait") -> None:
        """Add a wait that has begun."""
        if self.over is not None:
            raise self.over
        self.waits.append(wait)
        if self._pauses:
            wait.pause(wait.seconds)
        timer, until = self._timer, min(wait.until, self._deadline)
        if timer is None or until < timer.when():
            self._set_timer(until)

    def _set_timer(self, when: float) -> None:
        self.close()
        if when != inf and self.over is None:
            self._timer = asyncio.get_running_loop().call_at(when, self._end_expired)

    def _end_expired(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        if self._deadline <= now:
            self.end(TimedOutError(f"The turn took longer than {self._turn_s:g} seconds"))
        for wait in self.waits:
            if wait.until <= now:
                error = TimedOutError(f"Nothing came from {wait.source} for {wait.seconds:g} seconds")
                self.end(error) if wait.is_agent else wait.end(error)
        later = [until for until in (self._deadline, *(wait.until for wait in self.waits)) if until > now]
        self._set_timer(min(later, default=inf))


class Wait:
    """Waiting for one thing after another from the same source. Used by one task at a time.

    If the source is the agent, its limit ends the turn, and its time can be paused.
    """

    __slots__ = ("_ended", "_paused_left_s", "_timer", "is_agent", "seconds", "source", "task", "until")

    def __init__(self, timer: RunTimer, source: str, *, is_agent: bool = False) -> None:
        self.source: Final = source
        self.is_agent: Final = is_agent
        self.seconds = 0.0
        self.until = 0.0
        self.task: asyncio.Task[Any] | None = None
        self._timer: Final = timer
        self._ended: AccordError | None = None
        self._paused_left_s: float | None = None

    def poll(self, awaitable: Awaitable[ResultT]) -> Ready[ResultT] | Awaitable[ResultT]:
        """Begin to wait, without the cost of a coroutine: most results are ready at once; `finish` waits for others.

        An exception that is no `Exception` is raised as an error of the source, unless this task was cancelled.
        """
        if (over := self._timer.over) is not None:
            awaitable.__await__().close()  # Python 3.13 warns of an asynchronous generator that was never awaited
            raise over
        try:
            return poll(awaitable)
        except Exception:
            raise
        except BaseException as error:
            raise self._source_failed(error) from error

    async def finish(self, seconds: float, pending: Awaitable[ResultT]) -> ResultT:
        """Wait for what `poll` has begun; raises the error if it takes longer or the turn is over meanwhile.

        What comes after the limit does not count.
        """
        loop = asyncio.get_running_loop()
        task = self.task = asyncio.current_task(loop)
        ended, cancels_before = None, task.cancelling() if task else 0
        self.seconds, self.until = seconds, loop.time() + seconds
        self._timer.watch(self)
        try:
            try:
                result = await pending
            finally:
                ended = self._finish(cancels_before)
        except Exception:
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                if ended is not None:
                    raise ended from None
                if count_cancels() > cancels_before:
                    raise
            raise self._source_failed(error) from error
        if ended is not None:
            raise ended
        return result

    def _source_failed(self, error: BaseException) -> AccordError:
        if self.is_agent:
            return agent_failed(error)
        return BackendError(f"{self.source} failed ({type(error).__name__})", retryable=False)

    def _finish(self, cancels_before: int) -> AccordError | None:
        """Stop counting; returns the error if this wait, and no other code, cancelled its task."""
        self._timer.waits.remove(self)
        self._paused_left_s = None
        ended, self._ended = self._ended, None
        # As in asyncio.timeout: if other code cancelled the task as well, that cancellation counts.
        if ended is None or self.task is None or self.task.uncancel() > cancels_before:
            return None
        return ended

    def pause(self, left_s: float) -> None:
        """Wait without a limit until `resume`, then for so long; does nothing if the source is a backend."""
        if self.is_agent:
            self.until, self._paused_left_s = inf, left_s

    def resume(self, now: float) -> None:
        """Go on with the time that was left, if this wait was paused."""
        if self._paused_left_s is not None:
            self.until, self._paused_left_s = now + self._paused_left_s, None

    def end(self, error: AccordError) -> None:
        """Stop waiting and raise this error in the task that waits."""
        if self._ended is None and self.task is not None:
            self._ended = error
            self.task.cancel()


class CallLimit:
    """The time limit of a whole model call: `async with limit` around each part that waits for a backend."""

    def __init__(self, seconds: float) -> None:
        self._seconds: Final = seconds
        self._until = asyncio.get_running_loop().time() + seconds
        self._part: asyncio.Timeout | None = None
        self._is_cancelled = False

    def cancel(self) -> None:
        """End the call."""
        self._is_cancelled, self._until = True, asyncio.get_running_loop().time()
        if self._part is not None and not self._part.expired():
            self._part.reschedule(self._until)

    async def __aenter__(self) -> None:
        self._part = asyncio.timeout_at(self._until)
        await self._part.__aenter__()

    async def __aexit__(self, *raised: Any) -> None:
        part, self._part = self._part, None
        try:
            if part is not None:
                await part.__aexit__(*raised)
        except TimeoutError:
            if self._is_cancelled:
                raise TurnCancelledError("The call was cancelled") from None
            raise TimedOutError(f"The call took longer than {self._seconds:g} seconds") from None
