"""What a failed attempt means, and whether and when another one is made.

It knows HTTP statuses and problem bodies, but no sockets: `connection.py` reports what happened to a connection. Which
exception a code is raised as is decided in `wire/problem.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

from accord.client.settings import ClientSettings
from accord.core.backoff import delay_s, parse_retry_after
from accord.errors import AccordError, ConnectionFailedError, ErrorCode, InvalidMessageError, RefusedError
from accord.wire.problem import ProblemBody, error_from_problem

RETRYABLE: Final = frozenset({429, 502, 503, 504})
"""Statuses after which another attempt may succeed. The request's id makes repeating it safe."""

FINAL_WITH_PROBLEM: Final = frozenset({502, 504})
"""Those of them that, with a problem body of the service, are how the turn ended: it would end the same way again."""

_CODES: Final[Mapping[int, ErrorCode]] = MappingProxyType(
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
"""The code of a status that comes without a problem body, for example from a proxy."""


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """A failed attempt: the error to raise if it is the last, whether to try again, and the service's Retry-After.

    `is_unreachable` means that no connection could be made at all, for example because nothing listens there.
    """

    error: AccordError
    is_retryable: bool
    retry_after_s: float | None = None
    is_unreachable: bool = False


def response_failed(status: int, retry_after: str | None, body: bytes) -> FailedAttempt:
    """The failure that an HTTP response other than a success means."""
    # Retry-After as a date is not read, since clocks differ.
    retry_after_s = parse_retry_after(retry_after)
    try:
        problem = ProblemBody.parse(body)
    except InvalidMessageError:
        try:
            name = f"{status} {HTTPStatus(status).phrase}"
        except ValueError:
            name = str(status)
        code = _CODES.get(status, ErrorCode.INTERNAL if status >= 500 else ErrorCode.INVALID_MESSAGE)
        details = {"status": status} if retry_after_s is None else {"status": status, "retry_after": retry_after_s}
        error = RefusedError(f"The service answered {name}", code, details)
        return FailedAttempt(error, status in RETRYABLE, retry_after_s)
    is_retryable = status in RETRYABLE - FINAL_WITH_PROBLEM and not problem.final
    return FailedAttempt(error_from_problem(problem), is_retryable, retry_after_s)


def connection_failed(reason: str, *, is_retryable: bool = True) -> FailedAttempt:
    """The failure of a connection that broke."""
    return FailedAttempt(ConnectionFailedError(f"The service cannot be reached: {reason}"), is_retryable)


def connect_failed(reason: str) -> FailedAttempt:
    """The failure to connect at all: the service may not run, or the address may be wrong."""
    message = (
        f"The service cannot be reached: {reason}. Start it with `accord serve`, or correct the address; "
        "with retry_connect=True the client keeps trying"
    )
    return FailedAttempt(ConnectionFailedError(message), is_retryable=True, is_unreachable=True)


class Attempts:
    """Counts the attempts of one request; progress starts the count again."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings: Final = settings
        self._failed = 0
        self._has_reached_service = False

    def start_again(self) -> None:
        """Forget earlier failures, because data has arrived."""
        self._failed = 0
        self._has_reached_service = True

    async def wait_after(self, attempt: FailedAttempt) -> None:
        """Wait until it is time to try again; raises the attempt's error if there is to be no other."""
        settings = self._settings
        self._failed += 1
        if attempt.is_unreachable:
            # A service that answered before is restarting; one that never did probably does not run.
            is_worth_repeating = self._has_reached_service or settings.retry_connect
        else:
            self._has_reached_service = True
            is_worth_repeating = attempt.is_retryable
        is_last = settings.max_attempts is not None and self._failed >= settings.max_attempts
        if not is_worth_repeating or is_last or (attempt.retry_after_s or 0.0) > settings.patience_s:
            error = attempt.error
            if isinstance(error, ConnectionFailedError):
                raise ConnectionFailedError(error.message, details={"attempts": self._failed})
            raise error
        await settings.wait(delay_s(self._failed, retry_after_s=attempt.retry_after_s, jitter=settings.jitter))
