"""Errors on the wire: a problem body over HTTP, an error packet in a stream (decision 9)."""

import pytest

from accord.errors import (
    ERROR_FACTS,
    AgentError,
    BackendError,
    EmulationError,
    ErrorCode,
    ErrorSeverity,
    InvalidMessageError,
    Problem,
    RefusedError,
    TimedOutError,
    TurnCancelledError,
)
from accord.wire.event import PresentationEvent
from accord.wire.packet import StreamError, StreamPacket
from accord.wire.problem import ProblemBody, error_from_problem, error_from_stream, problem_body, stream_error

ERROR = InvalidMessageError("AgentRequest", [Problem("query", "Field required")])


def test_an_error_becomes_a_problem_body():
    assert problem_body(ERROR, request_id="r1").dump() == {
        "title": ERROR_FACTS[ERROR.code].title,
        "status": 400,
        "code": "invalid_message",
        "detail": "Not a valid AgentRequest: query: Field required",
        "request_id": "r1",
        "details": {"problems": [{"field": "query", "expected": "Field required"}]},
    }


def test_decision_9_a_failed_protocol_is_an_error_packet_and_a_failed_task_is_an_event():
    broken = StreamPacket(op="error", p=stream_error(ERROR))
    assert broken.p.severity is ErrorSeverity.FATAL
    failed = StreamPacket(op="event", p=PresentationEvent(type="user_error", data={"message": "No such file"}))
    assert failed.p["data"]["message"] == "No such file"


EXCEPTIONS = {
    ErrorCode.AGENT_FAILED: AgentError,
    ErrorCode.BACKEND_FAILED: BackendError,
    ErrorCode.EMULATION_FAILED: EmulationError,
    ErrorCode.TIMED_OUT: TimedOutError,
    ErrorCode.CANCELLED: TurnCancelledError,
}


@pytest.mark.parametrize("code", ErrorCode)
def test_an_error_from_the_wire_has_the_class_of_its_code_and_its_details(code: ErrorCode):
    body = ProblemBody(title="t", status=ERROR_FACTS[code].http, code=code, detail="It broke", details={"a": 1})
    error = StreamError(code=code, message="It broke", severity=ERROR_FACTS[code].severity, details={"a": 1})
    for raised in (error_from_problem(body), error_from_stream(error)):
        assert type(raised) is EXCEPTIONS.get(code, RefusedError)
        assert (raised.code, raised.message, raised.details) == (code, "It broke", {"a": 1})
        assert raised.severity is ERROR_FACTS[code].severity


def test_a_fatal_backend_error_stays_fatal():
    error = StreamError(code="backend_failed", message="No such model", severity=ErrorSeverity.FATAL)
    assert error_from_stream(error).severity is ErrorSeverity.FATAL


def test_an_unknown_code_is_an_agent_error():
    raised = error_from_stream(StreamError(code="out_of_coffee", message="No coffee", severity=ErrorSeverity.FATAL))
    assert isinstance(raised, AgentError)
    assert raised.details == {"code": "out_of_coffee"}
