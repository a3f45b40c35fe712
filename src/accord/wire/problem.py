"""How an error travels over HTTP: a problem body (RFC 9457) with the one table's code in it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from accord.errors import (
    ERROR_FACTS,
    AccordError,
    AgentError,
    BackendError,
    EmulationError,
    ErrorCode,
    ErrorSeverity,
    RefusedError,
    TimedOutError,
    TurnCancelledError,
)
from accord.wire.message import FreeObject, Message
from accord.wire.packet import StreamError

PROBLEM_MEDIA_TYPE = "application/problem+json"
_CODES: Final = frozenset(map(str, ErrorCode))

RAISED: Final[Mapping[ErrorCode, type[AccordError]]] = MappingProxyType(
    {kind.code: kind for kind in (AgentError, BackendError, EmulationError, TimedOutError, TurnCancelledError)}
)
"""Which exception a peer's error code is raised as; every other code is a `RefusedError` that carries it."""


class ProblemBody(Message, frozen=True):
    """The body of every HTTP answer that is not a success."""

    title: str
    status: int
    code: ErrorCode
    detail: str
    request_id: str | None = None
    details: FreeObject | None = None


def problem_body(error: AccordError, *, request_id: str | None = None) -> ProblemBody:
    """This error as an HTTP body."""
    facts = ERROR_FACTS[error.code]
    return ProblemBody(
        title=facts.title,
        status=facts.http,
        code=error.code,
        detail=error.message,
        request_id=request_id,
        details=dict(error.details) or None,
    )


def stream_error(error: AccordError) -> StreamError:
    """This error as the payload of an error packet."""
    return StreamError(
        code=error.code, message=error.message, severity=error.severity, details=dict(error.details) or None
    )


def error_from_stream(told: StreamError) -> AccordError:
    """The error that ended a stream, as whoever reads the stream raises it."""
    if told.code not in _CODES:
        return AgentError(told.message, details={**(told.details or {}), "code": told.code})
    return _raised(ErrorCode(told.code), told.message, told.details or {}, told.severity)


def error_from_problem(told: ProblemBody) -> AccordError:
    """The error in an HTTP answer, as whoever asked raises it."""
    return _raised(told.code, told.detail, told.details or {}, ERROR_FACTS[told.code].severity)


def _raised(code: ErrorCode, message: str, details: Mapping[str, Any], severity: ErrorSeverity) -> AccordError:
    kind = RAISED.get(code)
    if kind is None:
        return RefusedError(message, code, details)
    if kind is BackendError:
        return BackendError(message, retryable=severity is ErrorSeverity.TRANSIENT, details=details)
    return kind(message, details=details)
