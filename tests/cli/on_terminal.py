"""Runs the `accord` command in a process of its own whose standard streams are a terminal."""

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

WAIT_S = 60
TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    "os.execv(sys.executable, [sys.executable, '-m', 'accord', *sys.argv[1:]])"
)
"""Makes the terminal that of the new session, so that Ctrl-C and a new size become signals, as for a user."""


@dataclass(frozen=True)
class Screen:
    """What a terminal received, and how the command ended."""

    status: int
    received: str


def run_on_terminal(
    *arguments: str,
    cwd: Path,
    environ: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    stdout_too: bool = True,
    answers: str = "",
) -> Screen:
    """Run `accord` on a new terminal; `answers` is typed there, unless standard input is this `stdin` instead.

    Without `stdout_too` only standard error is the terminal, as when another program reads standard output.
    """
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "accord", *arguments]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "400", **(environ or {})}
    own_input = theirs if stdin is None else subprocess.PIPE
    process = subprocess.Popen(
        command,
        stdin=own_input,
        stdout=theirs if stdout_too else subprocess.DEVNULL,
        stderr=theirs,
        cwd=cwd,
        env=environment,
        start_new_session=True,
    )
    os.close(theirs)
    if stdin is not None and process.stdin is not None:
        process.stdin.write(stdin)
        process.stdin.close()
    if answers:
        os.write(ours, answers.encode())
    try:
        received = _read_until_closed(ours)
        return Screen(process.wait(WAIT_S), received)
    finally:
        process.kill()
        process.wait(WAIT_S)
        os.close(ours)


def _read_until_closed(terminal: int) -> str:
    received, end = b"", time.monotonic() + WAIT_S
    while time.monotonic() < end:
        if not select.select([terminal], [], [], 0.5)[0]:
            continue
        try:
            piece = os.read(terminal, 65_536)
        except OSError:  # how Linux says that the other side was closed
            piece = b""
        if not piece:
            return received.decode(errors="replace")
        received += piece
    raise AssertionError(f"the command did not end; so far: {received.decode(errors='replace')}")
