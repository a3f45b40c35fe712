"""What the engine costs: a whole turn, a delta, and a thousand turns at once, on the scripted backend.

Best of several rounds in one process; the machine is shared.
"""

import asyncio
import resource
from collections.abc import AsyncIterator, Awaitable, Callable
from time import perf_counter
from typing import Final
from uuid import UUID

from accord.agent import Agent, Turn, Yielded
from accord.backends.scripted import Pause, ScriptedBackend, Step
from accord.engine import Dispatcher, Engine
from accord.engine.clock import SystemClock
from accord.wire.request import ServiceRequest

ROUNDS: Final = 15
TURNS: Final = 200
DELTAS: Final = 1_000
AT_ONCE: Final = 1_000
STREAMS: Final = {"streaming": "native"}


async def relay(turn: Turn) -> AsyncIterator[Yielded]:
    """Pass the answer on."""
    async for text in turn.ask():
        yield text


def main() -> None:
    """Print all figures."""
    bare = best(lambda: turns(engine([]), TURNS)) / TURNS
    long = best(lambda: turns(engine(["word "] * DELTAS), 1))
    print(f"a whole turn, plan + dispatch + adapt   {bare * 1e3:7.3f} ms   goal ≤ 0.3")
    print(f"a delta                                 {(long - bare) / DELTAS * 1e6:7.2f} µs   goal ≤ 20")
    before = resident_mb()
    took = best(lambda: at_once(engine(["one ", Pause(0.2), "two "])), rounds=2)
    print(f"{AT_ONCE:,} turns at once, each pausing 0.2 s  {took:7.2f} s, {resident_mb() - before:.1f} MB more memory")


def engine(script: list[Step]) -> Engine:
    """An engine whose backend says this."""
    return Engine(Agent(relay), Dispatcher([ScriptedBackend("a", [script], STREAMS)]), clock=SystemClock())


def asking(number: int) -> ServiceRequest:
    """One question."""
    return ServiceRequest.model_validate(
        {
            "request_id": str(UUID(int=number)),
            "context": {"session_id": "s", "user": {"id": "u", "name": "U"}},
            "payload": {"query": "hi"},
        }
    )


async def turns(made: Engine, count: int) -> None:
    """Turns one after the other."""
    for number in range(count):
        await one(made, number)


async def at_once(made: Engine) -> None:
    """Turns at the same time."""
    async with asyncio.TaskGroup() as group:
        for number in range(AT_ONCE):
            group.create_task(one(made, number))


async def one(made: Engine, number: int) -> None:
    """One turn, read to its end."""
    async for _ in made.begin(asking(number)).packets():
        pass


def best(run: Callable[[], Awaitable[None]], *, rounds: int = ROUNDS) -> float:
    """Seconds of the best round."""

    async def timed() -> float:
        start = perf_counter()
        await run()
        return perf_counter() - start

    return min(asyncio.run(timed()) for _ in range(rounds))


def resident_mb() -> float:
    """The most memory this process has had, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
