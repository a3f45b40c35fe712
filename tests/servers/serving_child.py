"""A process that serves an agent on SQLite or PostgreSQL and prints its address. Tests kill it, stop it, or do not read."""

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from accord.agent import Agent, Turn, Yielded
from accord.run import Dispatcher, Engine, SessionRules, Sessions
from accord.servers.http.app import Application
from accord.servers.http.serve import serve
from accord.servers.service import AllowAll, NullObserver, Service
from accord.stores.postgres import PostgresStore
from accord.stores.sqlite import SqliteStore
from tests.servers.transports import LIMIT_S, make_service

LEASE_S = 0.5
LONG = "x" * 10_000


async def count(turn: Turn) -> AsyncIterator[Yielded]:
    """As many numbers as the query says, one every few milliseconds; for the query `flood`, as much text as is read."""
    if turn.text == "flood":
        for _ in range(4_000):
            yield LONG
        return
    for number in range(int(turn.text)):
        yield f"{number} "
        await asyncio.sleep(0.01)


async def main(address: str, write_timeout_s: float) -> None:
    """Serve until a signal comes."""
    store = PostgresStore(address) if address.startswith("postgresql:") else SqliteStore(Path(address))
    settings = make_service(Agent(count), write_timeout_s=write_timeout_s, drain_s=20.0).settings
    sessions = Sessions(Engine(Agent(count), Dispatcher([])), store, SessionRules(lease_s=LEASE_S))
    service = Service(sessions, settings, AllowAll(), NullObserver(), "1.0")
    await serve(Application(service), started=lambda address: print(address, flush=True))


@asynccontextmanager
async def child(path: Path | str, write_timeout_s: float = 30.0) -> AsyncGenerator[tuple[Any, str]]:
    """Such a process and its address; it is killed if it still lives in the end."""
    command = [sys.executable, "-m", "tests.servers.serving_child", str(path), str(write_timeout_s)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield process, (await asyncio.wait_for(process.stdout.readline(), LIMIT_S)).decode().strip()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
