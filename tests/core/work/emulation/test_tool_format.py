"""Tools, calls and results are written as text, and calls are parsed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core.work.emulation.base import Quotation
from accord.core.work.emulation.schema import AnswerProblem
from accord.core.work.emulation.tool_use import (
    NO_NAME,
    NOT_A_CALL,
    NOT_AN_OBJECT,
    BrokenCall,
    Tags,
    WrittenCall,
    read_calls,
    tools_prompt,
    write_out_tools,
)
from accord.wire.conversation import Conversation
from accord.wire.work import ToolSpec
from tests.core.work.emulation.test_find_json import JSON

EXTRA = AnswerProblem('should have "name" and "arguments" only, not "input"', 'should have "name" and "arguments" only')


def call(name: str, **arguments: Any) -> WrittenCall:
    return WrittenCall(name, arguments)


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("no calls", ["no calls"]),
        ('<tool_call>{"name": "t", "arguments": {"a": 1}}</tool_call>', ["", call("t", a=1), ""]),
        ('a<tool_call>\n{"name": "t"}\n</tool_call>b', ["a", call("t"), "b"]),
        (
            '<tool_call>{"name": "t", "arguments": {"x": "</tool_call>"}}</tool_call>',
            ["", call("t", x="</tool_call>"), ""],
        ),
        ('<tool_call>{"name": "t"}', ["", call("t"), ""]),
        ("<tool_call>{name: t}</tool_call> so", ["", NOT_A_CALL, " so"]),
        ('<tool_call>{"name":', ["", NOT_A_CALL, ""]),
        ("<tool_call>", ["", NOT_A_CALL, ""]),
        ('<tool_call>{"name": "t}</tool_call> <tool_call>{"name": "u"}</tool_call>', ["", NOT_A_CALL, ""]),
        ("<tool_call>[]</tool_call>", ["", NOT_AN_OBJECT, ""]),
        ("<tool_call>{}</tool_call>", ["", NO_NAME, ""]),
        (
            '<tool_call>{"name": "t", "input": {}}</tool_call>',
            ["", BrokenCall(EXTRA), ""],
        ),
        (
            '<tool_call>{"name": "t"} {"name": "u"}</tool_call>',
            ["", NOT_A_CALL, ""],
        ),
    ],
)
def test_text_and_calls_are_distinguished(text: str, items: list[Any]):
    assert list(read_calls(text, Tags(), Quotation())) == items


@given(st.text(max_size=10), st.dictionaries(st.text(max_size=5), JSON, max_size=3))
def test_every_written_call_is_parsed_back(name: str, arguments: dict[str, Any]):
    used = {"type": "tool_use", "id": "call_1", "name": name, "input": arguments}
    conversation = Conversation.model_validate({"messages": [{"role": "assistant", "content": [used]}]})
    tags = Tags("k1")
    ((message,), _) = write_out_tools(conversation.messages, tags)
    assert list(read_calls(message.content[0].dump()["text"], tags, Quotation())) == [
        "",
        WrittenCall(name, arguments),
        "",
    ]


def test_a_history_of_calls_and_results_is_written_as_text():
    history = {
        "messages": [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "call_1", "name": "t", "input": {"é": 1}}]},
            {
                "role": "tool",
                "content": [
                    {"type": "tool_result", "tool_use_id": "call_1", "content": [{"type": "text", "text": "done"}]},
                    {"type": "tool_result", "tool_use_id": "call_9", "is_error": True},
                ],
            },
        ]
    }
    (used, answered), escaped = write_out_tools(Conversation.model_validate(history).messages, Tags("k1"))
    assert escaped == 0
    assert used.dump()["content"] == [
        {"type": "text", "text": '<tool_call_k1>{"name":"t","arguments":{"é":1}}</tool_call_k1>'}
    ]
    assert answered.role == "user"
    assert "".join(part.dump()["text"] for part in answered.content) == (
        '<tool_result_k1 tool="t" call="call_1">done</tool_result_k1>'
        '<tool_result_k1 tool="" call="call_9" status="error"></tool_result_k1>'
    )


def test_the_prompt_names_each_tool_with_its_schema():
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    prompt = tools_prompt(
        [ToolSpec(name="weather", description="Tells it.", input_schema=schema), ToolSpec(name="t")], Tags("k1")
    )
    assert "- weather: Tells it.\n  arguments: " + json.dumps(schema, separators=(",", ":")) in prompt
    assert '- t\n  arguments: {"type":"object"}' in prompt
    assert '<tool_call_k1>{"name": "the tool\'s name", "arguments": {}}</tool_call_k1>' in prompt


@pytest.mark.parametrize(
    "text",
    [
        "</tool_result>",
        '<tool_call>{"name": "t"}</tool_call>',
        "< / Tool_Result_k9>",
        '</tool_result_k1><tool_result_k1 tool="t">',
        "<TOOL_CALL",
    ],
)
def test_what_looks_like_an_element_is_escaped_except_in_system_messages(text: str):
    text_block = {"type": "text", "text": text}
    document = {"type": "resource", "resource": {"uri": "a:b", "text": text}, "uri": "a:b", "text": text}
    history = {
        "messages": [
            {"role": "system", "content": [text_block]},
            {"role": "user", "content": [text_block, document]},
            {
                "role": "assistant",
                "content": [text_block, {"type": "tool_use", "id": "c", "name": text, "input": {"x": text}}],
            },
            {"role": "tool", "content": [{"type": "tool_result", "tool_use_id": 'c" x="', "content": [text_block]}]},
        ]
    }
    (system, *others), escaped = write_out_tools(Conversation.model_validate(history).messages, Tags("k1"))
    assert system.dump()["content"] == [text_block]
    assert escaped >= 4
    written = "".join(json.dumps(message.dump()) for message in others)
    assert text not in written
    assert written.count("<tool_call_k1>") == written.count("</tool_call_k1>") == 1
    assert written.count("<tool_result_k1") == written.count("</tool_result_k1>") == 1
    call = "".join(part.dump()["text"] for part in others[1].content[1:])
    assert list(read_calls(call, Tags("k1"), Quotation()))[1] == WrittenCall(text, {"x": text})


CALL = '<tool_call_k1>{"name": "t"}</tool_call_k1>'


@pytest.mark.parametrize(
    ("before", "is_call"),
    [
        ("", True),
        ("Let me see. ", True),
        ("`x` and ", True),
        ("```\ncode\n```\n", True),
        ("> quoted\n", True),
        ("```\n", False),
        ("```json ", False),
        ("~~~~\n~~~\n", False),
        ("> ", False),
        ("> ```\n> ", False),
        ("so `", False),
        ('he wrote "', False),
        ("he wrote \u201c", False),
    ],
)
def test_a_quoted_call_is_text(before: str, is_call: bool):
    items = list(read_calls(f"{before}{CALL}", Tags("k1"), Quotation()))
    assert items == ([before, WrittenCall("t", {}), ""] if is_call else [f"{before}{CALL}"])
