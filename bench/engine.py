"""What the engine costs: a whole turn, a delta, and a thousand turns at once, on the scripted backend.

Best of several rounds in one process; the machine is shared.
"""

import asyncio
import resource
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final
from uuid import UUID

from accord.agent import Agent, Turn, Yielded
from accord.backends.scripted import Pause, ScriptedBackend, Step
from accord.engine import Dispatcher, Engine, Sessions
from accord.ports import SessionStore
from accord.stores.memory import MemoryStore
from accord.stores.sqlite import SqliteStore
from accord.wire.request import ServiceRequest

ROUNDS: Final = 15
TURNS: Final = 200
DELTAS: Final = 1_000
AT_ONCE: Final = 1_000
NUMBERS: Final = count(1)
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
    with TemporaryDirectory() as folder:
        for name, store in (("memory", MemoryStore()), ("SQLite", SqliteStore(Path(folder) / "bench.db"))):
            kept = best(lambda store=store: remembered(store, TURNS), rounds=5) / TURNS
            at_a_time = best(lambda store=store: remembered(store, TURNS, at_once=32), rounds=5) / TURNS
            told = f"{kept * 1e3:7.3f} ms, 32 at a time {at_a_time * 1e3:.3f} ms"
            print(f"a turn with receipt, {name:6} one by one     {told}")
    print("  goals: ≤ 0.3 ms in memory, ≤ 1 ms with SQLite")
    before = resident_mb()
    took = best(lambda: at_once(engine(["one ", Pause(0.2), "two "])), rounds=2)
    print(f"{AT_ONCE:,} turns at once, each pausing 0.2 s  {took:7.2f} s, {resident_mb() - before:.1f} MB more memory")


def engine(script: list[Step]) -> Engine:
    """An engine whose backend says this."""
    return Engine(Agent(relay), Dispatcher([ScriptedBackend("a", [script], STREAMS)]))


def asking(number: int, *, session: str = "s") -> ServiceRequest:
    """One question."""
    return ServiceRequest.model_validate(
        {
            "request_id": str(UUID(int=number)),
            "context": {"session_id": session, "user": {"id": "u", "name": "U"}},
            "payload": {"query": "hi"},
        }
    )


async def turns(made: Engine, count: int) -> None:
    """Turns one after the other."""
    for number in range(count):
        await one(made, number)


async def remembered(store: SessionStore, number_of_turns: int, *, at_once: int = 1) -> None:
    """Turns that are kept, this many at the same time, each in a session of its own."""
    await store.open()
    sessions = Sessions(engine([]), store)
    places = asyncio.Semaphore(at_once)

    async def keep() -> None:
        async with places:
            number = next(NUMBERS)
            async for _ in sessions.packets(asking(number, session=f"s{number}")):
                pass

    async with asyncio.TaskGroup() as group:
        for _ in range(number_of_turns):
            group.create_task(keep())
    await store.close()


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
