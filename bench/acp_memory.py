"""Measure what a prompt on one long line costs `accord acp`: memory at its peak above the idle process, and disk.

Figures are multiples of the line. The goal of memory is at most 3. Needs Linux, whose /proc has the peak of a process.
"""

import json
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

AGENT: Final = """from accord import Agent
agent = Agent(name="reader", accepts={"image": True, "embeddedContext": True})


@agent
async def read(turn):
    yield turn.text if turn.text.startswith("echo") else f"{len(turn.content or [])} blocks"
"""
SIZE: Final = 25 * 1024 * 1024
"""Of each of two blocks: one of 50 MB is more than `limits.max_block_bytes` allows."""
PNG: Final = b64encode(b"\x89PNG\r\n\x1a\n" + bytes(SIZE * 3 // 4)).decode()
CODE: Final = 'print("hello")\n' * (SIZE // 18)
ECHOED: Final = "an echoed text"
PROMPTS: Final[dict[str, Callable[[], list[Any]]]] = {
    "two images": lambda: [{"type": "image", "mimeType": "image/png", "data": PNG}] * 2,
    "two resources": lambda: [{"type": "resource", "resource": {"uri": "file:///a.py", "text": CODE}}] * 2,
    "two texts": lambda: [{"type": "text", "text": CODE}] * 2,
    "one refused image": lambda: [{"type": "image", "mimeType": "image/png", "data": PNG + PNG}],
    ECHOED: lambda: [{"type": "text", "text": "echo " + "x" * SIZE}],
}
HELLO: Final = [{"type": "text", "text": "hello"}]


class MeasuredAgent:
    """One `accord acp` in a folder of its own."""

    def __init__(self, folder: Path, version: int) -> None:
        (folder / "reader.py").write_text(AGENT)
        environ = {**os.environ, "PYTHONPATH": str(folder), "ACCORD_STORE_PATH": str(folder / "accord.db")}
        command = [sys.executable, "-m", "accord", "acp", "reader:agent"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder, env=environ)
        assert process.stdin is not None  # noqa: S101 - created with pipes above
        assert process.stdout is not None  # noqa: S101
        self._process, self._write, self._read = process, process.stdin, process.stdout
        self._version = version
        client: dict[str, Any] = (
            {"clientCapabilities": {}} if version == 1 else {"info": {"name": "b", "version": "1"}, "capabilities": {}}
        )
        self._call("initialize", {"protocolVersion": version, **client})
        self._session = self._call("session/new", {"cwd": "/", "mcpServers": []})["result"]["sessionId"]

    def prompt(self, blocks: list[Any]) -> int:
        """Send a prompt, read everything up to its end, and return the size of its line."""
        params = {"sessionId": self._session, "prompt": blocks}
        line = json.dumps({"jsonrpc": "2.0", "id": 9, "method": "session/prompt", "params": params}).encode() + b"\n"
        reply = self._exchange(line, 9)
        while self._version == 2 and "result" in reply and b'"state":"idle"' not in self._read.readline():
            pass
        return len(line)

    def measure(self, blocks: list[Any]) -> tuple[float, int]:
        """The peak above the idle process as a multiple of the line of this prompt, and the size of the line."""
        self.prompt(HELLO)
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")  # forgets the peak so far
        idle = self._kilobytes("VmRSS")
        size = self.prompt(blocks)
        return (self._kilobytes("VmHWM") - idle) * 1024 / size, size

    def close(self) -> None:
        """End the process, which then has written everything to the file."""
        self._write.close()
        self._process.wait(30)
        self._read.close()

    def _kilobytes(self, name: str) -> int:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition(f"{name}:")[2].split()[0])

    def _call(self, method: str, params: Any) -> Any:
        return self._exchange(
            json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n", 1
        )

    def _exchange(self, line: bytes, request_id: int) -> Any:
        self._write.write(line)
        self._write.flush()
        while (reply := json.loads(self._read.readline())).get("id") != request_id:
            pass
        return reply


def main() -> None:
    """Print all figures."""
    for version in (1, 2):
        for name, blocks in PROMPTS.items():
            with TemporaryDirectory() as folder:
                agent = MeasuredAgent(Path(folder), version)
                memory, size = agent.measure(blocks())
                agent.close()
                disk = (Path(folder) / "accord.db").stat().st_size / size
            # An answer as long as the prompt is in memory as well.
            goal = "" if name == ECHOED else "goal ≤ 3"
            figures = f"disk {disk:4.2f} ×   memory {memory:5.2f} ×   {goal}"
            print(f"version {version}  {name:18} {size / 1e6:5.0f} MB   {figures}")


if __name__ == "__main__":
    main()
