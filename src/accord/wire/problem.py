"""How an error travels over HTTP: a problem body (RFC 9457) with the one table's code in it."""

from accord.errors import FACTS, AccordError, ErrorCode
from accord.wire.message import FreeObject, Message
from accord.wire.packet import StreamError

PROBLEM_MEDIA_TYPE = "application/problem+json"


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
    facts = FACTS[error.code]
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
    facts = FACTS[error.code]
    return StreamError(
        code=error.code, message=error.message, severity=facts.severity, details=dict(error.details) or None
    )
