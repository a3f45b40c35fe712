"""The fields that errors name, by the sentences that services really send: one row for each."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.apis.failure import EndpointError
from accord.apis.gemini import errors as gemini
from accord.apis.messages import read_answer as anthropic
from accord.apis.named_fields import MAX_FIELDS, named_fields, path_of
from accord.apis.openai import endpoint as openai
from accord.core.work.fields import TABLE


def error(message: str, **members: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", **members}}


def pydantic(*loc: str | int) -> dict[str, Any]:
    return {"type": "extra_forbidden", "loc": list(loc), "msg": "Extra inputs are not permitted", "input": 1}


def no_such_name(name: str, at: str = "") -> str:
    place = f" at '{at}'" if at else ""
    return f'Invalid JSON payload received. Unknown name "{name}"{place}: Cannot find field.'


OPENAI: list[tuple[str, int, Any, str]] = [
    ("OpenAI", 400, error("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", param="max_tokens", code="unsupported_parameter"), "max_tokens"),
    ("OpenAI", 400, error("Unsupported value: 'temperature' does not support 0.2 with this model.", param="temperature", code="unsupported_value"), "temperature"),
    ("OpenAI", 400, error("Unknown parameter: 'text.verbose'.", param="text.verbose", code="unknown_parameter"), "text.verbose"),
    ("OpenAI, nested", 400, error("Unknown parameter: 'tools[0].function.strct'.", param="tools[0].function.strct", code="unknown_parameter"), "tools[].function.strct"),
    ("OpenAI, wrong type", 400, error("Invalid type for 'stop': expected a string, but got an integer instead.", param="stop", code="invalid_type"), "stop"),
    ("OpenAI, without param", 400, error("Unsupported parameter: 'logprobs'"), "logprobs"),
    ("OpenAI, older", 400, error("Unrecognized request argument supplied: seed", param=None, code=None), "seed"),
    ("Azure, several", 400, error("Unrecognized request arguments supplied: parallel_tool_calls, store", param=None), "parallel_tool_calls store"),
    ("vLLM", 400, {"object": "error", "message": "[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options'), 'msg': 'Extra inputs are not permitted', 'input': {}}]", "type": "BadRequestError", "param": None, "code": 400}, "stream_options"),
    ("vLLM, in a message", 400, {"object": "error", "message": "[{'type': 'extra_forbidden', 'loc': ('body', 'messages', 0, 'typed-dict', 'name'), 'msg': ''}]", "type": "BadRequestError", "code": 400}, "messages[].name"),
    ("vLLM, as text", 400, error("1 validation error for ChatCompletionRequest\nuser_tag\n  Extra inputs are not permitted [type=extra_forbidden]", param="400"), "user_tag"),
    ("FastAPI", 422, {"detail": [pydantic("body", "store"), pydantic("body", "tools", 0, "function", "strict")]}, "store tools[].function.strict"),
    ("Mistral", 422, {"object": "error", "message": {"detail": [pydantic("body", "logit_bias")]}, "type": "invalid_request_error", "param": None}, "logit_bias"),
    ("Groq", 400, error("property 'store' is unsupported, did you mean 'stop'?"), "store"),
    ("Fireworks", 400, error("Extra inputs are not permitted, field: 'prompt_cache_key'"), "prompt_cache_key"),
    ("xAI", 400, {"code": "Client specified an invalid argument", "error": "Model grok-x does not support parameter presencePenalty."}, "presence_penalty"),
    ("xAI, older", 400, {"code": "Client specified an invalid argument", "error": "Argument not supported on this model: frequencyPenalty"}, "frequency_penalty"),
    ("LiteLLM", 400, error("litellm.UnsupportedParamsError: x does not support parameters: ['seed', 'user'], for model=y", code="400"), "seed user"),
    ("Bedrock behind a proxy", 400, error("Malformed input request: #: extraneous key [top_k] is not permitted, please reformat your input"), "top_k"),
    ("Anthropic behind a proxy", 400, error("AnthropicException - tools.0.custom.strict: Extra inputs are not permitted"), "tools[].custom.strict"),
    ("JSON Schema", 400, error("Additional properties are not allowed ('seed', 'user' were unexpected) - 'body'"), "seed user"),
    ("Rust", 422, error("Failed to deserialize the JSON body into the target type: unknown field `verbosity`, expected one of `model`"), "verbosity"),
    ("Go", 400, error('json: unknown field "service_tier"'), "service_tier"),
    ("Cohere", 422, {"message": "unknown field: parameter 'metadata' is not a valid field"}, "metadata"),
    ("zod", 400, error("Unrecognized key(s) in object: 'reasoning_effort'"), "reasoning_effort"),
    ("llama.cpp", 400, error("Unsupported param: tool_choice", code=400), "tool_choice"),
    ("Google's compatible endpoint", 400, [error(f"{no_such_name('extra_body', 'extra_body')}\n{no_such_name('top_k')}", code=400)], "extra_body top_k"),
    ("in a body that is quoted", 400, error('Error from provider: {"error": {"message": "Unknown name \\"seed\\": Cannot find field."}}'), "seed"),
    ("any", 400, error("parallel_tool_calls is not supported for this model"), "parallel_tool_calls"),
    # no field of the request is at fault, or none is named
    ("OpenAI, too long", 400, error("maximum context length is 8 tokens", param="messages", code="context_length_exceeded"), ""),
    ("OpenAI, no such model", 404, error("The model m-x does not exist", param=None, code="model_not_found"), ""),
    ("OpenAI, a value", 400, error("Invalid value: 'tall'. Supported values are: 'low', 'medium' and 'high'."), ""),
    ("OpenAI, key", 401, error("Unsupported parameter: 'seed'", code="invalid_api_key"), ""),
    ("anyone", 400, error("Something is wrong with this request: please try another one"), ""),
    ("odd param", 400, error("no", param="'; drop table"), ""),
]  # fmt: skip

ANTHROPIC: list[tuple[str, str]] = [
    ("temperature: Extra inputs are not permitted", "temperature"),
    ("output_config.effort: Extra inputs are not permitted", "output_config.effort"),
    ("messages.0.content.1.text.cache_control: Extra inputs are not permitted", "messages[].content[].text.cache_control"),
    ("tools.0.custom.strict: Extra inputs are not permitted", "tools[].custom.strict"),
    ("max_tokens: 9 > 8, which is the maximum allowed number of output tokens", "max_tokens"),
    ("`temperature` is deprecated for this model.", "temperature"),
    ("`temperature` may only be set to 1 when thinking is enabled.", "temperature"),
    ("`top_p` is not supported for this model.", "top_p"),
    ("messages: roles must alternate", "messages"),
    ("adaptive thinking is not supported on this model", ""),
    ("prompt is too long: 200001 tokens > 200000 maximum", ""),
    ("Could not process image", ""),
]  # fmt: skip

GEMINI: list[tuple[str, str]] = [
    (no_such_name("seed", "generation_config"), "seed"),
    (no_such_name("topLogprobs", "generationConfig"), "top_logprobs"),
    (no_such_name("store"), "store"),
    (f"{no_such_name('seed', 'generation_config')}\n{no_such_name('logprobs', 'generation_config')}", "seed logprobs"),
    (no_such_name("additionalProperties", "generation_config.response_schema"), "response_schema.additional_properties"),
    (no_such_name("const", "tools[0].function_declarations[5].parameters"), "tools[].function_declarations[].parameters.const"),
    ("Invalid value at 'generation_config.temperature' (TYPE_FLOAT), \"hot\"", "temperature"),
    ("* GenerateContentRequest.generation_config.top_k: must be positive", "top_k"),
    ("Unable to submit request because it has a temperature value of 3 but the supported range is from 0 to 2.", "temperature"),
    ("Please use a valid role: user, model.", ""),
]  # fmt: skip


@pytest.mark.parametrize(("service", "status", "body", "names"), OPENAI)
def test_each_error_of_an_openai_endpoint_names_these_fields(service: str, status: int, body: Any, names: str):
    assert list(openai.read_error(status, json.dumps(body).encode()).fields) == names.split(), service


@pytest.mark.parametrize(("message", "names"), ANTHROPIC)
def test_each_error_of_anthropics_api_names_these_fields(message: str, names: str):
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    assert list(anthropic.read_error(400, json.dumps(body).encode()).fields) == names.split()


@pytest.mark.parametrize(("message", "names"), GEMINI)
def test_each_error_of_googles_api_names_these_fields(message: str, names: str):
    body = {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": message}}
    assert list(gemini.read_error(400, json.dumps(body).encode()).fields) == names.split()


def test_the_first_field_is_in_the_details_of_the_error():
    body = json.dumps(error("Unrecognized request arguments supplied: seed, store")).encode()
    failure = EndpointError("b", openai.read_error(400, body))
    assert (failure.report.field, failure.details["field"]) == ("seed", "seed")


@pytest.mark.parametrize("name", sorted({row for rows in TABLE.values() for row in rows if "*" not in row}))
def test_each_row_of_the_table_of_fields_can_be_named(name: str):
    path = path_of(name)
    indexed = path.replace("[]", "[0]")
    assert named_fields(f"Unknown parameter: '{indexed}'.") == (path,)
    assert named_fields("", param=indexed) == (path,)


@given(st.text(), st.text())
def test_any_text_gives_few_plain_names(message: str, param: str):
    found = named_fields(message, param=param, leading=True)
    assert len(found) <= MAX_FIELDS
    assert all(each.replace("[]", "").replace(".", "").replace("_", "").replace("$", "").isalnum() for each in found)


@pytest.mark.parametrize("word", ["a", "a_", "'a',", "'loc': (", "unknown field ", "a.", "body."])
def test_a_long_message_is_read_in_time_that_is_proportional(word: str):
    assert len(named_fields(word * 100_000, leading=True)) <= MAX_FIELDS
