"""A process that streams turns over SQLite and prints each packet that a client has got. The kill test ends it."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

from accord.agent import Agent, Turn, Yielded
from accord.backends.scripted import ScriptedBackend
from accord.run import Dispatcher, Engine, Sessions
from accord.stores.sqlite import SqliteStore
from accord.wire.request import ServiceRequest


async def relay(turn: Turn) -> AsyncIterator[Yielded]:
    async for text in turn.ask():
        yield text
        await asyncio.sleep(0)  # lets the store write in the middle of a turn


async def main(path: Path, first: int) -> None:
    store = SqliteStore(path)
    await store.open()
    backend = ScriptedBackend("a", [[f"word{number} " for number in range(40)]], {"streaming": "native"})
    sessions = Sessions(Engine(Agent(relay), Dispatcher([backend])), store)
    for number in range(first, first + 1_000):
        request = ServiceRequest.model_validate(
            {
                "request_id": str(UUID(int=number)),
                "context": {"session_id": "s", "user": {"id": "u", "name": "U"}},
                "payload": {"query": f"question {number}"},
            }
        )
        turn = await sessions.begin(request)
        async for batch in turn.read():
            for stored in batch.packets:
                print(f"packet {number} {stored.seq}", flush=True)
        print(f"ended {number}", flush=True)


asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
