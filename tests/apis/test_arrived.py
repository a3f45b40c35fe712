"""What arrived of an answer counts the same wherever it was cut, and never as less than the text in it."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.apis.arrived import FOLD_BYTES, MAX_LINE_BYTES, ArrivedAnswer
from accord.core.work.estimate_tokens import text_tokens
from tests.laws import examples


def events(*each: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in each)


def chunk(text: str) -> dict[str, Any]:
    return {
        "id": "c",
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}],
    }


TEXT = "word " * 1000
CUT = {"choices": [{"delta": {"tool_calls": [{"id": "t", "function": {"name": "f", "arguments": TEXT}}]}}]}
ARRIVED: dict[str, bytes] = {
    "chat": events(*[chunk("word ")] * 1000),
    "half a call of a tool": events(CUT),
    "responses": events({"type": "response.output_text.delta", "delta": TEXT}),
    "an item without deltas": events({"type": "response.output_item.done", "item": {"content": [{"text": TEXT}]}}),
    "messages": events({"type": "content_block_delta", "delta": {"type": "text_delta", "text": TEXT}}),
    "arguments of a call": events({"type": "content_block_delta", "delta": {"partial_json": TEXT}}),
    "gemini": events({"candidates": [{"content": {"parts": [{"text": TEXT}]}}]}),
    "half an event": events(chunk(TEXT))[:-20],
    "bytes that are not JSON": b"data: " + TEXT.encode() + b"\n\n",
    "a very long line": b"data: " + b"word " * (MAX_LINE_BYTES // 5 + 1000),
    "other line ends": events(*[chunk("word ")] * 1000).replace(b"\n", b"\r\n"),
}


@pytest.mark.parametrize("name", ARRIVED)
@given(st.lists(st.integers(0, 400_000), max_size=5))
@settings(max_examples=examples(20))
def test_a_stream_counts_at_least_its_text_wherever_it_was_cut(name: str, cuts: list[int]):
    data, arrived, start = ARRIVED[name], ArrivedAnswer(), 0
    for cut in [*sorted(cuts), len(data)]:
        arrived.add_events(data[start:cut])
        start = max(start, min(cut, len(data)))
    assert arrived.tokens() >= int(text_tokens(TEXT))
    assert arrived.tokens() == arrived.tokens()


def test_framing_and_repetitions_count_nothing():
    arrived = ArrivedAnswer()
    item = {
        "type": "response.output_item.done",
        "item": {"id": "i", "content": [{"type": "output_text", "text": TEXT}]},
    }
    done = {"type": "response.completed", "response": {"output": [item["item"]]}}
    arrived.add_events(
        events({"type": "response.output_text.delta", "delta": TEXT}, item, done) + b": ping\n\ndata: [DONE]\n\n"
    )
    assert arrived.tokens() == round(text_tokens(TEXT))
    error = ArrivedAnswer()
    error.add_events(b"event: error\n" + events({"type": "error", "error": {"message": "no"}}))
    assert error.tokens() == 0


def test_a_long_stream_is_not_kept():
    arrived, data = ArrivedAnswer(), events(chunk("word "))
    for _ in range(5_000):
        arrived.add_events(data)
        assert sum(map(len, arrived._body)) <= FOLD_BYTES  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("depth", [10, 500, 100_000])
def test_an_answer_may_be_nested_as_deep_as_it_likes(depth: int):
    arrived = ArrivedAnswer()
    arrived.add_body(b'{"choices": ' + b"[" * depth + b'"word"' + b"]" * depth + b"}")
    assert arrived.tokens() > 0
