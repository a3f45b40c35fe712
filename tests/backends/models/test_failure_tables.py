"""Every row of the failure tables, with what it means written down a second time: a lost or changed row is noticed."""

import json
from typing import Any

import pytest

from accord.apis.failure import (
    BY_STATUS,
    FAILURE_RULES,
    MASK,
    MAX_CLIENT_CHARS,
    EndpointError,
    Failure,
    FailureReport,
    failure_by_status,
)
from accord.apis.gemini import errors as gemini
from accord.apis.messages import read_answer as anthropic
from accord.apis.openai import endpoint as openai

STATUSES = """
401 bad_key          402 out_of_quota   403 forbidden    404 no_such_model  408 overloaded
409 overloaded       413 too_large      429 rate_limited 503 overloaded     529 overloaded
400 bad_request      418 bad_request    422 bad_request  500 failed         502 failed
504 failed           302 not_understood 200 not_understood
"""
MEANT = """
bad_key           backend_failed       502  -       -     -      -
forbidden         backend_failed       502  -       -     -      -
no_such_model     backend_failed       404  caller  -     -      -
context_too_long  too_large            400  caller  -     -      -
content_refused   backend_failed       400  caller  -     -      -
too_large         too_large            413  caller  -     -      -
unsupported       backend_failed       400  caller  -     -      -
bad_request       backend_failed       400  caller  -     -      -
rate_limited      rate_limit_exceeded  429  -       again later  -
out_of_quota      backend_failed       502  -       -     -      -
overloaded        unavailable          503  -       again later  outage
failed            backend_failed       502  -       again later  outage
unreachable       backend_failed       502  -       again later  outage
untrusted         backend_failed       502  -       -     -      outage
broken_off        backend_failed       502  -       again later  outage
timed_out         timed_out            504  -       -     later  outage
not_understood    backend_failed       502  -       -     later  -
"""
OPENAI_CODES = """
invalid_api_key bad_key                 incorrect_api_key bad_key           authentication_error bad_key
permission_error forbidden              permission_denied forbidden         model_not_found no_such_model
not_found_error no_such_model           notfounderror no_such_model         deploymentnotfound no_such_model
context_length_exceeded context_too_long exceed_context_size_error context_too_long
string_above_max_length too_large       content_filter content_refused      content_policy_violation content_refused
invalid_prompt content_refused          insufficient_quota out_of_quota     billing_hard_limit_reached out_of_quota
billing_not_active out_of_quota         budget_exceeded out_of_quota        rate_limit_exceeded rate_limited
rate_limit_error rate_limited           unsupported_parameter unsupported   unsupported_value unsupported
unknown_parameter unsupported           not_supported_error unsupported     server_error failed
engine_overloaded overloaded            overloaded_error overloaded         server_is_overloaded overloaded
slow_down overloaded                    unavailable_error overloaded        data_residency_mismatch forbidden
bio_policy content_refused              misalignment_policy_violation content_refused
image_content_policy_violation content_refused                              image_too_large too_large
image_file_too_large too_large          empty_image_file bad_request        failed_to_download_image bad_request
image_file_not_found bad_request        image_parse_error bad_request       image_too_small bad_request
invalid_base64_image bad_request        invalid_image bad_request           invalid_image_format bad_request
invalid_image_mode bad_request          invalid_image_url bad_request       unsupported_image_media_type bad_request
"""
OPENAI_FIELDS = """
tools tool_use            tool_choice tool_use          parallel_tool_calls tool_use
response_format structured_output_json_schema           text structured_output_json_schema
reasoning extended_thinking reasoning_effort extended_thinking include extended_thinking
stream streaming          stop stop_sequences           temperature temperature  top_p top_p  top_k top_k
max_tokens max_tokens     max_completion_tokens max_tokens max_output_tokens max_tokens
frequency_penalty frequency_penalty presence_penalty presence_penalty
seed seed_determinism     logprobs logprobs             top_logprobs logprobs
"""
ANTHROPIC_KINDS = """
invalid_request_error bad_request  authentication_error bad_key  billing_error out_of_quota
permission_error forbidden         not_found_error no_such_model conflict_error overloaded
request_too_large too_large        rate_limit_error rate_limited api_error failed
timeout_error timed_out            overloaded_error overloaded
"""
GOOGLE_STATUSES = """
INVALID_ARGUMENT bad_request   OUT_OF_RANGE bad_request   FAILED_PRECONDITION forbidden  UNAUTHENTICATED bad_key
PERMISSION_DENIED forbidden    NOT_FOUND no_such_model    RESOURCE_EXHAUSTED rate_limited UNIMPLEMENTED unsupported
ABORTED overloaded             CANCELLED failed           UNAVAILABLE overloaded         INTERNAL failed
UNKNOWN failed                 DATA_LOSS failed           DEADLINE_EXCEEDED timed_out
"""
GOOGLE_REASONS = """
API_KEY_INVALID bad_key  API_KEY_EXPIRED bad_key  ACCESS_TOKEN_EXPIRED bad_key  CREDENTIALS_MISSING bad_key
API_KEY_SERVICE_BLOCKED forbidden  SERVICE_DISABLED forbidden  BILLING_DISABLED out_of_quota
"""

OPENAI_SENTENCES: list[tuple[str, str, str | None]] = [
    ("This model's maximum context length is 8192 tokens", "context_too_long", None),
    ("litellm.ContentPolicyViolationError: no", "content_refused", None),
    ("llama2 does not support tools", "unsupported", "tool_use"),
    ("llama2 does not support thinking", "unsupported", "extended_thinking"),
    ("At most 0 image(s) may be provided", "unsupported", "image_input"),
    ("audio input is not supported", "unsupported", "audio"),
]
ANTHROPIC_SENTENCES: list[tuple[str, str, str | None]] = [
    ("prompt is too long: 200001 tokens > 200000 maximum", "context_too_long", None),
    ("Your credit balance is too low", "out_of_quota", None),
    ("Output blocked by content filter", "content_refused", None),
    ("messages.1: Invalid signature in thinking block", "bad_request", None),
    ("adaptive thinking is not supported on this model", "unsupported", "extended_thinking"),
    ("temperature is deprecated for this model", "unsupported", "temperature"),
    ("top_p: not supported", "unsupported", "top_p"),
    ("`top_k` parameter is not supported", "unsupported", "top_k"),
    ("structured outputs are unavailable", "unsupported", "structured_output_json_schema"),
    ("images are not supported", "unsupported", "image_input"),
    ("this model does not support PDF input", "unsupported", "pdf_input"),
    ("tools are not supported", "unsupported", "tool_use"),
    ("Could not process image", "bad_request", None),
]
GOOGLE_SENTENCES: list[tuple[str, str, str | None]] = [
    ("API key not valid. Please pass a valid API key.", "bad_key", None),
    ("Method doesn't allow unregistered callers", "bad_key", None),
    ("The input token count (1048577) exceeds the maximum", "context_too_long", None),
    ("Request payload size exceeds the limit", "too_large", None),
    ("Multimodal function response is not supported", "unsupported", "tool_result_media"),
    ("Function calling with a response mime type: 'x' is unsupported", "unsupported", "structured_output_json_schema"),
    ("JSON mode is not enabled for this model", "unsupported", "json_mode"),
    ("Controlled generation is not supported", "unsupported", "structured_output_json_schema"),
    ("Developer instruction is not enabled for this model", "unsupported", "system_message"),
    ("Function calling is not enabled for this model", "unsupported", "tool_use"),
    ("Image input modality is not enabled for this model", "unsupported", "image_input"),
    ("Audio input modality is not enabled for this model", "unsupported", "audio"),
    ("Document input modality is not enabled for this model", "unsupported", "pdf_input"),
    ("Presence penalty is not enabled for this model", "unsupported", "presence_penalty"),
    ("Logprobs is not enabled for models/gemini-2.5-pro", "unsupported", "logprobs"),
    ("Penalty is not enabled for this model", "unsupported", "frequency_penalty"),
    ("Thinking level is not supported for this model", "unsupported", "extended_thinking"),
]


def pairs(table: str) -> list[tuple[str, str]]:
    words = table.split()
    return list(zip(words[::2], words[1::2], strict=True))


def unlike(failure: str) -> int:
    """A status that alone would mean something else."""
    return 500 if failure == "bad_request" else 418


def outcome(report: FailureReport) -> tuple[str, str | None]:
    return str(report.failure), report.refused


def test_each_table_has_exactly_these_rows():
    assert {int(status) for status, _ in pairs(STATUSES)} >= set(BY_STATUS)
    assert [line.split()[0] for line in MEANT.strip().splitlines()] == [str(failure) for failure in FAILURE_RULES]
    assert set(FAILURE_RULES) == set(Failure)
    assert dict(pairs(OPENAI_CODES)).keys() == openai.BY_CODE.keys()
    assert dict(pairs(OPENAI_FIELDS)).keys() == openai.BY_FIELD.keys()
    assert dict(pairs(ANTHROPIC_KINDS)).keys() == anthropic.BY_KIND.keys()
    assert dict(pairs(GOOGLE_STATUSES)).keys() == gemini.BY_GOOGLE_STATUS.keys()
    assert dict(pairs(GOOGLE_REASONS)).keys() == gemini.BY_REASON.keys()
    assert len(OPENAI_SENTENCES) == len(openai.MESSAGE_RULES)
    assert len(ANTHROPIC_SENTENCES) == len(anthropic.MESSAGE_RULES)
    assert len(GOOGLE_SENTENCES) == len(gemini.MESSAGE_RULES)


@pytest.mark.parametrize(("status", "failure"), pairs(STATUSES))
def test_each_status_means_this_by_itself(status: str, failure: str):
    assert failure_by_status(int(status)) == failure
    for api in (openai, anthropic, gemini):
        assert api.read_error(int(status), b"<html>").failure == failure


@pytest.mark.parametrize("row", MEANT.strip().splitlines())
def test_each_failure_has_this_code_this_status_and_these_retries(row: str):
    failure, code, status, fault, again, later, outage = row.split()
    error = EndpointError("b", FailureReport(Failure(failure), message="m-x is not m-y", retry_after_s=7.0))
    assert (error.code, error.caller_status, error.retry_after_s) == (code, int(status), 7.0)
    assert (error.may_resend, error.retryable, error.is_outage) == (
        again == "again",
        later == "later",
        outage == "outage",
    )
    assert error.message.endswith(": m-x is not m-y") is (fault == "caller")
    assert error.__notes__ == ["m-x is not m-y"]


def test_a_client_gets_of_an_endpoints_message_one_short_line_without_keys():
    report = FailureReport(Failure.NO_SUCH_MODEL, message=f"no\n model for mine-7 {'x' * 1_000}", status=404)
    error = EndpointError("b", report, ["mine-7"])
    begins = f"b: there is no such model or address (404): no model for {MASK} xxx"
    assert error.message.startswith(begins)
    assert error.message.endswith(f"x{MASK}")
    assert len(error.message) == len("b: there is no such model or address (404): ") + MAX_CLIENT_CHARS


def test_a_client_gets_nothing_of_a_proxys_page():
    error = EndpointError("b", FailureReport(Failure.NO_SUCH_MODEL, page="proxy-7 knows no such host", status=404))
    assert error.message == "b: there is no such model or address (404)"
    assert error.__notes__ == ["proxy-7 knows no such host"]


@pytest.mark.parametrize(("code", "failure"), pairs(OPENAI_CODES))
@pytest.mark.parametrize("member", ["code", "type"])
def test_each_openai_code_means_this(code: str, failure: str, member: str):
    status = 404 if failure == "failed" else unlike(failure)
    expected = "no_such_model" if failure == "failed" else failure  # "server_error" says less than a status does
    body = json.dumps({"error": {member: code.upper(), "message": ""}}).encode()
    assert str(openai.read_error(status, body).failure) == expected


@pytest.mark.parametrize(("field", "capability"), pairs(OPENAI_FIELDS))
def test_each_openai_field_that_is_refused_means_this_capability(field: str, capability: str):
    body = {"error": {"code": "unsupported_parameter", "param": field, "message": ""}}
    assert outcome(openai.read_error(400, json.dumps(body).encode())) == ("unsupported", capability)


@pytest.mark.parametrize(("kind", "failure"), pairs(ANTHROPIC_KINDS))
def test_each_anthropic_kind_means_this(kind: str, failure: str):
    body = json.dumps({"type": "error", "error": {"type": kind, "message": "x"}}).encode()
    assert anthropic.read_error(unlike(failure), body).failure == failure


@pytest.mark.parametrize(("status", "failure"), pairs(GOOGLE_STATUSES))
def test_each_google_status_means_this(status: str, failure: str):
    body = json.dumps({"error": {"status": status, "message": "x"}}).encode()
    assert gemini.read_error(unlike(failure), body).failure == failure


@pytest.mark.parametrize(("reason", "failure"), pairs(GOOGLE_REASONS))
def test_each_google_reason_means_this(reason: str, failure: str):
    body = json.dumps({"error": {"status": "INVALID_ARGUMENT", "details": [{"reason": reason}]}}).encode()
    assert gemini.read_error(400, body).failure == failure


def cases(api: Any, kind: dict[str, Any], sentences: list[tuple[str, str, str | None]]) -> list[Any]:
    return [
        (api, {"error": {**kind, "message": sentence_of_endpoint}}, failure, refused)
        for sentence_of_endpoint, failure, refused in sentences
    ]


@pytest.mark.parametrize(
    ("api", "body", "failure", "refused"),
    [
        *cases(openai, {}, OPENAI_SENTENCES),
        *cases(anthropic, {"type": "invalid_request_error"}, ANTHROPIC_SENTENCES),
        *cases(gemini, {"status": "INVALID_ARGUMENT"}, GOOGLE_SENTENCES),
    ],
)
def test_each_message_means_this(api: Any, body: Any, failure: str, refused: str | None):
    assert outcome(api.read_error(400, json.dumps(body).encode())) == (failure, refused)
