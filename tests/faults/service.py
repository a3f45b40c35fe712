"""Real `accord serve` processes on one store: started, killed, stopped and continued by the tests."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

LEASE_S: Final = 1.5
START_S: Final = 30

# Starts `accord serve` in a process whose clock is wrong by ACCORD_TEST_SKEW_S seconds.
SKEWED: Final = """
import os
from datetime import timedelta
from accord.ports import SystemClock
right = SystemClock.now
SystemClock.now = lambda clock: right(clock) + timedelta(seconds=float(os.environ["ACCORD_TEST_SKEW_S"]))
from accord.cli import main
main()
"""


def free_port() -> int:
    """A port that nothing listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class Service:
    """One `accord serve` process, which may be replaced by another one at the same address."""

    def __init__(self, folder: Path, store: str, *, skew_s: float = 0, env: Mapping[str, str] | None = None) -> None:
        self.folder: Final = folder
        self.port: Final = free_port()
        self.address: Final = f"http://127.0.0.1:{self.port}"
        self.log: Final = folder / f"serve-{self.port}.log"
        self._config: Final = folder / f"accord-{self.port}.toml"
        self._config.write_text(CONFIG.format(store=store, port=self.port, lease_s=LEASE_S))
        self._env: Final = {**os.environ, "ACCORD_TEST_SKEW_S": str(skew_s), **(env or {})}
        self._program: Final = ["-c", SKEWED] if skew_s else ["-m", "accord"]
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start a process and wait until it listens."""
        command = ["serve", "tests.faults.agents:agent", "--config", str(self._config), "--log-json"]
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, *self._program, *command, stdout=log, stderr=log, env=self._env
            )
        async with asyncio.timeout(START_S):
            while not await self.listens():
                assert self.process.returncode is None, self.log.read_text()[-4_000:]
                await asyncio.sleep(0.02)

    async def listens(self) -> bool:
        """Whether connections are taken."""
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        return True

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        assert self.process is not None
        self.process.send_signal(number)

    async def kill(self) -> None:
        """End the process as a power cut would."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()


CONFIG: Final = """
[store]
{store}

[server]
port = {port}
lease_s = {lease_s}
rates = []
"""


@asynccontextmanager
async def serving(*services: Service) -> AsyncGenerator[None]:
    """Start these services; kill what is left of them in the end."""
    try:
        await asyncio.gather(*(service.start() for service in services))
        yield
    finally:
        for service in services:
            if service.process is not None and service.process.returncode is None:
                service.send(signal.SIGCONT)
            await service.kill()
