"""Errors of a Gemini endpoint as failures, and its descriptions of models."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.apis.codec import MalformedAnswerError
from accord.apis.failure import Failure
from accord.apis.gemini.codec import GeminiCodec
from accord.apis.gemini.errors import BY_GOOGLE_STATUS

GEMINI = GeminiCodec()
INFO = "type.googleapis.com/google.rpc.ErrorInfo"
RETRY = "type.googleapis.com/google.rpc.RetryInfo"
QUOTA = "type.googleapis.com/google.rpc.QuotaFailure"


def problem(status: str | None, message: str = "", details: list[Any] | None = None) -> dict[str, Any]:
    return {"error": {"code": 1, "status": status, "message": message, "details": details or []}}


def explained(status: int, report: Any):
    return GEMINI.read_error(status, json.dumps(report).encode())


def refused(message: str):
    report = explained(400, problem("INVALID_ARGUMENT", message))
    return report.failure, report.refused


@pytest.mark.parametrize("status", BY_GOOGLE_STATUS)
def test_googles_status_counts_before_that_of_http_also_in_a_list(status: str):
    for report in (problem(status), [problem(status)], [{}, problem(status)]):
        found = explained(418, report)
        assert (found.failure, found.code, found.status) == (BY_GOOGLE_STATUS[status], status, 418)


@pytest.mark.parametrize(
    ("status", "google", "reason", "failure"),
    [
        (400, "INVALID_ARGUMENT", "API_KEY_INVALID", Failure.BAD_KEY),
        (403, "PERMISSION_DENIED", "SERVICE_DISABLED", Failure.FORBIDDEN),
        (403, "PERMISSION_DENIED", "BILLING_DISABLED", Failure.OUT_OF_QUOTA),
        (403, "PERMISSION_DENIED", "SOMETHING_NEW", Failure.FORBIDDEN),
    ],
)
def test_the_reason_in_the_details_counts_before_the_status(status: int, google: str, reason: str, failure: Failure):
    details = [17, {"@type": INFO, "reason": reason, "domain": "googleapis.com"}, {"reason": ["odd"]}]
    assert explained(status, problem(google, details=details)).failure is failure


@pytest.mark.parametrize(
    ("message", "failure", "capability"),
    [
        ("API key not valid. Please pass a valid API key.", Failure.BAD_KEY, None),
        ("Method doesn't allow unregistered callers (callers without established identity).", Failure.BAD_KEY, None),
        (
            "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).",
            Failure.CONTEXT_TOO_LONG,
            None,
        ),
        ("The input token count exceeds the maximum number of tokens allowed (9).", Failure.CONTEXT_TOO_LONG, None),
        ("Request payload size exceeds the limit: 20971520 bytes.", Failure.TOO_LARGE, None),
        ("Developer instruction is not enabled for models/gemma-3-12b-it", Failure.UNSUPPORTED, "system_message"),
        ("Json mode is not enabled for models/gemini-pro", Failure.UNSUPPORTED, "json_mode"),
        ("Function calling is not enabled for models/gemma-3-1b-it", Failure.UNSUPPORTED, "tool_use"),
        (
            "Function calling with a response mime type: 'application/json' is unsupported",
            Failure.UNSUPPORTED,
            "structured_output_json_schema",
        ),
        ("Image input modality is not enabled for models/x", Failure.UNSUPPORTED, "image_input"),
        ("Audio input modality is not enabled for models/x", Failure.UNSUPPORTED, "audio"),
        ("Penalty is not enabled for this model", Failure.UNSUPPORTED, "frequency_penalty"),
        (
            "Multimodal function responses are not supported for this model",
            Failure.UNSUPPORTED,
            "tool_result_media",
        ),
        ("Thinking is not enabled for this model", Failure.UNSUPPORTED, "extended_thinking"),
        ("Invalid JSON payload received. Unknown name", Failure.BAD_REQUEST, None),
    ],
)
def test_a_message_decides_where_the_status_is_ambiguous(message: str, failure: Failure, capability: str | None):
    assert refused(message) == (failure, capability)


def test_a_message_is_not_read_where_the_status_is_clear():
    assert explained(500, problem("INTERNAL", "API key not valid")).failure is Failure.FAILED


@pytest.mark.parametrize(
    ("delay", "seconds"), [("12s", 12.0), ("1.5s", 1.5), ("soon", None), ("", None), ("-1s", None)]
)
def test_how_long_to_wait_is_in_the_details(delay: str, seconds: float | None):
    report = explained(429, problem("RESOURCE_EXHAUSTED", details=[{"@type": RETRY, "retryDelay": delay}]))
    assert (report.failure, report.retry_after_s) == (Failure.RATE_LIMITED, seconds)


def test_a_quota_of_the_day_is_used_up_and_one_of_the_minute_is_not():
    def spent(*ids: str) -> Failure:
        details = [{"@type": QUOTA, "violations": [{"quotaId": one} for one in ids]}]
        return explained(429, problem("RESOURCE_EXHAUSTED", details=details)).failure

    assert spent("GenerateRequestsPerMinutePerProjectPerModel-FreeTier") is Failure.RATE_LIMITED
    assert spent("TokensPerMinute", "GenerateRequestsPerDayPerProjectPerModel-FreeTier") is Failure.OUT_OF_QUOTA


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"error": "no"}', b"\xff", b"[" * 9_000])
def test_an_unreadable_error_is_classified_by_its_status(body: bytes):
    assert GEMINI.read_error(503, body).failure is Failure.OVERLOADED
    assert GEMINI.read_error(401, body).failure is Failure.BAD_KEY


@given(st.binary(max_size=40), st.integers(400, 599))
def test_any_bytes_can_be_classified(body: bytes, status: int):
    assert GEMINI.read_error(status, body).failure in Failure


def levels(described: Any) -> dict[str, str]:
    found = GEMINI.read_discovery(json.dumps(described).encode(), "gemini-3-pro")
    assert {evidence.source for evidence in found.values()} <= {GEMINI.name}
    return {name: evidence.level.kind for name, evidence in found.items()}


def test_a_description_shows_thinking_and_sampling():
    described = {
        "name": "models/gemini-3-pro",
        "inputTokenLimit": 1048576,
        "supportedGenerationMethods": ["generateContent", "countTokens", "createCachedContent"],
        "temperature": 1,
        "topP": 0.95,
        "topK": 64,
        "thinking": True,
    }
    sampling = {"temperature": "native", "top_p": "native", "top_k": "native"}
    assert levels(described) == {"extended_thinking": "native", **sampling}
    del described["topK"], described["thinking"]
    assert levels(described) == {**sampling, "top_k": "unsupported"}


def test_a_model_that_cannot_generate_supports_none_of_it():
    assert levels({"supportedGenerationMethods": ["embedContent"]})["streaming"] == "unsupported"
    assert set(levels({"supportedGenerationMethods": ["embedContent"]}).values()) == {"unsupported"}


def test_an_empty_description_is_no_evidence():
    assert levels({}) == {}
    with pytest.raises(MalformedAnswerError):
        GEMINI.read_discovery(b"<html>", "gemini-3-pro")
