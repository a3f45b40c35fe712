"""Contain and log what an agent or a backend raises."""

import asyncio
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final

from accord.errors import AccordError

# Logs what agent code raised, for the operator: type, message and traceback. Clients are told the type only.
#
# The engine configures no logging. Whoever serves an agent decides where the logger `accord.agent` writes and how
# (`servers/observability/logs.py`); it is the one logger whose exceptions are written with their message.

LOG: Final = logging.getLogger("accord.agent")
CALLERS: Final = ("accord.engine", "accord.assembly", "accord.cli", "asyncio", "uvloop")
"""Packages that call agent code. Their frames stand first in every traceback and say nothing about the agent."""


def log_agent_error(
    message: str, error: BaseException, *, request_id: str | None = None, fields: dict[str, Any] | None = None
) -> None:
    """Log this exception of agent code, with its traceback from the agent's first frame on."""
    exc_info = (type(error), error, _from_agent(error.__traceback__))
    LOG.error(message, exc_info=exc_info, extra={"request_id": request_id, "fields": fields})


def _from_agent(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames that called the agent; None if the engine itself raised."""
    while trace is not None and _is_caller(str(trace.tb_frame.f_globals.get("__name__", ""))):
        trace = trace.tb_next
    return trace


def _is_caller(module: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in CALLERS)


# Keeps what an agent or a backend raises inside the turn that called it.
#
# Python has exceptions that are no `Exception`: `SystemExit`, `KeyboardInterrupt`, `GeneratorExit`, groups of those,
# and the `CancelledError` of a task that the agent itself started and awaited. Let through, they would leave the turn
# without an end, or stop the whole process. What cannot be contained here: the same exceptions in a task or callback
# that an agent left to the event loop (`assembly/loop.py` does), `os._exit()`, and a crash of the interpreter.


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
