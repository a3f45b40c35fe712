"""`accord serve` and `accord acp` end the agents that they start, in real processes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

AGENT = Path(__file__).with_name("lasting_agent.py")
WAIT_S = 30.0


def start(folder: Path, *arguments: str, command: list[str]) -> "subprocess.Popen[bytes]":
    config = folder / "accord.toml"
    config.write_text(
        '[store]\nkind = "memory"\n[[backends]]\nname = "inner"\nkind = "acp"\n'
        f"[backends.options]\ncommand = {json.dumps(command)}\n"
    )
    accord = [sys.executable, "-m", "accord", *arguments, "--config", str(config)]
    pipe = subprocess.PIPE
    return subprocess.Popen(accord, stdin=pipe, stdout=pipe, stderr=pipe, cwd=folder, env=os.environ)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def pid_in(path: Path) -> int:
    until = time.monotonic() + WAIT_S
    while not path.exists():
        assert time.monotonic() < until, "the agent was not started"
        time.sleep(0.02)
    return int(path.read_text())


def wait_until_it_serves(process: "subprocess.Popen[bytes]", transport: str) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    if transport == "acp":
        process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n')
        process.stdin.flush()
    assert process.stdout.readline()


@pytest.mark.parametrize(
    ("transport", "manner", "status"),
    [("serve", "polite", 0), ("acp", "stubborn", 0), ("acp", "mute", 128 + signal.SIGTERM)],
    ids=["a service", "an agent for an editor", "while it is still starting"],
)
def test_a_command_that_is_stopped_leaves_no_agent_running(tmp_path: Path, transport: str, manner: str, status: int):
    arguments = ["serve", "relay", "--port", "0"] if transport == "serve" else ["acp", "relay"]
    process = start(tmp_path, *arguments, command=[sys.executable, "-S", str(AGENT), str(tmp_path / "pid"), manner])
    try:
        if manner != "mute":
            wait_until_it_serves(process, transport)
        inner = pid_in(tmp_path / "pid")
        assert is_alive(inner)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == status
        assert not is_alive(inner)
    finally:
        process.kill()
        process.communicate()


def test_an_agent_that_cannot_be_started_gives_one_sentence(tmp_path: Path):
    process = start(tmp_path, "acp", "relay", command=["no-such-agent"])
    out, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, out) == (2, b"")
    assert b"accord: backends.inner: The agent cannot be started" in err
    assert b"Traceback" not in err
