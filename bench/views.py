"""What the readers of one run cost: with the declaration of the request, which share its view, and with another one.

One agent sends a few thousand deltas; the run is read by a number of clients at once, in one process, in memory. The
best of several interleaved rounds counts, in CPU time. A reader that shares the view adapts nothing: its cost is that
of handing over packets that are there already.
"""

import asyncio
import gc
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from time import process_time
from typing import Final
from uuid import uuid4

from accord.agent import Agent, Turn, Yielded
from accord.run import Dispatcher, Engine, Reader, Sessions
from accord.stores.memory import MemoryStore
from accord.wire.request import ClientCapabilities, ServiceRequest

ROUNDS: Final = 7
DELTAS: Final = 4_000
READERS: Final = 8
PLAIN: Final = ClientCapabilities(supported_events=["PROGRESS_INDICATOR"], prefers_markdown=False)
VOICE: Final = ClientCapabilities(supported_events=[], prefers_markdown=False)


async def words(_: Turn) -> AsyncIterator[Yielded]:
    """Send text as a model does, with some markdown."""
    for number in range(DELTAS):
        yield "**word** " if number % 10 == 0 else "word ok "
        if number % 16 == 0:
            await asyncio.sleep(0)


def request(declared: ClientCapabilities) -> ServiceRequest:
    """A request of a client that declares this."""
    return ServiceRequest.model_validate(
        {
            "request_id": str(uuid4()),
            "context": {"session_id": str(uuid4()), "user": {"id": "u", "name": "U"}},
            "payload": {"query": "hi", "capabilities": declared},
        }
    )


async def run(readers: Sequence[Reader | None]) -> float:
    """Seconds of processor time for one run of a plain-text client, read by these readers."""
    store = MemoryStore()
    await store.open()
    sessions = Sessions(Engine(Agent(words), Dispatcher([])), store)
    gc.collect()
    began_at = process_time()
    turn = await sessions.begin(request(PLAIN))

    async def read(reader: Reader | None) -> None:
        async with aclosing(sessions.read(turn, 0, reader)) as batches:
            async for _ in batches:
                pass

    await asyncio.gather(*(read(reader) for reader in readers))
    return process_time() - began_at


def main() -> None:
    """Print what each kind of reader adds to a run."""
    cases: dict[str, Sequence[Reader | None]] = {
        "one reader": [None],
        f"{READERS} more that share its view": [None] * (1 + READERS),
        f"{READERS} more, each a voice client": [None, *[Reader(VOICE)] * READERS],
    }
    best = dict.fromkeys(cases, float("inf"))
    for _ in range(ROUNDS):
        for name, readers in cases.items():
            best[name] = min(best[name], asyncio.run(run(readers)))
    alone = best["one reader"]
    print(f"A run of {DELTAS} deltas for a plain-text client, in memory")
    print(f"  {'one reader':34}{alone / DELTAS * 1e6:8.2f} µs a delta")
    for name, seconds in best.items():
        if name != "one reader":
            each = (seconds - alone) / READERS / DELTAS * 1e6
            print(f"  {name:34}{each:8.2f} µs a delta and reader, {each * DELTAS * 1e-6 / alone:.0%} of the run")


if __name__ == "__main__":
    main()
