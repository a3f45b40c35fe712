"""Tasks that the code of an agent cannot cancel unless an agent started them.

`asyncio.all_tasks()` returns those of the whole service; an agent that cancels them all would stop it, with the turns
of everybody else.
"""

import asyncio
import sys
from collections.abc import Coroutine
from contextvars import Context, ContextVar, copy_context
from pathlib import Path
from typing import Any, Final

from accord.errors import AgentError

RUN: Final[ContextVar[str | None]] = ContextVar("accord_run", default=None)
"""The request id of the turn whose agent runs; tasks that it starts inherit it."""
OUR_CODE: Final = str(Path(__file__).parent)
AGENT_CODE: Final = str(Path(__file__).parent / "agent.py")
NOT_YOURS: Final = (
    "The agent cancelled a task that it did not start: asyncio.all_tasks() returns those of the whole service; cancel "
    "only tasks that you made"
)


def context_of_run(request_id: str) -> Context:
    """A context for the task in which the agent of this turn runs."""
    context = copy_context()
    context.run(RUN.set, request_id)
    return context


class GuardedTask(asyncio.Task[Any]):
    """A task of the service; cancelling it from the code of another run raises `AgentError` there."""

    def __init__(self, coro: Coroutine[Any, Any, Any], *, context: Context | None = None, **options: Any) -> None:
        self._run = RUN.get() if context is None else context.get(RUN)
        if self._run is not None and context is None and _is_of_service(coro):
            self._run = None
        self._is_of_agent = self._run is not None and context is None
        super().__init__(coro, context=context, **options)

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel it, as every task."""
        run = RUN.get()
        if run is not None and not self._is_of_agent and run != self._run and not self.done():
            caller = sys._getframe(1).f_globals.get("__name__", "")  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - our code may
            if not str(caller).startswith("accord."):
                raise AgentError(NOT_YOURS)
        return super().cancel(msg)


def _is_of_service(coro: Any) -> bool:
    """Whether a task that was started in a run belongs to the service, and not to the agent's questions."""
    file = getattr(getattr(coro, "cr_code", None), "co_filename", "")
    return file.startswith(OUR_CODE) and file != AGENT_CODE


def guard_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Make every task of this loop a guarded one."""

    def make(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
        return GuardedTask(coro, loop=loop, **options)

    loop.set_task_factory(make)
