"""The one thread of a process that writes a SQLite file. Jobs that arrive while it is busy share its next commit.

It groups jobs into transactions and delivers their results. It knows neither the schema nor the file: a job is a
function over a connection. It never delays a commit to gather jobs, since a commit takes long enough for that, and so
does waiting for the writers of other processes.
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from accord.errors import StoreError
from accord.ports import PacketBatch, RunEnd
from accord.stores.failure import UncancellableFuture
from accord.stores.write_lock import WriteLock

MAX_GROUP: Final = 512
MAX_GROUP_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Job:
    """A statement to be executed with its arguments, and the future of its result."""

    statement: Callable[..., Any]
    args: tuple[Any, ...]
    future: UncancellableFuture

    @property
    def size(self) -> int:
        """The approximate number of bytes that it writes: only packets and prompts are large."""
        batches = [arg.last if isinstance(arg, RunEnd) else arg for arg in self.args]
        packets = sum(sum(map(len, batch.packets)) for batch in batches if isinstance(batch, PacketBatch))
        return packets + sum(len(arg) for arg in self.args if isinstance(arg, bytes))


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """The result or the error of one job."""

    job: Job
    result: Any = None
    error: Exception | None = None


class Writer:
    """Executes jobs in the order in which they were submitted, many in one transaction.

    `check` is called before and after each commit; its error fails the whole group, so that no job is confirmed that
    is not stored. `tidy` is called last, outside of any transaction. `lock` is taken around each transaction. If that
    takes `lock_timeout_s`, since a process that has it is stopped, for example, all waiting jobs fail.
    """

    def __init__(  # noqa: PLR0913 - the parts that are handed in
        self,
        connection: Connection,
        driver: sqlite3.Connection,
        lock: WriteLock,
        *,
        lock_timeout_s: float,
        check: Callable[[], None],
        tidy: Callable[[sqlite3.Connection], None],
    ) -> None:
        self.commits = 0
        self._connection: Final = connection
        self._driver: Final = driver
        self._lock: Final = lock
        self._lock_timeout_s: Final = lock_timeout_s
        self._undelivered = 0
        self._timer: asyncio.TimerHandle | None = None
        self._check: Final = check
        self._tidy: Final = tidy
        self._jobs: Final[SimpleQueue[Job | None]] = SimpleQueue()
        self._taken: Final[deque[Job]] = deque()
        """The job that the thread waits for the lock with: whichever thread removes it has to answer it."""
        self._loop: Final = asyncio.get_running_loop()
        self._thread: Final = Thread(target=self._work, name="accord-store-writer", daemon=True)
        self._thread.start()

    def submit(self, statement: Callable[..., Any], *args: Any) -> UncancellableFuture:
        """Submit a job; the future is done when the job is on disk. The job runs even if its caller is cancelled."""
        future = UncancellableFuture(loop=self._loop)
        self._undelivered += 1
        self._jobs.put(Job(statement, args, future))
        if self._timer is None:
            self._timer = self._loop.call_later(self._lock_timeout_s, self._check_blocked)
        return future

    async def close(self) -> None:
        """Finish the submitted jobs, then stop; a thread that gets no lock in time is left behind."""
        self._jobs.put(None)
        while self._thread.is_alive() and self._lock.waiting_s < self._lock_timeout_s:
            await asyncio.to_thread(self._thread.join, max(0.1, self._lock_timeout_s))
        if self._timer is not None:
            self._timer.cancel()

    def _work(self) -> None:
        with self._lock, self._connection:
            is_open = True
            while is_open and (job := self._jobs.get()) is not None:
                self._taken.append(job)
                self._lock.acquire()
                # Jobs that came while the thread waited for the lock belong to this group.
                group, is_open = self._next_group()
                outcomes = self._write(group) if group else []
                self._lock.release()
                # The event loop may be closed; then no caller waits any more.
                with suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._deliver, outcomes)
                with suppress(sqlite3.DatabaseError, OSError):
                    self._tidy(self._driver)

    def _next_group(self) -> tuple[list[Job], bool]:
        """Take all jobs that are queued; also whether the writer is still open."""
        group: list[Job] = []
        bytes_left = MAX_GROUP_BYTES
        while len(group) < MAX_GROUP and bytes_left > 0:
            try:
                job = self._taken.pop() if self._taken else self._jobs.get_nowait()
            except (Empty, IndexError):
                break
            if job is None:
                return group, False
            group.append(job)
            bytes_left -= job.size
        return group, True

    def _write(self, group: Sequence[Job]) -> list[JobOutcome]:
        """Execute all jobs in one transaction; if a job fails, each in its own, so that only that one fails."""
        try:
            return self._write_together(group)
        except Exception as error:  # noqa: BLE001 - the thread must survive any job; its caller gets the error
            if len(group) == 1 or _storage_failed(error):
                return [JobOutcome(job, error=error) for job in group]
        return [outcome for job in group for outcome in self._write([job])]

    def _write_together(self, group: Sequence[Job]) -> list[JobOutcome]:
        self._check()
        self._driver.execute("BEGIN IMMEDIATE")
        try:
            outcomes = [JobOutcome(job, job.statement(self._connection, *job.args)) for job in group]
            self._driver.execute("COMMIT")
            self._lock.release()
        finally:
            self._driver.rollback()  # does nothing after a commit
            self._connection.rollback()  # a job that used SQLAlchemy made it begin a transaction
        self._check()
        self.commits += 1
        return outcomes

    def _deliver(self, outcomes: Sequence[JobOutcome]) -> None:
        self._undelivered -= len(outcomes)
        for outcome in outcomes:
            if outcome.error is None:
                outcome.job.future.set_result(outcome.result)
            else:
                outcome.job.future.set_exception(outcome.error)

    def _check_blocked(self) -> None:
        """Fail the waiting jobs if the thread has been waiting for the lock for too long; else check again later."""
        left_s = self._lock_timeout_s - self._lock.waiting_s
        if left_s <= 0:
            self._deliver([JobOutcome(job, error=_lock_error()) for job in self._remove_waiting()])
            left_s = self._lock_timeout_s
        self._timer = self._loop.call_later(left_s, self._check_blocked) if self._undelivered else None

    def _remove_waiting(self) -> list[Job]:
        removed: list[Job] = []
        with suppress(IndexError):
            removed.append(self._taken.pop())
        with suppress(Empty):
            while (job := self._jobs.get_nowait()) is not None:
                removed.append(job)
            self._jobs.put(None)  # it ends the thread
        return removed


def _lock_error() -> sqlite3.OperationalError:
    """The error that SQLite raises when it has waited for a lock for too long."""
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_BUSY, "SQLITE_BUSY"
    return error


def _storage_failed(error: Exception) -> bool:
    """Whether the file failed and not a job: then trying each job alone would fail as well."""
    if type(error) is StoreError:
        return True
    cause = error.orig if isinstance(error, DBAPIError) else error
    return type(cause) in (sqlite3.OperationalError, sqlite3.DatabaseError)
