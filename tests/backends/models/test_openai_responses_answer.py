"""Reading answers of the responses API, streamed and whole."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.backends.failure import Failure
from accord.backends.model_api import MalformedAnswerError, ReportedError
from accord.backends.openai.responses_answer import ResponsesReader, read_answer
from accord.core.sse import EventDecoder
from accord.wire.work import AnyPiece, EndPiece, TextPiece, ThinkingPiece, ToolCallPiece

USAGE = {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 12, "output_tokens_details": {"reasoning_tokens": 3}}  # fmt: skip
COUNTED = {"input_tokens": 9, "output_tokens": 12, "cached_input_tokens": 4, "reasoning_tokens": 3}


def event(type: str, **fields: Any) -> bytes:
    reported = json.dumps({"type": type, "sequence_number": 1, **fields}, ensure_ascii=False)
    return f"event: {type}\ndata: {reported}\n\n".encode()


def message(*content: Any) -> dict[str, Any]:
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": list(content)}


def call(id: str, arguments: str, status: str = "completed") -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": "fc_1",
        "call_id": id,
        "name": "look",
        "arguments": arguments,
        "status": status,
    }


def reasoning(*summary: str, seal: str | None = None) -> dict[str, Any]:
    reported = [{"type": "summary_text", "text": text} for text in summary]
    return {"type": "reasoning", "id": "rs_1", "summary": reported, "encrypted_content": seal}


def response(*output: Any, status: str = "completed", **more: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "status": status,
        "output": list(output),
        "usage": USAGE,
        "error": None,
        **more,
    }


SAID = message({"type": "output_text", "text": "Hello", "annotations": []})
HELLO = (
    event("response.output_text.delta", delta="Hel", output_index=1),
    event("response.output_text.delta", delta="lo"),
)
COMPLETED = event("response.completed", response=response(SAID))


def read(*chunks: bytes) -> list[AnyPiece]:
    decoder, reader = EventDecoder(), ResponsesReader()
    pieces = [piece for chunk in chunks for reported in decoder.feed(chunk) for piece in reader.feed(reported)]
    return pieces if any(isinstance(piece, EndPiece) for piece in pieces) else [*pieces, *reader.finish()]


def test_the_whole_response_at_the_end_repeats_nothing():
    noise = (
        event("response.created", response=response(status="in_progress")),
        event("response.output_item.added", output_index=0, item=message()),
        event("response.something.new", delta={"a": 1}),
    )
    done = event("response.output_text.done", text="Hello"), event("response.output_item.done", item=SAID)
    pieces = read(*noise, *HELLO, *done, COMPLETED)
    assert pieces == [TextPiece(text="Hel"), TextPiece(text="lo"), EndPiece(usage=COUNTED)]


def test_reasoning_streams_and_ends_with_its_signature():
    done = reasoning("First.", "Then.", seal="gAAA")
    pieces = read(
        event("response.output_item.added", item={"type": "reasoning", "summary": []}),
        event("response.reasoning_summary_part.added", summary_index=0),
        event("response.reasoning_summary_text.delta", summary_index=0, delta="First."),
        event("response.reasoning_summary_part.added", summary_index=1),
        event("response.reasoning_summary_text.delta", summary_index=1, delta="Then."),
        event("response.output_item.done", item=done),
        *HELLO,
        event("response.completed", response=response(done, SAID)),
    )
    assert pieces[:4] == [
        ThinkingPiece(text="First."),
        ThinkingPiece(text="\n\n"),
        ThinkingPiece(text="Then."),
        ThinkingPiece(text="", signature="gAAA"),
    ]
    assert len(pieces) == 7


def test_hidden_reasoning_is_a_signature_only_and_open_reasoning_has_none():
    hidden = event("response.output_item.done", item=reasoning(seal="gAAA"))
    assert read(hidden, *HELLO, COMPLETED)[0] == ThinkingPiece(text="", signature="gAAA", redacted=True)
    expected_event = (
        event("response.reasoning_text.delta", delta="hm"),
        event("response.output_item.done", item=reasoning()),
    )
    ended = event("response.completed", response=response(reasoning("hm"), SAID))
    assert read(*expected_event, *HELLO, ended)[:2] == [ThinkingPiece(text="hm"), TextPiece(text="Hel")]


def test_the_end_adds_only_what_did_not_come_of_each_reasoning():
    streamed = event("response.reasoning_summary_text.delta", summary_index=0, delta="hm")
    end = event("response.completed", response=response(reasoning("hm", seal="gAAA"), SAID))
    assert read(streamed, *HELLO, end) == [
        ThinkingPiece(text="hm"),
        TextPiece(text="Hel"),
        TextPiece(text="lo"),
        ThinkingPiece(text="", signature="gAAA"),
        EndPiece(usage=COUNTED),
    ]
    open_done = event("response.output_item.done", item=reasoning("hm"))
    hidden_done = event("response.output_item.done", item=reasoning(seal="gAAA"))
    end = event("response.completed", response=response(reasoning("hm"), reasoning(seal="gAAA"), SAID))
    hidden = ThinkingPiece(text="", signature="gAAA", redacted=True)
    assert read(streamed, open_done, hidden_done, *HELLO, end)[:2] == [ThinkingPiece(text="hm"), hidden]
    assert len(read(streamed, open_done, hidden_done, *HELLO, end)) == 5


def test_the_log_probabilities_and_the_model_are_at_the_end():
    token = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": [{"token": "b", "logprob": -1.0}]}
    likely = message({"type": "output_text", "text": "a", "logprobs": [token]})
    expected = [{"token": "a", "logprob": -0.5, "top": [{"token": "b", "logprob": -1.0}]}]
    ended, done = response(likely, model="m-1"), event("response.output_item.done", item=likely)
    for pieces in (
        read_answer(json.dumps(ended).encode()),
        read(event("response.completed", response=ended)),
        read(done, event("response.completed", response=ended)),
        read(done, event("response.completed", response=response(model="m-1"))),
    ):
        assert pieces[-1] == EndPiece(model="m-1", usage=COUNTED, logprobs=expected)


def test_calls_are_whole_and_in_their_order():
    grown = (
        event("response.output_item.added", output_index=0, item=call("1", "")),
        event("response.function_call_arguments.delta", output_index=0, delta='{"at":'),
        event("response.function_call_arguments.done", output_index=0, arguments='{"at": "a"}'),
        event("response.output_item.done", output_index=0, item=call("1", '{"at": "a"}')),
        event("response.output_item.done", output_index=1, item=call("2", "")),
    )
    ended = event("response.completed", response=response(call("1", '{"at": "a"}'), call("2", "")))
    expected = [
        ToolCallPiece(id="1", name="look", input={"at": "a"}),
        ToolCallPiece(id="2", name="look", input={}),
        EndPiece(reason="tool_use", usage=COUNTED),
    ]
    assert read(*grown, ended) == expected
    assert read(ended) == expected, "servers that tell nothing on the way tell all at the end"
    assert read(*grown, event("response.completed", response=response())) == expected


@pytest.mark.parametrize(
    ("ended", "reason"),
    [
        (response(status="incomplete", incomplete_details={"reason": "max_output_tokens"}), "max_tokens"),
        (response(status="incomplete", incomplete_details={"reason": "content_filter"}), "refusal"),
        (response(status="incomplete", incomplete_details=None), "max_tokens"),
        (response(message({"type": "refusal", "refusal": "No."})), "refusal"),
        (response(), "end_turn"),
    ],
)
def test_each_end_has_its_end_reason(ended: dict[str, Any], reason: str):
    end = EndPiece.model_validate({"reason": reason, "usage": COUNTED})
    assert read(event(f"response.{ended['status']}", response=ended))[-1] == end
    assert read_answer(json.dumps(ended).encode())[-1] == end


def test_a_refusal_is_text_and_the_end_reason():
    refused = event("response.refusal.delta", delta="No.")
    assert read(refused, event("response.completed", response=response())) == [
        TextPiece(text="No."),
        EndPiece(reason="refusal", usage=COUNTED),
    ]


def test_a_whole_answer_gives_the_same_pieces():
    body = response(reasoning("a", "b", seal="gAAA"), SAID, call("1", "{}"))
    assert list(read_answer(json.dumps(body).encode())) == [
        ThinkingPiece(text="a\n\nb"),
        ThinkingPiece(text="", signature="gAAA"),
        TextPiece(text="Hello"),
        ToolCallPiece(id="1", name="look", input={}),
        EndPiece(reason="tool_use", usage=COUNTED),
    ]


FAILED = {"code": "rate_limit_exceeded", "message": "secret"}


@pytest.mark.parametrize(
    ("data", "failure"),
    [
        (event("response.failed", response=response(status="failed", error=FAILED)), Failure.RATE_LIMITED),
        (event("response.failed", response=response(status="failed", error={"code": "server_error", "message": "secret"})), Failure.FAILED),
        (event("error", code="context_length_exceeded", message="secret", param=None), Failure.CONTEXT_TOO_LONG),
        (event("error", error={"code": "server_is_overloaded", "message": "secret"}), Failure.OVERLOADED),
        (b'data: {"error": {"message": "secret"}}\n\n', Failure.FAILED),
    ],
)  # fmt: skip
def test_an_error_in_a_stream_is_reported(data: bytes, failure: Failure):
    with pytest.raises(ReportedError) as caught:
        read(*HELLO, data)
    assert (caught.value.report.failure, caught.value.report.message) == (failure, "secret")


@pytest.mark.parametrize(
    ("chunks", "why"),
    [
        (HELLO, "ended before"),
        ((*HELLO, b"data: [DONE]\n\n"), "ended before"),
        ((b"data: secret\n\n",), "does not have the API's shape"),
        ((event("response.completed", response=response(status="in_progress")),), "not complete"),
        ((event("response.completed"),), "not complete"),
        ((event("response.output_item.done", item=call("1", '{"a')),), "not JSON"),
        ((event("response.output_item.done", item=call("1", '{"a', "incomplete")),), "cut off a tool call"),
        ((event("response.output_item.done", item={"type": "function_call", "arguments": "{}"}),), "no name"),
    ],
)
def test_an_incomplete_answer_is_malformed(chunks: tuple[bytes, ...], why: str):
    with pytest.raises(MalformedAnswerError, match=why) as caught:
        read(*chunks)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"status": "queued"}', b"[" * 100_000])
def test_a_body_without_an_answer_is_malformed(body: bytes):
    with pytest.raises(MalformedAnswerError):
        read_answer(body)


@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1), st.integers(1, 30))
def test_the_answer_does_not_depend_on_where_the_bytes_are_cut(text: str, size: int):
    whole = event("response.output_text.delta", delta=text) + COMPLETED
    pieces = read(*(whole[start : start + size] for start in range(0, len(whole), size)))
    assert pieces == [TextPiece(text=text), EndPiece(usage=COUNTED)]
