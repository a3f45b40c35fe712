"""What only the responses API has in its requests: reasoning, log probabilities, choice of tools."""

import json
from typing import Any

import pytest

from accord.backends.openai.responses import OpenAiResponses
from accord.wire.work import WorkOrder

ENCRYPTED = "reasoning.encrypted_content"
LOGPROBS = "message.output_text.logprobs"


def body_of(**order: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    requested = WorkOrder.model_validate({"conversation": {"messages": messages}, **order})
    body = json.loads(json.dumps(OpenAiResponses().request(requested, "m").body))
    return {name: value for name, value in body.items() if name not in ("model", "input", "stream", "store")}


MEMBERS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"parameters": {"logprobs": True}}, {"include": [LOGPROBS]}),
    ({"parameters": {"logprobs": 0}}, {"top_logprobs": 0, "include": [LOGPROBS]}),
    ({"parameters": {"logprobs": 3}}, {"top_logprobs": 3, "include": [LOGPROBS]}),
    ({"parameters": {"logprobs": False}}, {}),
    ({"parameters": {"reasoning": {"effort": "high"}}}, {"reasoning": {"effort": "high"}, "include": [ENCRYPTED]}),
    ({"parameters": {"reasoning": {"effort": "none"}}}, {"reasoning": {"effort": "none"}}),
    ({"parameters": {"reasoning": {"max_tokens": 1024}}}, {"reasoning": {"effort": "low"}, "include": [ENCRYPTED]}),
    ({"parameters": {"reasoning": {"max_tokens": 16384, "summary": "auto"}}}, {"reasoning": {"effort": "medium", "summary": "auto"}, "include": [ENCRYPTED]}),
    ({"parameters": {"reasoning": {"max_tokens": 32000}}}, {"reasoning": {"effort": "high"}, "include": [ENCRYPTED]}),
    ({"parameters": {"reasoning": {"max_tokens": 9, "effort": "high"}}}, {"reasoning": {"effort": "high"}, "include": [ENCRYPTED]}),
    ({"thinking": True}, {"reasoning": {"effort": "medium", "summary": "auto"}, "include": [ENCRYPTED]}),
    ({"thinking": True, "parameters": {"reasoning": {"effort": "low"}}}, {"reasoning": {"effort": "low", "summary": "auto"}, "include": [ENCRYPTED]}),
    ({"thinking": True, "parameters": {"logprobs": 2}}, {"top_logprobs": 2, "reasoning": {"effort": "medium", "summary": "auto"}, "include": [ENCRYPTED, LOGPROBS]}),
    ({"tool_choice": {"mode": "none"}, "parallel_tool_calls": False}, {"tool_choice": "none", "parallel_tool_calls": False}),
    ({"tool_choice": {"mode": "tool", "name": "f"}}, {"tool_choice": {"type": "function", "name": "f"}}),
    ({"response_schema": {"title": "T"}, "schema_name": "n"}, {"text": {"format": {"type": "json_schema", "name": "n", "schema": {"title": "T"}, "strict": False}}}),
    ({"tools": [{"name": "f", "strict": True}]}, {"tools": [{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}, "strict": True}]}),
]  # fmt: skip


@pytest.mark.parametrize(("order", "body"), MEMBERS)
def test_each_field_of_an_order_has_its_members(order: dict[str, Any], body: dict[str, Any]):
    assert body_of(**order) == body


@pytest.mark.parametrize("budget", [1, 32_000])
def test_a_number_of_tokens_with_thinking_decides_the_effort(budget: int):
    effort = "low" if budget == 1 else "high"
    body = body_of(thinking=True, parameters={"reasoning": {"max_tokens": budget}})
    assert body["reasoning"] == {"effort": effort, "summary": "auto"}
