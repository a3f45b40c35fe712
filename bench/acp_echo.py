"""Measure ACP agents: prompts and updates per second, with the same raw client for each agent.

Rounds are interleaved and the best of each counts, because the machine is shared. The Python SDK is the baseline.
"""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

AGENTS: Final = Path(__file__).with_name("acp_agents.py")
COMMANDS: Final = {
    "sdk": [sys.executable, str(AGENTS), "sdk"],
    "stdio": [sys.executable, str(AGENTS), "stdio"],
    "turn": [sys.executable, "-m", "accord", "acp", "acp_agents:turn_agent"],
    "sqlite": [sys.executable, "-m", "accord", "acp", "acp_agents:turn_agent"],
}
STORES: Final = {"turn": {"ACCORD_STORE_KIND": "memory"}}
"""The SDK stores nothing, so `turn` uses the memory store; `sqlite` is the same turn with two disk flushes."""
ROUNDS: Final = 5
PROMPTS: Final = 300
UPDATES: Final = 5_000


class RawClient:
    """A client without a library, connected to one agent."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None  # noqa: S101 - created with pipes below
        assert process.stdout is not None  # noqa: S101
        self._write, self._read = process.stdin, process.stdout
        self._last = 0
        self.call("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        self._session = json.loads(self.call("session/new", {"cwd": "/", "mcpServers": []}))["result"]["sessionId"]

    def call(self, method: str, params: object) -> bytes:
        """Call a method and return the line of its response."""
        self._last += 1
        request = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}
        self._write.write(json.dumps(request).encode() + b"\n")
        self._write.flush()
        while b'"method"' in (line := self._read.readline()):
            pass
        return line

    def prompt(self, text: str) -> None:
        """Send a prompt and read everything up to its response."""
        line = self.call("session/prompt", {"sessionId": self._session, "prompt": [{"type": "text", "text": text}]})
        assert b"end_turn" in line, line  # noqa: S101 - otherwise the figure would be wrong


@contextmanager
def started(name: str) -> Generator[RawClient]:
    """Start this agent and initialize it."""
    with TemporaryDirectory() as folder:
        store = STORES.get(name, {"ACCORD_STORE_PATH": f"{folder}/accord.db"})
        environ = {**os.environ, "PYTHONPATH": str(AGENTS.parent), **store}
        with subprocess.Popen(
            COMMANDS[name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder, env=environ
        ) as process:
            yield RawClient(process)
            process.terminate()


def prompts_per_second(client: RawClient) -> float:
    """How many short prompts are answered per second."""
    began_at = perf_counter()
    for _ in range(PROMPTS):
        client.prompt("1")
    return PROMPTS / (perf_counter() - began_at)


def updates_per_second(client: RawClient) -> float:
    """How many updates of one long answer arrive per second."""
    began_at = perf_counter()
    client.prompt(str(UPDATES))
    return UPDATES / (perf_counter() - began_at)


def main() -> None:
    """Print all figures."""
    best: dict[tuple[str, str], float] = {}
    with ExitStack() as stack:
        clients = {name: stack.enter_context(started(name)) for name in COMMANDS}
        for _ in range(ROUNDS):
            for name, client in clients.items():
                for what, measure in (("prompts", prompts_per_second), ("updates", updates_per_second)):
                    best[name, what] = max(best.get((name, what), 0.0), measure(client))
    goals = {("stdio", "prompts"): 2, ("stdio", "updates"): 3, ("turn", "prompts"): 1}
    for (name, what), rate in best.items():
        ratio = rate / best["sdk", what]
        goal = f"   goal ≥ {goals[name, what]}" if (name, what) in goals else ""
        print(f"{name:9} {what}/s  {rate:10,.0f}   {ratio:5.2f} of the SDK's{goal}")


if __name__ == "__main__":
    main()
