"""Requests to OpenAI's APIs: nothing of an order is lost, and what is unsupported is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from accord.apis.chat.codec import ChatCodec, max_tokens_field
from accord.apis.codec import ModelApi, UnsupportedByApiError
from accord.apis.openai.parts import allows_strict, file_name, schema_name
from accord.apis.responses.codec import ResponsesCodec
from accord.core.work.derive import PARAMETERS, derive_extension_needs, derive_needs
from accord.wire.conversation import ResourcePart
from accord.wire.work import WorkOrder

GOLDEN = Path(__file__).parent / "golden" / "openai"
APIS: dict[str, ModelApi] = {"chat": ChatCodec(), "responses": ResponsesCodec()}
BY_MODEL = set("image_input pdf_input tool_use structured_output_json_schema json_mode extended_thinking".split())


def order(*messages: Any, **fields: Any) -> WorkOrder:
    written = [{"role": role, "content": list(parts)} for role, *parts in messages]
    return WorkOrder.model_validate({"conversation": {"messages": written}, **fields})


def request_body(api: ModelApi, requested: WorkOrder) -> dict[str, Any]:
    return json.loads(json.dumps(api.write_request(requested, "m").body))


@pytest.mark.parametrize("name", APIS)
def test_a_work_order_becomes_the_request_that_the_documents_show(name: str):
    requested = WorkOrder.parse((GOLDEN / "order.json").read_bytes())
    expected = json.loads((GOLDEN / f"{name}_request.json").read_text(encoding="utf-8"))
    api_request = APIS[name].write_request(requested, "gpt-5")
    assert {"path": api_request.path, "body": json.loads(json.dumps(api_request.body))} == expected
    assert list(api_request.body or ()) == list(expected["body"])


IMAGE = {"type": "image", "media_type": "image/png", "data": "AAAA"}
WAV = {"type": "audio", "media_type": "audio/wav", "data": "AAAA"}
OGG = {"type": "audio", "media_type": "audio/ogg", "data": "AAAA"}
PDF = {"type": "resource", "uri": "a.pdf", "media_type": "application/pdf", "data": "AAAA"}
ZIP = {"type": "resource", "uri": "a.zip", "media_type": "application/zip", "data": "AAAA"}
TEXT = {"type": "text", "text": "hi"}
NEEDING: dict[str, WorkOrder] = {
    "streaming": order(("user", TEXT), stream=True),
    "system_message": order(("system", TEXT)),
    "stop_sequences": order(("user", TEXT), stop_sequences=["END"]),
    "tool_use": order(("user", TEXT), tools=[{"name": "f"}]),
    "structured_output_json_schema": order(("user", TEXT), response_schema={"type": "object"}),
    "json_mode": order(("user", TEXT), json_mode=True),
    "extended_thinking": order(("user", TEXT), thinking=True),
    "image_input": order(("user", IMAGE)),
    "audio": order(("user", WAV)),
    "pdf_input": order(("user", PDF)),
    "file_input": order(("user", ZIP)),
    "tool_result_media": order(("tool", {"type": "tool_result", "tool_use_id": "1", "content": [IMAGE]})),
    **{capability: order(("user", TEXT), parameters={name: 1}) for name, capability in PARAMETERS.items()},
}


@pytest.mark.parametrize("capability", NEEDING)
@pytest.mark.parametrize("api", [*APIS.values(), ChatCodec(top_k=True)], ids=[*APIS, "chat with top_k"])
def test_an_api_refuses_exactly_its_unsupported_capabilities(api: ModelApi, capability: str):
    if capability not in api.unsupported:
        assert api.write_request(NEEDING[capability], "m").body
        return
    with pytest.raises(UnsupportedByApiError) as caught:
        api.write_request(NEEDING[capability], "m")
    assert (caught.value.capability, caught.value.reason) == (capability, api.unsupported[capability])


@pytest.mark.parametrize("api", APIS.values(), ids=APIS)
def test_every_capability_is_supported_unsupported_or_the_models(api: ModelApi):
    needed = {
        need.capability
        for requested in NEEDING.values()
        for need in (*derive_needs(requested), *derive_extension_needs(requested))
    }
    assert needed | {"system_message"} == set(NEEDING)
    assert set(NEEDING) - BY_MODEL - {"audio"} <= api.supported.keys() | api.unsupported.keys()
    assert not api.supported.keys() & api.unsupported.keys()
    assert not (api.supported.keys() | api.unsupported.keys()) & BY_MODEL


@pytest.mark.parametrize(
    ("requested", "capability"),
    [
        (order(("user", OGG)), "audio"),
        (order(("user", TEXT), stop_sequences=list("abcde")), "stop_sequences"),
        (order(("assistant", IMAGE)), "image_input"),
        (order(("system", PDF)), "pdf_input"),
        (order(("user", {"type": "tool_use", "id": "1", "name": "f", "input": {}}, TEXT)), "tool_use"),
        (order(("user", TEXT), parameters={"messages": []}), "messages"),
        (order(("user", TEXT), parameters={"model": "dearer"}), "model"),
    ],
)
def test_a_chat_request_that_the_api_cannot_carry_is_refused(requested: WorkOrder, capability: str):
    with pytest.raises(UnsupportedByApiError) as caught:
        ChatCodec().write_request(requested, "m")
    assert caught.value.capability == capability


@pytest.mark.parametrize(
    ("requested", "capability"),
    [
        (order(("assistant", IMAGE)), "image_input"),
        (order(("user", {"type": "tool_use", "id": "1", "name": "f", "input": {}})), "tool_use"),
        (order(("assistant", {"type": "tool_result", "tool_use_id": "1", "content": []})), "tool_use"),
        (order(("user", TEXT), parameters={"input": "other"}), "input"),
        (order(("user", TEXT), json_mode=True, parameters={"text": {"format": {"type": "text"}}}), "text"),
    ],
)
def test_a_response_request_that_the_api_cannot_carry_is_refused(requested: WorkOrder, capability: str):
    with pytest.raises(UnsupportedByApiError) as caught:
        ResponsesCodec().write_request(requested, "m")
    assert caught.value.capability == capability


def test_options_adapt_the_request_to_a_server():
    thought = order(
        ("assistant", {"type": "thinking", "text": "hm"}, TEXT), stream=True, parameters={"max_tokens": 5, "top_k": 3}
    )
    local = ChatCodec(
        max_tokens_field="max_tokens", usage_in_stream=False, top_k=True, reasoning_field="reasoning_content"
    )
    assert request_body(local, thought) == {
        "model": "m",
        "messages": [{"role": "assistant", "content": "hi", "reasoning_content": "hm"}],
        "stream": True,
        "max_tokens": 5,
        "top_k": 3,
    }
    many = order(("user", TEXT), stop_sequences=list("abcde"))
    assert request_body(ChatCodec(max_stops=None), many)["stop"] == list("abcde")


@pytest.mark.parametrize(
    ("url", "field"),
    [
        ("https://api.openai.com/v1", "max_completion_tokens"),
        ("https://mine.openai.azure.com/openai/v1", "max_completion_tokens"),
        ("http://localhost:11434/v1", "max_tokens"),
        ("https://api.openai.com.example.org/v1", "max_tokens"),
    ],
)
def test_the_limit_on_tokens_has_its_older_name_everywhere_but_at_openai(url: str, field: str):
    assert max_tokens_field(url) == field


def test_the_operator_may_set_the_effort_and_other_members_of_text():
    requested = order(("user", TEXT), thinking=True, parameters={"reasoning_effort": "high"})
    assert request_body(ChatCodec(), requested)["reasoning_effort"] == "high"
    requested = order(("user", TEXT), json_mode=True, parameters={"text": {"verbosity": "low"}})
    assert request_body(ResponsesCodec(), requested)["text"] == {"verbosity": "low", "format": {"type": "json_object"}}


def test_a_signature_on_a_call_is_sent_back_in_its_field():
    call: dict[str, Any] = {"type": "tool_use", "id": "1", "name": "f", "input": {}, "signature": "seal"}
    (message,) = request_body(ChatCodec(), order(("assistant", call)))["messages"]
    assert message["content"] is None
    assert message["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "seal"}}


def test_encrypted_reasoning_is_requested_only_with_reasoning():
    sealed = {"type": "thinking", "text": "", "signature": "seal", "redacted": True}
    unsealed = {"type": "thinking", "text": "hm"}
    body = request_body(ResponsesCodec(), order(("assistant", sealed, TEXT)))
    assert body["input"][0] == {"type": "reasoning", "summary": [], "encrypted_content": "seal"}
    assert body["include"] == ["reasoning.encrypted_content"]
    assert "include" not in request_body(ResponsesCodec(), order(("assistant", unsealed, TEXT)))


def test_the_key_is_in_one_header_and_none_is_sent_without_it():
    for api in APIS.values():
        assert api.headers("k") == {"authorization": "Bearer k"}
        assert api.headers(None) == {}


CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "allowed"),
    [
        (CLOSED, True),
        ({**CLOSED, "properties": {"a": {"anyOf": [CLOSED, {"type": "null"}]}}}, True),
        (
            {**CLOSED, "properties": {"a": {"type": "array", "items": {"$ref": "#/$defs/b"}}}, "$defs": {"b": CLOSED}},
            True,
        ),
        ({"type": "object"}, False),
        ({**CLOSED, "required": []}, False),
        ({**CLOSED, "additionalProperties": True}, False),
        ({**CLOSED, "properties": {"a": {"type": ["object", "null"]}}}, False),
        ({**CLOSED, "properties": {"a": True}}, False),
        ({**CLOSED, "properties": {"a": {"oneOf": []}}}, False),
        ({**CLOSED, "properties": []}, False),
        ({"anyOf": [CLOSED]}, False),
        ({"type": "array", "items": CLOSED}, False),
        ({}, False),
    ],
)
def test_strict_is_set_only_if_the_schema_allows_it(schema: dict[str, Any], allowed: bool):
    assert allows_strict(schema) is allowed


@pytest.mark.parametrize(
    ("title", "name"), [("A Person!", "A_Person"), (None, "answer"), ("é", "answer"), ("x" * 99, "x" * 64)]
)
def test_a_schema_is_named_by_its_title(title: str | None, name: str):
    assert schema_name({"title": title}) == name


@pytest.mark.parametrize(
    ("uri", "name"), [("file:///a/b%20c.pdf", "b c.pdf"), ("https://x/a.pdf?k=1#p", "a.pdf"), ("", "document.pdf")]
)
def test_a_file_is_named_by_the_last_segment_of_its_address(uri: str, name: str):
    assert file_name(ResourcePart(uri=uri)) == name


TOOLS = [{"name": "f", "strict": True}, {"name": "g", "strict": False}]
FUNCTION: dict[str, Any] = {"name": "f", "parameters": {"type": "object", "properties": {}}}
CHAT_MEMBERS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"tools": TOOLS}, {"tools": [{"type": "function", "function": FUNCTION | {"strict": True}}, {"type": "function", "function": FUNCTION | {"name": "g"}}]}),
    ({"tools": TOOLS, "tool_choice": {"mode": "none"}}, {"tool_choice": "none"}),
    ({"tools": TOOLS, "tool_choice": {"mode": "auto"}}, {"tool_choice": "auto"}),
    ({"tools": TOOLS, "tool_choice": {"mode": "required"}}, {"tool_choice": "required"}),
    ({"tools": TOOLS, "tool_choice": {"mode": "tool", "name": "g"}}, {"tool_choice": {"type": "function", "function": {"name": "g"}}}),
    ({"tools": TOOLS, "parallel_tool_calls": False}, {"parallel_tool_calls": False}),
    ({"tool_choice": {"mode": "none"}, "parallel_tool_calls": False}, {"tool_choice": None, "parallel_tool_calls": None}),
    ({"response_schema": {"title": "t"}, "schema_name": "n"}, {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"title": "t"}, "strict": False}}}),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "expected"), CHAT_MEMBERS)
def test_each_field_of_an_order_has_its_member_in_a_chat_request(fields: dict[str, Any], expected: dict[str, Any]):
    body = request_body(APIS["chat"], order(("user", TEXT), **fields))
    assert {name: body.get(name) for name in expected} == expected


def test_a_chat_image_has_its_detail_or_its_address():
    by_address = {"type": "image", "media_type": "", "data": "", "uri": "https://a.test/b.png"}
    body = request_body(APIS["chat"], order(("user", IMAGE | {"detail": "low", "uri": "a.png"}, by_address)))
    assert body["messages"][0]["content"] == [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "https://a.test/b.png"}},
    ]
