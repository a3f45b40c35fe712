"""Writes a conversation to a file, one JSON object a line, appended whole: a crash costs at most the last one.

A file belongs to one conversation at a time: who comes second writes to the next file beside it.
"""

import errno
import fcntl
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol

import msgspec

from accord.core.guard import Finding, Side, plain_entries, trace_entry

FLUSH_BYTES: Final = 64 * 1024
MAX_BESIDE: Final = 1_000


class Trace(Protocol):
    """Where a conversation is recorded."""

    @property
    def wants_lines(self) -> bool:
        """Whether single lines are wanted; without them, blocks pass at full speed."""
        ...

    def add(
        self, number: int, side: Side, line: bytes, *, fate: str = "passed", findings: Iterable[Finding] = ()
    ) -> None:
        """Record one message."""
        ...

    def add_plain(self, number: int, lines: list[bytes]) -> None:
        """Record updates of the agent's that are in order; the first has this number."""
        ...

    def flush(self) -> None:
        """Make sure that what was added can be read."""
        ...


class NoTrace:
    """Records nothing."""

    wants_lines = False

    def add(
        self, number: int, side: Side, line: bytes, *, fate: str = "passed", findings: Iterable[Finding] = ()
    ) -> None:
        """Forget it."""

    def add_plain(self, number: int, lines: list[bytes]) -> None:
        """Forget them."""

    def flush(self) -> None:
        """Nothing to do."""


class TraceFile:
    """Records into a file, after what is there already; only its owner may read it."""

    wants_lines = True

    def __init__(self, path: Path, *, full: bool = False) -> None:
        self._fd, self.path = _open_alone(path)
        self._full: Final = full
        self._started: Final = time.monotonic()
        self._pending = bytearray()
        self._has_failed = False

    def add(
        self, number: int, side: Side, line: bytes, *, fate: str = "passed", findings: Iterable[Finding] = ()
    ) -> None:
        """Record one message."""
        at_ms = (time.monotonic() - self._started) * 1000
        entry = trace_entry(number, at_ms, side, line.strip(), fate=fate, findings=findings, full=self._full)
        try:
            self._pending += msgspec.json.encode(entry) + b"\n"
        except OverflowError:  # a number that only Python would write
            self._pending += msgspec.json.encode({**entry, "id": str(entry.get("id")), "message": None}) + b"\n"
        if len(self._pending) >= FLUSH_BYTES:
            self.flush()

    def add_plain(self, number: int, lines: list[bytes]) -> None:
        """Record updates of the agent's that are in order; the first has this number."""
        at_ms = (time.monotonic() - self._started) * 1000
        self._pending += plain_entries(number, at_ms, lines, full=self._full)
        if len(self._pending) >= FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Append what was added; a full disk ends the trace, never the conversation."""
        data, self._pending = bytes(self._pending), bytearray()
        if not data or self._has_failed:
            return
        try:
            os.write(self._fd, data)
        except OSError as error:
            self._has_failed = True
            os.write(2, f"accord: the trace ends here: {error.strerror}\n".encode())


def _open_alone(path: Path) -> tuple[int, Path]:
    """This file, or the first beside it that nobody is writing to."""
    for number in range(1, MAX_BESIDE):
        beside = path if number == 1 else path.with_stem(f"{path.stem}-{number}")
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
        except OSError:  # no locks on this file system
            return fd, beside
        else:
            return fd, beside
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
