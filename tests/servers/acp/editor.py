"""An editor that says raw lines to an agent, over pipes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Any


class Editor:
    """One conversation. Whoever started the agent hands in its process, if it is to be waited for."""

    def __init__(self, stdin: IO[bytes], stdout: IO[bytes], process: "subprocess.Popen[bytes] | None" = None) -> None:
        self._stdin, self._stdout, self._process = stdin, stdout, process
        self._last = 0

    def say(self, line: bytes) -> None:
        self._stdin.write(line)
        self._stdin.flush()

    def hear(self) -> Any:
        line = self._stdout.readline()
        assert line, "the agent has ended"
        return json.loads(line)

    def ask(self, method: str, **params: Any) -> tuple[Any, list[Any]]:
        """The answer to a call, and what was told before it."""
        self._last += 1
        self.say(json.dumps({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}).encode() + b"\n")
        told: list[Any] = []
        while (frame := self.hear()).get("id") != self._last:
            told.append(frame)
        return frame, told

    def until_idle(self) -> list[Any]:
        """What is told until the agent is idle again, as the draft says it."""
        told: list[Any] = []
        while not told or told[-1].get("state") != "idle":
            told.append(self.hear()["params"]["update"])
        return told

    def new_session(self, version: int = 1) -> str:
        if version == 1:
            self.ask("initialize", protocolVersion=1, clientCapabilities={})
        else:
            self.ask("initialize", protocolVersion=2, info={"name": "t", "version": "1"}, capabilities={})
        return self.ask("session/new", cwd="/", mcpServers=[])[0]["result"]["sessionId"]

    def end(self) -> int:
        """Say nothing more; gives the agent's exit status."""
        self._stdin.close()
        assert self._process is not None
        return self._process.wait(30)

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
        self._stdin.close()
        self._stdout.close()


def start(folder: Path, agent: str = "demo") -> Editor:
    """An editor with an agent of its own."""
    paths = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    environ = {**os.environ, "ACCORD_STORE_PATH": str(folder / "accord.db"), "PYTHONPATH": paths}
    command = [sys.executable, "-m", "accord", "acp", agent]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder, env=environ)
    assert process.stdin is not None
    assert process.stdout is not None
    return Editor(process.stdin, process.stdout, process)
