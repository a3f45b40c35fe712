"""A conversation with the raw agent, direct or through the proxy; every wait is bounded."""

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


def line(own: Any, method: str, params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": own, "method": method, "params": params}).encode() + b"\n"


def prompt(own: Any, *blocks: Any) -> bytes:
    return line(own, "session/prompt", {"sessionId": "s", "prompt": list(blocks)})


def proxy(mode: str, *more: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "accord", "proxy", "--mode", mode, *more, "--")


def hello(version: int = 1) -> bytes:
    return line(0, "initialize", {"protocolVersion": version, "clientCapabilities": {}})


def until(is_true: Callable[[], bool]) -> None:
    """Wait for it."""
    end = time.monotonic() + WAIT_S
    while not is_true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


class Talk:
    """A conversation with the agent."""

    def __init__(self, tmp_path: Path, *front: str, manner: str = "echo") -> None:
        self.seen = tmp_path / f"seen-{len(list(tmp_path.iterdir()))}"
        self.seen.touch()
        command = [*front, sys.executable, "-S", str(AGENT), manner, str(self.seen)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, env=os.environ
        )
        self._alarm = threading.Timer(2 * WAIT_S, self.process.kill)
        self._alarm.start()

    def __enter__(self) -> "Talk":
        return self

    def __exit__(self, *_: object) -> None:
        self._alarm.cancel()
        self.process.kill()
        self.process.wait(WAIT_S)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    def say(self, *lines: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(lines))
        self.process.stdin.flush()

    def hear(self) -> bytes:
        assert self.process.stdout is not None
        heard = self.process.stdout.readline()
        assert heard, "it said no more"
        return heard

    def ask(self, asked: bytes) -> list[bytes]:
        """Every line up to the one that answers."""
        self.say(asked)
        heard = [self.hear()]
        while heard[-1] and b'"id"' not in heard[-1]:
            heard.append(self.hear())
        return heard

    def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(WAIT_S)

    def told(self) -> str:
        """What was said on stderr, when all is over."""
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()
