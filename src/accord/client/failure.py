"""What a failed attempt means, and whether and when another one is made."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

from accord.client.settings import ClientSettings
from accord.core.backoff import delay_s, parse_retry_after
from accord.errors import AccordError, ConnectionFailedError, ErrorCode, InvalidMessageError, RefusedError
from accord.wire.problem import ProblemBody, error_from_problem

# What became of an attempt that did not work: the error that it means, and whether another attempt can help.
#
# Knows HTTP's numbers and the wire's problem body; which exception a code is raised as stands in `wire/problem.py`.
# Knows nothing of sockets: whoever holds the connection says what happened to it.

PASSING: Final = frozenset({429, 502, 503, 504})
"""Statuses that another attempt may get past: the request's id makes repeating it safe."""

SETTLED: Final = frozenset({502, 504})
"""Of these the ones that, with the service's own word in them, are how the turn ended: it would end so again."""

_BARE_CODES: Final[Mapping[int, ErrorCode]] = MappingProxyType(
    {
        401: ErrorCode.UNAUTHENTICATED,
        403: ErrorCode.FORBIDDEN,
        404: ErrorCode.NOT_FOUND,
        405: ErrorCode.METHOD_NOT_FOUND,
        406: ErrorCode.NOT_ACCEPTABLE,
        407: ErrorCode.UNAUTHENTICATED,
        409: ErrorCode.REQUEST_CONFLICT,
        413: ErrorCode.TOO_LARGE,
        415: ErrorCode.UNSUPPORTED_MEDIA_TYPE,
        429: ErrorCode.RATE_LIMIT_EXCEEDED,
        502: ErrorCode.UNAVAILABLE,
        503: ErrorCode.UNAVAILABLE,
        504: ErrorCode.TIMED_OUT,
    }
)
"""What a status means that comes without the service's own word, from something that stands between."""


@dataclass(frozen=True, slots=True)
class Setback:
    """A failed attempt: the error to raise in the end, whether to try again, how long the service asked to wait.

    `is_unreachable` means that no connection could be made at all, for example because nothing listens there.
    """

    error: AccordError
    is_passing: bool
    retry_after_s: float | None = None
    is_unreachable: bool = False


def setback_of_answer(status: int, retry_after: str | None, body: bytes) -> Setback:
    """What an HTTP answer means that is not a success."""
    # Its form with a date is not read, since clocks differ.
    retry_after_s = parse_retry_after(retry_after)
    try:
        problem = ProblemBody.parse(body)
    except InvalidMessageError:
        return Setback(_bare_failure(status, retry_after_s), status in PASSING, retry_after_s)
    return Setback(error_from_problem(problem), status in PASSING - SETTLED, retry_after_s)


def setback_of_connection(why: str, *, is_passing: bool = True) -> Setback:
    """What a connection means that could not be made, or broke."""
    return Setback(ConnectionFailedError(f"The service cannot be reached: {why}"), is_passing)


def setback_of_unreachable(why: str) -> Setback:
    """The setback of a connection that could not be made: the service may not run, or the address may be wrong."""
    message = (
        f"The service cannot be reached: {why}. Start it with `accord serve`, or correct the address; "
        "with retry_connect=True the client keeps trying"
    )
    return Setback(ConnectionFailedError(message), is_passing=True, is_unreachable=True)


def _bare_failure(status: int, retry_after_s: float | None) -> AccordError:
    unknown = ErrorCode.INTERNAL if status >= 500 else ErrorCode.INVALID_MESSAGE
    details = {"status": status} if retry_after_s is None else {"status": status, "retry_after": retry_after_s}
    return RefusedError(f"The service answered {_named(status)}", _BARE_CODES.get(status, unknown), details)


def _named(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


# Counts the attempts of one request: after a setback it waits for the next one, or raises what it came to.


class Attempts:
    """The attempts of one request; a sign of life starts the count again."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings: Final = settings
        self._failed = 0
        self._has_reached_service = False

    def start_again(self) -> None:
        """Something came: what failed before does not count any more."""
        self._failed = 0
        self._has_reached_service = True

    async def wait_after(self, setback: Setback) -> None:
        """Wait until it is time to try again; raises the setback's error if it is not worth it."""
        self._failed += 1
        if not self._is_worth_repeating(setback) or self._is_enough(setback):
            raise self._told(setback.error)
        settings = self._settings
        await settings.wait(delay_s(self._failed, retry_after_s=setback.retry_after_s, jitter=settings.jitter))

    def _is_worth_repeating(self, setback: Setback) -> bool:
        if setback.is_unreachable:
            # A service that answered before is restarting; one that never did probably does not run.
            return self._has_reached_service or self._settings.retry_connect
        self._has_reached_service = True
        return setback.is_passing

    def _is_enough(self, setback: Setback) -> bool:
        limit = self._settings.max_attempts
        return (limit is not None and self._failed >= limit) or (
            setback.retry_after_s or 0.0
        ) > self._settings.patience_s

    def _told(self, error: AccordError) -> AccordError:
        if isinstance(error, ConnectionFailedError):
            return ConnectionFailedError(error.message, details={"attempts": self._failed})
        return error
