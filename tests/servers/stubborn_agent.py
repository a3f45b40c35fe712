"""An agent that does not end when it is told to; it goes on until `agent_may_run` is cleared."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from threading import Event

from accord.agent import Agent, Turn, Yielded

STEP_S = 0.01
AGAIN = 50_000
agent_may_run = Event()
agent_may_run.set()


async def wait() -> None:
    while agent_may_run.is_set():  # noqa: ASYNC110 - not an event of a loop: a test has several
        await asyncio.sleep(STEP_S)


async def stubborn(  # noqa: C901, PLR0912, PLR0915 - one case for each way
    turn: Turn,
) -> AsyncIterator[Yielded]:
    """`history` yields the conversation so far; any other query is a way not to end."""
    if turn.text == "history":
        yield "|".join(f"{message.role}:{message.content}" for message in turn.history)
        return
    yield "before "
    match turn.text:
        case "swallow":
            while agent_may_run.is_set():
                with suppress(BaseException):
                    await wait()
        case "flood":
            while agent_may_run.is_set():
                with suppress(BaseException):
                    await asyncio.sleep(STEP_S)
                yield "after "
        case "shield":
            waiting = asyncio.create_task(wait())
            while not waiting.done():
                with suppress(BaseException):
                    await asyncio.shield(waiting)
            yield "after "
        case "closing":
            try:
                await wait()
            finally:
                await wait()
        case "generator_exit":
            with suppress(GeneratorExit):
                while agent_may_run.is_set():
                    yield "and "
                    with suppress(asyncio.CancelledError):
                        await asyncio.sleep(STEP_S)
            yield "after "
        case "cancel all":
            for task in asyncio.all_tasks():
                task.cancel()
            await wait()
        case "cancel others":
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                with suppress(Exception):
                    task.cancel()
            yield "after "
        case "count":
            for number in range(100):
                yield f"{number} "
                await asyncio.sleep(STEP_S)
        case "return":
            with suppress(BaseException):
                await wait()
        case "raise":
            try:
                await wait()
            finally:
                raise ValueError("on purpose")
        case "ask":
            asking = asyncio.create_task(turn.ask().text())
            while not asking.done():
                with suppress(BaseException):
                    await asyncio.shield(asking)
            await wait()
        case "ask again":
            with suppress(BaseException):
                await wait()
            for _ in range(AGAIN):
                with suppress(BaseException):
                    await turn.ask().text()
                await asyncio.sleep(0)
            print("asked again", file=sys.stderr, flush=True)
        case "relay":
            yield await turn.ask().text()
        case _:
            yield "?"


agent = Agent(stubborn)
WAYS = ["swallow", "flood", "shield", "closing", "generator_exit", "return", "raise"]
"""Ways not to end; `EVERYWHERE` are those that are tried on every transport."""
EVERYWHERE = ["swallow", "flood"]
