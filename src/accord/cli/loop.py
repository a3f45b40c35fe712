"""The event loop that commands run on: the quickest that this machine has."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


def event_loop_runner() -> Callable[[Coroutine[Any, Any, ResultT]], ResultT]:
    """What runs a coroutine to its end."""
    try:
        import uvloop  # noqa: PLC0415 - not on every system
    except ImportError:
        return asyncio.run
    return uvloop.run
