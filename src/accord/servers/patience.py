"""Waits for something for so long, and pays for a timer only if it is not there at once. Knows nothing of what it is.

`asyncio.timeout` costs more than most of what it is put around: a body that came with its head, a write that fits the
buffer. So the first step is taken without it.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from accord.engine.at_once import Now, begin

ResultT = TypeVar("ResultT")


async def within(seconds: float, waited_for: Awaitable[ResultT]) -> ResultT:
    """What is waited for; raises `TimeoutError` if it does not come in time."""
    begun = begin(waited_for)
    if isinstance(begun, Now):
        return begun.result
    async with asyncio.timeout(seconds):
        return await begun
