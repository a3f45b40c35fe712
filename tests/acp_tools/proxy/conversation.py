"""A conversation with the raw agent, direct or through the proxy; every wait has a time limit."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

AGENT = Path(__file__).with_name("raw_agent.py")
WAIT_S = 30


def line(call_id: Any, method: str, params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": call_id, "method": method, "params": params}).encode() + b"\n"


def prompt(call_id: Any, *blocks: Any) -> bytes:
    return line(call_id, "session/prompt", {"sessionId": "s", "prompt": list(blocks)})


def proxy(mode: str, *more: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "accord", "proxy", "--mode", mode, *more, "--")


def hello(version: int = 1) -> bytes:
    return line(0, "initialize", {"protocolVersion": version, "clientCapabilities": {}})


def until(is_true: Callable[[], bool]) -> None:
    """Wait until this is true."""
    end = time.monotonic() + WAIT_S
    while not is_true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def child_of(conversation: "Conversation") -> int:
    """The process of the agent behind the proxy."""
    pid = conversation.process.pid
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Conversation:
    """A conversation with the agent."""

    def __init__(self, tmp_path: Path, *front: str, behaviour: str = "echo") -> None:
        self.received = tmp_path / f"received-{len(list(tmp_path.iterdir()))}"
        self.received.touch()
        command = [*front, sys.executable, "-S", str(AGENT), behaviour, str(self.received)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, env=os.environ
        )
        self._alarm = threading.Timer(2 * WAIT_S, self.process.kill)
        self._alarm.start()

    def __enter__(self) -> "Conversation":
        return self

    def __exit__(self, *_: object) -> None:
        self._alarm.cancel()
        self.process.kill()
        self.process.wait(WAIT_S)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    def send(self, *lines: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(lines))
        self.process.stdin.flush()

    def receive(self) -> bytes:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the output has ended"
        return line

    def call(self, request: bytes) -> list[bytes]:
        """Send a request and return every line up to its response."""
        self.send(request)
        lines = [self.receive()]
        while lines[-1] and b'"id"' not in lines[-1]:
            lines.append(self.receive())
        return lines

    def rest(self) -> list[bytes]:
        """Every further line until the output ends."""
        assert self.process.stdout is not None
        return self.process.stdout.readlines()

    def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(WAIT_S)

    def stderr(self) -> str:
        """What was written to stderr, once the process has ended."""
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()
