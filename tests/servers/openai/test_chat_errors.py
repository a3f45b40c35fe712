"""Errors in OpenAI's shape: the words that SDKs and programs look for, and our own code beside them."""

from typing import Any

import pytest

from accord.apis.failure import EndpointError, Failure, FailureReport
from accord.apis.openai.errors import MAX_DETAIL_BYTES, error_body
from accord.errors import AccordError, AgentError, BackendError, ErrorCode, RefusedError, TimedOutError


def refused(code: ErrorCode, **details: Any) -> RefusedError:
    return RefusedError("why", code, details)


WORDS: list[tuple[AccordError, str, str | None, str | None]] = [
    (refused(ErrorCode.INVALID_MESSAGE, field="messages[0].role"), "invalid_request_error", "messages[0].role", "invalid_value"),
    (refused(ErrorCode.PARSE_ERROR), "invalid_request_error", None, None),
    (refused(ErrorCode.UNAUTHENTICATED), "invalid_request_error", None, "invalid_api_key"),
    (refused(ErrorCode.FORBIDDEN), "permission_error", None, "permission_denied"),
    (refused(ErrorCode.QUOTA_EXCEEDED), "insufficient_quota", None, "insufficient_quota"),
    (refused(ErrorCode.NOT_FOUND, field="model"), "invalid_request_error", "model", "model_not_found"),
    (refused(ErrorCode.NOT_FOUND), "invalid_request_error", None, "not_found"),
    (refused(ErrorCode.CAPABILITY_UNSUPPORTED, field="audio"), "invalid_request_error", "audio", "unsupported_value"),
    (refused(ErrorCode.RATE_LIMIT_EXCEEDED), "requests", None, "rate_limit_exceeded"),
    (refused(ErrorCode.TOO_LARGE), "invalid_request_error", None, "request_too_large"),
    (EndpointError("b", FailureReport(Failure.CONTEXT_TOO_LONG)), "invalid_request_error", None, "context_length_exceeded"),
    (refused(ErrorCode.REQUEST_CONFLICT), "invalid_request_error", None, "request_conflict"),
    (BackendError("why"), "server_error", None, "backend_failed"),
    (AgentError("why"), "server_error", None, "agent_failed"),
    (TimedOutError("why"), "server_error", None, "timed_out"),
    (refused(ErrorCode.UNAVAILABLE), "server_error", None, "server_is_overloaded"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "kind", "param", "code"), WORDS, ids=lambda value: str(value)[:40])
def test_each_error_has_the_words_of_openai(error: AccordError, kind: str, param: str | None, code: str | None):
    body = error_body(error, "r-1")
    assert body["error"] == {"message": error.message, "type": kind, "param": param, "code": code}
    assert (body["accord"]["code"], body["accord"]["request_id"]) == (error.code, "r-1")


@pytest.mark.parametrize("code", ErrorCode)
def test_every_code_has_a_type_and_a_message(code: ErrorCode):
    error = error_body(refused(code), "r-1")["error"]
    assert error["message"] == "why"
    assert error["type"]


def test_small_details_are_repeated_and_others_are_left_out():
    small = error_body(refused(ErrorCode.CAPABILITY_UNSUPPORTED, candidates=[{"backend": "b"}]), "r")
    assert small["accord"]["details"] == {"candidates": [{"backend": "b"}]}
    assert "details" not in error_body(refused(ErrorCode.INTERNAL, text="x" * MAX_DETAIL_BYTES), "r")["accord"]
    assert "details" not in error_body(refused(ErrorCode.INTERNAL, value=object()), "r")["accord"]
    assert "details" not in error_body(refused(ErrorCode.INTERNAL), "r")["accord"]
