"""Agents for tests of the queue. The request says what to do. Each run is noted in the file ACCORD_TEST_RUNS."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

from accord import Agent
from accord.agent import Turn, Yielded


def note_run(turn: Turn, agent: str) -> int:
    """Add a line about this run to the file; returns how many runs of this turn it names."""
    path = os.environ["ACCORD_TEST_RUNS"]
    line = f"{agent} {turn.request.request_id} {turn.text.split()[-1]} {os.getpid()}\n"
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)
    return Path(path).read_text().count(str(turn.request.request_id))


async def answer(turn: Turn, agent: str) -> AsyncIterator[Yielded]:
    """`count N MS`: N numbers, one every MS milliseconds. `show N MS`: the same with markdown and sources.

    `die N MS RUNS`: as count, but the process ends after half of them, in so many runs. `raise`: fail.
    """
    run = note_run(turn, agent)
    word, *rest = turn.text.split()
    if word not in ("count", "show", "die", "raise"):
        yield f"{len(turn.history)} {turn.text}"
        return
    count, milliseconds = map(int, rest[:2]) if word != "raise" else (1, 10)
    deaths = int(rest[2]) if word == "die" else 0
    for number in range(count):
        if word == "show" and number % 4 == 1:
            yield turn.citation({"source_id": "1", "uri": "https://example.com/r", "title": f"R{number}"})
        yield f"**{number}** of [many](https://example.com/{number}).\n\n" if word == "show" else f"{number} "
        await asyncio.sleep(milliseconds / 1_000)
        if word == "die" and number == count // 2 and run <= deaths:
            os._exit(9)
    if word == "raise":
        raise ValueError("SECRET")


safe = Agent(restart="safe", name="safe")
never = Agent(name="never")


@safe
async def run_safe(turn: Turn) -> AsyncIterator[Yielded]:
    """May be run again when its worker dies."""
    async for item in answer(turn, "safe"):
        yield item


@never
async def run_never(turn: Turn) -> AsyncIterator[Yielded]:
    """Must not be run twice."""
    async for item in answer(turn, "never"):
        yield item
