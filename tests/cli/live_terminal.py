"""`accord` on a terminal that shows what a user would see: a real pseudo-terminal, and pyte as its screen."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyte

from tests.cli.on_terminal import TAKE_TERMINAL

WAIT_S = 30


class LiveTerminal:
    """A command on a terminal, while it runs."""

    def __init__(self, terminal: int, columns: int, lines: int) -> None:
        self.terminal = terminal
        self.screen = pyte.HistoryScreen(columns, lines, history=20_000, ratio=0.5)
        self._stream = pyte.ByteStream(self.screen)
        self.received = b""
        self.writes = 0

    def resize(self, columns: int, lines: int = 30) -> None:
        """Give the terminal another size; the command gets SIGWINCH."""
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.screen.resize(lines, columns)

    def type(self, text: str) -> None:
        """Type this."""
        os.write(self.terminal, text.encode())

    @property
    def shown(self) -> str:
        """The text of the whole screen, without blanks at the end of lines."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    @property
    def scrolled(self) -> str:
        """The same, with the lines that have left the screen at its top."""
        columns = range(self.screen.columns)
        lines = ["".join(line[column].data for column in columns).rstrip() for line in self.screen.history.top]
        return "\n".join([*lines, self.shown])

    def read(self) -> bool:
        """Read what the command has written, for a short time; False if it has ended."""
        if not select.select([self.terminal], [], [], 0.2)[0]:
            return True
        try:
            piece = os.read(self.terminal, 65_536)
        except OSError:  # how Linux says that the other side was closed
            return False
        self.received += piece
        self.writes += 1
        self._stream.feed(piece)
        return bool(piece)

    def wait_until(self, is_true: Callable[[], bool]) -> str:
        """Return the screen as soon as this is true."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end and not is_true() and self.read():
            pass
        assert is_true(), self.scrolled
        return self.shown

    def wait_for(self, text: str) -> str:
        """Return the screen as soon as this text has been on it; what has scrolled away counts, and rows are joined."""
        return self.wait_until(lambda: text in " ".join(self.scrolled.split()))

    def press_until(self, key: str, text: str | None) -> None:
        """Press a key, and once a second again, until this text has been on the screen, or until the command ends."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            self.type(key)
            again = time.monotonic() + 1
            while time.monotonic() < again:
                if not self.read() or (text is not None and text in self.scrolled):
                    return
        raise AssertionError(self.scrolled)

    def wait_for_prompt(self, *, count: int) -> str:
        """Return the screen as soon as there have been so many prompts, and the last is empty."""
        return self.wait_until(lambda: self._has_prompts(count))

    def _has_prompts(self, count: int) -> bool:
        lines = self.scrolled.rstrip().split("\n")
        return lines[-1] == ">" and sum(line.startswith(">") for line in lines) >= count

    def read_to_end(self) -> str:
        """Return all lines once the command has ended."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end and self.read():
            pass
        return self.scrolled


@contextmanager
def accord_on_terminal(
    *arguments: str, cwd: Path, environ: Mapping[str, str] | None = None, columns: int = 80, lines: int = 30
) -> Generator[tuple[LiveTerminal, "subprocess.Popen[bytes]"]]:
    """Run `accord` on a terminal of this size; it is killed at the end of the block if it still runs."""
    ours, theirs = pty.openpty()
    terminal = LiveTerminal(ours, columns, lines)
    terminal.resize(columns, lines)
    left_out = {"COLUMNS", "LINES", "NO_COLOR", "TMUX", "TERM_PROGRAM"}
    env = {name: value for name, value in os.environ.items() if name not in left_out}
    process = subprocess.Popen(
        [sys.executable, "-c", TAKE_TERMINAL, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=cwd,
        env={**env, "TERM": "xterm-256color", **(environ or {})},
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield terminal, process
    finally:
        process.kill()
        process.wait(WAIT_S)
        os.close(ours)
