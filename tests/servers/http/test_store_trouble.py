"""A service whose SQLite file cannot be written, is deleted or damaged: what is reported, and recovery."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from accord.errors import StoreError
from accord.ports import PacketBatch
from accord.stores.sqlite import SqliteStore
from tests.servers.transports import body, within
from tests.stores.records import a_session, a_turn, ending

if sys.platform != "linux":
    pytest.skip("needs Linux's prlimit", allow_module_level=True)
import resource

WAIT_S = 20


@dataclass(slots=True)
class Served:
    """`accord serve` in a process of its own."""

    process: asyncio.subprocess.Process
    client: aiohttp.ClientSession
    sent: int = 0
    log: list[str] = field(default_factory=list[str])

    async def ask(self) -> int:
        """The status of a new turn."""
        self.sent += 1
        async with self.client.post("/v1/assist", json=body(self.sent, "Hi")) as response:
            await response.read()
            return response.status

    async def health(self) -> list[tuple[int, str]]:
        """Status and word of each endpoint: whole, ready, live."""
        found: list[tuple[int, str]] = []
        for path in ("/health", "/health/ready", "/health/live"):
            async with self.client.get(path) as response:
                found.append((response.status, (await response.json())["status"]))
        return found

    async def until(self, expected: list[tuple[int, str]]) -> None:
        """Wait until the health is so, for a while at most."""
        found: Any = None
        for _ in range(WAIT_S * 10):
            if (found := await self.health()) == expected:
                return
            await asyncio.sleep(0.1)
        raise AssertionError(found)

    async def read_log(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.log.append(line.decode())


WELL = [(200, "ok")] * 3
FAILING = [(503, "degraded"), (503, "degraded"), (200, "ok")]


@asynccontextmanager
async def served(folder: Path) -> AsyncGenerator[Served]:
    config = folder / "accord.toml"
    config.write_text('[store]\npath = "accord.db"\n')
    command = [sys.executable, "-m", "accord", "serve", "--port", "0", "--log-json", "--config", str(config)]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, cwd=folder)
    assert process.stdout is not None
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), WAIT_S)).decode()
        address = next(word for word in line.split() if word.startswith("http")).removesuffix("/v1/assist")
        async with aiohttp.ClientSession(address, timeout=aiohttp.ClientTimeout(WAIT_S)) as client:
            running = Served(process, client)
            reading = asyncio.create_task(running.read_log())
            yield running
            reading.cancel()
    finally:
        process.kill()
        await process.wait()


def test_a_full_disk_is_reported_by_health_and_log_and_turns_continue_when_there_is_space(tmp_path: Path):
    async def run() -> None:
        async with served(tmp_path) as service:
            assert await service.ask() == 200
            await service.until(WELL)
            before = resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (4096, before[1]))
            await service.until(FAILING)
            assert await service.ask() == 503
            resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, before)
            await service.until(WELL)
            assert await service.ask() == 200
            reasons = [line for line in service.log if "The session store failed" in line]
            assert any("the disk" in line for line in reasons)
            assert len(reasons) < 10
            assert any("The session store works again" in line for line in service.log)

    within(run)


def moved(file: Path) -> Callable[[], None]:
    away = file.with_name("away.db")
    file.rename(away)

    def put_back() -> None:
        away.rename(file)

    return put_back


def replaced(file: Path) -> Callable[[], None]:
    back = moved(file)
    file.write_bytes(b"")
    return back


def log_deleted(file: Path) -> Callable[[], None]:
    return moved(file.with_name(file.name + "-wal"))


@pytest.mark.parametrize("trouble", [moved, replaced, log_deleted])
def test_a_file_that_is_deleted_or_replaced_takes_no_turns_until_it_is_back(
    tmp_path: Path, trouble: Callable[[Path], Callable[[], None]]
):
    async def run() -> None:
        async with served(tmp_path) as service:
            assert await service.ask() == 200
            put_back = trouble(tmp_path / "accord.db")
            assert await service.ask() == 503
            await service.until(FAILING)
            assert any("deleted or replaced while it was in use" in line for line in service.log)
            put_back()
            await service.until(WELL)
            assert await service.ask() == 200

    within(run)


def test_a_damaged_file_is_noticed_when_it_is_read_and_not_forgotten(tmp_path: Path):
    file = tmp_path / "sessions.sqlite3"

    async def fill() -> None:
        store = SqliteStore(file)
        await store.open()
        await store.begin_turn(a_session(), a_turn(), history=0)
        await store.end_turn(ending(PacketBatch("r1", 1, ["x" * 500] * 2_000)))
        await store.close()

    async def read() -> None:
        store = SqliteStore(file)
        await store.open()
        await store.probe()
        for call in (store.packets("r1", after_seq=0, limit=5_000), store.probe()):
            with pytest.raises(StoreError, match="the file is damaged"):
                await call
        await store.close()

    within(fill)
    middle = file.stat().st_size // 2
    with file.open("r+b") as damaged:
        damaged.seek(middle)
        damaged.write(os.urandom(100_000))
    within(read)
