"""Answers as chat completions: exact bodies and chunks, and the SDK's and our own reader of them, with its helper."""

import json
from base64 import b64encode
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.apis.chat.codec import ChatCodec
from accord.apis.chat.read_answer import ChatReader, read_answer
from accord.apis.chat.relayed import ChatEvent
from accord.apis.chat.write_answer import arguments_of
from accord.apis.codec import AnswerLabels, MalformedAnswerError
from accord.core.sse import EventDecoder
from accord.core.work.fields import ModelRequest
from accord.errors import ErrorCode, RefusedError
from accord.wire.work import (
    AnyPiece,
    CitationPiece,
    EndPiece,
    MediaPiece,
    TextPiece,
    ThinkingPiece,
    ToolCallDelta,
    ToolCallPiece,
    WorkPiece,
)

CHAT = ChatCodec()
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
    return CHAT.read_request({"model": "m", "messages": [{"role": "user", "content": "hi"}], **members})


def whole(*answers: Sequence[AnyPiece], **members: Any) -> dict[str, Any]:
    from openai.types.chat import ChatCompletion  # noqa: PLC0415 - its import takes longer than all other tests here

    body = json.loads(json.dumps(CHAT.write_answer(request(**members), LABELS, answers)))
    ChatCompletion.model_validate(body, strict=True)
    return body


def stream_bytes(*answers: Sequence[AnyPiece], **members: Any) -> bytes:
    writer = CHAT.answer_writer(request(n=len(answers), **members), LABELS)
    written = [writer.write(piece, answer) for answer, pieces in enumerate(answers) for piece in pieces]
    return b"".join([writer.start(), *written, writer.finish()])


def chunks(*answers: Sequence[AnyPiece], **members: Any) -> list[Any]:
    """The chunks of a stream, each valid to the SDK."""
    from openai.types.chat import ChatCompletionChunk  # noqa: PLC0415 - as above

    *events, done, rest = stream_bytes(*answers, **members).split(b"\n\n")
    assert (done, rest) == (b"data: [DONE]", b"")
    read = [json.loads(event.removeprefix(b"data: ")) for event in events]
    for each in read:
        if '"custom"' not in json.dumps(each):  # the SDK's type of events has functions only
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

SOURCE = {
    "type": "url_citation",
    "url_citation": {"url": "https://a.test", "title": "A", "start_index": 0, "end_index": 2},
}
CITATIONS = [
    CitationPiece(url="https://other.test", source=SOURCE),
    CitationPiece(url="https://b.test", quote="words", source={"type": "web_search_result_location"}),
    CitationPiece(title="a file", source={"type": "char_location"}),
]
SENT_CITATIONS = [
    SOURCE,
    {
        "type": "url_citation",
        "url_citation": {"url": "https://b.test", "title": "", "start_index": 2, "end_index": 2, "content": "words"},
    },
]
IMAGES = [
    MediaPiece(media_type="image/png", data="AAAA"),
    MediaPiece(media_type="application/pdf", data="AAAA"),
    MediaPiece(media_type="image/*", uri="https://a.test/b"),
]
SENT_IMAGES = [
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}, "index": 0},
    {"type": "image_url", "image_url": {"url": "https://a.test/b"}, "index": 1},
]
SOUNDS: list[AnyPiece] = [
    MediaPiece(media_type="audio/pcm", data="AAA=", transcript="h", source={"id": "s", "expires_at": 9}),
    MediaPiece(media_type="audio/pcm", data="AQ==", transcript="i"),
]

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
    "a spoken refusal": (
        [TextPiece(text="I ", refusal=True), TextPiece(text="", refusal=True), TextPiece(text="can't", refusal=True), EndPiece(reason="refusal")],
        {"content": None, "refusal": "I can't"},
        {"finish_reason": "stop"},
        [chunk({"refusal": "I "}), chunk({"refusal": "can't"}), chunk({}, "stop")],
    ),
    "a refusal that is cut off": (
        [TextPiece(text="I", refusal=True), EndPiece(reason="max_tokens")],
        {"content": None, "refusal": "I"},
        {"finish_reason": "length"},
        [chunk({"refusal": "I"}), chunk({}, "length")],
    ),
    "citations": (
        [TextPiece(text="so"), *CITATIONS, EndPiece()],
        {"content": "so", "annotations": SENT_CITATIONS},
        {"finish_reason": "stop"},
        [chunk({"content": "so"}), chunk({"annotations": SENT_CITATIONS}), chunk({}, "stop")],
    ),
    "images": (
        [*IMAGES, EndPiece()],
        {"content": "", "images": SENT_IMAGES},
        {"finish_reason": "stop"},
        [*(chunk({"images": [each]}) for each in SENT_IMAGES), chunk({}, "stop")],
    ),
    "sound": (
        [*SOUNDS, EndPiece()],
        {"content": None, "audio": {"id": "s", "data": "AAAB", "transcript": "hi", "expires_at": 9}},
        {"finish_reason": "stop"},
        [
            chunk({"audio": {"id": "s", "data": "AAA=", "transcript": "h"}}),
            chunk({"audio": {"data": "AQ==", "transcript": "i"}}),
            chunk({"audio": {"expires_at": 9}}),
            chunk({}, "stop"),
        ],
    ),
    "a custom call": (
        [ToolCallPiece(id="c1", name="run", input="ls", custom=True), EndPiece(reason="tool_use")],
        {"content": None, "tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "run", "input": "ls"}}]},
        {"finish_reason": "tool_calls"},
        [
            chunk({"tool_calls": [{"index": 0, "id": "c1", "type": "custom", "custom": {"name": "run", "input": ""}}]}),
            chunk({"tool_calls": [{"index": 0, "custom": {"input": "ls"}}]}),
            chunk({}, "tool_calls"),
        ],
    ),
    "a call in which the answer is cut off": (
        [ToolCallPiece(id="c1", name="f", input='{"a', cut=True), EndPiece(reason="max_tokens")],
        {"content": None, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a'}}]},
        {"finish_reason": "length"},
        [
            chunk({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}]}),
            chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"a'}}]}),
            chunk({}, "length"),
        ],
    ),
    "a content filter": (
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
            chunk({"reasoning_content": "b", "thinking_blocks": [{**BLOCKS[0], "index": 0}]}),
            chunk({"thinking_blocks": [{**BLOCKS[1], "index": 1}]}),
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
    arguments = '{"a":"é"}'
    sent = {"function_call": {"name": "f", "arguments": arguments}}
    choice = whole(pieces, **older)["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": None, "refusal": None, **sent}
    assert choice["finish_reason"] == "function_call"
    assert choices(pieces, **older) == [
        chunk({"function_call": {"name": "f", "arguments": ""}}),
        chunk({"function_call": {"arguments": arguments}}),
        chunk({}, "function_call"),
    ]


def test_a_client_with_functions_gets_a_function_call_as_it_arrives():
    older: dict[str, Any] = {"functions": [{"name": "f"}]}
    pieces = [*(ToolCallDelta(id="c1", name="f", text=text) for text in ("", '{"a"', ':"é"}')), CALLS[0]]
    assert choices([*pieces, EndPiece(reason="tool_use")], **older) == [
        chunk({"function_call": {"name": "f", "arguments": ""}}),
        chunk({"function_call": {"arguments": '{"a"'}}),
        chunk({"function_call": {"arguments": ':"é"}'}}),
        chunk({}, "function_call"),
    ]


def test_a_client_with_functions_gets_a_call_that_is_no_function_as_a_tool_call():
    older: dict[str, Any] = {"functions": [{"name": "f"}]}
    pieces = [ToolCallPiece(id="c1", name="run", input="ls", custom=True), EndPiece(reason="tool_use")]
    assert whole(pieces, **older)["choices"][0]["message"]["tool_calls"][0]["custom"] == {"name": "run", "input": "ls"}
    assert [each["finish_reason"] for each in choices(pieces, **older)] == [None, None, "tool_calls"]


def calls_written(*pieces: AnyPiece, **members: Any) -> list[list[Any]]:
    """What is written of calls: of each, its index and its id, name and texts."""
    return [
        [call["index"], *(value for value in (call.get("id"), *(call.get("function") or call["custom"]).values()) if value is not None)]
        for choice in choices([*pieces, EndPiece(reason="tool_use")], **members)
        for call in choice["delta"].get("tool_calls", ())
        if "function" in call or "custom" in call
    ]  # fmt: skip


def delta(call_id: str, text: str = "", **more: Any) -> ToolCallDelta:
    return ToolCallDelta(id=call_id, name="f", text=text, **more)


def test_arguments_stream_as_they_arrive_and_calls_may_be_mixed():
    pieces = [delta("c1"), delta("c2"), delta("c2", '{"a": '), delta("c1", "{}"), delta("c2", "1}")]
    ends = [ToolCallPiece(id="c1", name="f", input={}), ToolCallPiece(id="c2", name="f", input={"a": 1})]
    texts = [[0, "c1", "f", ""], [1, "c2", "f", ""], [1, '{"a": '], [0, "{}"], [1, "1}"]]
    assert calls_written(*pieces, *ends) == texts


REST: dict[str, tuple[list[AnyPiece], list[list[Any]]]] = {
    "nothing of the arguments": ([delta("c1"), ToolCallPiece(id="c1", name="f", input={})], [[0, "{}"]]),
    "a part of them": ([delta("c1", '{"a"'), ToolCallPiece(id="c1", name="f", input={"a": 1})], [[0, '{"a"'], [0, ":1}"]]),
    "all": ([delta("c1", '{"a": 1}'), ToolCallPiece(id="c1", name="f", input={"a": 1})], [[0, '{"a": 1}']]),
    "a part, which is cut off": (
        [delta("c1", '{"a'), ToolCallPiece(id="c1", name="f", input='{"a": [', cut=True)],
        [[0, '{"a'], [0, '": [']],
    ),
    "a part of a text": (
        [delta("c1", "l", custom=True), ToolCallPiece(id="c1", name="f", input="ls", custom=True)],
        [[0, "l"], [0, "s"]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REST)
def test_of_a_call_that_has_begun_only_the_rest_is_written(case: str):
    pieces, texts = REST[case]
    assert calls_written(*pieces) == [[0, "c1", "f", ""], *texts]


def test_a_signature_that_comes_late_is_written():
    pieces = [delta("c1", "{}"), ToolCallPiece(id="c1", name="f", input={}, signature="s"), EndPiece(reason="tool_use")]
    assert choices(pieces)[2]["delta"]["tool_calls"] == [
        {"index": 0, "extra_content": {"google": {"thought_signature": "s"}}}
    ]


def test_a_tool_that_takes_text_gets_text_although_the_backend_had_it_as_a_function():
    tools = {"tools": [{"type": "custom", "custom": {"name": "f"}}, {"type": "function", "function": {"name": "g"}}]}
    call = ToolCallPiece(id="c1", name="f", input={"input": "ls"})
    other = ToolCallPiece(id="c2", name="g", input={"input": "ls"})
    pieces = [delta("c1", '{"input": '), call, other]
    texts = [[0, "c1", "f", ""], [0, "ls"], [1, "c2", "g", ""], [1, '{"input":"ls"}']]
    assert calls_written(*pieces, **tools) == texts
    written = whole([call, other, EndPiece(reason="tool_use")], **tools)["choices"][0]["message"]["tool_calls"]
    assert written == [
        {"id": "c1", "type": "custom", "custom": {"name": "f", "input": "ls"}},
        {"id": "c2", "type": "function", "function": {"name": "g", "arguments": '{"input":"ls"}'}},
    ]


@pytest.mark.parametrize(("tier", "word"), [("standard", "default"), ("default", "default"), ("flex", "flex")])
def test_the_tier_has_the_word_of_the_api(tier: str, word: str):
    pieces = [TextPiece(text="a"), EndPiece(service_tier=tier)]
    assert whole(pieces)["service_tier"] == word
    assert [each.get("service_tier") for each in chunks(pieces)] == [None, None, word]


def test_the_last_event_of_an_answer_has_the_label():
    writer = CHAT.answer_writer(request(), LABELS)
    event = json.loads(writer.write(EndPiece(), 0, {"backend": "b", "answer": []}).removeprefix(b"data: "))
    assert event["accord"] == {"backend": "b", "answer": []}


def test_probabilities_of_a_refusal_are_apart():
    spoken, refused = {"token": "a", "logprob": -1.0, "bytes": [240]}, {"token": "b", "logprob": -2.0, "refusal": True}
    sent = [{"token": "a", "logprob": -1.0, "bytes": [240], "top_logprobs": []}]
    sent_refused = [{"token": "b", "logprob": -2.0, "bytes": [98], "top_logprobs": []}]
    for tokens, lists in (([spoken, refused], (sent, sent_refused)), ([refused], (None, sent_refused))):
        logprobs = whole([EndPiece(logprobs=tokens)])["choices"][0]["logprobs"]
        assert (logprobs["content"], logprobs["refusal"]) == lists


def sdk_answer(pieces: Sequence[AnyPiece], **members: Any) -> Any:
    """What the streaming helper of OpenAI's SDK makes of a stream."""
    from openai.lib.streaming.chat import ChatCompletionStreamState  # noqa: PLC0415 - as above
    from openai.types.chat import ChatCompletionChunk  # noqa: PLC0415 - as above

    state = ChatCompletionStreamState()
    for each in chunks(pieces, **members):
        assert list(state.handle_chunk(ChatCompletionChunk.construct(**each)))
    return json.loads(state.current_completion_snapshot.to_json())


def without_nulls(value: Any) -> Any:
    """A message without what the helper adds, or joins the pieces of in its own way."""
    if isinstance(value, dict):
        added = {"parsed", "parsed_arguments", "data", "index"}
        members = cast("dict[str, Any]", value)
        return {name: without_nulls(each) for name, each in members.items() if each is not None and name not in added}
    return list(map(without_nulls, cast("list[Any]", value))) if isinstance(value, list) else value


@pytest.mark.parametrize("case", ANSWERS)
def test_the_streaming_helper_of_the_sdk_reads_a_stream_as_the_whole_answer(case: str):
    pieces = ANSWERS[case][0]
    answer, expected = sdk_answer(pieces)["choices"][0], whole(pieces)["choices"][0]
    assert answer["finish_reason"] == expected["finish_reason"]
    assert without_nulls(answer["message"]) == without_nulls(
        {**expected["message"], "content": expected["message"]["content"] or ""}
    )


def test_an_error_event_is_the_error_body():
    error = RefusedError("why", ErrorCode.CAPABILITY_UNSUPPORTED, {"field": "audio"})
    event = CHAT.write_error_event(error, "r-1")
    assert json.loads(event.removeprefix(b"data: ")) == CHAT.write_error(error, "r-1")
    assert event.endswith(b"}\n\n")
    assert event.count(b"\n") == 2


# The laws: what is written is what our own reader of this API reads.

TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
TRICKY = st.sampled_from(["data: [DONE]\n\n", '"finish_reason":"stop"', "[DONE]", '{"error":{}}', "event: error\n"])
TEXTS = TEXT | TRICKY
COUNTS = st.integers(0, 9_999)
WORDS = st.text("abc[]{:, 1", max_size=5)
VALUES = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS
CALL_PIECES = st.builds(
    ToolCallPiece,
    id=st.uuids().map(str),
    name=TEXT,
    input=st.dictionaries(TEXTS, VALUES | st.lists(VALUES, max_size=2), max_size=3),
    signature=st.none() | TEXT,
) | st.builds(ToolCallPiece, id=st.uuids().map(str), name=TEXT, input=TEXTS, custom=st.just(True))
THOUGHT_PIECES = (
    st.builds(ThinkingPiece, text=TEXTS)
    | st.builds(ThinkingPiece, text=TEXTS, signature=TEXT)
    | st.builds(ThinkingPiece, text=st.just(""), signature=TEXT, redacted=st.just(True))
)
CITATION_PIECES = st.builds(
    CitationPiece,
    url=TEXT,
    title=st.none() | TEXT,
    quote=st.none() | TEXTS,
    start=st.integers(0, 9),
    end=st.integers(9, 99),
)
BASE64 = st.binary(min_size=1, max_size=4).map(lambda data: b64encode(data).decode())
IMAGE_PIECES = st.builds(MediaPiece, media_type=st.sampled_from(["image/png", "image/webp"]), data=BASE64) | st.builds(
    MediaPiece, media_type=st.just("image/*"), uri=st.just("https://a.test/b,c.png")
)
SOUND_PIECES = st.builds(
    MediaPiece,
    media_type=st.just("audio/pcm"),
    data=st.just("AAAB") | st.none(),
    transcript=TEXTS,
    source=st.fixed_dictionaries({"id": TEXT, "expires_at": COUNTS}),
)
USAGES = st.none() | st.fixed_dictionaries(
    {"input_tokens": COUNTS, "output_tokens": COUNTS},
    optional={"cached_input_tokens": COUNTS, "cache_write_tokens": COUNTS, "reasoning_tokens": COUNTS},
)
TOKENS = st.fixed_dictionaries({"token": TEXT, "logprob": st.floats(-9, 0)})
ALL_TOKENS = st.fixed_dictionaries(
    {"token": TEXT, "logprob": st.floats(-9, 0)}, optional={"top": st.lists(TOKENS, min_size=1, max_size=2)}
)


@st.composite
def pieces_of_answers(draw: st.DrawFn) -> list[AnyPiece]:
    """Reasoning, text and calls in the order in which the API has them, and an end that it can say."""
    pieces: list[AnyPiece] = [*draw(st.lists(THOUGHT_PIECES, max_size=3))]
    pieces += [TextPiece(text=each) for each in draw(st.lists(TEXTS, max_size=3))]
    refused = draw(st.lists(TEXTS, max_size=1))
    pieces += [TextPiece(text=each, refusal=True) for each in refused]
    pieces += draw(st.lists(IMAGE_PIECES, max_size=2))
    pieces += draw(st.lists(CITATION_PIECES, max_size=2))
    calls = draw(st.lists(CALL_PIECES, max_size=3))
    stop = draw(st.none() | TEXT)
    reasons = ["max_tokens", "refusal"] + (["tool_use"] if calls else ["end_turn"])
    reason = draw(st.sampled_from(reasons))
    if stop is not None and not calls:
        reason = "stop_sequence"
    if refused and reason != "max_tokens":
        reason = "refusal"
    if reason in ("max_tokens", "refusal"):
        calls = [call if not call.custom else msgspec.structs.replace(call, cut=call is calls[-1]) for call in calls]
        if draw(st.booleans()):
            calls.append(ToolCallPiece(id="cut", name="f", input='{"a": "' + draw(WORDS), cut=True))
            calls[:-1] = [msgspec.structs.replace(call, cut=False) for call in calls[:-1]]
    pieces += calls
    pieces += draw(st.lists(SOUND_PIECES, max_size=1))
    end = EndPiece(
        reason=reason,  # pyright: ignore[reportArgumentType] - one of its words
        stop_sequence=stop if reason == "stop_sequence" else None,
        model=LABELS.model,
        usage=draw(USAGES),
        logprobs=draw(st.lists(ALL_TOKENS, max_size=2)) or None,
        service_tier=draw(st.none() | st.sampled_from(["default", "flex"])),
    )
    return [*pieces, end]


def joined(pieces: Iterable[AnyPiece]) -> list[AnyPiece]:
    """The pieces in one order, of calls that of their ids, with neighbouring texts joined, wherever they were cut.

    What the answer used of the table is tested elsewhere, and so is the source of a piece.
    """
    out: list[AnyPiece] = []
    for piece in sorted(pieces, key=lambda piece: (ORDER.index(type(piece)), getattr(piece, "id", ""))):
        last = out[-1] if out else None
        if isinstance(piece, TextPiece) and isinstance(last, TextPiece) and piece.refusal == last.refusal:
            out[-1] = msgspec.structs.replace(last, text=last.text + piece.text)
        elif (
            isinstance(piece, ThinkingPiece)
            and isinstance(last, ThinkingPiece)
            and last.signature is None
            and not piece.redacted
        ):
            out[-1] = ThinkingPiece(text=last.text + piece.text, signature=piece.signature)
        elif isinstance(piece, CitationPiece | MediaPiece) and not (isinstance(piece, MediaPiece) and piece.transcript):
            out.append(msgspec.structs.replace(piece, source={}))
        elif isinstance(piece, EndPiece):
            out.append(msgspec.structs.replace(piece, parts=[]))
        elif not isinstance(piece, ToolCallDelta):
            out.append(piece)
    return out


ORDER = (ThinkingPiece, TextPiece, ToolCallDelta, ToolCallPiece, CitationPiece, MediaPiece, EndPiece)


def with_deltas(pieces: Sequence[AnyPiece], size: int) -> list[AnyPiece]:
    """The pieces with their calls begun before, all of them mixed, with texts of this size."""
    calls = [piece for piece in pieces if isinstance(piece, ToolCallPiece)]
    texts = [arguments_of(call) for call in calls]
    deltas: list[AnyPiece] = [ToolCallDelta(id=call.id, name=call.name, custom=call.custom) for call in calls]
    for start in range(0, max(map(len, texts), default=0), size):
        for call, text in zip(calls, texts, strict=True):
            if more := text[start : start + size]:
                deltas.append(ToolCallDelta(id=call.id, name=call.name, text=more, custom=call.custom))
    first = next((place for place, piece in enumerate(pieces) if isinstance(piece, ToolCallPiece)), 0)
    return [*pieces[:first], *deltas, *pieces[first:]]


def read_stream(blocks: Iterable[bytes]) -> list[AnyPiece]:
    decoder, reader = EventDecoder(), ChatReader()
    return [piece for block in blocks for event in decoder.feed(block) for piece in reader.feed(event)]


@given(pieces_of_answers())
def test_a_whole_answer_is_read_as_the_same_pieces(pieces: list[AnyPiece]):
    assert joined(read_answer(json.dumps(whole(pieces)).encode())) == joined(pieces)


@given(pieces_of_answers(), st.none() | st.integers(1, 9))
def test_a_streamed_answer_is_read_as_the_same_pieces(pieces: list[AnyPiece], size: int | None):
    written = stream_bytes(with_deltas(pieces, size) if size else pieces, stream_options={"include_usage": True})
    assert joined(read_stream([written])) == joined(pieces)


@given(pieces_of_answers(), st.lists(st.integers(0, 9_999), max_size=9))
def test_a_streamed_answer_does_not_depend_on_where_it_is_cut(pieces: list[AnyPiece], cuts: list[int]):
    written = stream_bytes(pieces)
    places = sorted({0, len(written), *(cut % len(written) for cut in cuts)})
    blocks = [written[start:end] for start, end in pairwise(places)]
    assert list(map(repr, read_stream(blocks))) == list(map(repr, read_stream([written])))


@given(pieces_of_answers(), st.integers(0))
def test_a_stream_that_stops_before_its_end_is_never_complete(pieces: list[AnyPiece], cut: int):
    writer = CHAT.answer_writer(request(), LABELS)
    written = writer.start() + b"".join(writer.write(piece) for piece in pieces[:-1])
    decoder, reader, watcher = EventDecoder(), ChatReader(), CHAT.watcher()
    for event in decoder.feed(written[: cut % (len(written) + 1)]):
        assert not any(isinstance(piece, EndPiece) for piece in reader.feed(event))
        assert not watcher.is_end_mark(event.data.strip())
        watcher.note_event(msgspec.json.decode(event.data, type=ChatEvent))
    with pytest.raises(MalformedAnswerError):
        reader.finish()
    assert not watcher.summary.is_complete


@given(pieces_of_answers())
def test_the_relay_reads_of_an_answer_what_the_reader_reads(pieces: list[AnyPiece]):
    written = stream_bytes(pieces, stream_options={"include_usage": True})
    end = read_stream([written])[-1]
    watcher = CHAT.watcher()
    for event in EventDecoder().feed(written):
        if not watcher.is_end_mark(event.data):
            watcher.note_event(msgspec.json.decode(event.data, type=ChatEvent))
            watcher.has_begun = True
    assert isinstance(end, EndPiece)
    assert (watcher.summary.model, watcher.summary.usage) == (end.model, end.usage or {})
    assert watcher.summary.is_complete
    assert len(watcher.summary.finish_reasons) == 1
