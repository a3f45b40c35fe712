"""The one thread that writes a SQLite file. Jobs that arrive while it is busy share its next commit.

It groups jobs into transactions and delivers their results. It knows neither the schema nor the file: a job is a
function over a connection. It never delays a commit to gather jobs, since a commit takes long enough for that.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from accord.errors import StoreError
from accord.ports import PacketBatch, TurnEnd
from accord.stores.failure import UncancellableFuture

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
        """The approximate number of bytes that it writes: only packets are large."""
        batches = [arg.last if isinstance(arg, TurnEnd) else arg for arg in self.args]
        return sum(sum(map(len, batch.packets)) for batch in batches if isinstance(batch, PacketBatch))


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """The result or the error of one job."""

    job: Job
    result: Any = None
    error: Exception | None = None


class Writer:
    """Executes jobs in the order in which they were submitted, many in one transaction.

    `check` is called before and after each commit; its error fails the whole group, so that no job is confirmed that
    is not stored. `tidy` is called last, outside of any transaction.
    """

    def __init__(
        self,
        connection: Connection,
        driver: sqlite3.Connection,
        *,
        check: Callable[[], None],
        tidy: Callable[[sqlite3.Connection], None],
    ) -> None:
        self.commits = 0
        self._connection: Final = connection
        self._driver: Final = driver
        self._check: Final = check
        self._tidy: Final = tidy
        self._jobs: Final[SimpleQueue[Job | None]] = SimpleQueue()
        self._loop: Final = asyncio.get_running_loop()
        self._thread: Final = Thread(target=self._work, name="accord-store-writer", daemon=True)
        self._thread.start()

    def submit(self, statement: Callable[..., Any], *args: Any) -> UncancellableFuture:
        """Submit a job; the future is done when the job is on disk. The job runs even if its caller is cancelled."""
        future = UncancellableFuture(loop=self._loop)
        self._jobs.put(Job(statement, args, future))
        return future

    async def close(self) -> None:
        """Finish the submitted jobs, then stop."""
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        with self._connection:
            is_open = True
            while is_open:
                group, is_open = self._next_group()
                if not group:
                    return
                outcomes = self._write(group)
                # The event loop may be closed; then no caller waits any more.
                with suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(_deliver, outcomes)
                with suppress(sqlite3.DatabaseError, OSError):
                    self._tidy(self._driver)

    def _next_group(self) -> tuple[list[Job], bool]:
        """Wait for a job and take all that are queued; also whether the writer is still open."""
        group: list[Job] = []
        bytes_left = MAX_GROUP_BYTES
        job = self._jobs.get()
        while job is not None:
            group.append(job)
            bytes_left -= job.size
            if len(group) == MAX_GROUP or bytes_left <= 0:
                break
            try:
                job = self._jobs.get_nowait()
            except Empty:
                break
        return group, job is not None

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
        finally:
            self._driver.rollback()  # does nothing after a commit
            self._connection.rollback()  # a job that used SQLAlchemy made it begin a transaction
        self._check()
        self.commits += 1
        return outcomes


def _storage_failed(error: Exception) -> bool:
    """Whether the file failed and not a job: then trying each job alone would fail as well."""
    if type(error) is StoreError:
        return True
    cause = error.orig if isinstance(error, DBAPIError) else error
    return type(cause) in (sqlite3.OperationalError, sqlite3.DatabaseError)


def _deliver(outcomes: Sequence[JobOutcome]) -> None:
    for outcome in outcomes:
        if outcome.error is None:
            outcome.job.future.set_result(outcome.result)
        else:
            outcome.job.future.set_exception(outcome.error)
