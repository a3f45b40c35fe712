"""Errors on the wire: problem bodies of HTTP (RFC 9457) and errors of streams, from exceptions and back."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from pydantic import Field

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

EXCEPTIONS: Final[Mapping[ErrorCode, type[AccordError]]] = MappingProxyType(
    {kind.code: kind for kind in (AgentError, BackendError, EmulationError, TimedOutError, TurnCancelledError)}
)
"""The exception for a peer's error code; every other code is a `RefusedError` that carries it."""


class ProblemBody(Message, frozen=True):
    """The body of every HTTP response that is not a success."""

    title: str = Field(description="The meaning of the code.")
    status: int = Field(description="The HTTP status.")
    code: ErrorCode = Field(description="The error code.")
    detail: str = Field(description="What was wrong with this request, and what to do.")
    request_id: str | None = Field(default=None, description="The request that it is about.")
    details: FreeObject | None = Field(default=None, description="What else is known, by code.")
    final: bool | None = Field(
        default=None,
        description="True if the turn ended with this error: the same request gets it again. Send a new request_id.",
    )


def problem_body(error: AccordError, *, request_id: str | None = None) -> ProblemBody:
    """Convert an error to an HTTP body."""
    facts = ERROR_FACTS[error.code]
    return ProblemBody(
        title=facts.title,
        status=facts.http,
        code=error.code,
        detail=error.message,
        request_id=request_id,
        details=dict(error.details) or None,
        final=error.ended_turn or None,
    )


def stream_error(error: AccordError) -> StreamError:
    """Convert an error to the payload of an error packet."""
    return StreamError(
        code=error.code, message=error.message, severity=error.severity, details=dict(error.details) or None
    )


def error_from_stream(error: StreamError) -> AccordError:
    """Convert the error packet of a stream to the exception that its reader raises."""
    if error.code not in _CODES:
        return AgentError(error.message, details={**(error.details or {}), "code": error.code})
    return _to_exception(ErrorCode(error.code), error.message, error.details or {}, error.severity)


def error_from_problem(problem: ProblemBody) -> AccordError:
    """Convert a problem body to the exception that the client raises."""
    severity = ERROR_FACTS[problem.code].severity
    return _to_exception(problem.code, problem.detail, problem.details or {}, severity)


def _to_exception(code: ErrorCode, message: str, details: Mapping[str, Any], severity: ErrorSeverity) -> AccordError:
    kind = EXCEPTIONS.get(code)
    if kind is None:
        return RefusedError(message, code, details)
    if kind is BackendError:
        return BackendError(message, retryable=severity is ErrorSeverity.TRANSIENT, details=details)
    return kind(message, details=details)
