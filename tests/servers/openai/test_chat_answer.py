"""Answers as chat completions: exact bodies and chunks, and the SDK's and our own reader of them."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.backends.openai.chat_answer import ChatReader, read_answer
from accord.core.sse import EventDecoder
from accord.core.work.fields import ModelRequest
from accord.errors import ErrorCode, RefusedError
from accord.servers.openai.chat_answer import ChatTranslation
from accord.servers.translation import AnswerLabels
from accord.wire.work import AnyPiece, EndPiece, TextPiece, ThinkingPiece, ToolCallPiece, WorkPiece

CHAT = ChatTranslation()
LABELS = AnswerLabels("ab" * 16, 1_700_000_000, "gpt-x", {"backend": "b"})
HEAD = {"id": f"chatcmpl-{'ab' * 16}", "created": 1_700_000_000, "model": "gpt-x"}
USAGE = {
    "input_tokens": 9,
    "output_tokens": 5,
    "cached_input_tokens": 4,
    "cache_write_tokens": 1,
    "reasoning_tokens": 2,
}
SENT_USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 5,
    "total_tokens": 14,
    "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
    "completion_tokens_details": {"reasoning_tokens": 2},
}


def request(**members: Any) -> ModelRequest:
    return CHAT.parse({"model": "m", "messages": [{"role": "user", "content": "hi"}], **members})


def whole(*answers: Sequence[AnyPiece], **members: Any) -> dict[str, Any]:
    from openai.types.chat import ChatCompletion  # noqa: PLC0415 - its import takes longer than all other tests here

    body = json.loads(json.dumps(CHAT.whole(request(**members), LABELS, answers)))
    ChatCompletion.model_validate(body, strict=True)
    return body


def stream_bytes(*answers: Sequence[AnyPiece], **members: Any) -> bytes:
    writer = CHAT.stream(request(n=len(answers), **members), LABELS)
    written = [writer.write(piece, answer) for answer, pieces in enumerate(answers) for piece in pieces]
    return b"".join([writer.start(), *written, writer.finish()])


def chunks(*answers: Sequence[AnyPiece], **members: Any) -> list[Any]:
    """The chunks of a stream, each valid to the SDK."""
    from openai.types.chat import ChatCompletionChunk  # noqa: PLC0415 - as above

    *events, done, rest = stream_bytes(*answers, **members).split(b"\n\n")
    assert (done, rest) == (b"data: [DONE]", b"")
    read = [json.loads(event.removeprefix(b"data: ")) for event in events]
    for each in read:
        ChatCompletionChunk.model_validate(each, strict=True)
    return read


def choices(*answers: Sequence[AnyPiece], **members: Any) -> list[Any]:
    """The choices of all chunks after the first."""
    return [choice for each in chunks(*answers, **members)[len(answers) :] for choice in each["choices"]]


def chunk(delta: dict[str, Any], reason: str | None = None, index: int = 0, **members: Any) -> dict[str, Any]:
    return {"index": index, "delta": delta, "finish_reason": reason, **members}


LOGPROBS = [{"token": "é", "logprob": -0.5, "top": [{"token": "e", "logprob": -1.5}]}, {"token": "!", "logprob": -0.1}]
SENT_LOGPROBS = {
    "content": [
        {"token": "é", "logprob": -0.5, "bytes": [195, 169], "top_logprobs": [{"token": "e", "logprob": -1.5, "bytes": [101]}]},
        {"token": "!", "logprob": -0.1, "bytes": [33], "top_logprobs": []},
    ],
    "refusal": None,
}  # fmt: skip
CALLS = [
    ToolCallPiece(id="c1", name="f", input={"a": "é"}),
    ToolCallPiece(id="c2", name="g", input={}, signature="s"),
]
SENT_CALLS = [
    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":"é"}'}},
    {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "{}"}, "extra_content": {"google": {"thought_signature": "s"}}},
]  # fmt: skip
THOUGHTS = [
    ThinkingPiece(text="a"),
    ThinkingPiece(text="b", signature="s"),
    ThinkingPiece(text="", signature="x", redacted=True),
]
BLOCKS = [{"type": "thinking", "thinking": "ab", "signature": "s"}, {"type": "redacted_thinking", "data": "x"}]

ANSWERS: dict[str, tuple[list[AnyPiece], dict[str, Any], dict[str, Any], list[Any]]] = {
    "text": (
        [TextPiece(text="Hel"), TextPiece(text=""), TextPiece(text="lo\n"), EndPiece()],
        {"content": "Hello\n"},
        {"finish_reason": "stop"},
        [chunk({"content": "Hel"}), chunk({"content": "lo\n"}), chunk({}, "stop")],
    ),
    "nothing": ([EndPiece()], {"content": ""}, {"finish_reason": "stop"}, [chunk({}, "stop")]),
    "the token limit": (
        [TextPiece(text="a"), EndPiece(reason="max_tokens")],
        {"content": "a"},
        {"finish_reason": "length"},
        [chunk({"content": "a"}), chunk({}, "length")],
    ),
    "a refusal": (
        [TextPiece(text="a"), EndPiece(reason="refusal")],
        {"content": "a"},
        {"finish_reason": "content_filter"},
        [chunk({"content": "a"}), chunk({}, "content_filter")],
    ),
    "a stop sequence": (
        [TextPiece(text="a"), EndPiece(reason="stop_sequence", stop_sequence="END")],
        {"content": "a"},
        {"finish_reason": "stop", "stop_reason": "END"},
        [chunk({"content": "a"}), chunk({}, "stop", stop_reason="END")],
    ),
    "parallel calls": (
        [TextPiece(text="a"), *CALLS, EndPiece(reason="tool_use")],
        {"content": "a", "tool_calls": SENT_CALLS},
        {"finish_reason": "tool_calls"},
        [
            chunk({"content": "a"}),
            chunk({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}]}),
            chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"a":"é"}'}}]}),
            chunk({"tool_calls": [{"index": 1, **SENT_CALLS[1], "function": {"name": "g", "arguments": ""}}]}),
            chunk({"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]}),
            chunk({}, "tool_calls"),
        ],
    ),
    "a call alone": (
        [CALLS[0], EndPiece(reason="tool_use")],
        {"content": None, "tool_calls": SENT_CALLS[:1]},
        {"finish_reason": "tool_calls"},
        [
            chunk({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}]}),
            chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"a":"é"}'}}]}),
            chunk({}, "tool_calls"),
        ],
    ),
    "reasoning": (
        [ThinkingPiece(text="a"), ThinkingPiece(text="b"), TextPiece(text="c"), EndPiece()],
        {"content": "c", "reasoning_content": "ab"},
        {"finish_reason": "stop"},
        [chunk({"reasoning_content": "a"}), chunk({"reasoning_content": "b"}), chunk({"content": "c"}), chunk({}, "stop")],
    ),
    "signed reasoning": (
        [*THOUGHTS, TextPiece(text="c"), EndPiece()],
        {"content": "c", "reasoning_content": "ab", "thinking_blocks": BLOCKS},
        {"finish_reason": "stop"},
        [
            chunk({"reasoning_content": "a"}),
            chunk({"reasoning_content": "b", "thinking_blocks": BLOCKS[:1]}),
            chunk({"thinking_blocks": BLOCKS[1:]}),
            chunk({"content": "c"}),
            chunk({}, "stop"),
        ],
    ),
    "work of an agent": (
        [WorkPiece(event={"type": "progress_indicator"}), TextPiece(text="a"), EndPiece()],
        {"content": "a"},
        {"finish_reason": "stop"},
        [chunk({"content": "a"}), chunk({}, "stop")],
    ),
    "log probabilities": (
        [TextPiece(text="é!"), EndPiece(logprobs=LOGPROBS)],
        {"content": "é!"},
        {"finish_reason": "stop", "logprobs": SENT_LOGPROBS},
        [chunk({"content": "é!"}), chunk({}, "stop", logprobs=SENT_LOGPROBS)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ANSWERS)
def test_each_answer_has_its_body_and_its_chunks(case: str):
    pieces, message, ending, streamed = ANSWERS[case]
    assert whole(pieces) == {
        **HEAD,
        "object": "chat.completion",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "refusal": None, **message}, "logprobs": None, **ending}
        ],
        "accord": {"backend": "b"},
    }
    assert choices(pieces) == streamed


def test_the_first_chunk_has_the_role_and_the_label_and_every_chunk_the_same_head():
    first, *others = chunks([TextPiece(text="a"), EndPiece()])
    opening = chunk({"role": "assistant", "content": "", "refusal": None})
    assert first == {
        **HEAD,
        "object": "chat.completion.chunk",
        "choices": [opening],
        "accord": {"backend": "b"},
    }
    for each in others:
        assert each == {**HEAD, "object": "chat.completion.chunk", "choices": each["choices"]}


def test_usage_is_in_every_body_and_in_a_stream_only_if_requested():
    pieces = [TextPiece(text="a"), EndPiece(usage=USAGE)]
    assert whole(pieces)["usage"] == SENT_USAGE
    assert all("usage" not in each for each in chunks(pieces))
    *others, last = chunks(pieces, stream_options={"include_usage": True})
    assert [each["usage"] for each in others] == [None] * 3
    assert (last["choices"], last["usage"]) == ([], SENT_USAGE)


def test_unknown_usage_is_not_invented():
    assert "usage" not in whole([EndPiece()])
    assert all(each["usage"] is None for each in chunks([EndPiece()], stream_options={"include_usage": True}))


def test_several_answers_are_choices_by_index_and_their_usage_is_added_up():
    answers = [[TextPiece(text="a"), EndPiece(usage=USAGE)], [CALLS[0], EndPiece(reason="tool_use", usage=USAGE)]]
    body = whole(*answers)
    assert [(each["index"], each["message"]["content"]) for each in body["choices"]] == [(0, "a"), (1, None)]
    assert (body["usage"]["prompt_tokens"], body["usage"]["total_tokens"]) == (18, 28)
    roles = [each["choices"][0] for each in chunks(*answers)[:2]]
    assert [(each["index"], each["delta"]["role"]) for each in roles] == [(0, "assistant"), (1, "assistant")]
    assert [each["index"] for each in choices(*answers)] == [0, 0, 1, 1, 1]
    assert choices(*answers)[2]["delta"]["tool_calls"][0]["index"] == 0


def test_a_client_with_functions_gets_a_function_call():
    pieces = [CALLS[0], EndPiece(reason="tool_use")]
    older: dict[str, Any] = {"functions": [{"name": "f"}]}
    sent = {"function_call": {"name": "f", "arguments": '{"a":"é"}'}}
    choice = whole(pieces, **older)["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": None, "refusal": None, **sent}
    assert choice["finish_reason"] == "function_call"
    assert choices(pieces, **older) == [chunk(sent), chunk({}, "function_call")]


def test_an_error_event_is_the_error_body():
    error = RefusedError("why", ErrorCode.CAPABILITY_UNSUPPORTED, {"field": "audio"})
    event = CHAT.error_event(error, "r-1")
    assert json.loads(event.removeprefix(b"data: ")) == CHAT.error_body(error, "r-1")
    assert event.endswith(b"}\n\n")
    assert event.count(b"\n") == 2


# The laws: what is written is what our own reader of this API reads.

TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
VALUES = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT
CALL_PIECES = st.builds(
    ToolCallPiece,
    id=st.uuids().map(str),
    name=TEXT,
    input=st.dictionaries(TEXT, VALUES | st.lists(VALUES, max_size=2), max_size=3),
    signature=st.none() | TEXT,
)
COUNTS = st.integers(0, 9_999)
USAGES = st.none() | st.fixed_dictionaries(
    {"input_tokens": COUNTS, "output_tokens": COUNTS},
    optional={"cached_input_tokens": COUNTS, "reasoning_tokens": COUNTS},
)
TOKENS = st.fixed_dictionaries({"token": TEXT, "logprob": st.floats(-9, 0)})
ALL_TOKENS = st.fixed_dictionaries(
    {"token": TEXT, "logprob": st.floats(-9, 0)}, optional={"top": st.lists(TOKENS, min_size=1, max_size=2)}
)


@st.composite
def pieces_of_answers(draw: st.DrawFn) -> list[AnyPiece]:
    """Reasoning, text and calls in the order in which the API has them, and an end that it can say."""
    thoughts: list[AnyPiece] = [ThinkingPiece(text=each) for each in draw(st.lists(TEXT, max_size=2))]
    texts: list[AnyPiece] = [TextPiece(text=each) for each in draw(st.lists(TEXT, max_size=3))]
    calls = draw(st.lists(CALL_PIECES, max_size=3))
    stop = draw(st.none() | TEXT)
    reasons = ["max_tokens", "refusal"] + (["tool_use"] if calls else ["end_turn"])
    reason = draw(st.sampled_from(reasons))
    if stop is not None and not calls:
        reason = "stop_sequence"
    end = EndPiece(
        reason=reason,  # pyright: ignore[reportArgumentType] - one of its words
        stop_sequence=stop if reason == "stop_sequence" else None,
        model=LABELS.model,
        usage=draw(USAGES),
        logprobs=draw(st.lists(ALL_TOKENS, max_size=2)) or None,
    )
    return [*thoughts, *texts, *calls, end]


def joined(pieces: Sequence[AnyPiece]) -> list[AnyPiece]:
    """The pieces with neighbouring texts joined: an answer does not depend on where it was cut."""
    out: list[AnyPiece] = []
    for piece in pieces:
        last = out[-1] if out else None
        if isinstance(piece, TextPiece) and isinstance(last, TextPiece):
            out[-1] = TextPiece(text=last.text + piece.text)
        elif isinstance(piece, ThinkingPiece) and isinstance(last, ThinkingPiece):
            out[-1] = ThinkingPiece(text=last.text + piece.text)
        else:
            out.append(piece)
    return out


@given(pieces_of_answers())
def test_a_whole_answer_is_read_as_the_same_pieces(pieces: list[AnyPiece]):
    assert joined(read_answer(json.dumps(whole(pieces)).encode())) == joined(pieces)


@given(pieces_of_answers())
def test_a_streamed_answer_is_read_as_the_same_pieces(pieces: list[AnyPiece]):
    reader = ChatReader()
    events = EventDecoder().feed(stream_bytes(pieces, stream_options={"include_usage": True}))
    assert joined([piece for event in events for piece in reader.feed(event)]) == joined(pieces)
