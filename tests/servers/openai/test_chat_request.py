"""Chat completions requests: the work order, the fields that they use, and what is refused."""

from typing import Any

import pytest

from accord.apis.chat.codec import ChatCodec
from accord.apis.openai import parts
from accord.core.work.fields import Api, row_of
from accord.errors import ErrorCode, RefusedError
from accord.wire.conversation import ConversationMessage
from accord.wire.work import WorkOrder

USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
OTHER_TOOL = {"type": "function", "function": {"name": "g"}}
TEXT_INPUT = dict(parts.TEXT_INPUT)
CUSTOM = {"type": "custom", "custom": {"name": "c"}}
PNG = "data:image/png;base64,AAAA"
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}


def body(*messages: Any, **members: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages) or [USER], **members}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


MESSAGES: dict[str, tuple[list[Any], list[Any], tuple[str, ...]]] = {
    "text": ([USER], [("user", {"type": "text", "text": "hi"})], ()),
    "no text": ([{"role": "user", "content": ""}, {"role": "assistant"}], [("user",), ("assistant",)], ()),
    "null": ([{"role": "user", "content": None}], [("user",)], ()),
    "an empty part": ([user({"type": "text", "text": ""})], [("user",)], ()),
    "developer": ([{"role": "developer", "content": "be"}], [("system", {"type": "text", "text": "be"})], ()),
    "text in parts": (
        [{"role": "system", "content": [{"type": "text", "text": "be"}, {"type": "text", "text": "so"}]}],
        [("system", {"type": "text", "text": "be"}, {"type": "text", "text": "so"})],
        (),
    ),
    "an image": (
        [user({"type": "image_url", "image_url": {"url": PNG, "detail": "auto"}})],
        [("user", {"type": "image", "media_type": "image/png", "data": "AAAA"})],
        ("messages[].content[].image_url",),
    ),
    "an image as text": (
        [user({"type": "image_url", "image_url": "DATA:image/PNG;charset=x;base64,AAAA"})],
        [("user", {"type": "image", "media_type": "image/png", "data": "AAAA"})],
        ("messages[].content[].image_url",),
    ),
    "an image by address": (
        [user({"type": "image_url", "image_url": {"url": "https://a.test/b.png", "detail": "low"}})],
        [("user", {"type": "image", "media_type": "", "data": "", "uri": "https://a.test/b.png", "detail": "low"})],
        (
            "messages[].content[].image_url",
            "messages[].content[].image_url.detail",
            "messages[].content[].image_url.address",
        ),
    ),
    "audio": (
        [user({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}})],
        [("user", {"type": "audio", "media_type": "audio/mpeg", "data": "AAAA"})],
        ("messages[].content[].input_audio",),
    ),
    "a PDF": (
        [user({"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a#1.pdf"}})],
        [("user", {"type": "resource", "uri": "a%231.pdf", "media_type": "application/pdf", "data": "AAAA"})],
        ("messages[].content[].file",),
    ),
    "a PDF without a data URL": (
        [user({"type": "file", "file": {"file_data": "AAAA"}})],
        [("user", {"type": "resource", "uri": "", "media_type": "application/pdf", "data": "AAAA"})],
        ("messages[].content[].file",),
    ),
    "a text file": (
        [user({"type": "file", "file": {"file_data": "data:text/plain;base64,aMOp", "filename": "a.txt"}})],
        [("user", {"type": "resource", "uri": "a.txt", "media_type": "text/plain", "text": "hé"})],
        (),
    ),
    "an uploaded file": (
        [user({"type": "file", "file": {"file_id": "file-1"}})],
        [("user", {"type": "resource", "uri": "", "media_type": "application/pdf", "data": "", "file_id": "file-1"})],
        ("messages[].content[].file.file_id",),
    ),
    "cache control": (
        [user({"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}})],
        [("user", {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}})],
        ("messages[].content[].cache_control",),
    ),
    "an unknown kind of part": ([user({"type": "video_url"})], [("user",)], ("messages[].content[].other",)),
    "a point to cache up to": (
        [user({"type": "text", "text": "hi", "prompt_cache_breakpoint": {"mode": "explicit"}})],
        [("user", {"type": "text", "text": "hi", "cache_control": {"mode": "explicit"}})],
        ("messages[].content[].prompt_cache_breakpoint",),
    ),
    "an unknown member of a part": (
        [user({"type": "text", "text": "hi", "own": {}})],
        [("user", {"type": "text", "text": "hi"})],
        ("messages[].content[].own",),
    ),
    "an image of the assistant": (
        [{"role": "assistant", "content": [{"type": "image_url", "image_url": {"url": PNG}}]}],
        [("assistant",)],
        ("messages[].content[].other",),
    ),
    "a name": ([{**USER, "name": "ann"}], [("user", {"type": "text", "text": "hi"})], ("messages[].name",)),
    "a spoken answer": ([{"role": "assistant", "audio": {"id": "a"}}], [("assistant",)], ("messages[].audio",)),
    "a refusal": (
        [{"role": "assistant", "content": None, "refusal": "no"}, {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}],
        [("assistant", {"type": "text", "text": "no"})] * 2,
        ("messages[].refusal",),
    ),
    "an answer of the SDK, sent back": (
        [{"role": "assistant", "content": "a", "refusal": None, "annotations": [], "audio": None, "function_call": None, "tool_calls": None}],
        [("assistant", {"type": "text", "text": "a"})],
        (),
    ),
    "reasoning": (
        [{"role": "assistant", "content": "a", "reasoning_content": "r"}],
        [("assistant", {"type": "thinking", "text": "r"}, {"type": "text", "text": "a"})],
        ("messages[].reasoning_content",),
    ),
    "reasoning alone": (
        [{"role": "assistant", "reasoning": "r"}],
        [("assistant", {"type": "thinking", "text": "r"})],
        ("messages[].reasoning_content",),
    ),
    "signed reasoning": (
        [{"role": "assistant", "content": "a", "reasoning_content": "r", "thinking_blocks": [
            {"type": "thinking", "thinking": "r", "signature": "s"}, {"type": "redacted_thinking", "data": "x"}]}],
        [("assistant", {"type": "thinking", "text": "r", "signature": "s"},
          {"type": "thinking", "text": "", "signature": "x", "redacted": True}, {"type": "text", "text": "a"})],
        ("messages[].thinking_blocks",),
    ),
    "calls and results": (
        [
            {"role": "assistant", "content": None, "tool_calls": [CALL, {**CALL, "id": "c2", "extra_content": {"google": {"thought_signature": "s"}}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "1", "name": "f"},
            {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "2"}]},
        ],
        [
            ("assistant", {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
             {"type": "tool_use", "id": "c2", "name": "f", "input": {"a": 1}, "signature": "s"}),
            ("tool", {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "1"}], "is_error": False}),
            ("tool", {"type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": "2"}], "is_error": False}),
        ],
        ("messages[].tool_calls",),
    ),
    "a call without arguments": (
        [{"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": ""}}]}],
        [("assistant", {"type": "tool_use", "id": "c", "name": "f", "input": {}})],
        ("messages[].tool_calls",),
    ),
    "a broken call": (
        [{"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": '{"a'}}]}],
        [("assistant", {"type": "tool_use", "id": "c", "name": "f", "input": {"arguments": '{"a'}})],
        ("messages[].tool_calls", "messages[].tool_calls[].function.arguments"),
    ),
    "a custom call": (
        [{"role": "assistant", "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "f", "input": "a"}}]}],
        [("assistant", {"type": "tool_use", "id": "c", "name": "f", "input": {"input": "a"}, "custom": True})],
        ("messages[].tool_calls", "messages[].tool_calls[].custom"),
    ),
    "an image as the result of a tool": (
        [{"role": "tool", "tool_call_id": "c", "content": [{"type": "image_url", "image_url": {"url": PNG}}]}],
        [("tool", {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "image", "media_type": "image/png", "data": "AAAA"}], "is_error": False})],
        ("messages[].content[].image_url",),
    ),
    "the older form of calls": (
        [
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "1"},
        ],
        [
            ("assistant", {"type": "tool_use", "id": "function_call_0", "name": "f", "input": {}}),
            ("tool", {"type": "tool_result", "tool_use_id": "function_call_0", "content": [{"type": "text", "text": "1"}], "is_error": False}),
        ],
        ("messages[].function_call",),
    ),
    "an unknown member of a message": (
        [{**USER, "prefix": True}],
        [("user", {"type": "text", "text": "hi"})],
        ("messages[].prefix",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MESSAGES)
def test_each_message_is_in_the_conversation_or_its_row_is_reported(case: str):
    messages, expected, fields = MESSAGES[case]
    parsed = ChatCodec().read_request(body(*messages))
    found = [message.dump() for message in parsed.order.conversation.messages]
    assert found == [{"role": role, "content": list(parts)} for role, *parts in expected]
    assert parsed.fields == fields
    # What was made without validation is what validation would have made.
    for message in found:
        assert ConversationMessage.model_validate(message).dump() == message


FIELDS: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]] = {
    "temperature": ({"temperature": 0.5}, {"parameters": {"temperature": 0.5}}, ("temperature",)),
    "neutral values": (
        {
            "frequency_penalty": 0, "presence_penalty": 0.0, "stream": False, "logprobs": False, "top_logprobs": 0, "n": 1, "tools": [],
            "stop": None, "tool_choice": "auto", "response_format": {"type": "text"}, "store": False, "metadata": {},
            "service_tier": "auto", "parallel_tool_calls": True, "stream_options": {"include_usage": False}, "user": None,
        },
        {"parameters": {}},
        (),
    ),
    "the common parameters": (
        {"top_p": 1, "top_k": 4, "frequency_penalty": 1, "presence_penalty": -1.5, "seed": 7, "max_tokens": 5},
        {"parameters": {"top_p": 1, "top_k": 4, "frequency_penalty": 1, "presence_penalty": -1.5, "seed": 7, "max_tokens": 5}},
        ("top_p", "top_k", "frequency_penalty", "presence_penalty", "seed", "max_tokens"),
    ),
    "two limits": (
        {"max_tokens": 5, "max_completion_tokens": 5},
        {"parameters": {"max_tokens": 5}},
        ("max_tokens", "max_completion_tokens"),
    ),
    "log probabilities": ({"logprobs": True}, {"parameters": {"logprobs": True}}, ("logprobs",)),
    "likely tokens": (
        {"top_logprobs": 3, "logprobs": True},
        {"parameters": {"logprobs": 3}},
        ("top_logprobs", "logprobs"),
    ),
    "effort": (
        {"reasoning_effort": "low"},
        {"reasoning": {"enabled": True, "effort": "low"}},
        ("reasoning_effort",),
    ),
    "no effort": ({"reasoning_effort": "none"}, {"reasoning": {"enabled": False}}, ("reasoning_effort",)),
    "one stop": ({"stop": "."}, {"stop_sequences": ["."]}, ("stop",)),
    "stops": ({"stop": [".", "!"]}, {"stop_sequences": [".", "!"]}, ("stop",)),
    "a stream with usage": (
        {"stream": True, "stream_options": {"include_usage": True, "include_obfuscation": False}},
        {"stream": True},
        ("stream_options.include_usage",),
    ),
    "obfuscation": ({"stream_options": {"include_obfuscation": True}}, {}, ("stream_options.include_obfuscation",)),
    "other options of a stream": ({"stream_options": {"own": True}}, {}, ("stream_options.other",)),
    "JSON": (
        {"response_format": {"type": "json_object"}},
        {"json_mode": True},
        ("response_format.json_object",),
    ),
    "a schema": (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True}}},
        {"response_schema": {"type": "object"}, "schema_name": "n"},
        ("response_format.json_schema",),
    ),
    "a schema with a description": (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "description": "d"}}},
        {"response_schema": {}, "schema_name": "n", "schema_description": "d"},
        ("response_format.json_schema", "response_format.json_schema.description"),
    ),
    "another format": ({"response_format": {"type": "grammar", "grammar": "x"}}, {}, ("response_format.other",)),
    "JSON with an unknown member": (
        {"response_format": {"type": "json_object", "schema": {}}},
        {"json_mode": True},
        ("response_format.json_object", "response_format.other"),
    ),
    "a tool": (
        {"tools": [TOOL]},
        {"tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}]},
        ("tools",),
    ),
    "a strict tool": (
        {"tools": [{"type": "function", "function": {"name": "f", "strict": True}, "cache_control": {"type": "ephemeral"}}]},
        {"tools": [{"name": "f", "strict": True, "cache_control": {"type": "ephemeral"}}]},
        ("tools", "tools[].function.strict", "tools[].cache_control"),
    ),
    "a custom tool": (
        {"tools": [CUSTOM]},
        {"tools": [{"name": "c", "input_schema": TEXT_INPUT, "custom": {}}]},
        ("tools", "tools[].custom"),
    ),
    "a hosted tool": ({"tools": [{"type": "web_search"}]}, {}, ("tools[].other",)),
    "no tool": (
        {"tools": [TOOL], "tool_choice": "none"},
        {"tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}], "tool_choice": {"mode": "none"}},
        ("tools", "tool_choice"),
    ),
    "some tool": (
        {"tool_choice": "required", "tools": [OTHER_TOOL]},
        {"tools": [{"name": "g"}], "tool_choice": {"mode": "required"}},
        ("tool_choice", "tools"),
    ),
    "this tool": (
        {"tools": [OTHER_TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}},
        {"tools": [{"name": "g"}], "tool_choice": {"mode": "tool", "name": "g"}},
        ("tools", "tool_choice"),
    ),
    "these tools": (
        {"tools": [TOOL, OTHER_TOOL], "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [OTHER_TOOL]}}},
        {"tools": [{"name": "g"}], "tool_choice": {"mode": "required"}},
        ("tools", "tool_choice.allowed_tools"),
    ),
    "these tools, or none": (
        {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [OTHER_TOOL]}}, "tools": [TOOL, OTHER_TOOL]},
        {"tools": [{"name": "g"}]},
        ("tool_choice.allowed_tools", "tools"),
    ),
    "one call at a time": (
        {"tools": [OTHER_TOOL], "parallel_tool_calls": False},
        {"tools": [{"name": "g"}], "parallel_tool_calls": False},
        ("tools", "parallel_tool_calls"),
    ),
    "choices without tools": ({"tool_choice": "none", "parallel_tool_calls": False}, {}, ()),
    "functions": (
        {"functions": [{"name": "g"}], "function_call": {"name": "g"}},
        {"tools": [{"name": "g"}], "tool_choice": {"mode": "tool", "name": "g"}, "parallel_tool_calls": False},
        ("functions", "function_call"),
    ),
    "fields that only the same API has": (
        {"logit_bias": {"1": 2}, "user": "u", "verbosity": "low", "store": True, "own_word": 1, "modalities": ["text", "audio"]},
        {},
        ("logit_bias", "user", "verbosity", "store", "own_word", "modalities"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FIELDS)
def test_each_field_is_in_the_order_or_its_row_is_reported(case: str):
    members, expected, fields = FIELDS[case]
    parsed = ChatCodec().read_request(body(**members))
    conversation = {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]}
    assert parsed.order == WorkOrder.model_validate({"conversation": conversation, **expected})
    assert (parsed.fields, parsed.answers, parsed.model) == (fields, 1, "m")
    assert parsed.body == body(**members)


def test_every_nested_field_that_is_reported_by_a_rule_has_a_row():
    reported = {name for *_, names in [*MESSAGES.values(), *FIELDS.values()] for name in names}
    unlisted = {name for name in reported if row_of(Api.CHAT, name).name == "*"}
    assert unlisted == {
        "messages[].prefix",
        "messages[].content[].own",
        "own_word",
    }


def test_several_answers_are_no_part_of_the_order():
    parsed = ChatCodec().read_request(body(n=3))
    assert (parsed.answers, parsed.fields, parsed.order.parameters) == (3, ("n",), {})


def test_the_accord_member_is_not_a_part_of_the_body():
    given = body(accord={"policy": "strict"})
    parsed = ChatCodec().read_request(given)
    assert (parsed.accord, parsed.body, parsed.fields) == ({"policy": "strict"}, body(), ())
    assert given["accord"] == {"policy": "strict"}


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"messages": [USER]}, "model", "text that is not empty"),
    ({"model": 1, "messages": [USER]}, "model", "text that is not empty, got a number"),
    ({"model": "m"}, "messages", "a list of at least one message"),
    (body() | {"messages": []}, "messages", "a list of at least one message"),
    (body() | {"messages": {}}, "messages", "a list, got an object"),
    (body("hi"), "messages[0]", "an object, got text"),
    (body(USER, {"role": "robot"}), "messages[1].role", "one of system, developer"),
    (body({"role": "user", "content": 5}), "messages[0].content", "text or a list of parts, got a number"),
    (body({"role": "user", "content": ["hi"]}), "messages[0].content[0]", "an object, got text"),
    (body(user({"text": "hi"})), "messages[0].content[0].type", "text that is not empty, got nothing"),
    (body(user({"type": "text"})), "messages[0].content[0].text", "text, got nothing"),
    (body(user({"type": "image_url", "image_url": {}})), "messages[0].content[0].image_url.url", "text, got nothing"),
    (body(user({"type": "image_url", "image_url": {"url": "data:image/png,xx"}})), "messages[0].content[0].image_url.url", "a data URL in base64"),
    (body(user({"type": "image_url", "image_url": {"url": "file:///etc"}})), "messages[0].content[0].image_url.url", "https://"),
    (body(user({"type": "input_audio", "input_audio": {"data": "AAAA"}})), "messages[0].content[0].input_audio.format", "got nothing"),
    (body(user({"type": "file", "file": {}})), "messages[0].content[0].file.file_data", "got nothing"),
    (body({"role": "tool", "content": "1"}), "messages[0].tool_call_id", "got nothing"),
    (body({"role": "function", "content": "1"}), "messages[0].name", "got nothing"),
    (body({"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}), "messages[0].tool_calls[0].id", "got nothing"),
    (body({"role": "assistant", "tool_calls": [{"id": "c"}]}), "messages[0].tool_calls[0].function", "an object"),
    (body({"role": "assistant", "tool_calls": [{"id": "c", "function": {"arguments": "{}"}}]}), "messages[0].tool_calls[0].function.name", "got nothing"),
    (body(stream="yes"), "stream", "true or false, got text"),
    (body(temperature="hot"), "temperature", "a number, got text"),
    (body(temperature=True), "temperature", "a number, got a boolean"),
    (body(max_tokens=1.5), "max_tokens", "a whole number of at least 1, got a number"),
    (body(max_tokens=0), "max_tokens", "a whole number of at least 1"),
    (body(max_completion_tokens=-1), "max_completion_tokens", "a whole number of at least 1"),
    (body(max_tokens=5, max_completion_tokens=9), "max_completion_tokens", "the same number as the other limit"),
    (body(n=0), "n", "a whole number of at least 1"),
    (body(n=129), "n", "a whole number of at least 1 and at most 128"),
    (body(logprobs=1), "logprobs", "true or false"),
    (body(top_logprobs=21, logprobs=True), "top_logprobs", "a whole number of at least 0 and at most 20"),
    (body(top_logprobs=2), "logprobs", "true, because top_logprobs is given"),
    (body(stop=[1]), "stop[0]", "text, got a number"),
    (body(tools=[{"type": "function", "name": "f"}]), "tools[0].function", "an object, got nothing"),
    (body(tools=[{"type": "function", "function": {}}]), "tools[0].name", "got nothing"),
    (body(tools=[TOOL], tool_choice="any"), "tool_choice", "none, auto, required"),
    (body(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "x"}}), "tool_choice", "the name of one of the tools"),
    (body(tool_choice="required"), "tools", "at least one tool"),
    (body(response_format="json"), "response_format", "an object, got text"),
    (body(response_format={"type": "json_schema"}), "response_format.json_schema", "an object, got nothing"),
    (body(response_format={"type": "json_schema", "json_schema": {"schema": {}}}), "response_format.json_schema.name", "got nothing"),
    (body(accord="strict"), "accord", "an object, got text"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "field", "expected"), REFUSED, ids=[f"{row[1]}-{row[2][:20]}" for row in REFUSED])
def test_each_body_that_is_no_request_is_refused_with_its_field(given: dict[str, Any], field: str, expected: str):
    with pytest.raises(RefusedError) as caught:
        ChatCodec().read_request(given)
    assert (caught.value.code, caught.value.details) == (ErrorCode.INVALID_MESSAGE, {"field": field})
    assert caught.value.message.startswith(f"{field}: expected ")
    assert expected in caught.value.message
