"""Contain and log what agent code raises.

Python has exceptions that are no `Exception`: `SystemExit`, `KeyboardInterrupt`, `GeneratorExit`, groups of those, and
the `CancelledError` of a task that the agent itself started and awaited. If they left the agent, its turn would have no
end, or the whole process would stop. Not contained here: the same exceptions in a task or callback that an agent left
to the event loop (`assembly/loop.py` does that), `os._exit()`, and a crash of the interpreter.
"""

import asyncio
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final

from accord.errors import AccordError, AgentError

# The one logger whose exceptions are written with their message; `servers/observability/logs.py` decides where to.
LOG: Final = logging.getLogger("accord.agent")
CALLERS: Final = ("accord.run", "accord.assembly", "accord.cli", "asyncio", "uvloop")
"""Packages that call agent code. Their frames come first in every traceback and say nothing about the agent."""

ABANDONED: Final[set[asyncio.Task[None]]] = set()
"""The tasks of agents that go on running after their turn; asyncio itself does not keep them alive."""


class AgentRaisedError(AgentError):
    """Agent code raised an exception that is not one of Accord's; `__cause__` is that exception."""


def agent_failed(error: BaseException) -> AgentRaisedError:
    """The error that clients get for an agent's exception: with its type, never with its text."""
    failure = AgentRaisedError(f"The agent failed ({type(error).__name__})")
    failure.__cause__ = error
    return failure


def log_agent_error(
    message: str, error: BaseException, *, request_id: str | None = None, fields: dict[str, Any] | None = None
) -> None:
    """Log an exception of agent code for the operator, with its traceback from the agent's first frame on."""
    trace = error.__traceback__
    while trace is not None and _is_caller(trace):
        trace = trace.tb_next
    LOG.error(message, exc_info=(type(error), error, trace), extra={"request_id": request_id, "fields": fields})


def abandon(task: asyncio.Task[None], request_id: str, agent: str) -> None:
    """Let agent code run on that did not end with its turn; nothing waits for it any more."""
    ABANDONED.add(task)
    extra = {"request_id": request_id, "fields": {"agent": agent}}
    LOG.error("The agent goes on running although its turn is over; nothing that it does counts any more", extra=extra)

    def ended(task: asyncio.Task[None]) -> None:
        ABANDONED.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log_agent_error("The agent failed after its turn was over", error, request_id=request_id)
        LOG.warning("The agent whose turn was over before has ended", extra=extra)

    task.add_done_callback(ended)


def _is_caller(trace: TracebackType) -> bool:
    module = str(trace.tb_frame.f_globals.get("__name__", ""))
    return any(module == package or module.startswith(f"{package}.") for package in CALLERS)


def count_cancels() -> int:
    """The number of requested cancellations of the current task."""
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


class ContainBaseException:
    """Turn an exception that is no `Exception` into an error made by `failure`, except this task's own cancellation."""

    __slots__ = ("_cancels_before", "_failure")

    def __init__(self, failure: Callable[[BaseException], AccordError]) -> None:
        self._failure: Final = failure
        self._cancels_before = 0

    def __enter__(self) -> None:
        self._cancels_before = count_cancels()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, Exception):
            return
        if not isinstance(error, asyncio.CancelledError) or count_cancels() <= self._cancels_before:
            raise self._failure(error) from error
