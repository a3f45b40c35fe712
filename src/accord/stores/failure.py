"""Describe database errors for operators, and finish writes whose caller is cancelled.

A description never holds a statement or its values.
"""

import asyncio
import logging
from collections.abc import Awaitable, Generator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Any, Final, TypeVar

from sqlalchemy.exc import DBAPIError, SQLAlchemyError, StatementError

from accord.errors import StoreError

SQLITE: Final[Mapping[str, str]] = {
    "SQLITE_BUSY": "another process has held it for too long; stop that process, or try again",
    "SQLITE_CANTOPEN": "the file cannot be opened; check that its folder exists and that this user may read it",
    "SQLITE_CORRUPT": "the file is damaged; restore it from a backup",
    "SQLITE_FULL": "the disk is full; free some space",
    "SQLITE_IOERR": "the disk cannot be read or written; check the disk and its file system",
    "SQLITE_NOTADB": "the file is not a SQLite database; choose another path",
    "SQLITE_PERM": "the file may not be read or written; check its permissions",
    "SQLITE_READONLY": "the file may not be written; check its permissions",
}

# By the beginning of the SQLSTATE; the longest match is used.
POSTGRES: Final[Mapping[str, str]] = {
    "08": "the connection to the database was lost",
    "28": "the database does not accept this user or password; check the address of the store",
    "3D": "there is no such database; create it first",
    "42501": "this user lacks a permission in the database; grant it the rights of an owner",
    "53": "the database is out of resources",
    "53100": "the database's disk is full; free some space",
    "53300": "the database takes no more connections; raise max_connections or run fewer processes",
    "57014": "the database took too long",
    "57P": "the database is shutting down or starting up",
}

LOGGER: Final = logging.getLogger("accord.stores")
LOG_EVERY_S: Final = 10.0

UNREACHABLE: Final = "the database cannot be reached; check its address and that it runs"
UNKNOWN: Final = "the database cannot be used"


@contextmanager
def raise_store_errors(name: str, *drivers: type[Exception]) -> Generator[None]:
    """Raise `StoreError`, naming the store, for any error of SQLAlchemy, of a socket or of these driver classes."""
    try:
        yield
    except (SQLAlchemyError, *drivers) as error:
        if isinstance(error, StatementError) and not isinstance(error, DBAPIError) and error.orig:
            raise error.orig from None  # a value that no column accepts: it never reached the database
        raise StoreError(f"{name}: {describe_failure(error)}") from error
    except OSError as error:  # asyncpg lets a refused connection through as it is; a timeout is an OSError too
        raise StoreError(f"{name}: {UNREACHABLE}") from error


def describe_failure(error: BaseException) -> str:
    """The description of the first error in the chain of causes that has one."""
    cause: BaseException | None = getattr(error, "orig", None) or error
    while cause is not None:
        if description := _lookup(cause):
            return description
        cause = cause.__cause__
    return UNKNOWN


def _lookup(error: BaseException) -> str | None:
    if name := getattr(error, "sqlite_errorname", None):
        return next((meaning for prefix, meaning in SQLITE.items() if name.startswith(prefix)), None)
    if state := getattr(error, "sqlstate", None):
        fitting = [prefix for prefix in POSTGRES if state.startswith(prefix)]
        return POSTGRES[max(fitting, key=len)] if fitting else None
    return UNREACHABLE if isinstance(error, OSError) else None


class FailureLog:
    """Logs why a store fails, each reason at most every `LOG_EVERY_S`, and that it works again."""

    def __init__(self) -> None:
        self._reason: str | None = None
        self._logged_at = 0.0

    def failed(self, error: StoreError) -> None:
        """Log this failure, unless the same one was logged recently."""
        if error.message != self._reason or monotonic() - self._logged_at >= LOG_EVERY_S:
            self._reason, self._logged_at = error.message, monotonic()
            LOGGER.error("The session store failed", extra={"fields": {"why": error.message}})

    def worked(self) -> None:
        """Log that the store works again, if it has failed."""
        if self._reason is not None:
            self._reason = None
            LOGGER.warning("The session store works again")


T = TypeVar("T")


class UncancellableFuture(asyncio.Future[Any]):
    """A future that cannot be cancelled: a task that waits for it is cancelled only after it is done.

    Cheaper than `asyncio.shield`, and a second cancellation changes nothing.
    """

    def cancel(self, msg: Any | None = None) -> bool:  # noqa: ARG002
        """Refuse; a task then raises its cancellation later."""
        return False


async def run_to_completion(work: Awaitable[T]) -> T:
    """The result of the work, which runs to its end even if the caller is cancelled.

    Otherwise a cancelled turn could not know how many of its packets are stored, nor close its stream.
    """
    running, done = asyncio.ensure_future(work), UncancellableFuture()

    def set_done(finished: asyncio.Future[T]) -> None:
        _ = finished.cancelled() or finished.exception()  # retrieved, so that asyncio does not warn about it
        done.set_result(None)

    running.add_done_callback(set_done)
    await done
    return running.result()
