"""What a database error means, in one line for the operator; and writes that outlive their caller's cancellation."""

import asyncio
import logging
from collections.abc import Awaitable, Generator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Any, Final, TypeVar

from sqlalchemy.exc import DBAPIError, SQLAlchemyError, StatementError

from accord.errors import StoreError

# What a database's complaint means, in one line that an operator can act on. Never the statement, never its values.
#
# Two tables, one for each engine's own codes; everything else that SQLAlchemy or a socket raises is "cannot be used".

SQLITE: Final[Mapping[str, str]] = {
    "SQLITE_BUSY": "another process has held it for too long",
    "SQLITE_CANTOPEN": "the file cannot be opened",
    "SQLITE_CORRUPT": "the file is damaged",
    "SQLITE_FULL": "the disk is full",
    "SQLITE_IOERR": "the disk cannot be read or written",
    "SQLITE_NOTADB": "the file is not a SQLite database",
    "SQLITE_PERM": "the file may not be read or written",
    "SQLITE_READONLY": "the file may not be written",
}

# By the beginning of the SQLSTATE; the longest that fits is told.
POSTGRES: Final[Mapping[str, str]] = {
    "08": "the connection to the database was lost",
    "28": "the database does not accept this user or password",
    "3D": "there is no such database",
    "42501": "this user may not do that in the database",
    "53": "the database is out of resources",
    "53100": "the database's disk is full",
    "53300": "the database takes no more connections",
    "57014": "the database took too long",
    "57P": "the database is shutting down or starting up",
}

LOGGER: Final = logging.getLogger("accord.stores")
LOG_EVERY_S: Final = 10.0

UNREACHABLE: Final = "the database cannot be reached"
UNKNOWN: Final = "the database cannot be used"


@contextmanager
def told_as_ours(name: str, *drivers: type[Exception]) -> Generator[None]:
    """Raise `StoreError`, naming the store, for whatever SQLAlchemy, a socket or one of the drivers' errors says."""
    try:
        yield
    except (SQLAlchemyError, *drivers) as error:
        if isinstance(error, StatementError) and not isinstance(error, DBAPIError) and error.orig:
            raise error.orig from None  # a value that no column takes never got as far as the database
        raise StoreError(f"{name}: {meaning_of(error)}") from error
    except OSError as error:  # asyncpg lets a refused connection through as it is; a timeout is an OSError too
        raise StoreError(f"{name}: {UNREACHABLE}") from error


def meaning_of(error: BaseException) -> str:
    """What is known of the first error in the chain of causes of which anything is known."""
    cause: BaseException | None = getattr(error, "orig", None) or error
    while cause is not None:
        if known := _known(cause):
            return known
        cause = cause.__cause__
    return UNKNOWN


def _known(error: BaseException) -> str | None:
    if name := getattr(error, "sqlite_errorname", None):
        return next((meaning for prefix, meaning in SQLITE.items() if name.startswith(prefix)), None)
    if state := getattr(error, "sqlstate", None):
        fitting = [prefix for prefix in POSTGRES if state.startswith(prefix)]
        return POSTGRES[max(fitting, key=len)] if fitting else None
    return UNREACHABLE if isinstance(error, OSError) else None


class FailureLog:
    """Writes to the log why a store fails, each reason once in a while, and that it works again."""

    def __init__(self) -> None:
        self._why: str | None = None
        self._logged_at = 0.0

    def failed(self, error: StoreError) -> None:
        """Log this failure, unless the same one was logged a moment ago."""
        if error.message != self._why or monotonic() - self._logged_at >= LOG_EVERY_S:
            self._why, self._logged_at = error.message, monotonic()
            LOGGER.error("The session store failed", extra={"fields": {"why": error.message}})

    def worked(self) -> None:
        """Log that the store works again, if it has failed."""
        if self._why is not None:
            self._why = None
            LOGGER.warning("The session store works again")


# Writing that is finished when its caller is cancelled, who is told so afterwards. Knows nothing of what is written.
#
# Otherwise a cancelled turn could not know how many of its packets are kept, and so not close its stream.

T = TypeVar("T")


class Certain(asyncio.Future[Any]):
    """A future that cannot be cancelled: a task that waits for it, and is, finds out when it is done.

    Cheaper than shielding a plain one, and a second cancellation changes nothing.
    """

    def cancel(self, msg: Any | None = None) -> bool:  # noqa: ARG002
        """Not this one: a task takes the False to mean "later"."""
        return False


async def finished(work: Awaitable[T]) -> T:
    """What the work gives, which goes on to its end whatever happens to the caller."""
    going_on, over = asyncio.ensure_future(work), Certain()

    def tell(done: asyncio.Future[T]) -> None:
        _ = done.cancelled() or done.exception()  # looked at, so that asyncio does not call it forgotten
        over.set_result(None)

    going_on.add_done_callback(tell)
    await over
    return going_on.result()
