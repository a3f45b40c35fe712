"""`accord serve --reload` over real processes: a change restarts the service at the same port, a mistake does not end it."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from tests.servers.transports import body, within

AGENT = """
from accord import Agent

agent = Agent()

@agent
async def answer(turn):
    yield "{word}"
"""
WAIT_S = 20.0


def until(is_so: Callable[[], bool], what: str) -> None:
    """Wait until the condition holds; fail after a while."""
    end = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end, what
        time.sleep(0.05)


@dataclass(slots=True)
class Reloading:
    """The supervisor, where its service listens, and what both wrote."""

    process: subprocess.Popen[bytes]
    folder: Path
    port: int

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def write(self, text: str) -> None:
        (self.folder / "my_agent.py").write_text(text)

    def answers(self, word: str) -> bool:
        """Whether the service answers this now."""

        async def ask() -> str:
            async with (
                aiohttp.ClientSession(f"http://127.0.0.1:{self.port}") as client,
                client.post("/v1/assist", json=body(time.monotonic_ns())) as response,
            ):
                return await response.text()

        try:
            return word in within(ask)
        except aiohttp.ClientError:
            return False

    def is_listening(self) -> bool:
        with socket.socket() as trying:
            return trying.connect_ex(("127.0.0.1", self.port)) == 0


@contextmanager
def reloading(folder: Path) -> Generator[Reloading]:
    (folder / "my_agent.py").write_text(AGENT.format(word="first"))
    environ = {**os.environ, "ACCORD_STORE_PATH": str(folder / "accord.db"), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "accord", "serve", "./my_agent.py:agent", "--reload", "--port", "0"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environ, stdout=log, stderr=log)
    found = Reloading(process, folder, 0)
    try:
        until(lambda: "/v1/assist" in found.log, "it did not start")
        found.port = int(re.findall(r"http://127.0.0.1:(\d+)", found.log)[0])
        yield found
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(WAIT_S)


@pytest.mark.timeout(90)
def test_a_change_restarts_the_service_and_a_broken_agent_waits_for_the_next(tmp_path: Path):
    with reloading(tmp_path) as service:
        assert service.answers("first")
        service.write(AGENT.format(word="second"))
        until(lambda: service.answers("second"), "the change was not seen")
        assert "my_agent.py has changed; restarting" in service.log
        service.write("async def answer(turn)\n")
        until(lambda: "waiting for a change" in service.log, "the mistake was not seen")
        assert "my_agent.py:1: SyntaxError: expected ':'" in service.log
        assert "Traceback" not in service.log
        service.write(AGENT.format(word="third"))
        until(lambda: service.answers("third"), "it did not start again")
        service.process.send_signal(signal.SIGINT)
        service.process.wait(WAIT_S)
        assert not service.is_listening()
