"""What the engine costs: a whole turn, a delta, and a thousand turns at once, on the scripted backend.

Best of several rounds in one process; the machine is shared.
"""

import asyncio
import resource
from collections.abc import AsyncIterator, Callable, Coroutine
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final
from uuid import UUID

from accord.agent import Agent, Turn, Yielded
from accord.backends.scripted import Pause, ScriptedBackend, Step
from accord.core.receipt import seal_members
from accord.ports import SessionStore
from accord.run import Dispatcher, Engine, Run, Sessions
from accord.run.record import ended_turn, record_request
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
    sealed = best(lambda: turns(engine([]), TURNS, sealing=True)) / TURNS
    long = best(lambda: turns(engine(["word "] * DELTAS), 1))
    print(f"a whole turn, plan + dispatch + adapt   {bare * 1e3:7.3f} ms   goal ≤ 0.3")
    print(f"the same, with its receipt sealed       {sealed * 1e3:7.3f} ms   goal ≤ 0.3")
    print(f"a delta                                 {(long - bare) / DELTAS * 1e6:7.2f} µs   goal ≤ 20")
    with TemporaryDirectory() as folder:
        for name, store in (("memory", MemoryStore()), ("SQLite", SqliteStore(Path(folder) / "bench.db"))):
            kept = best(lambda store=store: remembered(store, TURNS), rounds=5) / TURNS
            at_a_time = best(lambda store=store: remembered(store, TURNS, at_once=32), rounds=5) / TURNS
            figures = f"{kept * 1e3:7.3f} ms, 32 at a time {at_a_time * 1e3:.3f} ms"
            print(f"a turn that is kept, {name:6} one by one     {figures}")
    print("  goals: ≤ 0.3 ms in memory, ≤ 1 ms with SQLite; each kept turn is two flushes of the disk")
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


async def turns(made: Engine, count: int, *, sealing: bool = False) -> float:
    """Seconds for turns one after the other."""
    asked = [asking(number) for number in range(count)]
    began_at = perf_counter()
    for each in asked:
        turn = await one(made, each)
        if sealing:
            report = made.new_view(each.payload.capabilities).adapter.report_json()
            seal_members(ended_turn(turn, report, record_request(each.payload), made.clock.now()).content().encoded)
    return perf_counter() - began_at


async def remembered(store: SessionStore, count: int, *, at_once: int = 1) -> float:
    """Seconds for turns that are kept, this many at the same time, each in a session of its own."""
    await store.open()
    sessions = Sessions(engine([]), store)
    asked = iter([asking(number, session=f"s{number}") for number in islice(NUMBERS, count)])

    async def keep() -> None:
        for each in asked:
            async for _ in (await sessions.begin(each)).read():
                pass

    began_at = perf_counter()
    await asyncio.gather(*(keep() for _ in range(at_once)))
    took = perf_counter() - began_at
    await store.close()
    return took


async def at_once(made: Engine) -> float:
    """Seconds for turns at the same time."""
    asked = [asking(number) for number in range(AT_ONCE)]
    began_at = perf_counter()
    await asyncio.gather(*(one(made, each) for each in asked))
    return perf_counter() - began_at


async def one(made: Engine, asked: ServiceRequest) -> Run:
    """One turn, read to its end."""
    turn = made.begin(asked)
    async for _ in turn.packets():
        pass
    return turn


def best(run: Callable[[], Coroutine[None, None, float]], *, rounds: int = ROUNDS) -> float:
    """Seconds of the best round."""
    return min(asyncio.run(run()) for _ in range(rounds))


def resident_mb() -> float:
    """The most memory this process has had, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
