"""Agents for fault tests. The request says what to do."""

import asyncio
import time
from collections.abc import AsyncIterator

from accord import Agent
from accord.agent import Turn, Yielded

agent = Agent()


@agent
async def counter(turn: Turn) -> AsyncIterator[Yielded]:
    """`count N MS`: N numbers, one every MS milliseconds. `block S`: hold the event loop for S seconds."""
    match turn.text.split():
        case ["count", numbers, milliseconds]:
            for number in range(int(numbers)):
                yield f"{number} "
                await asyncio.sleep(int(milliseconds) / 1_000)
        case ["block", seconds]:
            yield "before "
            await asyncio.sleep(0.1)  # so that the first packet is stored before the loop stops
            time.sleep(float(seconds))  # noqa: ASYNC251 - blocking the loop is what this test is about
            yield "after "
        case _:
            yield f"Unknown question: {turn.text}"
