"""Every exception that Accord raises, and one table of error codes: HTTP status, JSON-RPC code, severity, title.

    AccordError
    ├── InvalidMessageError      bytes or values that are not the message they should be (also a ValueError)
    ├── NotSerialisableError     a value that JSON cannot carry was about to be sent (also a ValueError)
    ├── RefusedError             a request was refused; the error carries the refusal
    ├── AgentError               an agent broke its contract, or failed
    ├── BackendError             a backend failed, or refused what it was given
    │   ├── BackendSkippedError  a backend was not tried, because it was down a moment ago
    │   │   └── BackendBusyError a backend was not tried, because as many calls of it as may run do
    │   └── BackendRetriedError  a backend refused a field, and was asked again without it
    ├── EmulationError           an emulated capability did not succeed
    ├── TimedOutError            a time limit was reached
    ├── TurnCancelledError       the turn was cancelled
    ├── StoreError               the session store cannot be reached, read or written
    │   └── StoreConflictError   a write contradicts what is stored
    ├── ConnectionFailedError    a service cannot be reached, or the connection to it keeps breaking
    └── UsageError               a call, a flag or a file that the user has to correct
        ├── ConfigError          every problem of a configuration, each with its place
        └── MissingExtraError    a library that is not installed (also an ImportError)

Inside the core a refusal is a value, not an exception: decisions return a `Refusal` that carries an `ErrorCode`. This
module depends on neither pydantic nor any transport; every transport reads its codes from the table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final


class ErrorSeverity(StrEnum):
    """Whether a retry can help (CAP, StreamError)."""

    TRANSIENT = "transient"
    FATAL = "fatal"


class ErrorCode(StrEnum):
    """Every error code, as spelled on the wire.

    Lower case throughout, except the one code that ABP itself spells in capitals.
    """

    PARSE_ERROR = "parse_error"
    INVALID_MESSAGE = "invalid_message"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    QUOTA_EXCEEDED = "quota_exceeded"
    BUDGET_EXCEEDED = "budget_exceeded"
    NOT_FOUND = "not_found"
    METHOD_NOT_FOUND = "method_not_found"
    NOT_ACCEPTABLE = "not_acceptable"
    REQUEST_TIMED_OUT = "request_timed_out"
    REQUEST_CONFLICT = "request_conflict"
    TOO_LARGE = "too_large"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    CONTENT_INVALID = "content_invalid"
    CONTENT_UNSUPPORTED = "content_unsupported"
    CAPABILITY_UNSUPPORTED = "CAPABILITY_UNSUPPORTED"
    FIDELITY_UNAVAILABLE = "fidelity_unavailable"
    RATE_LIMIT_EXCEEDED = "rate_limit_exceeded"
    CANCELLED = "cancelled"
    INTERNAL = "internal_error"
    AGENT_FAILED = "agent_failed"
    BACKEND_FAILED = "backend_failed"
    EMULATION_FAILED = "emulation_failed"
    UNAVAILABLE = "unavailable"
    TIMED_OUT = "timed_out"


class RpcCode:
    """JSON-RPC error codes: those of the specification, of ACP, and Accord's own. No other module spells a number."""

    PARSE_ERROR: Final = -32700
    INVALID_REQUEST: Final = -32600
    METHOD_NOT_FOUND: Final = -32601
    INVALID_PARAMS: Final = -32602
    INTERNAL_ERROR: Final = -32603
    AUTH_REQUIRED: Final = -32000
    NOT_FOUND: Final = -32002
    FORBIDDEN: Final = -32003
    NOT_ACCEPTABLE: Final = -32006
    REQUEST_TIMED_OUT: Final = -32008
    REQUEST_CONFLICT: Final = -32009
    VERSION_UNSUPPORTED: Final = -32022
    RATE_LIMITED: Final = -32029
    CANCELLED: Final = -32800


@dataclass(frozen=True, slots=True)
class ErrorFacts:
    """What a transport needs to report one error code."""

    http: int
    jsonrpc: int
    severity: ErrorSeverity
    title: str


_FATAL, _TRANSIENT = ErrorSeverity.FATAL, ErrorSeverity.TRANSIENT

ERROR_FACTS: Final[Mapping[ErrorCode, ErrorFacts]] = MappingProxyType(
    {
        ErrorCode.PARSE_ERROR: ErrorFacts(400, RpcCode.PARSE_ERROR, _FATAL, "The message is not JSON"),
        ErrorCode.INVALID_MESSAGE: ErrorFacts(
            400, RpcCode.INVALID_REQUEST, _FATAL, "The message does not match its schema"
        ),
        ErrorCode.UNAUTHENTICATED: ErrorFacts(401, RpcCode.AUTH_REQUIRED, _FATAL, "Authentication is required"),
        ErrorCode.FORBIDDEN: ErrorFacts(403, RpcCode.FORBIDDEN, _FATAL, "This user is not allowed to do that"),
        ErrorCode.QUOTA_EXCEEDED: ErrorFacts(
            403, RpcCode.FORBIDDEN, _FATAL, "The storage quota of this user is used up"
        ),
        # Not 429, which SDKs of model APIs send again at once, nor 402, for which they have no exception of its own.
        ErrorCode.BUDGET_EXCEEDED: ErrorFacts(403, RpcCode.FORBIDDEN, _FATAL, "The budget of this key is used up"),
        ErrorCode.NOT_FOUND: ErrorFacts(404, RpcCode.NOT_FOUND, _FATAL, "Not found"),
        ErrorCode.METHOD_NOT_FOUND: ErrorFacts(405, RpcCode.METHOD_NOT_FOUND, _FATAL, "The method is not supported"),
        ErrorCode.NOT_ACCEPTABLE: ErrorFacts(
            406, RpcCode.NOT_ACCEPTABLE, _FATAL, "None of the accepted formats is available"
        ),
        ErrorCode.REQUEST_TIMED_OUT: ErrorFacts(
            408, RpcCode.REQUEST_TIMED_OUT, _TRANSIENT, "The request did not arrive in time"
        ),
        ErrorCode.REQUEST_CONFLICT: ErrorFacts(
            409, RpcCode.REQUEST_CONFLICT, _FATAL, "The request id was used for another request"
        ),
        ErrorCode.TOO_LARGE: ErrorFacts(413, RpcCode.INVALID_PARAMS, _FATAL, "The message exceeds the size limit"),
        ErrorCode.UNSUPPORTED_MEDIA_TYPE: ErrorFacts(
            415, RpcCode.INVALID_REQUEST, _FATAL, "The format of the body is not supported"
        ),
        ErrorCode.CONTENT_INVALID: ErrorFacts(422, RpcCode.INVALID_PARAMS, _FATAL, "A content block is malformed"),
        ErrorCode.CONTENT_UNSUPPORTED: ErrorFacts(
            422, RpcCode.INVALID_PARAMS, _FATAL, "The agent did not declare this type of content"
        ),
        ErrorCode.CAPABILITY_UNSUPPORTED: ErrorFacts(
            422, RpcCode.INVALID_PARAMS, _FATAL, "No backend can do this work"
        ),
        ErrorCode.FIDELITY_UNAVAILABLE: ErrorFacts(
            422, RpcCode.INVALID_PARAMS, _FATAL, "The client cannot show this at the fidelity that it requires"
        ),
        ErrorCode.RATE_LIMIT_EXCEEDED: ErrorFacts(429, RpcCode.RATE_LIMITED, _TRANSIENT, "Too many requests"),
        ErrorCode.CANCELLED: ErrorFacts(499, RpcCode.CANCELLED, _TRANSIENT, "The turn was cancelled"),
        ErrorCode.INTERNAL: ErrorFacts(500, RpcCode.INTERNAL_ERROR, _FATAL, "Internal error"),
        ErrorCode.AGENT_FAILED: ErrorFacts(500, RpcCode.INTERNAL_ERROR, _FATAL, "The agent failed"),
        ErrorCode.BACKEND_FAILED: ErrorFacts(502, RpcCode.INTERNAL_ERROR, _TRANSIENT, "The backend failed"),
        ErrorCode.EMULATION_FAILED: ErrorFacts(502, RpcCode.INTERNAL_ERROR, _TRANSIENT, "The emulation failed"),
        ErrorCode.UNAVAILABLE: ErrorFacts(503, RpcCode.INTERNAL_ERROR, _TRANSIENT, "The service is unavailable"),
        ErrorCode.TIMED_OUT: ErrorFacts(504, RpcCode.INTERNAL_ERROR, _TRANSIENT, "The time limit was reached"),
    }
)

REMEDIES: Final[Mapping[ErrorCode, str]] = MappingProxyType(
    {
        ErrorCode.PARSE_ERROR: "Send valid JSON in UTF-8.",
        ErrorCode.INVALID_MESSAGE: "Correct the fields that `details.problems` names.",
        ErrorCode.UNAUTHENTICATED: "Send a valid token, as `Authorization: Bearer …` or `x-api-key: …`.",
        ErrorCode.FORBIDDEN: "Use a key whose rules allow this, or have the operator change them.",
        ErrorCode.QUOTA_EXCEEDED: "Delete sessions, or have the operator raise `limits.max_user_bytes`.",
        ErrorCode.BUDGET_EXCEEDED: "Wait for the next period of the budget, or have it raised with `accord keys set`.",
        ErrorCode.NOT_FOUND: "Check the path and the id. What belongs to another user is not found either.",
        ErrorCode.METHOD_NOT_FOUND: "Use a method that is supported there; over HTTP, the header `Allow` lists them.",
        ErrorCode.NOT_ACCEPTABLE: "Accept `application/json` or `text/event-stream`.",
        ErrorCode.REQUEST_TIMED_OUT: "Send the request again, without pauses.",
        ErrorCode.REQUEST_CONFLICT: "Use a new `request_id` for each new request.",
        ErrorCode.TOO_LARGE: "Send less, or have the operator raise the limit that the message names.",
        ErrorCode.UNSUPPORTED_MEDIA_TYPE: "Send JSON, with `Content-Type: application/json`.",
        ErrorCode.CONTENT_INVALID: "Correct the content block that the message names.",
        ErrorCode.CONTENT_UNSUPPORTED: "Leave this content out, or use an agent that accepts it.",
        ErrorCode.CAPABILITY_UNSUPPORTED: "Make one of the changes that `details.remedies` lists.",
        ErrorCode.FIDELITY_UNAVAILABLE: "Lower `min_fidelity`, or declare the event type in `supported_events`.",
        ErrorCode.RATE_LIMIT_EXCEEDED: "Send the request again after the seconds of `Retry-After`.",
        ErrorCode.CANCELLED: "Send the request again under a new id if it is still needed.",
        ErrorCode.INTERNAL: "This is a fault of Accord: the log has its stack trace. Please report it.",
        ErrorCode.AGENT_FAILED: "Read the log of the service: it has the exception of the agent.",
        ErrorCode.BACKEND_FAILED: "Try again later. The receipt says what the endpoint answered.",
        ErrorCode.EMULATION_FAILED: "Try again, use a backend with native support, or raise `emulation.max_retries`.",
        ErrorCode.UNAVAILABLE: "Send the request again after the seconds of `Retry-After`, or in a moment.",
        ErrorCode.TIMED_OUT: "Try again, or have the operator raise the time limits under `[limits]`.",
    }
)
"""What to do about each error, for the reference: docs/reference/errors.md."""


class AccordError(Exception):
    """The base class of every exception that Accord raises."""

    code: ErrorCode = ErrorCode.INTERNAL
    ended_turn = False
    """Whether a turn ended with this error, so that the same request would get it again."""

    def __init__(self, message: str, *, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message: Final = message
        self.details: Final[Mapping[str, Any]] = MappingProxyType(dict(details or {}))

    def __reduce__(self) -> tuple[Any, ...]:
        """Make every error picklable and copyable, whatever its constructor takes."""
        return _restore, (type(self), self.args, {**vars(self), "details": dict(self.details)})

    @property
    def facts(self) -> ErrorFacts:
        """The row of the error table for this error's code."""
        return ERROR_FACTS[self.code]

    @property
    def severity(self) -> ErrorSeverity:
        """Whether a retry can help."""
        return self.facts.severity


def _restore(kind: type[AccordError], args: tuple[Any, ...], state: dict[str, Any]) -> AccordError:
    error = kind.__new__(kind, *args)
    vars(error).update(state, details=MappingProxyType(state["details"]))
    return error


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a message: the field, and what was expected there. Never the value that was sent."""

    field: str
    expected: str


class InvalidMessageError(AccordError, ValueError):
    """Bytes or values that are not the message they should be."""

    code = ErrorCode.INVALID_MESSAGE

    def __init__(self, name: str, problems: Sequence[Problem]) -> None:
        self.problems: Final = tuple(problems)
        summary = "; ".join(f"{problem.field}: {problem.expected}" for problem in self.problems)
        listed = [{"field": problem.field, "expected": problem.expected} for problem in self.problems]
        super().__init__(f"Not a valid {name}: {summary}", details={"problems": listed})


class NotSerialisableError(AccordError, ValueError):
    """A value that JSON cannot carry was about to be sent."""


class RefusedError(AccordError):
    """A request was refused; `details` is the refusal."""

    def __init__(self, message: str, code: ErrorCode, details: Mapping[str, Any]) -> None:
        super().__init__(message, details=details)
        self.code = code


class AgentError(AccordError):
    """An agent broke its contract, or failed."""

    code = ErrorCode.AGENT_FAILED


class BackendError(AccordError):
    """A backend failed. `refused` names the capability that the endpoint rejected, if that is the reason.

    With `is_outage`, the failure speaks against the backend and not against the request: it is down or overloaded. By
    default that is so if the failure is retryable. `retry_after_s` is how long it wants no more requests.
    """

    code = ErrorCode.BACKEND_FAILED

    def __init__(  # noqa: PLR0913 - the facts of a failure
        self,
        message: str,
        *,
        retryable: bool = True,
        refused: str | None = None,
        details: Mapping[str, Any] | None = None,
        code: ErrorCode = ErrorCode.BACKEND_FAILED,
        is_outage: bool | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, details=details)
        self.code = code
        self.retryable: Final = retryable
        self.refused: Final = refused
        self.is_outage: Final = retryable if is_outage is None else is_outage
        self.retry_after_s: Final = retry_after_s

    @property
    def severity(self) -> ErrorSeverity:
        """Transient if the same backend may be tried again."""
        return ErrorSeverity.TRANSIENT if self.retryable else ErrorSeverity.FATAL


class BackendSkippedError(BackendError):
    """A backend was not tried, because it was down a moment ago. Only recorded, never raised."""

    code = ErrorCode.UNAVAILABLE

    def __init__(self, message: str, *, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, details=details, code=ErrorCode.UNAVAILABLE)


class BackendBusyError(BackendSkippedError):
    """A backend was not tried, because as many calls of it as may run do. Raised if no other backend is left."""


class BackendRetriedError(BackendError):
    """A backend refused a field, and was asked again without it. Only recorded, never raised."""

    def __init__(self, error: AccordError) -> None:
        super().__init__(error.message, details=error.details, code=error.code)
        for note in getattr(error, "__notes__", ()):
            self.add_note(note)


class EmulationError(AccordError):
    """An emulated capability did not succeed."""

    code = ErrorCode.EMULATION_FAILED


class TimedOutError(AccordError):
    """A time limit was reached."""

    code = ErrorCode.TIMED_OUT


class TurnCancelledError(AccordError):
    """The turn was cancelled."""

    code = ErrorCode.CANCELLED


class StoreError(AccordError):
    """The session store cannot be reached, read or written."""

    code = ErrorCode.UNAVAILABLE


class StoreConflictError(StoreError):
    """A write contradicts what is stored; nothing was written."""

    code = ErrorCode.REQUEST_CONFLICT


class ConnectionFailedError(AccordError):
    """A service cannot be reached, or the connection keeps breaking; `details` has the number of attempts."""

    code = ErrorCode.UNAVAILABLE


class UsageError(AccordError):
    """A call, a flag or a file that the user has to correct."""

    code = ErrorCode.INVALID_MESSAGE


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One problem of a configuration: the file, line and column or the variable; the key; what is wrong."""

    place: str
    key: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.place, self.key, self.message) if part)


class ConfigError(UsageError):
    """Every problem of a configuration, one line each. Values are never quoted: they may be secret."""

    def __init__(self, problems: Sequence[ConfigProblem]) -> None:
        self.problems: Final = tuple(problems)
        listed = [{"place": problem.place, "key": problem.key, "message": problem.message} for problem in self.problems]
        super().__init__("\n".join(map(str, self.problems)), details={"mistakes": listed})


class MissingExtraError(UsageError, ImportError):
    """A library that is not installed, and the command that installs it."""
