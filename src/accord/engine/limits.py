"""Time limits: wait so long and no longer, and stop waiting when the turn is cancelled."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Any, Final, Generic, TypeVar

from accord.engine.agent_errors import Contained
from accord.errors import AccordError, AgentError, BackendError, TimedOutError, TurnCancelledError

# Takes the first step of something awaited: most of what is waited for is there at once, and then no timer is needed.
#
# Knows generators only; what waits, and for how long, is the business of whoever asks.

ResultT = TypeVar("ResultT")


class Rest(Generic[ResultT]):
    """The rest of something that was begun and has to be waited for; to be awaited by the task that began it."""

    __slots__ = ("_blocker", "_steps")

    def __init__(self, blocker: Any, steps: Generator[Any, Any, ResultT]) -> None:
        self._blocker: Final = blocker
        self._steps: Final = steps

    def __await__(self) -> Generator[Any, Any, ResultT]:
        try:
            yield self._blocker
        except BaseException as thrown:  # noqa: BLE001 - it is meant for whoever waits inside
            try:
                blocker = self._steps.throw(thrown)
            except StopIteration as done:
                return done.value
            return (yield from Rest(blocker, self._steps).__await__())
        return (yield from self._steps)


class Now(Generic[ResultT]):
    """It was there at once."""

    __slots__ = ("result",)

    def __init__(self, result: ResultT) -> None:
        self.result: Final = result


def begin(awaited: Awaitable[ResultT]) -> Now[ResultT] | Rest[ResultT]:
    """What is awaited, if it is there at once; else the rest of it."""
    steps: Generator[Any, Any, ResultT] = awaited.__await__()
    try:
        blocker = next(steps)
    except StopIteration as done:
        return Now(done.value)
    return Rest(blocker, steps)


# Waits for so long and no longer, and not at all once the turn is cancelled.
#
# A limit is held only while something is awaited, never across a `yield`: a slow reader costs its own turn no time.
# One timer serves all waits of a turn, since most of them are over long before it would ring. While a user is asked,
# the agent's time stands still; a backend's goes on.

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
        self.is_cancelled = False
        self._waits: Final[list[Wait]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._stills = 0
        self._still_since = 0.0
        self._stood_s = 0.0

    @property
    def stood_still_s(self) -> float:
        """For how long the agent's time has stood still so far."""
        return self._stood_s + (asyncio.get_running_loop().time() - self._still_since if self._stills else 0.0)

    @contextmanager
    def standing_still(self) -> Generator[None]:
        """Meanwhile the agent's time stands still; it goes on when the last of those who stopped it is done."""
        if not self._stills:
            self._stop_agent()
        self._stills += 1
        try:
            yield
        finally:
            self._stills -= 1
            if not self._stills:
                self._let_agent_go_on()

    def check(self) -> None:
        """Raise our error if the turn is cancelled."""
        if self.is_cancelled:
            raise TurnCancelledError("The turn was cancelled")

    def cancel(self) -> None:
        """Stop waiting, now and from now on."""
        self.is_cancelled = True
        if self._waits:
            # An agent waits for its backend inside of the engine waiting for the agent; ending the outer ends both.
            self._waits[0].end(TurnCancelledError("The turn was cancelled"))

    def wait(self, what: str, left: "Callable[[], float] | None" = None) -> "Wait":
        """Waits for this again and again: `await wait.upto(seconds, …)`.

        With `left` it is the agent that is waited for: never longer than is left, and not while its time stands still.
        """
        return Wait(self, what, left)

    def close(self) -> None:
        """Nothing will be waited for any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def begin(self, wait: "Wait") -> None:
        """Watch this wait, too."""
        self.check()
        self._waits.append(wait)
        if self._stills and wait.is_for_agent:
            wait.stand_still(wait.seconds)
        timer = self._timer
        if timer is None or wait.until < timer.when():
            self._ring_at(wait.until)

    def end(self, wait: "Wait") -> None:
        """It came, or it does not matter any more."""
        self._waits.remove(wait)

    def _stop_agent(self) -> None:
        self._still_since = now = asyncio.get_running_loop().time()
        for wait in self._waits:
            if wait.is_for_agent:
                wait.stand_still(wait.until - now)

    def _let_agent_go_on(self) -> None:
        now = asyncio.get_running_loop().time()
        self._stood_s += now - self._still_since
        for wait in self._waits:
            wait.go_on(now)
        if self._waits:
            self._ring_at(min(wait.until for wait in self._waits))

    def _ring_at(self, when: float) -> None:
        self.close()
        if when == inf:
            return
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

    __slots__ = (
        "_cancelled_before",
        "_ended",
        "_left",
        "_patience",
        "_still_s",
        "_task",
        "is_for_agent",
        "seconds",
        "until",
        "what",
    )

    def __init__(self, patience: Patience, what: str, left: Callable[[], float] | None) -> None:
        self.what: Final = what
        self.is_for_agent: Final = left is not None
        self.seconds = 0.0
        self.until = 0.0
        self._patience: Final = patience
        self._left: Final = left
        self._task: asyncio.Task[Any] | None = None
        self._cancelled_before = 0
        self._ended: AccordError | None = None
        self._still_s: float | None = None

    async def upto(self, seconds: float, awaited: Awaitable[ResultT]) -> ResultT:
        """What is awaited; raises our error if it takes longer, or the turn is cancelled meanwhile.

        Our error, too, for what is raised that is no `Exception`, unless it is this task that is cancelled.
        """
        self._patience.check()
        try:
            begun = begin(awaited)
        except Exception:
            raise
        except BaseException as error:
            raise self._failed(error) from error
        if isinstance(begun, Now):
            return begun.result
        self.seconds = seconds if self._left is None else min(seconds, max(0.0, self._left()))
        with Contained(self._failed), self:
            return await begun

    def _failed(self, error: BaseException) -> AccordError:
        if self.is_for_agent:
            return agent_failed(error)
        return BackendError(f"{self.what} failed ({type(error).__name__})", retryable=False)

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        task = self._task = asyncio.current_task(loop)
        self._cancelled_before = task.cancelling() if task else 0
        self.until = loop.time() + self.seconds
        self._patience.begin(self)

    def stand_still(self, left_s: float) -> None:
        """Wait without end, until it goes on; then for so long."""
        self.until, self._still_s = inf, left_s

    def go_on(self, now: float) -> None:
        """Wait on for what was left when it was told to stand still, if it was."""
        if self._still_s is not None:
            self.until, self._still_s = now + self._still_s, None

    def __exit__(self, kind: type[BaseException] | None, raised: object, trace: object) -> None:
        self._patience.end(self)
        self._still_s = None
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


class AgentRaisedError(AgentError):
    """Agent code raised something that is not ours; `__cause__` is what it raised."""


def agent_failed(error: BaseException) -> AgentRaisedError:
    """What a client may know of an agent's own exception: its type, never its text."""
    failure = AgentRaisedError(f"The agent failed ({type(error).__name__})")
    failure.__cause__ = error
    return failure
