"""An agent that behaves as its query asks, well or badly; tests serve it with `accord serve`."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, NoReturn

from accord.agent import Agent, Turn, Yielded

STEP_S = 0.02


def interrupt() -> NoReturn:
    raise KeyboardInterrupt


def group() -> NoReturn:
    raise BaseExceptionGroup("several", [SystemExit(1), KeyboardInterrupt()])


def cancelled() -> NoReturn:
    raise asyncio.CancelledError


def generator_exit() -> NoReturn:
    raise GeneratorExit


RAISING: Mapping[str, Callable[[], Any]] = {
    "exit": sys.exit,
    "interrupt": interrupt,
    "group": group,
    "cancelled": cancelled,
    "generator_exit": generator_exit,
}


async def later(do: Callable[[], Any]) -> None:
    do()


def item(turn: Turn, word: str, number: int) -> Yielded:
    if word == "count":
        return f"{number} "
    if number % 4 == 1:
        return turn.citation({"source_id": "1", "uri": "https://example.com/r", "title": f"Report {number}"})
    return f"**{number}** of [many](https://example.com/{number}).\n\n"


async def unruly(turn: Turn) -> AsyncIterator[Yielded]:
    """`count N`, `show N` (the same with markdown and sources), `block SECONDS`, `raise KIND`, `task KIND` (in a task that it does not await), `callback KIND`, `stop`."""
    word, _, value = turn.text.partition(" ")
    yield f"{word} "
    match word:
        case "count" | "show":
            for number in range(int(value)):
                yield item(turn, word, number)
                await asyncio.sleep(STEP_S)
        case "block":
            await asyncio.sleep(STEP_S)
            time.sleep(float(value))  # noqa: ASYNC251 - this is the fault
        case "raise":
            await asyncio.sleep(STEP_S)
            RAISING[value]()
        case "task":
            task = asyncio.create_task(later(RAISING[value]))
            await asyncio.sleep(5 * STEP_S)
            yield "done" if task.done() else "not done"
        case "callback":
            asyncio.get_running_loop().call_soon(RAISING[value])
            await asyncio.sleep(5 * STEP_S)
        case "stop":
            asyncio.get_running_loop().stop()
            await asyncio.sleep(5 * STEP_S)
        case _:
            yield "?"
    yield "end"


agent = Agent(unruly)
