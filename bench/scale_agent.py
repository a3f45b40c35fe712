"""The agent of `scale.py`: words that carry the time at which they were sent, as fast as they are taken or at a pace.

The request says where the gate is (a file that appears when every turn has begun), how many words to send, and how many
seconds to wait between them.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from time import monotonic_ns

from accord import Agent, Turn

POLL_S = 0.01

_gates: dict[str, asyncio.Task[None]] = {}


async def open_gate(path: str) -> None:
    """Wait until this file exists; one task polls for all turns."""
    if path not in _gates:
        _gates.clear()
        _gates[path] = asyncio.create_task(_poll(path))
    await asyncio.shield(_gates[path])


async def _poll(path: str) -> None:
    while not Path(path).exists():  # noqa: ASYNC110, ASYNC240 - another process makes it
        await asyncio.sleep(POLL_S)


async def send_words(turn: Turn) -> AsyncIterator[str]:
    """Say that the turn has begun, then send the words."""
    gate, count, pace_s = turn.text.split()
    yield "ready "
    await open_gate(gate)
    for _ in range(int(count)):
        yield f"t{monotonic_ns()}w "
        await asyncio.sleep(float(pace_s))


agent = Agent(send_words, name="bench")
