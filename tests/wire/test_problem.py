"""Errors as they travel: a problem body over HTTP, an error packet in a stream (decision 9)."""

from accord.errors import FACTS, ErrorSeverity, InvalidMessageError, Problem
from accord.wire.event import PresentationEvent
from accord.wire.packet import StreamPacket
from accord.wire.problem import problem_body, stream_error

ERROR = InvalidMessageError("AgentRequest", [Problem("query", "Field required")])


def test_an_error_becomes_a_problem_body():
    assert problem_body(ERROR, request_id="r1").dump() == {
        "title": FACTS[ERROR.code].title,
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
