"""`accord serve` as a real process: its address, its log, its memory. It is killed at the end of the block."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiohttp

START_S: Final = 30


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
