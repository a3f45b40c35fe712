"""`accord serve` as a separate process, on a store that several such processes can share."""

import asyncio
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast

import aiohttp
import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from tests.servers.transports import body, events_of

ROOT = Path(__file__).parent.parent.parent
Packets = list[tuple[int | None, dict[str, Any]]]
EVENTS = {"accept": "text/event-stream"}


@dataclass(slots=True)
class Served:
    """A process and where it listens. Each call here is a connection of its own."""

    process: subprocess.Popen[str]
    address: str
    log: Path
    store: str

    def client(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(self.address)

    async def stream(self, number: int, query: str, session: str = "s") -> Packets:
        """The packets of a new turn."""
        request = body(number, query, session=session)
        async with self.client() as client, client.post("/v1/assist", json=request, headers=EVENTS) as response:
            return events_of(await response.read())

    async def again(self, number: int) -> Packets:
        """The packets of a turn that was begun here or elsewhere."""
        async with self.client() as client, client.get(address_of(number), headers=EVENTS) as response:
            return events_of(await response.read())

    async def receipt(self, number: int) -> dict[str, Any]:
        async with self.client() as client, client.get(f"{address_of(number)}/receipt") as response:
            return await response.json()

    async def knows(self, number: int) -> None:
        """Return once this turn has begun, here or elsewhere; the caller bounds the wait."""
        async with self.client() as client:
            while True:
                async with client.get(address_of(number), headers=EVENTS) as response:
                    if response.status == HTTPStatus.OK:
                        return
                await asyncio.sleep(0.02)

    async def stand_still(self) -> None:
        """Stop the process between two writes: one that is stopped in a transaction blocks others that need its locks."""
        is_writing = _is_postgres_written if self.store.startswith("postgresql:") else _is_sqlite_written
        while True:
            self.process.send_signal(signal.SIGSTOP)
            while not self._has_stopped():  # noqa: ASYNC110 - the caller bounds the wait
                await asyncio.sleep(0.001)
            if not await is_writing(self.store):
                return
            self.process.send_signal(signal.SIGCONT)
            await asyncio.sleep(0.005)

    def _has_stopped(self) -> bool:
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/stat")
        return all(stat.read_text().rpartition(")")[2].split()[0] == "T" for stat in threads)

    async def cancel(self, number: int) -> int:
        """The status of the answer to a cancellation."""
        async with self.client() as client, client.delete(address_of(number)) as response:
            return response.status


async def _is_sqlite_written(file: str) -> bool:
    with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        connection.rollback()
        return False


async def _is_postgres_written(address: str) -> bool:
    connection = await cast("Any", asyncpg).connect(address)
    try:
        return await connection.fetchval(
            "SELECT count(*) > 0 FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
        )
    finally:
        await connection.close()


def address_of(number: int) -> str:
    return f"/v1/requests/{body(number)['request_id']}"


def ops(packets: Packets) -> list[str]:
    return [packet["op"] for _, packet in packets]


def text_of(packets: Packets) -> str:
    return "".join(packet["p"] for _, packet in packets if packet["op"] == "delta")


def numbers(count: int) -> str:
    """What `count N` answers."""
    return "count " + "".join(f"{number} " for number in range(count)) + "end"


@contextmanager
def accord_serve(folder: Path, store: str, name: str = "a", **settings: Any) -> Generator[Served]:
    """`accord serve` over this store, a path or a `postgresql:` address; it is killed if it still lives in the end."""
    is_file = not store.startswith("postgresql:")
    config, log = folder / f"{name}.toml", folder / f"{name}.log"
    kind = f'kind = "sqlite"\npath = "{store}"' if is_file else 'kind = "postgres"\nurl_env = "STORE_URL"'
    options = "\n".join(f"{key} = {json.dumps(value)}" for key, value in {"port": 0, **settings}.items())
    config.write_text(f"[store]\n{kind}\n[server]\n{options}\n", encoding="utf-8")
    command = [sys.executable, "-m", "accord", "serve", "tests.servers.unruly_agent:agent", "--config", str(config)]
    environment = {**os.environ, "STORE_URL": store, "PYTHONPATH": str(ROOT)}
    with (
        log.open("w", encoding="utf-8") as errors,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, env=environment, cwd=folder, text=True
        ) as process,
    ):
        assert process.stdout is not None
        try:
            # A process that cannot start ends, and then there is no line; pytest's limit bounds the rest.
            found = re.search(r"http://\S+?(?=/v1)", process.stdout.readline())
            assert found, log.read_text(encoding="utf-8")
            yield Served(process, found.group(), log, store)
        finally:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait(10)
