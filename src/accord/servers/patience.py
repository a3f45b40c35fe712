"""Waits for something for so long, and pays for a timer only if it is not there at once. Knows nothing of what it is.

`asyncio.timeout` costs more than most of what it is put around: a body that came with its head, a write that fits the
buffer. So the first step is taken without it.
"""

import asyncio
from collections.abc import Awaitable, Generator
from typing import Any, Final, TypeVar

ResultT = TypeVar("ResultT")


async def within(seconds: float, waited_for: Awaitable[ResultT]) -> ResultT:
    """What is waited for; raises `TimeoutError` if it does not come in time."""
    steps: Generator[Any, Any, ResultT] = waited_for.__await__()
    try:
        blocker = next(steps)
    except StopIteration as done:
        return done.value
    async with asyncio.timeout(seconds):
        return await _Rest(blocker, steps)


class _Rest:
    """An awaitable that was begun already, and waits."""

    __slots__ = ("_blocker", "_steps")

    def __init__(self, blocker: Any, steps: Generator[Any, Any, Any]) -> None:
        self._blocker: Final = blocker
        self._steps: Final = steps

    def __await__(self) -> Generator[Any, Any, Any]:
        try:
            yield self._blocker
        except BaseException as thrown:  # noqa: BLE001 - it is meant for whoever waits inside
            try:
                blocker = self._steps.throw(thrown)
            except StopIteration as done:
                return done.value
            return (yield from _Rest(blocker, self._steps).__await__())
        return (yield from self._steps)
