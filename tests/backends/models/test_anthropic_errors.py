"""Errors of the Messages API as failures; its messages are never part of ours."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.apis.failure import FAILURE_RULES, EndpointError, Failure
from accord.apis.messages.codec import MessagesCodec
from accord.apis.messages.read_answer import BY_KIND

API = MessagesCodec()
INVALID = "invalid_request_error"


def body(kind: str, message: str) -> bytes:
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}).encode()


@pytest.mark.parametrize(
    ("status", "kind", "failure"),
    [
        (400, INVALID, Failure.BAD_REQUEST),
        (401, "authentication_error", Failure.BAD_KEY),
        (402, "billing_error", Failure.OUT_OF_QUOTA),
        (403, "permission_error", Failure.FORBIDDEN),
        (404, "not_found_error", Failure.NO_SUCH_MODEL),
        (409, "conflict_error", Failure.OVERLOADED),
        (413, "request_too_large", Failure.TOO_LARGE),
        (429, "rate_limit_error", Failure.RATE_LIMITED),
        (500, "api_error", Failure.FAILED),
        (504, "timeout_error", Failure.TIMED_OUT),
        (529, "overloaded_error", Failure.OVERLOADED),
        (529, "never_heard_of", Failure.OVERLOADED),
        (418, "never_heard_of", Failure.BAD_REQUEST),
    ],
)
def test_every_kind_of_error_has_its_meaning(status: int, kind: str, failure: Failure):
    report = API.read_error(status, body(kind, "Some sentence."))
    assert (report.failure, report.code, report.message, report.status) == (
        failure,
        kind,
        "Some sentence.",
        status,
    )
    assert report.refused is None


@pytest.mark.parametrize(
    ("message", "failure", "refused"),
    [
        ("prompt is too long: 210000 tokens > 200000 maximum", Failure.CONTEXT_TOO_LONG, None),
        ("input length and `max_tokens` exceed context limit: 1 + 2 > 2", Failure.CONTEXT_TOO_LONG, None),
        ("Your credit balance is too low to access the Anthropic API.", Failure.OUT_OF_QUOTA, None),
        ("You have reached your specified API usage limits.", Failure.OUT_OF_QUOTA, None),
        ("Output blocked by content filtering policy", Failure.CONTENT_REFUSED, None),
        ("messages.1.content.0: Invalid `signature` in `thinking` block", Failure.BAD_REQUEST, None),
        ('"thinking.type.enabled" is not supported for this model.', Failure.UNSUPPORTED, "extended_thinking"),
        ("adaptive thinking is not supported on this model", Failure.UNSUPPORTED, "extended_thinking"),
        ("`temperature` is deprecated for this model.", Failure.UNSUPPORTED, "temperature"),
        ("temperature: Extra inputs are not permitted", Failure.UNSUPPORTED, "temperature"),
        ("top_k: Extra inputs are not permitted", Failure.UNSUPPORTED, "top_k"),
        ("`top_p` is not supported for this model.", Failure.UNSUPPORTED, "top_p"),
        ("`temperature` and `top_p` cannot both be specified for this model.", Failure.BAD_REQUEST, None),
        ("`temperature` may only be set to 1 when thinking is enabled.", Failure.BAD_REQUEST, None),
        (
            "output_config.format.schema: For 'object' type, 'additionalProperties' must be false",
            Failure.UNSUPPORTED,
            "structured_output_json_schema",
        ),
        ("This model does not support image input.", Failure.UNSUPPORTED, "image_input"),
        ("This model does not support PDF input.", Failure.UNSUPPORTED, "pdf_input"),
        ("This model does not support tools.", Failure.UNSUPPORTED, "tool_use"),
        ("Could not process image", Failure.BAD_REQUEST, None),
        ("max_tokens: 9 > 8, which is the maximum allowed number of output tokens", Failure.BAD_REQUEST, None),
        ("tools.0.custom.input_schema.temperature: Extra inputs are not permitted", Failure.BAD_REQUEST, None),
    ],
)
def test_a_refusal_is_recognised_by_its_message(message: str, failure: Failure, refused: str | None):
    report = API.read_error(400, body(INVALID, message))
    assert (report.failure, report.refused, report.message) == (failure, refused, message)


def test_every_kind_that_the_api_documents_is_in_the_table():
    assert set(BY_KIND) >= {INVALID, "api_error", "timeout_error", "overloaded_error", "request_too_large"}


@pytest.mark.parametrize(
    "junk", [b"", b"<html>Bad gateway</html>", b"[]", b"\xff", b'{"error": "text"}', b'{"error": null}']
)
def test_a_proxys_reply_is_classified_by_its_status(junk: bytes):
    assert API.read_error(502, junk).failure is Failure.FAILED
    assert API.read_error(429, junk).failure is Failure.RATE_LIMITED


@given(st.sampled_from(sorted(BY_KIND)), st.sampled_from(["temperature: not permitted ", "prompt is too long ", ""]))
def test_the_endpoints_text_is_in_our_message_only_where_the_request_is_at_fault(kind: str, beginning: str):
    report = API.read_error(400, body(kind, f"{beginning}xyzzy"))
    error = EndpointError("claude", report)
    assert ("xyzzy" in str(error)) is FAILURE_RULES[report.failure].is_callers_fault
    assert "xyzzy" not in str(error.details)
    assert any("xyzzy" in note for note in error.__notes__)
