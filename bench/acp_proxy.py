"""Measure what `accord proxy` adds: the same conversation with the same agent, direct and in each mode.

The agent writes prepared bytes, so it is not the bottleneck. Rounds are interleaved and the best of each counts, since
the machine is shared. `observe` always writes a log; `guard` is measured with and without one.
"""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

AGENT: Final = [sys.executable, "-S", str(Path(__file__).with_name("acp_raw_agent.py"))]
PROXY: Final = [sys.executable, "-m", "accord", "proxy", "--mode"]
COMMANDS: Final = {
    "direct": AGENT,
    "guard": [*PROXY, "guard", "--", *AGENT],
    "adapt": [*PROXY, "adapt", "--", *AGENT],
    "guard, log": [*PROXY, "guard", "--log", "log.jsonl", "--", *AGENT],
    "observe": [*PROXY, "observe", "--", *AGENT],
}
ROUNDS: Final = 5
PROMPTS: Final = 300
UPDATES: Final = 200_000
CHUNK: Final = 1024 * 1024
MAX_ADDED_MS: Final = 1.0
MIN_RATE: Final = 50_000


class RawEditor:
    """An editor without a library, which reads as fast as it can."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None  # noqa: S101 - created with pipes below
        assert process.stdout is not None  # noqa: S101
        self._write, self._read = process.stdin, process.stdout
        self._last = 0
        self._call("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        self._call("session/new", {"cwd": "/", "mcpServers": []})

    def prompt(self, updates: int) -> float:
        """The seconds until this many updates and the response have arrived."""
        began_at = perf_counter()
        lines = self._call("session/prompt", {"sessionId": "s", "prompt": [{"type": "text", "text": str(updates)}]})
        took = perf_counter() - began_at
        assert lines == updates + 1, lines  # noqa: S101 - otherwise the figure would be wrong
        return took

    def _call(self, method: str, params: object) -> int:
        """Call a method and return how many lines came, including the response."""
        self._last += 1
        request = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}
        self._write.write(json.dumps(request).encode() + b"\n")
        self._write.flush()
        lines, tail, end = 0, b"", b'"id":%d,' % self._last
        while end not in tail or not tail.endswith(b"\n"):
            data = os.read(self._read.fileno(), CHUNK)
            assert data, method  # noqa: S101
            lines += data.count(b"\n")
            tail = (tail + data)[-200:]
        return lines


@contextmanager
def started(name: str) -> Generator[RawEditor]:
    """Start the agent, direct or behind a proxy, and initialize it."""
    with (
        TemporaryDirectory() as folder,
        subprocess.Popen(COMMANDS[name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder) as process,
    ):
        yield RawEditor(process)
        assert process.stdin is not None  # noqa: S101
        process.stdin.close()


def round_trip_ms(editor: RawEditor) -> float:
    """The median time of a prompt, in milliseconds."""
    return median(editor.prompt(0) for _ in range(PROMPTS)) * 1000


def updates_per_second(editor: RawEditor) -> float:
    """How many updates of one long answer arrive per second."""
    return UPDATES / editor.prompt(UPDATES)


def main() -> None:
    """Print all figures."""
    fastest: dict[str, float] = {}
    rates: dict[str, float] = {}
    with ExitStack() as stack:
        editors = {name: stack.enter_context(started(name)) for name in COMMANDS}
        for _ in range(ROUNDS):
            for name, editor in editors.items():
                fastest[name] = min(fastest.get(name, 1e9), round_trip_ms(editor))
                rates[name] = max(rates.get(name, 0.0), updates_per_second(editor))
    for name in COMMANDS:
        added = fastest[name] - fastest["direct"]
        goals = ("", "") if name == "direct" else (f"  goal < {MAX_ADDED_MS:g}", f"   goal ≥ {MIN_RATE:,}")
        print(
            f"{name:13} p50 {fastest[name]:6.3f} ms, added {added:6.3f}{goals[0]:10}"
            f"   updates/s {rates[name]:10,.0f}{goals[1]}"
        )


if __name__ == "__main__":
    main()
