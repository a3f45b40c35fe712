"""Append a trace to a file, one JSON object per line, each written whole: a crash costs at most the last one.

A file belongs to one conversation at a time; a second proxy writes to the next file beside it.
"""

import errno
import fcntl
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol

import msgspec

from accord.acp_tools.trace.entries import ProxyFinding, Side, plain_entries, trace_entry

FLUSH_BYTES: Final = 64 * 1024
MAX_BESIDE: Final = 1_000


class Trace(Protocol):
    """A record of a conversation."""

    @property
    def wants_lines(self) -> bool:
        """Whether single lines are recorded; if not, blocks of lines need not be split."""
        ...

    def add(
        self, number: int, side: Side, line: bytes, *, fate: str = "passed", findings: Iterable[ProxyFinding] = ()
    ) -> None:
        """Record one message."""
        ...

    def add_plain(self, number: int, lines: list[bytes]) -> None:
        """Record valid updates of the agent; the first has this number."""
        ...

    def flush(self) -> None:
        """Write what was added."""
        ...


class NoTrace:
    """Records nothing."""

    wants_lines = False

    def add(
        self, number: int, side: Side, line: bytes, *, fate: str = "passed", findings: Iterable[ProxyFinding] = ()
    ) -> None:
        """Do nothing."""

    def add_plain(self, number: int, lines: list[bytes]) -> None:
        """Do nothing."""

    def flush(self) -> None:
        """Do nothing."""


class TraceFile:
    """Append to a file that only its owner may read; `path` is the file that was opened."""

    wants_lines = True

    def __init__(self, path: Path, *, full: bool = False) -> None:
        self._fd, self.path = _open_unlocked(path)
        self._full: Final = full
        self._started: Final = time.monotonic()
        self._pending = bytearray()
        self._has_failed = False

    def add(
        self, number: int, side: Side, line: bytes, *, fate: str = "passed", findings: Iterable[ProxyFinding] = ()
    ) -> None:
        """Record one message."""
        at_ms = (time.monotonic() - self._started) * 1000
        entry = trace_entry(number, at_ms, side, line.strip(), fate=fate, findings=findings, full=self._full)
        try:
            self._pending += msgspec.json.encode(entry) + b"\n"
        except OverflowError:  # a number too large for the encoder
            self._pending += msgspec.json.encode({**entry, "id": str(entry.get("id")), "message": None}) + b"\n"
        if len(self._pending) >= FLUSH_BYTES:
            self.flush()

    def add_plain(self, number: int, lines: list[bytes]) -> None:
        """Record valid updates of the agent; the first has this number."""
        at_ms = (time.monotonic() - self._started) * 1000
        self._pending += plain_entries(number, at_ms, lines, full=self._full)
        if len(self._pending) >= FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Append what was added; if that fails, the trace ends and the conversation goes on."""
        data, self._pending = bytes(self._pending), bytearray()
        if not data or self._has_failed:
            return
        try:
            os.write(self._fd, data)
        except OSError as error:
            self._has_failed = True
            os.write(2, f"accord: the trace cannot be written any more: {error.strerror}\n".encode())


def _open_unlocked(path: Path) -> tuple[int, Path]:
    """Open and lock this file, or the first beside it that no other process writes to."""
    for number in range(1, MAX_BESIDE):
        beside = path if number == 1 else path.with_stem(f"{path.stem}-{number}")
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
        except OSError:  # this file system has no locks
            return fd, beside
        else:
            return fd, beside
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
