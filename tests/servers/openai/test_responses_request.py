"""Requests of the responses API become work orders, and name the rows of the table that they use."""

import base64
from typing import Any

import pytest

from accord.apis.responses.read_request import continue_from, input_items, parse
from accord.core.work.fields import TABLE, Api
from accord.errors import ErrorCode, RefusedError
from accord.wire.work import Reasoning, WorkOrder

PNG = "data:image/png;base64,AAAA"
PDF = "data:application/pdf;base64,JVBERi0="
NOTES = "data:text/plain;base64," + base64.b64encode("Grüße".encode()).decode()


def of(*content: Any, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": list(content)}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def messages_of(order: WorkOrder) -> list[Any]:
    return order.dump()["conversation"]["messages"]


CALL: dict[str, Any] = {"type": "function_call", "call_id": "1", "name": "look", "arguments": '{"at": "a"}'}
OTHER_CALL: dict[str, Any] = {**CALL, "call_id": "2", "arguments": ""}
RESULT: dict[str, Any] = {"type": "function_call_output", "call_id": "1", "output": "seen"}
OTHER_RESULT: dict[str, Any] = {
    "type": "function_call_output",
    "call_id": "2",
    "output": [{"type": "input_text", "text": "ok"}],
}
THOUGHT: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}],
    "encrypted_content": "seal",
}
REPLY: dict[str, Any] = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hi", "annotations": [], "logprobs": None}],
}
FETCHED = {"type": "resource", "uri": "", "media_type": "application/pdf", "data": ""}
USE: dict[str, Any] = {"type": "tool_use", "id": "1", "name": "look", "input": {"at": "a"}}
OTHER_USE: dict[str, Any] = {**USE, "id": "2", "input": {}}
SEEN: dict[str, Any] = {"type": "tool_result", "tool_use_id": "1", "content": [text("seen")], "is_error": False}
OTHER_SEEN: dict[str, Any] = {"type": "tool_result", "tool_use_id": "2", "content": [text("ok")], "is_error": False}
THINKING = {"type": "thinking", "text": "a\n\nb", "signature": "seal"}


def user_content(*parts: Any) -> list[Any]:
    return [{"type": "message", "role": "user", "content": list(parts)}]


INPUTS: list[tuple[Any, list[Any], list[str]]] = [
    ("hi", [of(text("hi"))], []),
    ([{"role": "user", "content": "hi"}], [of(text("hi"))], []),
    ([{"role": "developer", "content": "be brief"}], [of(text("be brief"), role="system")], []),
    ([REPLY, {"role": "user", "content": None}], [of(text("Hi"), role="assistant"), of()], []),
    ([REPLY, REPLY], [of(text("Hi"), role="assistant")] * 2, []),
    (
        [THOUGHT, REPLY, CALL, OTHER_CALL, RESULT, OTHER_RESULT],
        [of(THINKING, text("Hi"), USE, OTHER_USE, role="assistant"), of(SEEN, OTHER_SEEN, role="tool")],
        ["input[].reasoning", "input[].function_call"],
    ),
    ([CALL, REPLY, RESULT], [of(USE, text("Hi"), role="assistant"), of(SEEN, role="tool")], ["input[].function_call"]),
    ([REPLY, CALL, REPLY, RESULT], [of(text("Hi"), USE, text("Hi"), role="assistant"), of(SEEN, role="tool")], ["input[].function_call"]),
    (
        [CALL, RESULT, OTHER_CALL, OTHER_RESULT],
        [of(USE, role="assistant"), of(SEEN, role="tool"), of(OTHER_USE, role="assistant"), of(OTHER_SEEN, role="tool")],
        ["input[].function_call"],
    ),
    ([{"type": "reasoning", "id": "rs_1", "summary": []}], [], ["input[].reasoning", "input[].reasoning.reference"]),
    (
        [{"type": "reasoning", "summary": [], "encrypted_content": "seal"}],
        [of({"type": "thinking", "text": "", "signature": "seal", "redacted": True}, role="assistant")],
        ["input[].reasoning"],
    ),
    (
        [{"type": "custom_tool_call", "call_id": "1", "name": "patch", "input": "***"}, {"type": "custom_tool_call_output", "call_id": "1", "output": "seen"}],
        [of({**USE, "name": "patch", "input": {"input": "***"}, "custom": True}, role="assistant"), of(SEEN, role="tool")],
        ["input[].custom_tool_call"],
    ),
    ([{**CALL, "namespace": "files"}], [of({**USE, "name": "files__look"}, role="assistant")], ["input[].function_call"]),
    ([{**CALL, "arguments": '{"at'}], [of({**USE, "input": '{"at'}, role="assistant")], ["input[].function_call"]),
    (
        [{**CALL, "extra_content": {"google": {"thought_signature": "seal"}}}],
        [of({**USE, "signature": "seal"}, role="assistant")],
        ["input[].function_call"],
    ),
    ([{"id": "msg_1"}, {"type": "item_reference", "id": "rs_1"}], [], ["input[].item_reference"]),
    ([{"type": "web_search_call", "id": "ws_1"}], [], ["input[].other"]),
    ([{**REPLY, "phase": "final_answer"}], [of(text("Hi"), role="assistant")], ["input[].member"]),
    ([{"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}], [of(text("No."), role="assistant")], ["input[].refusal"]),
    (
        user_content({"type": "input_image", "image_url": PNG, "detail": "auto"}),
        [of({"type": "image", "media_type": "image/png", "data": "AAAA"})],
        ["input[].input_image"],
    ),
    (
        user_content({"type": "input_image", "image_url": "https://example.org/a.png", "detail": "low"}),
        [of({"type": "image", "media_type": "", "data": "", "uri": "https://example.org/a.png", "detail": "low"})],
        ["input[].input_image", "input[].input_image.detail", "input[].input_image.address"],
    ),
    (user_content({"type": "input_image", "file_id": "f"}), [of()], ["input[].input_image", "input[].input_image.file_id"]),
    (
        user_content({"type": "input_file", "filename": "a.pdf", "file_data": PDF}),
        [of({"type": "resource", "uri": "a.pdf", "media_type": "application/pdf", "data": "JVBERi0="})],
        ["input[].input_file"],
    ),
    (
        user_content({"type": "input_file", "file_data": "JVBERi0="}),
        [of({"type": "resource", "uri": "", "media_type": "application/pdf", "data": "JVBERi0="})],
        ["input[].input_file"],
    ),
    (
        user_content({"type": "input_file", "filename": "a.txt", "file_data": NOTES}),
        [of({"type": "resource", "uri": "a.txt", "media_type": "text/plain", "text": "Grüße"})],
        ["input[].input_file.text"],
    ),
    (
        user_content({"type": "input_file", "filename": "a.zip", "file_data": "data:application/zip;base64,UEs="}),
        [of({"type": "resource", "uri": "a.zip", "media_type": "application/zip", "data": "UEs="})],
        ["input[].input_file.other"],
    ),
    (user_content({"type": "input_file", "file_id": "f"}), [of({**FETCHED, "file_id": "f"})], ["input[].input_file.file_id"]),
    (user_content({"type": "input_file", "file_url": "https://example.org"}), [of({**FETCHED, "uri": "https://example.org"})], ["input[].input_file.address"]),
    (user_content({"type": "input_audio", "input_audio": {}}), [of()], ["input[].other"]),
]  # fmt: skip


@pytest.mark.parametrize(("given", "messages", "fields"), INPUTS)
def test_each_input_becomes_these_messages_and_uses_these_rows(given: Any, messages: list[Any], fields: list[str]):
    request = parse({"model": "m", "input": given})
    assert messages_of(request.order) == messages
    assert list(request.fields) == fields


@pytest.mark.parametrize(
    ("members", "order", "fields"),
    [
        ({"stream": True}, {"stream": True}, []),
        ({"temperature": 0.5, "top_p": 1, "max_output_tokens": 9}, {"parameters": {"temperature": 0.5, "top_p": 1, "max_tokens": 9}}, ["temperature", "top_p", "max_output_tokens"]),
        ({"temperature": None, "reasoning": {"effort": None}, "text": {}, "include": []}, {}, []),
        ({"reasoning": {"effort": "high", "summary": "auto"}}, {"reasoning": {"enabled": True, "effort": "high", "summary": "auto"}}, ["reasoning", "reasoning.summary"]),
        ({"reasoning": {"generate_summary": "auto", "context": "all_turns"}}, {"reasoning": {"summary": "auto"}}, ["reasoning", "reasoning.other", "reasoning.summary.alone"]),
        ({"reasoning": {"effort": "none"}}, {"reasoning": {"enabled": False}}, ["reasoning"]),
        ({"text": {"format": {"type": "text"}, "verbosity": "medium"}}, {}, []),
        ({"text": {"format": {"type": "json_object"}, "verbosity": "low"}}, {"json_mode": True}, ["text.format.json_object", "text.verbosity"]),
        (
            {"text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}}},
            {"response_schema": {"type": "object"}, "schema_name": "n"},
            ["text.format.json_schema"],
        ),
        ({"text": {"format": {"type": "grammar"}, "new": 1}}, {}, ["text.format.other", "text.other"]),
        ({"include": ["message.output_text.logprobs"]}, {"parameters": {"logprobs": True}}, ["include.logprobs"]),
        ({"top_logprobs": 3, "include": ["message.output_text.logprobs"]}, {"parameters": {"logprobs": 3}}, ["top_logprobs", "include.logprobs"]),
        ({"include": ["message.output_text.logprobs"], "top_logprobs": 3}, {"parameters": {"logprobs": 3}}, ["include.logprobs", "top_logprobs"]),
        ({"include": ["reasoning.encrypted_content", "file_search_call.results"]}, {}, ["include.reasoning", "include.other"]),
        ({"parallel_tool_calls": True}, {"parallel_tool_calls": True}, []),
        ({"parallel_tool_calls": False}, {"parallel_tool_calls": False}, ["parallel_tool_calls"]),
        ({"tool_choice": "required"}, {"tool_choice": {"mode": "required"}}, ["tool_choice"]),
        ({"tool_choice": {"type": "function", "name": "f"}}, {"tool_choice": {"mode": "tool", "name": "f"}}, ["tool_choice"]),
        ({"tool_choice": {"type": "web_search"}}, {}, ["tool_choice.hosted"]),
        ({"store": True, "truncation": "disabled", "service_tier": "auto", "metadata": {}, "background": False}, {}, []),
        ({"store": False, "previous_response_id": "resp_1", "user": "u", "new": 1}, {}, ["store", "previous_response_id", "user", "new"]),
    ],
)  # fmt: skip
def test_each_member_becomes_these_fields_of_the_order(
    members: dict[str, Any], order: dict[str, Any], fields: list[str]
):
    request = parse({"model": "m", "input": "hi", **members})
    expected = WorkOrder.model_validate({"conversation": {"messages": [of(text("hi"))]}, **order})
    assert request.order.to_json() == expected.to_json()
    assert list(request.fields) == fields


def test_instructions_are_the_first_system_message():
    request = parse({"model": "m", "input": [{"role": "system", "content": "b"}], "instructions": "a"})
    assert messages_of(request.order) == [of(text("a"), role="system"), of(text("b"), role="system")]
    assert request.fields == ("instructions",)


FUNCTION = {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": False}
PATCH_FORMAT = {"type": "grammar", "syntax": "lark", "definition": "start: X"}
PATCH = {"type": "custom", "name": "patch", "description": "Patch.", "format": {"type": "grammar", "syntax": "lark", "definition": "start: X"}}  # fmt: skip
PATCH_TEXT = "`input` is text that matches this lark grammar:\nstart: X"
TEXT_INPUT = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("tools", "specs", "fields"),
    [
        ([FUNCTION], [{"name": "f", "description": "d", "input_schema": {"type": "object"}, "strict": False}], ["tools"]),
        ([{"type": "function", "name": "f", "parameters": None, "strict": True}], [{"name": "f", "strict": True}], ["tools", "tools[].strict"]),
        ([{"type": "function", "name": "f", "defer_loading": True}], [{"name": "f"}], ["tools", "tools[].other"]),
        (
            [PATCH],
            [
                {
                    "name": "patch",
                    "description": f"Patch.\n\n{PATCH_TEXT}",
                    "input_schema": TEXT_INPUT,
                    "custom": {"description": "Patch.", "format": PATCH_FORMAT},
                }
            ],
            ["tools", "tools[].custom"],
        ),
        ([{"type": "web_search"}, {"type": "local_shell"}], [], ["tools[].web_search", "tools[].hosted"]),
        (
            [{"type": "namespace", "name": "n", "description": "Of n.", "tools": [FUNCTION, {"type": "custom", "name": "t"}]}],
            [
                {"name": "n__f", "description": "Of n.\n\nd", "input_schema": {"type": "object"}, "strict": False},
                {"name": "n__t", "input_schema": TEXT_INPUT, "custom": {}},
            ],
            ["tools[].namespace", "tools", "tools[].custom"],
        ),
        ([], [], []),
    ],
)  # fmt: skip
def test_each_tool_becomes_a_function_or_is_named(tools: list[Any], specs: list[Any], fields: list[str]):
    expected = WorkOrder.model_validate({"tools": specs}).tools
    request = parse({"model": "m", "input": "hi", "tools": tools})
    assert (request.order.tools, list(request.fields)) == (expected, fields)
    item = {"type": "additional_tools", "role": "developer", "tools": tools}
    request = parse({"model": "m", "input": [item]})
    assert (request.order.tools, list(request.fields)) == (expected, ["input[].additional_tools", *fields])


def test_tools_that_are_not_allowed_are_not_sent():
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}, {"type": "web_search"}]}  # fmt: skip
    request = parse({"model": "m", "input": "hi", "tools": [FUNCTION, PATCH], "tool_choice": allowed})
    assert [tool.name for tool in request.order.tools] == ["f"]
    assert request.order.tool_choice is not None
    assert request.order.tool_choice.mode == "required"
    assert request.fields[2:] == ("tool_choice.allowed_tools", "tools[].hosted")


def test_an_effort_among_the_items_counts_before_that_of_the_request():
    update = {"type": "configuration_update", "reasoning": {"effort": "low"}}
    for members in ({"reasoning": {"effort": "high"}, "input": [update]}, {"input": [update], "reasoning": {"effort": "high"}}):  # fmt: skip
        request = parse({"model": "m", **members})
        assert request.order.reasoning == Reasoning(enabled=True, effort="low")
        assert set(request.fields) == {"input[].configuration_update", "reasoning"}


def test_what_codex_sends_by_default_uses_rows_of_the_table_and_no_refused_one():
    shell = {"type": "function", "name": "exec", "parameters": {"type": "object"}, "strict": False}
    user = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}], "internal_chat_message_metadata_passthrough": {"turn_id": "1"}}  # fmt: skip
    body = {
        "model": "m",
        "stream": True,
        "input": [
            {"type": "additional_tools", "id": "at_1", "role": "developer", "tools": [{"type": "namespace", "name": "shell", "description": "d", "tools": [shell, PATCH]}]},
            {"type": "configuration_update", "reasoning": {"effort": "low"}},
            user,
        ],
        "tools": [{"type": "web_search", "external_web_access": False}],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "reasoning": {"effort": "medium", "context": "all_turns"},
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "k",
        "text": {"verbosity": "low"},
        "client_metadata": {"a": "b"},
    }  # fmt: skip
    rows = [TABLE[Api.RESPONSES][name] for name in parse(body).fields]
    assert [row.name for row in rows if "refused" in row.cells.values()] == []


def test_the_member_accord_is_taken_out_of_the_body():
    request = parse({"model": "m", "input": "hi", "accord": {"policy": "strict"}})
    assert (request.body, request.accord) == ({"model": "m", "input": "hi"}, {"policy": "strict"})


ITEM: dict[str, Any] = {"type": "message", "role": "user", "content": "secret"}


NO_REQUESTS: list[tuple[dict[str, Any], str]] = [
    ({"input": "hi"}, "model"),
    ({"model": "m"}, "input"),
    ({"model": "m", "input": 1}, "input"),
    ({"model": "m", "input": ["secret"]}, "input[0]"),
    ({"model": "m", "input": [ITEM, {**ITEM, "role": "secret"}]}, "input[1].role"),
    ({"model": "m", "input": [{**ITEM, "content": 1}]}, "input[0].content"),
    ({"model": "m", "input": [{**ITEM, "content": [{"type": "input_text"}]}]}, "input[0].content[0].text"),
    ({"model": "m", "input": [{**ITEM, "content": [{"text": "secret"}]}]}, "input[0].content[0].type"),
    ({"model": "m", "input": [{**ITEM, "content": [{"type": "input_image"}]}]}, "input[0].content[0].image_url"),
    ({"model": "m", "input": [{**ITEM, "content": [{"type": "input_image", "image_url": "data:secret"}]}]}, "input[0].content[0].image_url"),
    ({"model": "m", "input": [{**ITEM, "content": [{"type": "input_file"}]}]}, "input[0].content[0].file_data"),
    ({"model": "m", "input": [{**CALL, "call_id": None}]}, "input[0].call_id"),
    ({"model": "m", "input": [{**CALL, "arguments": {}}]}, "input[0].arguments"),
    ({"model": "m", "input": [{"type": 1}]}, "input[0].type"),
    ({"model": "m", "input": "hi", "tools": {}}, "tools"),
    ({"model": "m", "input": "hi", "tools": [{"name": "secret"}]}, "tools[0].type"),
    ({"model": "m", "input": "hi", "tools": [{"type": "function"}]}, "tools[0].name"),
    ({"model": "m", "input": "hi", "tools": [{"type": "custom", "name": "f", "format": {"type": "secret"}}]}, "tools[0].format"),
    ({"model": "m", "input": "hi", "tool_choice": "secret"}, "tool_choice"),
    ({"model": "m", "input": "hi", "temperature": "secret"}, "temperature"),
    ({"model": "m", "input": "hi", "max_output_tokens": 1.5}, "max_output_tokens"),
    ({"model": "m", "input": "hi", "max_output_tokens": 0}, "max_output_tokens"),
    ({"model": "m", "input": "hi", "stream": "secret"}, "stream"),
    ({"model": "m", "input": "hi", "instructions": []}, "instructions"),
    ({"model": "m", "input": "hi", "text": "secret"}, "text"),
    ({"model": "m", "input": "hi", "text": {"format": {"type": "json_schema"}}}, "text.format"),
    ({"model": "m", "input": "hi", "reasoning": {"effort": 1}}, "reasoning.effort"),
    ({"model": "m", "input": "hi", "include": "secret"}, "include"),
    ({"model": "m", "input": "hi", "parallel_tool_calls": "secret"}, "parallel_tool_calls"),
    ({"model": "m", "input": "hi", "accord": "secret"}, "accord"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "field"), NO_REQUESTS)
def test_a_body_that_is_no_request_is_refused_with_its_field(body: dict[str, Any], field: str):
    with pytest.raises(RefusedError) as caught:
        parse(body)
    assert (caught.value.code, caught.value.details) == (ErrorCode.INVALID_MESSAGE, {"field": field})
    assert caught.value.message.startswith(f"{field}: expected ")
    assert "secret" not in caught.value.message


@pytest.mark.parametrize("name", ["previous_response_id", "conversation", "prompt"])
def test_input_may_be_absent_where_it_is_kept_elsewhere(name: str):
    assert parse({"model": "m", name: "x"}).fields == (name,)


def test_a_stored_response_is_continued_without_its_instructions():
    first = {"model": "m", "input": "hi", "instructions": "be brief"}
    hidden: dict[str, Any] = {"type": "reasoning", "id": "rs_2", "summary": []}
    stored = [*input_items(first), hidden, THOUGHT, REPLY]
    second = continue_from({"model": "m", "input": "and?", "previous_response_id": "resp_1"}, stored)
    assert messages_of(parse(second).order) == [
        of(text("hi")),
        of(THINKING, text("Hi"), role="assistant"),
        of(text("and?")),
    ]
    assert parse(second).fields == ("input[].reasoning", "input[].reasoning.reference", "previous_response_id")
    third = continue_from({"model": "m", "input": [RESULT]}, [*input_items(second), CALL])
    assert len(third["input"]) == 7
    assert [message["role"] for message in messages_of(parse(third).order)] == ["user", "assistant", "user", "assistant", "tool"]  # fmt: skip
