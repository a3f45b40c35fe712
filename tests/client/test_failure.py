"""The meaning of a response that is not a success: the error to raise, and whether to try again."""

import json
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.client.failure import connection_failed, response_failed
from accord.core.backoff import parse_retry_after
from accord.errors import ERROR_FACTS, AccordError, ConnectionFailedError, ErrorCode, RefusedError
from accord.wire.problem import problem_body

TRIED_AGAIN = {ErrorCode.RATE_LIMIT_EXCEEDED, ErrorCode.UNAVAILABLE}


@pytest.mark.parametrize("code", ErrorCode)
def test_a_problem_body_is_retried_only_if_the_turn_has_not_started(code: ErrorCode):
    body = problem_body(RefusedError("Told", code, {"a": 1})).to_json().encode()
    attempt = response_failed(ERROR_FACTS[code].http, "3", body)
    assert (attempt.error.code, attempt.error.message, attempt.error.details) == (code, "Told", {"a": 1})
    assert attempt.is_retryable is (code in TRIED_AGAIN)
    assert attempt.retry_after_s == 3


@pytest.mark.parametrize(
    ("status", "code", "is_retryable", "sentence"),
    [
        (301, ErrorCode.INVALID_MESSAGE, False, "The service answered 301 Moved Permanently"),
        (400, ErrorCode.INVALID_MESSAGE, False, "The service answered 400 Bad Request"),
        (401, ErrorCode.UNAUTHENTICATED, False, "The service answered 401 Unauthorized"),
        (403, ErrorCode.FORBIDDEN, False, "The service answered 403 Forbidden"),
        (404, ErrorCode.NOT_FOUND, False, "The service answered 404 Not Found"),
        (405, ErrorCode.METHOD_NOT_FOUND, False, "The service answered 405 Method Not Allowed"),
        (406, ErrorCode.NOT_ACCEPTABLE, False, "The service answered 406 Not Acceptable"),
        (407, ErrorCode.UNAUTHENTICATED, False, "The service answered 407 Proxy Authentication Required"),
        (409, ErrorCode.REQUEST_CONFLICT, False, "The service answered 409 Conflict"),
        (413, ErrorCode.TOO_LARGE, False, f"The service answered 413 {HTTPStatus(413).phrase}"),
        (415, ErrorCode.UNSUPPORTED_MEDIA_TYPE, False, "The service answered 415 Unsupported Media Type"),
        (429, ErrorCode.RATE_LIMIT_EXCEEDED, True, "The service answered 429 Too Many Requests"),
        (500, ErrorCode.INTERNAL, False, "The service answered 500 Internal Server Error"),
        (502, ErrorCode.UNAVAILABLE, True, "The service answered 502 Bad Gateway"),
        (503, ErrorCode.UNAVAILABLE, True, "The service answered 503 Service Unavailable"),
        (504, ErrorCode.TIMED_OUT, True, "The service answered 504 Gateway Timeout"),
        (599, ErrorCode.INTERNAL, False, "The service answered 599"),
    ],
)
def test_a_status_without_a_problem_body_has_an_error_of_its_own(
    status: int, code: ErrorCode, is_retryable: bool, sentence: str
):
    attempt = response_failed(status, None, b"<html>")
    assert isinstance(attempt.error, RefusedError)
    assert (attempt.error.code, attempt.is_retryable, attempt.error.message) == (code, is_retryable, sentence)
    assert attempt.error.details == {"status": status}


def test_an_unknown_error_code_is_mapped_by_its_status():
    body = json.dumps({"title": "t", "status": 418, "code": "teapot", "detail": "short and stout"}).encode()
    assert response_failed(418, None, body).error.details == {"status": 418}


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [
        (None, None),
        ("0", 0),
        ("120", 120),
        ("", None),
        ("-1", None),
        ("1.5", 1.5),
        ("1.", None),
        ("soon", None),
        ("²", None),
        ("9" * 5000, None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
    ],
)
def test_only_a_number_of_seconds_is_read(retry_after: str | None, seconds: float | None):
    assert parse_retry_after(retry_after) == seconds


@given(st.integers(300, 999), st.none() | st.text(), st.binary(max_size=100))
def test_any_answer_at_all_is_one_of_our_errors(status: int, retry_after: str | None, body: bytes):
    assert isinstance(response_failed(status, retry_after, body).error, AccordError)


def test_a_broken_connection_is_worth_another_attempt():
    attempt = connection_failed("it was reset")
    assert isinstance(attempt.error, ConnectionFailedError)
    assert attempt.error.message == "The service cannot be reached: it was reset"
    assert attempt.is_retryable
