"""Logs what agent code raised, for the operator: type, message and traceback. Clients are told the type only.

The engine configures no logging. Whoever serves an agent decides where the logger `accord.agent` writes and how
(`servers/watch/logs.py`); it is the one logger whose exceptions are written with their message.
"""

import logging
from types import TracebackType
from typing import Any, Final

LOG: Final = logging.getLogger("accord.agent")
CALLERS: Final = ("accord.engine", "accord.cli", "asyncio", "uvloop")
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
