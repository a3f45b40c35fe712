"""What it costs to be an ACP agent: prompts and updates a second, the same raw client asking each agent in turn.

Rounds are interleaved and the best of each counts: the machine is shared. The SDK's own echo agent is the yardstick.
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
    "ours": [sys.executable, str(AGENTS), "ours"],
    "corridor": [sys.executable, "-m", "accord", "acp", "acp_agents:corridor"],
    "sqlite": [sys.executable, "-m", "accord", "acp", "acp_agents:corridor"],
}
STORES: Final = {"corridor": {"ACCORD_STORE_KIND": "memory"}}
"""The SDK keeps nothing, so a whole turn is held against it in memory; SQLite adds two flushes of the disk."""
ROUNDS: Final = 5
PROMPTS: Final = 300
UPDATES: Final = 5_000


class RawClient:
    """An agent and the shortest way to talk to it."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None  # noqa: S101 - asked for below
        assert process.stdout is not None  # noqa: S101
        self._write, self._read = process.stdin, process.stdout
        self._last = 0
        self.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        self._session = json.loads(self.ask("session/new", {"cwd": "/", "mcpServers": []}))["result"]["sessionId"]

    def ask(self, method: str, params: object) -> bytes:
        """The line that answers this call."""
        self._last += 1
        told = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}
        self._write.write(json.dumps(told).encode() + b"\n")
        self._write.flush()
        while b'"method"' in (line := self._read.readline()):
            pass
        return line

    def prompt(self, text: str) -> None:
        """Ask one thing and read everything that is said."""
        line = self.ask("session/prompt", {"sessionId": self._session, "prompt": [{"type": "text", "text": text}]})
        assert b"end_turn" in line, line  # noqa: S101 - a figure of something else would be worthless


@contextmanager
def started(name: str) -> Generator[RawClient]:
    """This agent, ready to be asked."""
    with TemporaryDirectory() as folder:
        kept = STORES.get(name, {"ACCORD_STORE_PATH": f"{folder}/accord.db"})
        environ = {**os.environ, "PYTHONPATH": str(AGENTS.parent), **kept}
        with subprocess.Popen(
            COMMANDS[name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder, env=environ
        ) as process:
            yield RawClient(process)
            process.terminate()


def prompts_a_second(client: RawClient) -> float:
    """How many short prompts are answered."""
    began_at = perf_counter()
    for _ in range(PROMPTS):
        client.prompt("1")
    return PROMPTS / (perf_counter() - began_at)


def updates_a_second(client: RawClient) -> float:
    """How many updates of one long answer arrive."""
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
                for what, measure in (("prompts", prompts_a_second), ("updates", updates_a_second)):
                    best[name, what] = max(best.get((name, what), 0.0), measure(client))
    goals = {("ours", "prompts"): 2, ("ours", "updates"): 3, ("corridor", "prompts"): 1}
    for (name, what), rate in best.items():
        ratio = rate / best["sdk", what]
        goal = f"   goal ≥ {goals[name, what]}" if (name, what) in goals else ""
        print(f"{name:9} {what}/s  {rate:10,.0f}   {ratio:5.2f} of the SDK's{goal}")


if __name__ == "__main__":
    main()
