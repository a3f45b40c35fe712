"""What only the responses API has in its requests: reasoning, log probabilities, choice of tools."""

import json
from typing import Any, cast

import pytest
from openai.types.responses.response_input_param import FunctionCallOutput
from pydantic import TypeAdapter

from accord.apis.responses.codec import ResponsesCodec
from accord.wire.work import WorkOrder

ENCRYPTED = "reasoning.encrypted_content"
LOGPROBS = "message.output_text.logprobs"


def body_of(**order: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    requested = WorkOrder.model_validate({"conversation": {"messages": messages}, **order})
    body = json.loads(json.dumps(ResponsesCodec().write_request(requested, "m").body))
    return {name: value for name, value in body.items() if name not in ("model", "input", "stream", "store")}


MEMBERS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"parameters": {"logprobs": True}}, {"include": [LOGPROBS]}),
    ({"parameters": {"logprobs": 0}}, {"top_logprobs": 0, "include": [LOGPROBS]}),
    ({"parameters": {"logprobs": 3}}, {"top_logprobs": 3, "include": [LOGPROBS]}),
    ({"parameters": {"logprobs": False}}, {}),
    ({"thinking": True}, {"reasoning": {"effort": "medium", "summary": "auto"}, "include": [ENCRYPTED]}),
    ({"thinking": True, "parameters": {"logprobs": 2}}, {"top_logprobs": 2, "reasoning": {"effort": "medium", "summary": "auto"}, "include": [ENCRYPTED, LOGPROBS]}),
    ({"tool_choice": {"mode": "none"}, "parallel_tool_calls": False}, {"tool_choice": "none", "parallel_tool_calls": False}),
    ({"tool_choice": {"mode": "tool", "name": "f"}}, {"tool_choice": {"type": "function", "name": "f"}}),
    ({"response_schema": {"title": "T"}, "schema_name": "n"}, {"text": {"format": {"type": "json_schema", "name": "n", "schema": {"title": "T"}, "strict": False}}}),
    ({"tools": [{"name": "f", "strict": True}]}, {"tools": [{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}, "strict": True}]}),
]  # fmt: skip


@pytest.mark.parametrize(("order", "body"), MEMBERS)
def test_each_field_of_an_order_has_its_members(order: dict[str, Any], body: dict[str, Any]):
    assert body_of(**order) == body


@pytest.mark.parametrize(
    ("texts", "is_error", "output"),
    [
        ([], False, ""),
        (["a\nb"], False, "a\nb"),
        (["a"], True, "The tool failed:\na"),
        (["a", "b"], False, ["a", "b"]),
        (["a", "b"], True, ["The tool failed:\n", "a", "b"]),
    ],
)
def test_the_texts_of_a_result_stay_apart(texts: list[str], output: Any, *, is_error: bool):
    content = [{"type": "text", "text": text} for text in texts]
    result = {"type": "tool_result", "tool_use_id": "1", "content": content, "is_error": is_error}
    order = WorkOrder.model_validate({"conversation": {"messages": [{"role": "tool", "content": [result]}]}})
    (item,) = cast("Any", ResponsesCodec().write_request(order, "m").body)["input"]
    parts = [{"type": "input_text", "text": text} for text in output]
    assert item["output"] == (output if isinstance(output, str) else parts)
    TypeAdapter(FunctionCallOutput).validate_python(item)
