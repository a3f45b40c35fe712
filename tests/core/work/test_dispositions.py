"""Which part of a request is a field, so that a request can be sent without it."""

from typing import Any

import pytest

from accord.core.work.dispositions import without_fields
from accord.core.work.fields import values_at

MARK = {"type": "ephemeral"}
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "a member of the body": ("seed", {"seed": 1, "n": 2}, {"n": 2}),
    "a member of a member": (
        "text.verbosity",
        {"text": {"verbosity": "low", "format": 1}},
        {"text": {"format": 1}},
    ),
    "the only member of a member": ("output_config.effort", {"output_config": {"effort": "low"}, "n": 1}, {"n": 1}),
    "a member of each message": (
        "messages[].name",
        {"messages": [{"role": "user", "name": "a"}, {"role": "user"}]},
        {"messages": [{"role": "user"}, {"role": "user"}]},
    ),
    "a member of a part": (
        "messages[].content[].cache_control",
        {"messages": [{"content": "text"}, {"content": [{"type": "text", "text": "t", "cache_control": MARK}]}]},
        {"messages": [{"content": "text"}, {"content": [{"type": "text", "text": "t"}]}]},
    ),
    "a member of what a part holds": (
        "messages[].content[].image_url.detail",
        {"messages": [{"content": [{"type": "image_url", "image_url": {"url": "u", "detail": "low"}}]}]},
        {"messages": [{"content": [{"type": "image_url", "image_url": {"url": "u"}}]}]},
    ),
    "a member of one kind of block": (
        "messages[].content[].tool_use.signature",
        {
            "messages": [
                {"content": [{"type": "tool_use", "id": "c", "signature": "s"}, {"type": "x", "signature": "k"}]}
            ]
        },
        {"messages": [{"content": [{"type": "tool_use", "id": "c"}, {"type": "x", "signature": "k"}]}]},
    ),
    "a kind of block": (
        "messages[].content[].thinking",
        {
            "messages": [
                {"content": [{"type": "thinking", "thinking": "t"}, {"type": "redacted_thinking"}, {"type": "t"}]}
            ]
        },
        {"messages": [{"content": [{"type": "t"}]}]},
    ),
    "a kind of item": (
        "input[].reasoning",
        {"input": [{"type": "reasoning"}, {"role": "user"}]},
        {"input": [{"role": "user"}]},
    ),
    "input that is text": ("input[].reasoning", {"input": "text"}, {"input": "text"}),
    "a mark anywhere": (
        "*.cache_control",
        {
            "system": [{"type": "text", "cache_control": MARK}],
            "tools": [{"name": "t", "cache_control": MARK}],
            "messages": [{"content": [{"type": "tool_result", "content": [{"type": "text", "cache_control": MARK}]}]}],
        },
        {
            "system": [{"type": "text"}],
            "tools": [{"name": "t"}],
            "messages": [{"content": [{"type": "tool_result", "content": [{"type": "text"}]}]}],
        },
    ),
    "another name of the field": (
        "messages[].reasoning_content",
        {"messages": [{"role": "assistant", "reasoning": "r"}]},
        {"messages": [{"role": "assistant"}]},
    ),
    "of one role": (
        "messages[assistant].content[].prompt_cache_breakpoint",
        {
            "messages": [
                {"role": role, "content": [{"prompt_cache_breakpoint": MARK}]} for role in ("user", "assistant")
            ]
        },
        {
            "messages": [
                {"role": "user", "content": [{"prompt_cache_breakpoint": MARK}]},
                {"role": "assistant", "content": [{}]},
            ]
        },
    ),
    "what has no place": ("tools[].other", {"tools": [{"name": "t", "x": 1}]}, {"tools": [{"name": "t", "x": 1}]}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_each_field_is_left_out_where_it_is_and_nothing_else(case: tuple[str, dict[str, Any], dict[str, Any]]):
    name, body, left = case
    before = repr(body)
    assert without_fields(body, [name]) == left
    assert repr(body) == before


@pytest.mark.parametrize(("role", "values"), [("", [1, 2, 3]), ("user", [1]), ("assistant", [2, 3]), ("tool", [])])
def test_the_values_of_a_field_may_be_those_of_one_role(role: str, values: list[int]):
    contents = [("user", [{"x": 1}]), ("assistant", [{"x": 2}, {"y": 0}]), ("tool", "x"), ("assistant", [{"x": 3}])]
    body = {"messages": [*({"role": name, "content": content} for name, content in contents), "x"]}
    assert values_at(body, f"messages[{role}].content[].x") == values
