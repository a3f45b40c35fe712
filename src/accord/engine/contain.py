"""Keeps what an agent or a backend raises inside the turn that called it.

Python has exceptions that are no `Exception`: `SystemExit`, `KeyboardInterrupt`, `GeneratorExit`, groups of those, and
the `CancelledError` of a task that the agent itself started and awaited. Let through, they would leave the turn without
an end, or stop the whole process. What cannot be contained here: the same exceptions in a task or callback that an
agent left to the event loop (`cli/loop.py` contains those), `os._exit()`, and a crash of the interpreter.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from accord.errors import AccordError


def cancels() -> int:
    """How often the current task was asked to cancel."""
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


class Contained:
    """Raises what is raised inside as `failure` makes it, if it is no `Exception` and not this task's cancellation."""

    __slots__ = ("_cancels_before", "_failure")

    def __init__(self, failure: Callable[[BaseException], AccordError]) -> None:
        self._failure: Final = failure
        self._cancels_before = 0

    def __enter__(self) -> None:
        self._cancels_before = cancels()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, Exception):
            return
        if not isinstance(error, asyncio.CancelledError) or cancels() <= self._cancels_before:
            raise self._failure(error) from error
