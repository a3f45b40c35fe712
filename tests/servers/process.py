"""`accord serve` as a real process: `accord_serve` with any configuration, `serve_shared_store` on a shared store.

Both kill the process at the end of the block.
"""

import asyncio
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, cast

import aiohttp
import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from tests.servers.transports import body, events_of

START_S: Final = 30
ROOT: Final = Path(__file__).parent.parent.parent
EVENTS: Final = {"accept": "text/event-stream"}
Packets = list[tuple[int | None, dict[str, Any]]]


@dataclass(slots=True)
class ServedProcess:
    """A running `accord serve`."""

    process: asyncio.subprocess.Process
    address: str
    folder: Path
    log_lines: list[str] = field(default_factory=list[str])

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def memory_mb(self, what: str = "VmRSS") -> float:
        """The process's memory now, or with `VmHWM` the most it ever had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith(what)).split()[1]) / 1024

    async def until_logged(self, text: str, *, count: int = 1, timeout_s: float = 15) -> str:
        """The first line of the log with this text, as soon as there are so many."""
        async with asyncio.timeout(timeout_s):
            while len(found := [line for line in self.log_lines if text in line]) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        return found[0]


@asynccontextmanager
async def accord_serve(
    folder: Path, *arguments: str, config: str = "", agent: str = "", environ: Mapping[str, str] | None = None
) -> AsyncGenerator[ServedProcess]:
    """Serve with this configuration in this folder; `agent` is Python source with an agent called `agent`."""
    store = "" if "[store]" in config else '\n[store]\npath = "accord.db"\n'
    (folder / "accord.toml").write_text(config + store)
    if agent:
        (folder / "served_agent.py").write_text(agent)
        arguments = ("served_agent:agent", *arguments)
    command = [sys.executable, "-m", "accord", "serve", "--port", "0", "--config", "accord.toml", *arguments]
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **(environ or {})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    lines: list[str] = []
    reading = asyncio.create_task(_collect(process.stderr, lines))
    try:
        async with asyncio.timeout(START_S):
            curl = (await process.stdout.readline()).decode()
        assert "/v1/assist" in curl, "\n".join(lines)
        address = curl.split("/v1/assist")[0].split()[-1]
        yield ServedProcess(process, address, folder, lines)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await reading


async def _collect(stream: asyncio.StreamReader, lines: list[str]) -> None:
    while line := await stream.readline():
        lines.append(line.decode(errors="replace").rstrip("\n"))


async def healthy_in(address: str, timeout_s: float = 5) -> float:
    """How many seconds `GET /health` takes on a new connection."""
    began_at = asyncio.get_running_loop().time()
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(timeout_s)) as client,
        client.get(f"{address}/health") as response,
    ):
        assert response.status == 200
        await response.read()
    return asyncio.get_running_loop().time() - began_at


@dataclass(slots=True)
class SharedProcess:
    """A process on a store that others share, and its address. Each call makes a new connection."""

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

    async def read_turn(self, number: int) -> Packets:
        """The packets of a turn that was begun here or elsewhere."""
        async with self.client() as client, client.get(address_of(number), headers=EVENTS) as response:
            return events_of(await response.read())

    async def receipt(self, number: int) -> dict[str, Any]:
        async with self.client() as client, client.get(f"{address_of(number)}/receipt") as response:
            return await response.json()

    async def wait_for_turn(self, number: int) -> None:
        """Return once this turn has begun, here or elsewhere; the caller bounds the wait."""
        async with self.client() as client:
            while True:
                async with client.get(address_of(number), headers=EVENTS) as response:
                    if response.status == HTTPStatus.OK:
                        return
                await asyncio.sleep(0.02)

    async def stop_between_writes(self) -> None:
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
def serve_shared_store(folder: Path, store: str, name: str = "a", **settings: Any) -> Generator[SharedProcess]:
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
            yield SharedProcess(process, found.group(), log, store)
        finally:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait(10)
