"""Requests of the Messages API as work orders: what each member becomes, which rows it uses, and what is refused."""

from typing import Any

import pytest

from accord.apis.messages.codec import MessagesCodec
from accord.apis.messages.read_request import count_request
from accord.core.work.fields import TABLE, Api
from accord.errors import ErrorCode, RefusedError
from accord.wire.work import WorkOrder

API = MessagesCodec()
MARK = {"type": "ephemeral"}
HELLO = {"role": "user", "content": "Hello."}
TOOL = {"name": "look_up", "description": "Looks up.", "input_schema": {"type": "object"}}
BASH = {"type": "bash_20250124", "name": "bash"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
CONTENT = "messages[].content[]."
NOTHING = WorkOrder().dump()


def body(**members: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 9, "messages": [HELLO], **members}


def fields_of(**members: Any) -> tuple[str, ...]:
    """The rows that these members use, without the one of `max_tokens`."""
    return API.read_request(body(**members)).fields[1:]


def order(**members: Any) -> dict[str, Any]:
    """The fields of the order that say something, as JSON; the limit of tokens is left out."""
    made = API.read_request(body(**members)).order
    assert WorkOrder.model_validate(made.dump()) == made, "what is built without validation is valid"
    dumped = made.dump()
    del dumped["parameters"]["max_tokens"]
    return {name: value for name, value in dumped.items() if NOTHING.get(name) != value}


def parts_of(*blocks: Any, role: str = "user") -> list[dict[str, Any]]:
    """The messages that a message of these blocks becomes."""
    return order(messages=[{"role": role, "content": list(blocks)}])["conversation"]["messages"]


def test_the_smallest_request_is_one_message_of_the_user():
    request = API.read_request(body())
    assert (request.api, request.model, request.fields, request.answers) == (Api.MESSAGES, "m", ("max_tokens",), 1)
    assert request.order.parameters == {"max_tokens": 9}
    assert order() == {
        "conversation": {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello."}]}]}
    }


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


RESULT = {"type": "tool_result", "tool_use_id": "t", "content": "42"}
CALL = {"type": "tool_use", "id": "t", "name": "look_up", "input": {"q": 1}}
PNG = {"type": "base64", "media_type": "image/png", "data": "aGk="}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "aGk="}
WORDS = {"type": "text", "media_type": "text/plain", "data": "words"}

BLOCKS: list[tuple[str, dict[str, Any], list[dict[str, Any]], list[str]]] = [
    ("user", text("a", cache_control=MARK), [text("a", cache_control=MARK)], ["*.cache_control"]),
    ("user", text("a", citations=None), [text("a")], []),
    ("assistant", text("a", citations=[{"type": "char_location"}]), [text("a")], ["messages[].other"]),
    (
        "user",
        {"type": "image", "source": PNG, "cache_control": MARK},
        [{"type": "image", "media_type": "image/png", "data": "aGk=", "cache_control": MARK}],
        [f"{CONTENT}image", "*.cache_control"],
    ),
    (
        "user",
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a"}},
        [{"type": "image", "media_type": "", "data": "", "uri": "https://example.org/a"}],
        [f"{CONTENT}image", f"{CONTENT}image.address"],
    ),
    (
        "user",
        {"type": "image", "source": {"type": "file", "file_id": "f"}},
        [],
        [f"{CONTENT}image", f"{CONTENT}image.file_id"],
    ),
    (
        "user",
        {"type": "document", "source": PDF, "title": "a.pdf", "citations": {"enabled": False}},
        [{"type": "resource", "uri": "a.pdf", "media_type": "application/pdf", "data": "aGk="}],
        [f"{CONTENT}document"],
    ),
    (
        "user",
        {"type": "document", "source": WORDS, "context": "From a book.", "cache_control": MARK},
        [text("From a book."), {"type": "resource", "uri": "", "text": "words", "cache_control": MARK}],
        [f"{CONTENT}document.text", f"{CONTENT}document.context", "*.cache_control"],
    ),
    (
        "user",
        {"type": "document", "source": {"type": "content", "content": "words"}, "citations": {"enabled": True}},
        [{"type": "resource", "uri": "", "text": "words"}],
        [f"{CONTENT}document.citations", f"{CONTENT}document.text"],
    ),
    (
        "user",
        {
            "type": "document",
            "title": "b",
            "source": {"type": "content", "content": [text("one"), {"type": "image", "source": PNG}]},
        },
        [
            {"type": "resource", "uri": "b", "text": "one"},
            {"type": "image", "media_type": "image/png", "data": "aGk="},
        ],
        [f"{CONTENT}image", f"{CONTENT}document.text"],
    ),
    (
        "user",
        {"type": "document", "source": {"type": "url", "url": "https://example.org/a.pdf"}},
        [{"type": "resource", "uri": "https://example.org/a.pdf", "media_type": "application/pdf", "data": ""}],
        [f"{CONTENT}document", f"{CONTENT}document.address"],
    ),
    (
        "user",
        {"type": "document", "source": {"type": "file", "file_id": "f"}},
        [],
        [f"{CONTENT}document", f"{CONTENT}document.file_id"],
    ),
    ("user", {"type": "search_result", "source": "s", "title": "t", "content": []}, [], [f"{CONTENT}other"]),
    ("assistant", {"type": "server_tool_use", "id": "s", "name": "web_search"}, [], [f"{CONTENT}other"]),
    (
        "assistant",
        {**CALL, "caller": {"type": "direct"}, "cache_control": MARK},
        [{**CALL, "cache_control": MARK}],
        [f"{CONTENT}tool_use", "*.cache_control"],
    ),
    (
        "assistant",
        {**CALL, "signature": "s", "toolset_name": "x"},
        [{**CALL, "signature": "s"}],
        ["messages[].other", f"{CONTENT}tool_use", f"{CONTENT}tool_use.signature"],
    ),
    (
        "assistant",
        {"type": "image", "source": PNG},
        [{"type": "image", "media_type": "image/png", "data": "aGk="}],
        [f"{CONTENT}image", f"{CONTENT}media"],
    ),
    (
        "assistant",
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        [{"type": "thinking", "text": "Hm.", "signature": "s"}],
        [f"{CONTENT}thinking"],
    ),
    (
        "assistant",
        {"type": "thinking", "thinking": "Hm.", "signature": ""},
        [{"type": "thinking", "text": "Hm."}],
        [f"{CONTENT}thinking", f"{CONTENT}thinking.unsigned"],
    ),
    (
        "assistant",
        {"type": "redacted_thinking", "data": "x"},
        [{"type": "thinking", "text": "", "signature": "x", "redacted": True}],
        [f"{CONTENT}thinking"],
    ),
    (
        "system",
        {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "a"}},
        [],
        [f"{CONTENT}tool_reference"],
    ),
    ("system", {"type": "tool_addition", "tool": {"type": "tool_definition"}}, [], [f"{CONTENT}other"]),
    ("system", {"type": "tool_removal", "tool": {}}, [], [f"{CONTENT}other"]),
]


@pytest.mark.parametrize(("role", "block", "parts", "rows"), BLOCKS)
def test_each_kind_of_block_becomes_its_parts_and_uses_its_rows(
    role: str, block: dict[str, Any], parts: list[dict[str, Any]], rows: list[str]
):
    assert parts_of(block, role=role) == [{"role": role, "content": parts}]
    assert fields_of(messages=[{"role": role, "content": [block]}]) == tuple(rows)


RESULTS: list[tuple[Any, list[dict[str, Any]], list[str]]] = [
    ("42", [text("42")], []),
    (None, [], []),
    ([], [], []),
    (
        [text("42"), text("43", cache_control=MARK)],
        [text("42"), text("43", cache_control=MARK)],
        ["*.cache_control", f"{CONTENT}tool_result.texts"],
    ),
    (
        [{"type": "image", "source": PNG}],
        [{"type": "image", "media_type": "image/png", "data": "aGk="}],
        [f"{CONTENT}image", f"{CONTENT}tool_result.media"],
    ),
    (
        [{"type": "document", "source": PDF}],
        [{"type": "resource", "uri": "", "media_type": "application/pdf", "data": "aGk="}],
        [f"{CONTENT}document", f"{CONTENT}tool_result.media"],
    ),
    ([{"type": "tool_reference", "tool_name": "look_up"}], [text("look_up")], [f"{CONTENT}tool_reference"]),
    ([{"type": "search_result", "source": "s"}], [], [f"{CONTENT}other"]),
]


@pytest.mark.parametrize(("content", "parts", "rows"), RESULTS)
def test_each_content_of_a_tools_result_becomes_its_parts(content: Any, parts: list[dict[str, Any]], rows: list[str]):
    block = {"type": "tool_result", "tool_use_id": "t", "content": content, "is_error": True}
    expected = {"type": "tool_result", "tool_use_id": "t", "content": parts, "is_error": True}
    assert parts_of(block) == [{"role": "tool", "content": [expected]}]
    assert fields_of(messages=[{"role": "user", "content": [block]}]) == (f"{CONTENT}tool_result", *rows)


def test_results_of_tools_are_messages_of_their_own_in_their_place():
    made = parts_of(RESULT, {**RESULT, "tool_use_id": "u"}, text("And?"), RESULT)
    assert [(message["role"], len(message["content"])) for message in made] == [("tool", 2), ("user", 1), ("tool", 1)]


def test_a_message_whose_blocks_cannot_be_held_is_still_a_message():
    assert parts_of({"type": "container_upload", "file_id": "f"}) == [{"role": "user", "content": []}]


def test_system_messages_stay_where_they_are_and_the_system_prompt_comes_first():
    members = body(
        messages=[
            HELLO,
            {"role": "system", "content": [text("Be brief.", cache_control=MARK)]},
            {"role": "system", "output_config": {"effort": "low"}},
        ],
        system=[text("You are kind."), text("Today is Monday.", cache_control=MARK)],
    )
    request = API.read_request(members)
    assert [message.dump() for message in request.order.conversation.messages] == [
        {"role": "system", "content": [text("You are kind."), text("Today is Monday.", cache_control=MARK)]},
        {"role": "user", "content": [text("Hello.")]},
        {"role": "system", "content": [text("Be brief.", cache_control=MARK)]},
        {"role": "system", "content": []},
    ]
    assert request.fields == ("max_tokens", "*.cache_control", "messages[].system", "messages[].other", "system")


@pytest.mark.parametrize(("system", "count"), [("", 0), ([], 0), (None, 0), ("Be kind.", 1)])
def test_an_empty_system_prompt_is_none(system: Any, count: int):
    request = API.read_request(body(system=system))
    assert [message.role for message in request.order.conversation.messages] == ["system"] * count + ["user"]
    assert ("system" in request.fields) is bool(count)


MEMBERS: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    ({"stream": True}, {"stream": True}, []),
    ({"stream": False, "metadata": {}, "service_tier": "auto", "mcp_servers": [], "speed": None}, {}, []),
    ({"temperature": 0.5, "top_p": 1, "top_k": 3}, {"parameters": {"temperature": 0.5, "top_p": 1, "top_k": 3}}, ["temperature", "top_p", "top_k"]),
    ({"stop_sequences": ["a", "b"]}, {"stop_sequences": ["a", "b"]}, ["stop_sequences"]),
    ({"stop_sequences": []}, {}, []),
    ({"metadata": {"user_id": "u"}, "service_tier": "standard_only"}, {}, ["metadata.user_id", "service_tier"]),
    ({"metadata": {"own": "u"}}, {}, ["metadata"]),
    ({"container": "c", "thread": {"type": "create"}}, {}, ["container", "thread"]),
    ({"cache_control": MARK}, {}, ["cache_control"]),
    ({"context_management": {"edits": []}, "never_heard_of": 1, "nothing": None}, {}, ["context_management", "never_heard_of"]),
    ({"thinking": {"type": "disabled"}}, {"reasoning": {"enabled": False}}, ["thinking"]),
    ({"thinking": {"type": "adaptive"}}, {"reasoning": {"enabled": True}}, ["thinking"]),
    ({"thinking": {"type": "adaptive", "display": "summarized"}}, {"reasoning": {"enabled": True, "summary": "auto"}}, ["thinking", "thinking.display"]),
    ({"thinking": {"type": "adaptive", "display": "omitted"}}, {"reasoning": {"enabled": True}}, ["thinking", "thinking.other"]),
    ({"thinking": {"type": "adaptive", "block_binding": {"a": 1}}}, {"reasoning": {"enabled": True}}, ["thinking", "thinking.other"]),
    ({"thinking": {"type": "between_tools"}}, {"reasoning": {"enabled": True}}, ["thinking", "thinking.other"]),
    ({"thinking": {"type": "enabled", "budget_tokens": 2048}}, {"reasoning": {"enabled": True, "max_tokens": 2048}}, ["thinking"]),
    (
        {"thinking": {"type": "enabled", "budget_tokens": 2048}, "output_config": {"effort": "low"}},
        {"reasoning": {"enabled": True, "max_tokens": 2048, "effort": "low"}},
        ["thinking", "output_config.effort"],
    ),
    ({"output_config": {"effort": "max"}}, {"reasoning": {"effort": "max"}}, ["output_config.effort"]),
    (
        {"output_config": {"effort": "max"}, "thinking": {"type": "disabled"}},
        {"reasoning": {"effort": "max", "enabled": False}},
        ["output_config.effort", "thinking", "output_config.effort.alone"],
    ),
    (
        {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}, "task_budget": {"total": 1}, "effort": None}},
        {"response_schema": SCHEMA},
        ["output_config.format", "output_config.other"],
    ),
    ({"output_format": {"type": "json_schema", "schema": SCHEMA}}, {"response_schema": SCHEMA}, ["output_format"]),
    ({"tools": []}, {}, []),
    ({"tools": [TOOL]}, {"tools": [TOOL]}, ["tools"]),
    ({"tools": [{**TOOL, "type": "custom", "strict": False}]}, {"tools": [{**TOOL, "strict": False}]}, ["tools"]),
    (
        {"tools": [{"name": "a", "input_schema": {}, "strict": True, "cache_control": MARK, "defer_loading": True}]},
        {"tools": [{"name": "a", "description": "", "input_schema": {}, "strict": True, "cache_control": MARK}]},
        ["tools", "tools[].strict", "tools[].other", "*.cache_control"],
    ),
    ({"tools": [BASH]}, {}, ["tools[].hosted"]),
    ({"tools": [TOOL], "tool_choice": {"type": "auto"}}, {"tools": [TOOL]}, ["tools"]),
    ({"tools": [TOOL], "tool_choice": {"type": "any"}}, {"tools": [TOOL], "tool_choice": {"mode": "required"}}, ["tools", "tool_choice"]),
    ({"tools": [TOOL], "tool_choice": {"type": "none"}}, {"tools": [TOOL], "tool_choice": {"mode": "none"}}, ["tools", "tool_choice"]),
    (
        {"tool_choice": {"type": "tool", "name": "look_up", "disable_parallel_tool_use": True}, "tools": [TOOL]},
        {"tools": [TOOL], "tool_choice": {"mode": "tool", "name": "look_up"}, "parallel_tool_calls": False},
        ["tool_choice", "tool_choice.disable_parallel_tool_use", "tools"],
    ),
    (
        {"tools": [TOOL], "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        {"tools": [TOOL], "parallel_tool_calls": False},
        ["tools", "tool_choice.disable_parallel_tool_use"],
    ),
    (
        {"tools": [BASH], "tool_choice": {"type": "tool", "name": "bash"}},
        {},
        ["tools[].hosted", "tool_choice", "tool_choice.hosted"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("members", "fields", "rows"), MEMBERS)
def test_each_member_becomes_its_fields_and_uses_its_rows(
    members: dict[str, Any], fields: dict[str, Any], rows: list[str]
):
    made = order(**members)
    del made["conversation"]
    assert made == fields
    assert fields_of(**members) == tuple(rows)


def test_the_tables_of_this_file_use_every_nested_row():
    used = {row for *_, rows in (*BLOCKS, *RESULTS, *MEMBERS) for row in rows}
    used |= {f"{CONTENT}tool_result", "max_tokens", "system", "messages[].system"}
    nested = {name for name in TABLE[Api.MESSAGES] if "." in name or "[" in name}
    assert nested <= used


def test_accords_member_is_taken_out_of_the_body():
    sent = body(accord={"policy": "strict"}, other=1)
    request = API.read_request(sent)
    assert (request.accord, request.body) == ({"policy": "strict"}, body(other=1))
    assert request.fields == ("max_tokens", "other")
    assert "accord" in sent
    assert API.read_request(body()).accord == {}


def test_a_request_to_count_needs_no_limit():
    members = {"model": "m", "messages": [HELLO], "tools": [TOOL]}
    request = count_request(members)
    assert request.order == API.read_count_request(members).order
    assert (request.fields, request.order.parameters) == (("tools",), {})
    with pytest.raises(RefusedError, match="max_tokens: expected a number of tokens"):
        API.read_request(members)


PRIVATE = "private words"


WRONG: list[tuple[dict[str, Any], str, str]] = [
        ({"model": None}, "model", "a string"),
        ({"model": 5}, "model", "a string"),
        ({"max_tokens": "9"}, "max_tokens", "a whole number"),
        ({"max_tokens": True}, "max_tokens", "a whole number"),
        ({"max_tokens": -1}, "max_tokens", "a whole number"),
        ({"max_tokens": 0}, "max_tokens", "a number of tokens from 1"),
        ({"messages": None}, "messages", "a list of messages"),
        ({"messages": {}}, "messages", "a list"),
        ({"messages": [PRIVATE]}, "messages[0]", "an object"),
        ({"messages": [HELLO, {"role": PRIVATE, "content": "a"}]}, "messages[1].role", "one of user"),
        ({"messages": [{"role": ["user"], "content": "a"}]}, "messages[0].role", "one of user"),
        ({"messages": [{"role": "user"}]}, "messages[0].content", "a string or a list of content blocks"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content", "a string or a list"),
        ({"messages": [{"role": "user", "content": [PRIVATE]}]}, "messages[0].content[0]", "an object"),
        ({"messages": [{"role": "user", "content": [{}]}]}, "messages[0].content[0].type", "the kind"),
        ({"messages": [{"role": "user", "content": [text("a"), {"type": "text"}]}]}, "messages[0].content[1].text", "a string"),
        ({"messages": [{"role": "user", "content": [text("a", cache_control=PRIVATE)]}]}, "messages[0].content[0].cache_control", "an object"),
        ({"messages": [{"role": "user", "content": [CALL]}]}, "messages[0].content[0].type", "only for messages of the assistant"),
        ({"messages": [{"role": "user", "content": [{"type": "thinking"}]}]}, "messages[0].content[0].type", "of the assistant"),
        ({"messages": [{"role": "assistant", "content": [RESULT]}]}, "messages[0].content[0].type", "of the user"),
        ({"messages": [{"role": "assistant", "content": [{**CALL, "input": PRIVATE}]}]}, "messages[0].content[0].input", "an object"),
        ({"messages": [{"role": "assistant", "content": [{**CALL, "id": None}]}]}, "messages[0].content[0].id", "a string"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "messages[0].content[0].source", "an object"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "x"}}]}]}, "messages[0].content[0].source.type", "one of base64"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {**PNG, "data": 1}}]}]}, "messages[0].content[0].source.data", "a string"),
        ({"messages": [{"role": "user", "content": [{"type": "document", "source": {"type": "x"}}]}]}, "messages[0].content[0].source.type", "one of base64"),
        ({"messages": [{"role": "user", "content": [{"type": "document", "source": {"type": "content", "content": [5]}}]}]}, "messages[0].content[0].source.content[0]", "an object"),
        ({"messages": [{"role": "user", "content": [{**RESULT, "content": [{"type": "text"}]}]}]}, "messages[0].content[0].content[0].text", "a string"),
        ({"messages": [{"role": "user", "content": [{**RESULT, "content": [RESULT]}]}]}, "messages[0].content[0].content[0].type", "of the user"),
        ({"system": 5}, "system", "a string or a list"),
        ({"system": [text("a"), {"type": "text"}]}, "system[1].text", "a string"),
        ({"stream": "yes"}, "stream", "true or false"),
        ({"temperature": "hot"}, "temperature", "a number"),
        ({"stop_sequences": "a"}, "stop_sequences", "a list"),
        ({"stop_sequences": ["a", 5]}, "stop_sequences", "a list of strings"),
        ({"thinking": "yes"}, "thinking", "an object"),
        ({"thinking": {}}, "thinking.type", "a word"),
        ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens", "a whole number"),
        ({"output_config": []}, "output_config", "an object"),
        ({"output_config": {"effort": 5}}, "output_config.effort", "a word"),
        ({"output_config": {"format": {"type": "grammar"}}}, "output_config.format.type", '"json_schema"'),
        ({"output_format": {"type": "json_schema"}}, "output_format.schema", "an object"),
        ({"tools": {}}, "tools", "a list"),
        ({"tools": [TOOL, {"input_schema": {}}]}, "tools[1].name", "a string"),
        ({"tools": [{"name": "a"}]}, "tools[0].input_schema", "an object"),
        ({"tools": [{**TOOL, "strict": "yes"}]}, "tools[0].strict", "true or false"),
        ({"tool_choice": "auto"}, "tool_choice", "an object"),
        ({"tool_choice": {"type": PRIVATE}}, "tool_choice.type", "one of auto"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice.name", "a string"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": PRIVATE}}, "tool_choice.name", "one of the tools"),
        ({"accord": "strict"}, "accord", "an object"),
]  # fmt: skip


@pytest.mark.parametrize(("members", "field", "expected"), WRONG)
def test_each_wrong_shape_is_refused_with_its_path(members: dict[str, Any], field: str, expected: str):
    with pytest.raises(RefusedError) as caught:
        API.read_request(body(**members))
    assert (caught.value.code, caught.value.details) == (ErrorCode.INVALID_MESSAGE, {"field": field})
    assert caught.value.message.startswith(f"{field}: expected ")
    assert expected in caught.value.message
    assert PRIVATE not in caught.value.message
