"""Tools, calls and results as text, and calls read back."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core.emulate.fit_schema import Finding
from accord.core.emulate.tool_format import (
    NO_NAME,
    NOT_A_CALL,
    NOT_AN_OBJECT,
    BrokenCall,
    WrittenCall,
    read_calls,
    tools_prompt,
    written_out,
)
from accord.wire.conversation import Conversation
from accord.wire.work import ToolSpec
from tests.core.emulate.test_find_json import JSON

EXTRA = Finding('should have "name" and "arguments" only, not "input"', 'should have "name" and "arguments" only')


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
def test_text_and_calls_are_told_apart(text: str, items: list[Any]):
    assert list(read_calls(text)) == items


@given(st.text(max_size=10), st.dictionaries(st.text(max_size=5), JSON, max_size=3))
def test_every_call_that_is_written_is_read_back(name: str, arguments: dict[str, Any]):
    used = {"type": "tool_use", "id": "call_1", "name": name, "input": arguments}
    conversation = Conversation.model_validate({"messages": [{"role": "assistant", "content": [used]}]})
    (message,) = written_out(conversation.messages)
    assert list(read_calls(message.content[0].dump()["text"])) == ["", WrittenCall(name, arguments), ""]


def test_a_history_of_calls_and_results_reads_as_text():
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
    used, answered = written_out(Conversation.model_validate(history).messages)
    assert used.dump()["content"] == [
        {"type": "text", "text": '<tool_call>{"name":"t","arguments":{"é":1}}</tool_call>'}
    ]
    assert answered.role == "user"
    assert "".join(part.dump()["text"] for part in answered.content) == (
        '<tool_result tool="t" call="call_1">done</tool_result>'
        '<tool_result tool="" call="call_9" status="error"></tool_result>'
    )


def test_the_prompt_names_each_tool_with_its_schema():
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    prompt = tools_prompt([ToolSpec(name="weather", description="Tells it.", input_schema=schema), ToolSpec(name="t")])
    assert "- weather: Tells it.\n  arguments: " + json.dumps(schema, separators=(",", ":")) in prompt
    assert '- t\n  arguments: {"type":"object"}' in prompt
    assert '<tool_call>{"name": "the tool\'s name", "arguments": {}}</tool_call>' in prompt
