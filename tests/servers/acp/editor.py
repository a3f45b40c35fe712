"""An editor that sends raw lines to an agent over pipes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Any


class Editor:
    """One conversation with an agent; `process` is the agent, if it is to be waited for."""

    def __init__(self, stdin: IO[bytes], stdout: IO[bytes], process: "subprocess.Popen[bytes] | None" = None) -> None:
        self._stdin, self._stdout, self._process = stdin, stdout, process
        self._last = 0
        self.session, self.version = "", 1

    @property
    def input_fd(self) -> int:
        return self._stdin.fileno()

    def send(self, line: bytes) -> None:
        self._stdin.write(line)
        self._stdin.flush()

    def receive(self) -> Any:
        line = self._stdout.readline()
        assert line, "the agent has ended"
        return json.loads(line)

    def receive_batch(self) -> list[Any]:
        """The next batch of replies; messages before it are skipped."""
        while not isinstance(frame := self.receive(), list):
            pass
        return frame  # pyright: ignore[reportUnknownVariableType] - from JSON

    def call(self, method: str, **params: Any) -> tuple[Any, list[Any]]:
        """The answer to a call, and the messages received before it."""
        self._last += 1
        self.send(json.dumps({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}).encode() + b"\n")
        messages: list[Any] = []
        while (frame := self.receive()).get("id") != self._last:
            messages.append(frame)
        return frame, messages

    def until_idle(self) -> list[Any]:
        """The updates until the agent reports the state idle (draft)."""
        messages: list[Any] = []
        while not messages or messages[-1].get("state") != "idle":
            messages.append(self.receive()["params"]["update"])
        return messages

    def new_session(self, version: int = 1) -> str:
        if version == 1:
            self.call("initialize", protocolVersion=1, clientCapabilities={})
        else:
            self.call("initialize", protocolVersion=2, info={"name": "t", "version": "1"}, capabilities={})
        return self.call("session/new", cwd="/", mcpServers=[])[0]["result"]["sessionId"]

    def end(self, within_s: float = 30) -> int:
        """Close the input and return the exit status of the agent."""
        self._stdin.close()
        assert self._process is not None
        return self._process.wait(within_s)

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
        self._stdin.close()
        self._stdout.close()


def start(folder: Path, agent: str = "demo") -> Editor:
    """Start an agent and return an editor connected to it."""
    paths = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    environ = {**os.environ, "ACCORD_STORE_PATH": str(folder / "accord.db"), "PYTHONPATH": paths}
    command = [sys.executable, "-m", "accord", "acp", agent]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder, env=environ)
    assert process.stdin is not None
    assert process.stdout is not None
    return Editor(process.stdin, process.stdout, process)
