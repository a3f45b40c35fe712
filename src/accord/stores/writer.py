"""The one thread that writes a SQLite file. Whatever is handed over while it is busy shares its next commit.

It decides what goes into one transaction and who is told what, and knows neither the schema nor the file: a job is a
function over a connection. Waiting for company is never needed, since a commit takes long enough for a crowd to gather.
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
from accord.stores.failure import Certain

MAX_GROUP: Final = 512
MAX_GROUP_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Job:
    """Something to be written, and who waits for it."""

    statement: Callable[..., Any]
    args: tuple[Any, ...]
    waiting: Certain

    @property
    def size(self) -> int:
        """About how many bytes it writes, if they are many: packets are the only large thing."""
        return sum(sum(map(len, arg.packets)) for arg in map(_appended, self.args) if arg is not None)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one job."""

    job: Job
    result: Any = None
    error: Exception | None = None


class Writer:
    """Writes jobs in the order they were handed over. Those of one group are safe together, or fail one by one.

    `check` is called before and after each commit, and its error fails the group: after a commit, nobody is told that
    something is safe which is not. `tidy` is called last, outside of any transaction.
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

    def submit(self, statement: Callable[..., Any], *args: Any) -> Certain:
        """Hand over a job; the future is done when the job is safe. It is done even if nobody waits any more."""
        waiting = Certain(loop=self._loop)
        self._jobs.put(Job(statement, args, waiting))
        return waiting

    async def close(self) -> None:
        """Finish what was handed over, then stop."""
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
                # A loop that is gone has nobody left who could be told.
                with suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(_deliver, outcomes)
                with suppress(sqlite3.DatabaseError, OSError):
                    self._tidy(self._driver)

    def _next_group(self) -> tuple[list[Job], bool]:
        """The jobs that wait now, at least one; and whether more may come."""
        group: list[Job] = []
        room = MAX_GROUP_BYTES
        job = self._jobs.get()
        while job is not None:
            group.append(job)
            room -= job.size
            if len(group) == MAX_GROUP or room <= 0:
                break
            try:
                job = self._jobs.get_nowait()
            except Empty:
                break
        return group, job is not None

    def _write(self, group: Sequence[Job]) -> list[Outcome]:
        """Everything in one transaction; if one job cannot be done, each in its own, so that only that one fails."""
        try:
            return self._together(group)
        except Exception as error:  # noqa: BLE001 - the thread must outlive any job; whoever waits is told
            if len(group) == 1 or _storage_failed(error):
                return [Outcome(job, error=error) for job in group]
        return [outcome for job in group for outcome in self._write([job])]

    def _together(self, group: Sequence[Job]) -> list[Outcome]:
        self._check()
        self._driver.execute("BEGIN IMMEDIATE")
        try:
            outcomes = [Outcome(job, job.statement(self._connection, *job.args)) for job in group]
            self._driver.execute("COMMIT")
        finally:
            self._driver.rollback()  # does nothing after a commit
            self._connection.rollback()  # a job that went through SQLAlchemy had it begin one of its own
        self._check()
        self.commits += 1
        return outcomes


def _appended(arg: Any) -> PacketBatch | None:
    return arg if isinstance(arg, PacketBatch) else arg.last if isinstance(arg, TurnEnd) else None


def _storage_failed(error: Exception) -> bool:
    """Whether it is the file that failed, not a job: trying each alone would only take longer."""
    if type(error) is StoreError:
        return True
    cause = error.orig if isinstance(error, DBAPIError) else error
    return type(cause) in (sqlite3.OperationalError, sqlite3.DatabaseError)


def _deliver(outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        if outcome.error is None:
            outcome.job.waiting.set_result(outcome.result)
        else:
            outcome.job.waiting.set_exception(outcome.error)
