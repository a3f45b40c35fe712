"""The lock that the writers of one SQLite file take in turn: every thread of every process on one machine.

A writer that waits for another one polls SQLite's own lock, with pauses of up to 100 ms: under load, two processes
wrote less than one. With this lock, the kernel wakes the next writer as soon as the last one has finished, and
releases the lock of a process that ends, however it ends.

It only arranges turns. What keeps the file whole are SQLite's locks, and a program that does not know this lock is
still waited for with SQLite's busy timeout. Where there is no `flock` (on Windows, on some network file systems),
writers poll.
"""

import os
from contextlib import suppress
from pathlib import Path
from stat import S_IMODE
from threading import Thread
from time import monotonic
from types import TracebackType
from typing import Final, Self

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

SUFFIX: Final = "-lock"
"""Follows the name of the database. The lock is not on the database itself: closing that would drop SQLite's locks."""


class WriteLock:
    """The write lock of one database. Each thread that writes has an instance, since one instance can lock it twice."""

    def __init__(self, database: Path) -> None:
        self._database: Final = database
        self._descriptor: int | None = None
        self._is_held = False
        self._waits_since: float | None = None

    @property
    def waiting_s(self) -> float:
        """How long `acquire` has been waiting; any thread may read this."""
        since = self._waits_since
        return 0.0 if since is None else monotonic() - since

    def __enter__(self) -> Self:
        """Open the lock's file, which is made with the mode of the database."""
        if fcntl is not None:
            with suppress(OSError):  # a file of another user, for example: then SQLite's busy timeout has to do
                self._descriptor = _open_file(self._database)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the lock and close its file."""
        descriptor, self._descriptor = self._descriptor, None
        self._is_held = False
        if descriptor is not None:
            os.close(descriptor)

    def acquire(self) -> None:
        """Wait for the lock, however long that takes."""
        if fcntl is not None and self._descriptor is not None:
            self._waits_since = monotonic()
            with suppress(OSError):  # a file system without such locks
                fcntl.flock(self._descriptor, fcntl.LOCK_EX)
                self._is_held = True
            self._waits_since = None

    def acquire_within(self, seconds: float) -> None:
        """Wait for the lock, at most so long; SQLite then decides whether the caller can write.

        The lock may still be acquired afterwards: the caller has to close it.
        """
        thread = Thread(target=self.acquire, name="accord-store-lock", daemon=True)
        thread.start()
        thread.join(seconds)

    def release(self) -> None:
        """Let the next writer write; does nothing if the lock is not held."""
        if fcntl is not None and self._descriptor is not None and self._is_held:
            self._is_held = False
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)


def _open_file(database: Path) -> int:
    path, flags = database.with_name(database.name + SUFFIX), os.O_RDWR | os.O_CLOEXEC
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        mode = S_IMODE(database.stat().st_mode)
        descriptor = os.open(path, flags | os.O_CREAT, 0o600)
        os.fchmod(descriptor, mode)  # whatever the umask is, as SQLite does with its log
        return descriptor
