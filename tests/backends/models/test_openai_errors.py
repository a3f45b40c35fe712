"""Errors of OpenAI-compatible endpoints as failures: one row for each form of error."""

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import ResponseError

from accord.apis.failure import FAILURE_RULES, EndpointError, Failure
from accord.apis.openai.endpoint import failure_report, read_error


def error(message: str = "secret", **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


SAYINGS: list[tuple[int, Any, Failure, str | None]] = [
    (401, error(type="invalid_request_error", code="invalid_api_key"), Failure.BAD_KEY, None),
    (404, error(type="invalid_request_error", code="model_not_found"), Failure.NO_SUCH_MODEL, None),
    (400, error(type="invalid_request_error", param="messages", code="context_length_exceeded"), Failure.CONTEXT_TOO_LONG, None),
    (400, error(code="content_filter", param="prompt", innererror={"code": "ResponsibleAIPolicyViolation"}), Failure.CONTENT_REFUSED, None),
    (400, error(code="content_policy_violation"), Failure.CONTENT_REFUSED, None),
    (429, error(type="insufficient_quota", code="insufficient_quota"), Failure.OUT_OF_QUOTA, None),
    (429, error(type="tokens", code="rate_limit_exceeded"), Failure.RATE_LIMITED, None),
    (500, error(type="server_error"), Failure.FAILED, None),
    (503, error(type="server_error"), Failure.OVERLOADED, None),
    (400, error(code="unsupported_parameter", param="max_tokens"), Failure.UNSUPPORTED, "max_tokens"),
    (400, error(code="unsupported_value", param="temperature"), Failure.UNSUPPORTED, "temperature"),
    (400, error(code="unsupported_value", param="stream"), Failure.UNSUPPORTED, "streaming"),
    (400, error(code="unsupported_value", param="messages[0].role"), Failure.UNSUPPORTED, "system_message"),
    (400, error(code="unsupported_value", param="reasoning.summary"), Failure.UNSUPPORTED, "extended_thinking"),
    (400, error(code="unsupported_parameter", param="tools[0]"), Failure.UNSUPPORTED, "tool_use"),
    (400, error("'json_object' is not", code="unsupported_value", param="response_format.type"), Failure.UNSUPPORTED, "json_mode"),
    (400, error("'json_schema' is not", code="unsupported_value", param="response_format"), Failure.UNSUPPORTED, "structured_output_json_schema"),
    (400, error(code="unsupported_parameter", param="own_word"), Failure.UNSUPPORTED, None),
    (400, error("Encrypted content is not supported with this model.", type="invalid_request_error", param="include"), Failure.UNSUPPORTED, "extended_thinking"),
    # vLLM: bare, with a number for a code; FastAPI before it with what it checked
    (400, {"object": "error", "message": "This model's maximum context length is 8 tokens.", "type": "BadRequestError", "param": None, "code": 400}, Failure.CONTEXT_TOO_LONG, None),
    (404, error("The model does not exist.", type="NotFoundError", param="model", code=404), Failure.NO_SUCH_MODEL, None),
    (400, error('"auto" tool choice requires --enable-auto-tool-choice', type="BadRequestError", code=400), Failure.UNSUPPORTED, "tool_use"),
    (400, error("At most 0 image(s) may be provided in one prompt.", type="BadRequestError", code=400), Failure.UNSUPPORTED, "image_input"),
    (422, {"detail": [{"loc": ["body", "messages"], "msg": "secret"}]}, Failure.BAD_REQUEST, None),
    (401, {"detail": "Not authenticated"}, Failure.BAD_KEY, None),
    # Ollama: a sentence
    (404, {"error": 'model "x" not found, try pulling it first'}, Failure.NO_SUCH_MODEL, None),
    (400, error("registry.ollama.ai/library/x does not support tools", type="api_error"), Failure.UNSUPPORTED, "tool_use"),
    (400, error('"x" does not support thinking', type="api_error"), Failure.UNSUPPORTED, "extended_thinking"),
    # llama.cpp: types of its own
    (400, error("the request exceeds the available context size", code=400, type="exceed_context_size_error"), Failure.CONTEXT_TOO_LONG, None),
    (500, error("image input is not supported - hint: mmproj", code=500, type="server_error"), Failure.UNSUPPORTED, "image_input"),
    (503, error("Loading model", code=503, type="unavailable_error"), Failure.OVERLOADED, None),
    (401, error("Invalid API Key", code=401, type="authentication_error"), Failure.BAD_KEY, None),
    (501, error("secret", code=501, type="not_supported_error"), Failure.UNSUPPORTED, None),
    # OpenRouter, LiteLLM and Gemini's compatible endpoint
    (404, error("No endpoints found that support tool use.", code=404), Failure.UNSUPPORTED, "tool_use"),
    (402, error("secret", code=402), Failure.OUT_OF_QUOTA, None),
    (400, error("litellm.ContextWindowExceededError: secret", type=None, param=None, code="400"), Failure.CONTEXT_TOO_LONG, None),
    (400, [error("secret", code=400, status="INVALID_ARGUMENT")], Failure.BAD_REQUEST, None),
    # Nothing that can be read
    (529, {}, Failure.OVERLOADED, None),
    (418, None, Failure.BAD_REQUEST, None),
    (502, [], Failure.FAILED, None),
    (302, 7, Failure.NOT_UNDERSTOOD, None),
    # A sentence does not make another thing of a bad key
    (401, error("maximum context length"), Failure.BAD_KEY, None),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "failure", "refused"), SAYINGS)
def test_each_error_means_one_failure(status: int, body: Any, failure: Failure, refused: str | None):
    explained = read_error(status, json.dumps(body).encode())
    assert (explained.failure, explained.refused, explained.status) == (failure, refused, status)
    is_passed_on = FAILURE_RULES[failure].is_callers_fault and "secret" in (explained.message or "")
    assert ("secret" in str(EndpointError("b", explained))) is is_passed_on


def test_a_named_code_is_reported_and_a_number_is_not():
    assert (
        read_error(400, json.dumps(error(code=400, type="invalid_request_error")).encode()).code
        == "invalid_request_error"
    )
    assert read_error(429, json.dumps(error(code="insufficient_quota", type="x")).encode()).code == "insufficient_quota"
    assert read_error(500, b"<html>secret</html>").code is None


@pytest.mark.parametrize("code", get_args(ResponseError.model_fields["code"].annotation))
def test_only_a_failed_response_that_the_endpoint_itself_caused_counts_against_it(code: str):
    failed = {"type": "response.failed", "response": {"status": "failed", "error": {"code": code, "message": "m"}}}
    rule = FAILURE_RULES[failure_report(failed).failure]
    own = {"server_error", "vector_store_timeout"}
    assert (rule.is_outage, rule.may_resend) == (code in own, code in own | {"rate_limit_exceeded"})


@given(st.integers(100, 599), st.binary(max_size=100))
def test_any_body_can_be_classified(status: int, body: bytes):
    assert read_error(status, body).status == status


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["error", "detail", "message", "msg", "code", "type", "param"]), inner),
        max_leaves=6,
    )
)  # fmt: skip
def test_any_json_can_be_classified(reported: Any):
    assert read_error(400, json.dumps(reported).encode()).failure in Failure


def test_deep_nesting_can_be_classified():
    assert read_error(400, b"[" * 100_000 + b"]" * 100_000).failure is Failure.BAD_REQUEST
    assert read_error(400, b'{"error":' * 500 + b"1" + b"}" * 500).failure is Failure.BAD_REQUEST
