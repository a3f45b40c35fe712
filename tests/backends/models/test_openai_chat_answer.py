"""Answers of the chat completions API: as OpenAI documents them, and as compatible servers send them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.backends.failure import Failure
from accord.backends.model_api import MalformedAnswerError, ReportedError
from accord.backends.openai import OpenAiChat
from accord.backends.openai.chat_answer import ChatReader, read_answer
from accord.core.sse import EventDecoder, ServerEvent
from accord.wire.work import AnyPiece, EndPiece, TextPiece, ThinkingPiece, ToolCallPiece, WorkOrder

DONE = b"data: [DONE]\n\n"


def event(chunk: Any, *, lead: str = "data: ", end: str = "\n\n") -> bytes:
    return (lead + json.dumps(chunk, ensure_ascii=False) + end).encode()


def choice(delta: Any, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish, **more}]}


def written(text: str) -> bytes:
    return event(choice({"content": text}))


def read(*chunks: bytes) -> list[AnyPiece]:
    decoder, reader = EventDecoder(), ChatReader()
    pieces = [piece for chunk in chunks for reported in decoder.feed(chunk) for piece in reader.feed(reported)]
    return pieces if any(isinstance(piece, EndPiece) for piece in pieces) else [*pieces, *reader.finish()]


def text_of(pieces: list[AnyPiece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))


def calls_of(pieces: list[AnyPiece]) -> list[tuple[str, Any]]:
    return [(piece.name, piece.input) for piece in pieces if isinstance(piece, ToolCallPiece)]


STOP = event(choice({}, "stop"))


def test_a_plain_stream_is_its_text_and_its_end_with_the_usage_of_the_last_chunk():
    first = event(choice({"role": "assistant", "content": "", "refusal": None}))
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 12,
        "total_tokens": 21,
        "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    pieces = read(first, written("Hel"), written("lo"), STOP, event({"choices": [], "usage": usage}), DONE)
    counted = {"input_tokens": 9, "output_tokens": 12, "cached_input_tokens": 4, "reasoning_tokens": 3}
    assert pieces == [TextPiece(text="Hel"), TextPiece(text="lo"), EndPiece(usage=counted)]


@pytest.mark.parametrize(
    "ending", [(STOP, DONE), (STOP,), (DONE,), (event(choice({}, "stop"), end="\n\n"), b": bye\n")]
)
def test_a_finish_reason_or_the_end_marker_completes_an_answer(ending: tuple[bytes, ...]):
    assert read(written("Hello"), *ending) == [TextPiece(text="Hello"), EndPiece()]


@pytest.mark.parametrize("cut", [(), (written("Hel"),), (written("Hel"), b'data: {"choi')])
def test_a_stream_with_neither_is_malformed(cut: tuple[bytes, ...]):
    with pytest.raises(MalformedAnswerError, match="ended before"):
        read(*cut)


@pytest.mark.parametrize(
    "noise",
    [
        b": keep-alive\n\n",
        b": OPENROUTER PROCESSING\r\n\r\n",
        event({"choices": []}),
        event({"choices": None, "usage": None}),
        event({"object": "something.new", "fields": [1, {"a": None}]}),
        event(choice({})),
        event(choice(None)),
        event(choice({"content": None, "tool_calls": None})),
        event(choice({"content": "", "reasoning": {"odd": 1}, "audio": {"id": "x"}})),
        event({"choices": [{"index": 1, "delta": {"content": "another answer"}}]}),
        b"event: ping\ndata: {}\n\n",
    ],
)
def test_events_without_content_are_ignored(noise: bytes):
    assert text_of(read(noise, written("Hel"), noise, written("lo"), noise, STOP, noise, DONE)) == "Hello"


@pytest.mark.parametrize(
    ("lead", "end"), [("data:", "\n\n"), ("data: ", "\r\n\r\n"), ("data:", "\r\r"), ("data:   ", "\n\n")]
)
def test_every_line_ending_of_event_streams_is_read(lead: str, end: str):
    chunk = event(choice({"content": "Hello"}, "stop"), lead=lead, end=end)
    assert read(chunk, f"{lead.strip()}[DONE]{end}".encode()) == [TextPiece(text="Hello"), EndPiece()]


@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1), st.lists(st.integers(1, 40), min_size=1))
def test_the_answer_does_not_depend_on_where_the_bytes_are_cut(text: str, sizes: list[int]):
    whole, cut, start = written(text) + STOP + DONE, list[bytes](), 0
    for turn in range(len(whole)):
        if start >= len(whole):
            break
        size = sizes[turn % len(sizes)]
        cut.append(whole[start : start + size])
        start += size
    assert text_of(read(*cut)) == text


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("stop", "end_turn"),
        ("length", "max_tokens"),
        ("content_filter", "refusal"),
        ("tool_calls", "end_turn"),  # without a call there is none to answer
        ("eos", "end_turn"),
    ],
)
def test_each_finish_reason_has_its_end_reason(finish: str, reason: str):
    assert read(written("x"), event(choice({}, finish)), DONE)[-1] == EndPiece.model_validate({"reason": reason})


def test_a_reported_stop_text_is_a_stop_sequence():
    assert read(event(choice({}, "stop", stop_reason="END")), DONE) == [
        EndPiece(reason="stop_sequence", stop_sequence="END")
    ]
    assert read(event(choice({}, "stop", stop_reason=151645)), DONE) == [EndPiece()]


def test_a_refusal_is_text_and_the_end_reason():
    refused = (
        event(choice({"refusal": "I cannot "})),
        event(choice({"content": [{"type": "refusal", "refusal": "do that."}]})),
    )
    pieces = read(*refused, STOP, DONE)
    assert (text_of(pieces), pieces[-1]) == ("I cannot do that.", EndPiece(reason="refusal"))


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_content": "hm", "content": "so"},
        {"reasoning": "hm", "content": "so"},
        {"reasoning": "hm", "reasoning_content": "hm", "content": "so"},
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                {"type": "text", "text": "so"},
            ]
        },
    ],
)
def test_reasoning_comes_once_and_before_the_answer_in_any_field(delta: dict[str, Any]):
    assert read(event(choice(delta, "stop")), DONE) == [ThinkingPiece(text="hm"), TextPiece(text="so"), EndPiece()]


def call(
    index: int | None = None, id: str | None = None, name: str | None = None, arguments: Any = None
) -> dict[str, Any]:
    reported = {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return {key: value for key, value in reported.items() if value is not None}


A, B = ("look", {"at": "a"}), ("find", {"b": [1]})
CALLS: dict[str, list[list[dict[str, Any]]]] = {
    "in pieces, by index": [
        [call(0, "1", "look", "")],
        [call(0, None, None, '{"at"')],
        [call(0, None, None, ': "a"}')],
        [call(1, "2", "find", "")],
        [call(1, None, None, '{"b": [1]}')],
    ],
    "mixed": [
        [call(0, "1", "look", ""), call(1, "2", "find", "")],
        [call(1, None, None, '{"b"'), call(0, None, None, '{"at": ')],
        [call(0, None, None, '"a"}'), call(1, None, None, ": [1]}")],
    ],
    "all at once": [[call(0, "1", "look", '{"at": "a"}'), call(1, "2", "find", '{"b": [1]}')]],
    "without an index": [
        [call(None, "1", "look", '{"at": "a"}')],
        [call(None, "2", "find", '{"b"')],
        [call(None, None, None, ": [1]}")],
    ],
    "every index is 0": [[call(0, "1", "look", '{"at": "a"}')], [call(0, "2", "find", '{"b": [1]}')]],
    "without index or id": [[call(None, None, "look", '{"at": "a"}'), call(None, None, "find", '{"b": [1]}')]],
    "names and ids again and again": [
        [call(0, "1", "look", '{"at"')],
        [call(0, "1", "look", ': "a"}')],
        [call(0, "1", "look", "")],
        [call(1, "2", "find", '{"b": [1]')],
        [call(1, "2", "find", "}")],
    ],
    "another id with every piece": [
        [call(0, "1", "look", '{"at"')],
        [call(0, "9", None, ': "a"}')],
        [call(1, "2", "find", '{"b": [1]}')],
    ],
    "arguments as an object": [[call(0, "1", "look", {"at": "a"}), call(1, "2", "find", {"b": [1]})]],
}


@pytest.mark.parametrize("deltas", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("finish", ["tool_calls", "stop"])
def test_calls_are_put_together_however_servers_cut_them(deltas: list[list[dict[str, Any]]], finish: str):
    pieces = read(*(event(choice({"tool_calls": calls})) for calls in deltas), event(choice({}, finish)), DONE)
    assert calls_of(pieces) == [A, B]
    assert pieces[-1] == EndPiece(reason="tool_use")
    assert len({piece.id for piece in pieces if isinstance(piece, ToolCallPiece)}) == 2


def test_a_call_may_have_no_arguments_and_keeps_its_signature():
    sealed = {**call(0, "1", "look", ""), "extra_content": {"google": {"thought_signature": "seal"}}}
    pieces = read(event(choice({"tool_calls": [sealed]}, "tool_calls")), DONE)
    assert pieces[0] == ToolCallPiece(id="1", name="look", input={}, signature="seal")


@pytest.mark.parametrize(
    ("calls", "finish", "why"),
    [
        ([call(0, "1", "look", '{"at": ')], "tool_calls", "not JSON"),
        ([call(0, "1", "look", '{"at": ')], "length", "cut off a tool call"),
        ([call(0, "1", None, "{}")], "tool_calls", "names no tool"),
        ([call(0, "1", "look", "[" * 5000 + "]" * 5000)], "tool_calls", "not JSON"),
    ],
)
def test_an_incomplete_call_is_malformed(calls: list[dict[str, Any]], finish: str, why: str):
    with pytest.raises(MalformedAnswerError, match=why):
        read(event(choice({"tool_calls": calls}, finish)), DONE)


@pytest.mark.parametrize(
    ("data", "failure"),
    [
        (b'data: {"error": {"message": "secret", "type": "server_error", "code": null}}\n\n', Failure.FAILED),
        (b'data: {"error": "secret"}\n\n', Failure.FAILED),
        (b'data: {"error": {"message": "secret", "code": 429}, "choices": []}\n\n', Failure.RATE_LIMITED),
        (b'event: error\ndata: {"message": "secret", "code": "context_length_exceeded"}\n\n', Failure.CONTEXT_TOO_LONG),
    ],
)
def test_an_error_in_the_middle_of_a_stream_is_reported(data: bytes, failure: Failure):
    with pytest.raises(ReportedError) as caught:
        read(written("so far"), data)
    assert caught.value.report.failure is failure
    assert caught.value.report.message == "secret"
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("data", [b"secret", b"[]", b'{"choices": "secret"}', b'{"choices": [{"delta": {"content": 1}}]}', b'{"choices": [{"delta": {"content": "\\ud800"}}]}', b'{"choices": [{"delta": {"content": "\xff"}}]}'])  # fmt: skip
def test_a_malformed_event_is_not_repeated_in_the_error(data: bytes):
    with pytest.raises(MalformedAnswerError) as caught:
        read(b"data: " + data + b"\n\n")
    assert "secret" not in str(caught.value)


@given(st.binary(max_size=200))
def test_any_bytes_raise_only_the_errors_of_the_interface(data: bytes):
    for body in (data, b'{"choices": [' + data + b"]}"):
        try:
            read_answer(body)
            read(b"data: " + body.replace(b"\n", b"") + b"\n\n")
        except (MalformedAnswerError, ReportedError):
            pass


def test_a_whole_answer_gives_the_same_pieces():
    calls = [call(None, "1", "look", '{"at": "a"}'), call(None, "2", "find", '{"b": [1]}')]
    message = {"role": "assistant", "content": "Hello", "reasoning": "hm", "tool_calls": calls}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}], "usage": {"prompt_tokens": 1}}
    pieces = list(read_answer(json.dumps(body).encode()))
    assert pieces[:2] == [ThinkingPiece(text="hm"), TextPiece(text="Hello")]
    assert calls_of(pieces) == [A, B]
    assert pieces[-1] == EndPiece(reason="tool_use", usage={"input_tokens": 1})


@pytest.mark.parametrize("body", [b"{}", b'{"choices": []}', b"null"])
def test_a_body_without_an_answer_is_malformed(body: bytes):
    with pytest.raises(MalformedAnswerError):
        read_answer(body)


def test_an_error_in_place_of_a_whole_answer_is_reported():
    with pytest.raises(ReportedError):
        read_answer(b'{"error": {"message": "no"}}')


def test_probabilities_of_tokens_come_with_the_end():
    def chunk(*tokens: object, **more: object) -> ServerEvent:
        choice = {"index": 0, "delta": {"content": "a"}, "logprobs": {"content": list(tokens)}, **more}
        return ServerEvent(json.dumps({"choices": [choice]}).encode())

    reader = ChatReader()
    reader.feed(chunk({"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}))
    likely = {"token": "c", "logprob": -2.0, "bytes": None}
    reader.feed(chunk({"token": "b", "logprob": -1.0, "top_logprobs": [likely]}, finish_reason="stop"))
    (end,) = reader.finish()
    assert isinstance(end, EndPiece)
    assert end.logprobs == [
        {"token": "a", "logprob": -0.5},
        {"token": "b", "logprob": -1.0, "top": [{"token": "c", "logprob": -2.0}]},
    ]


@pytest.mark.parametrize(
    ("requested", "fields"),
    [(True, {"logprobs": True}), (3, {"logprobs": True, "top_logprobs": 3}), (False, {"logprobs": False})],
)
def test_probabilities_are_requested_with_or_without_a_number(requested: object, fields: dict[str, object]):
    body = OpenAiChat().request(WorkOrder(parameters={"logprobs": requested}), "m").body or {}
    assert {name: value for name, value in body.items() if "logprobs" in name} == fields
