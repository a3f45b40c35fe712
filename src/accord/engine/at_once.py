"""Takes the first step of something awaited: most of what is waited for is there at once, and then no timer is needed.

Knows generators only; what waits, and for how long, is the business of whoever asks.
"""

from collections.abc import Awaitable, Generator
from typing import Any, Final, Generic, TypeVar

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
