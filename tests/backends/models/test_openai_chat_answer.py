"""Answers of the chat completions API: as OpenAI documents them, and as compatible servers send them."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from accord.apis.answer_table import answer_records
from accord.apis.chat.answer_rows import NO_CALL, NO_REASON, OTHER_ANSWER, OTHER_TOTAL, ROWS
from accord.apis.chat.codec import ChatCodec
from accord.apis.chat.dialect import OWN_REASONS, REASONS, ChatDialect
from accord.apis.chat.read_answer import ChatReader, read_answer
from accord.apis.chat.relayed import ChatEvent, ChatWatcher
from accord.apis.codec import MalformedAnswerError, ReportedError
from accord.apis.failure import FAILED_ENDS, Failure
from accord.core.sse import EventDecoder, ServerEvent
from accord.wire.disposition import AnswerDisposition, Api
from accord.wire.work import (
    AnyPiece,
    CitationPiece,
    EndPiece,
    EndReason,
    MediaPiece,
    TextPiece,
    ThinkingPiece,
    ToolCallDelta,
    ToolCallPiece,
    WorkOrder,
)

DONE = b"data: [DONE]\n\n"


def event(chunk: Any, *, lead: str = "data: ", end: str = "\n\n") -> bytes:
    return (lead + json.dumps(chunk, ensure_ascii=False) + end).encode()


def choice(delta: Any, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish, **more}]}


def written(text: str) -> bytes:
    return event(choice({"content": text}))


def read_all_pieces(*chunks: bytes) -> list[AnyPiece]:
    """The pieces as they are; `read` leaves out what is tested elsewhere."""
    decoder, reader = EventDecoder(), ChatReader()
    pieces = [piece for chunk in chunks for reported in decoder.feed(chunk) for piece in reader.feed(reported)]
    return pieces if any(isinstance(piece, EndPiece) for piece in pieces) else [*pieces, *reader.finish()]


def read(*chunks: bytes) -> list[AnyPiece]:
    """The pieces without the deltas of calls, and without what the answer used of the table."""
    pieces = [piece for piece in read_all_pieces(*chunks) if not isinstance(piece, ToolCallDelta)]
    return [msgspec.structs.replace(piece, parts=[]) if isinstance(piece, EndPiece) else piece for piece in pieces]


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


def test_an_answer_that_is_complete_without_a_finish_reason_says_so():
    body = {"choices": [{"message": {"content": "Hello"}, "finish_reason": None}]}
    for pieces in (read_all_pieces(written("Hello"), DONE), read_answer(json.dumps(body).encode())):
        assert pieces == [TextPiece(text="Hello"), EndPiece(parts=[NO_REASON])]
    (record,) = answer_records(Api.CHAT, [NO_REASON], Api.MESSAGES)
    assert record.disposition is AnswerDisposition.CARRIED


@pytest.mark.parametrize("arguments", [5, "5", "[1]", '"text"', [1], True])
def test_arguments_that_are_no_object_are_malformed(arguments: Any):
    calls = [{"index": 0, "id": "1", "function": {"name": "look", "arguments": arguments}}]
    body = {"choices": [{"message": {"tool_calls": calls}, "finish_reason": "tool_calls"}]}
    with pytest.raises(MalformedAnswerError, match="not an object"):
        read_answer(json.dumps(body).encode())
    with pytest.raises(MalformedAnswerError, match="not an object"):
        read(event(choice({"tool_calls": calls}, "tool_calls")), DONE)


@pytest.mark.parametrize("arguments", [None, "", "null", {}])
def test_a_call_may_have_no_arguments(arguments: Any):
    calls = [{"index": 0, "id": "1", "function": {"name": "look", "arguments": arguments}}]
    assert calls_of(read(event(choice({"tool_calls": calls}, "tool_calls")), DONE)) == [("look", {})]


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
        ("tool_calls", "max_tokens"),  # without a call the answer is not what the endpoint says
        ("eos", "end_turn"),
        ("EOS_TOKEN", "end_turn"),
        ("model_length", "max_tokens"),
        ("sensitive", "refusal"),
        ("not known yet", "max_tokens"),
    ],
)
def test_each_finish_reason_has_its_end_reason(finish: str, reason: EndReason):
    assert read(written("x"), event(choice({}, finish)), DONE)[-1] == EndPiece(reason=reason)


@pytest.mark.parametrize("reason", REASONS)
def test_a_reason_that_the_api_does_not_have_is_a_part(reason: str):
    end = read_all_pieces(written("x"), event(choice({}, reason)), DONE)[-1]
    assert isinstance(end, EndPiece)
    own = [NO_CALL] if OWN_REASONS.get(reason) == "tool_use" else []
    assert end.parts == (own if reason in OWN_REASONS else [f"choices[].finish_reason={reason}"])
    assert all(part in ROWS for part in end.parts)


def test_a_second_reason_counts_only_if_the_first_was_a_normal_end():
    assert read(event(choice({}, "length")), STOP, DONE) == [EndPiece(reason="max_tokens")]
    assert read(STOP, event(choice({}, "length")), DONE) == [EndPiece(reason="max_tokens")]


@pytest.mark.parametrize("reason", FAILED_ENDS)
def test_an_answer_that_ends_with_an_error_has_failed(reason: str):
    with pytest.raises(ReportedError) as caught:
        read(written("so far"), event(choice({}, reason)), DONE)
    assert caught.value.report.failure is FAILED_ENDS[reason]
    with pytest.raises(ReportedError):
        read_answer(json.dumps({"choices": [{"message": {"content": "x"}, "finish_reason": reason}]}).encode())


def test_a_choice_may_report_an_error():
    failed = {"message": {"content": "x"}, "finish_reason": "stop", "error": {"code": 429, "message": "busy"}}
    with pytest.raises(ReportedError) as caught:
        read_answer(json.dumps({"choices": [failed]}).encode())
    assert caught.value.report.failure is Failure.RATE_LIMITED


def test_a_reported_stop_text_is_a_stop_sequence():
    assert read(event(choice({}, "stop", stop_reason="END")), DONE) == [
        EndPiece(reason="stop_sequence", stop_sequence="END")
    ]
    assert read(event(choice({}, "stop", stop_reason=151645)), DONE) == [EndPiece()]
    end = read_all_pieces(event(choice({}, "stop", stop_reason="", matched_stop=None)), DONE)[-1]
    assert end == EndPiece()
    assert read(event(choice({}, "stop", matched_stop="END")), DONE)[-1] == EndPiece(
        reason="stop_sequence", stop_sequence="END"
    )


def test_a_refusal_is_text_and_the_end_reason():
    refused = (
        event(choice({"refusal": "I cannot "})),
        event(choice({"content": [{"type": "refusal", "refusal": "do that."}]})),
    )
    pieces = read(*refused, STOP, DONE)
    assert (text_of(pieces), pieces[-1]) == ("I cannot do that.", EndPiece(reason="refusal"))
    assert all(piece.refusal for piece in pieces if isinstance(piece, TextPiece))


def test_a_refusal_that_is_cut_off_ends_as_one_that_is_cut_off():
    assert read(event(choice({"refusal": "I can"}, "length")), DONE)[-1] == EndPiece(reason="max_tokens")


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
        ([call(0, "1", None, "{}")], "tool_calls", "names no tool"),
        ([call(0, "1", "look", "[" * 5000 + "]" * 5000)], "tool_calls", "not JSON"),
    ],
)
def test_an_incomplete_call_is_malformed(calls: list[dict[str, Any]], finish: str, why: str):
    with pytest.raises(MalformedAnswerError, match=why):
        read(event(choice({"tool_calls": calls}, finish)), DONE)


@pytest.mark.parametrize("finish", ["length", "content_filter", "new"])
def test_a_call_in_which_the_answer_is_cut_off_is_its_text_so_far(finish: str):
    calls = [call(0, "1", "look", '{"at":1}'), call(1, "2", "find", '{"b": [')]
    reason = "refusal" if finish == "content_filter" else "max_tokens"
    body = {"choices": [{"message": {"tool_calls": calls}, "finish_reason": finish}]}
    for pieces in (read(event(choice({"tool_calls": calls}, finish)), DONE), read_answer(json.dumps(body).encode())):
        whole, cut, end = pieces
        assert whole == ToolCallPiece(id="1", name="look", input={"at": 1})
        assert cut == ToolCallPiece(id="2", name="find", input='{"b": [', cut=True)
        assert isinstance(end, EndPiece)
        assert end.reason == reason


CUT_EARLY: dict[str, tuple[dict[str, Any], list[ToolCallPiece]]] = {
    "before the arguments": (call(0, "1", "look", ""), [ToolCallPiece(id="1", name="look", input="", cut=True)]),
    "before the name": (call(0, "1"), []),
    "in the text of a custom tool": (
        {"index": 0, "id": "1", "type": "custom", "custom": {"name": "run", "input": "{}"}},
        [ToolCallPiece(id="1", name="run", input="{}", custom=True, cut=True)],
    ),
}


@pytest.mark.parametrize("name", CUT_EARLY)
def test_a_call_may_be_cut_off_anywhere(name: str):
    delta, pieces = CUT_EARLY[name]
    assert read(event(choice({"tool_calls": [delta]}, "length")), DONE) == [*pieces, EndPiece(reason="max_tokens")]


def delta(call_id: str, name: str, text: str = "", **more: Any) -> ToolCallDelta:
    return ToolCallDelta(id=call_id, name=name, text=text, **more)


LOOK, FIND = ToolCallPiece(id="1", name="look", input={"at": "a"}), ToolCallPiece(id="2", name="find", input={"b": [1]})
STREAMED: dict[str, tuple[list[AnyPiece], list[AnyPiece]]] = {
    "in pieces, by index": (
        [
            *(delta("1", "look", text) for text in ("", '{"at"', ': "a"}')),
            LOOK,
            *(delta("2", "find", text) for text in ("", '{"b": [1]}')),
        ],
        [FIND],
    ),
    "mixed": (
        [
            *(delta("1", "look"), delta("2", "find"), delta("2", "find", '{"b"'), delta("1", "look", '{"at": ')),
            *(delta("1", "look", '"a"}'), delta("2", "find", ": [1]}")),
        ],
        [LOOK, FIND],
    ),
    "all at once": (
        [
            *(delta("1", "look"), delta("1", "look", '{"at": "a"}'), LOOK),
            *(delta("2", "find"), delta("2", "find", '{"b": [1]}')),
        ],
        [FIND],
    ),
}


@pytest.mark.parametrize("name", STREAMED)
def test_calls_stream_as_they_arrive_and_are_complete_as_soon_as_that_is_known(name: str):
    early, late = STREAMED[name]
    events = [event(choice({"tool_calls": calls})) for calls in CALLS[name]]
    assert read_all_pieces(*events, event(choice({}, "tool_calls")), DONE) == [
        *early,
        *late,
        EndPiece(reason="tool_use"),
    ]


def test_a_call_begins_with_its_name_and_gets_an_id_if_it_has_none():
    pieces = read_all_pieces(
        event(choice({"tool_calls": [call(0, "1", None, '{"at":')]})),
        event(choice({"tool_calls": [call(0, None, "look", "1}"), call(1, None, "find"), call(2, "1", "find")]})),
        event(choice({}, "stop")),
    )
    assert pieces[:2] == [delta("1", "look"), delta("1", "look", '{"at":1}')]
    ids = [piece.id for piece in pieces if isinstance(piece, ToolCallPiece)]
    assert len(set(ids)) == 3
    assert all(ids)
    assert [piece.id for piece in pieces if isinstance(piece, ToolCallDelta)] == [ids[0], ids[0], *ids[1:]]


def test_a_call_that_goes_on_after_its_end_is_malformed():
    calls = [call(0, "1", "look", "{}"), call(1, "2", "find", "{}")]
    late = event(choice({"tool_calls": [call(0, None, None, " ")]}))
    assert len(calls_of(read(event(choice({"tool_calls": calls})), late, STOP))) == 2
    with pytest.raises(MalformedAnswerError, match="after its end"):
        read(event(choice({"tool_calls": calls})), event(choice({"tool_calls": [call(0, None, None, "{}")]})))


def test_a_call_that_is_signed_from_its_start_comes_whole():
    signed = {**call(0, "1", "look", "{}"), "extra_content": {"google": {"thought_signature": "seal"}}}
    pieces = read_all_pieces(event(choice({"tool_calls": [signed]}, "tool_calls")), DONE)
    assert pieces[0] == ToolCallPiece(id="1", name="look", input={}, signature="seal")
    late = read_all_pieces(
        event(choice({"tool_calls": [call(0, "1", "look", "")]})), event(choice({"tool_calls": [signed]}, "tool_calls"))
    )
    assert late[-2] == pieces[0]


def test_a_custom_call_is_its_text():
    parts = [{"name": "run", "input": ""}, {"input": "ls"}, {"input": " -l"}]
    start = {"index": 0, "id": "1", "type": "custom"}
    events = [
        event(choice({"tool_calls": [{**(start if not place else {"index": 0}), "custom": part}]}))
        for place, part in enumerate(parts)
    ]
    piece = ToolCallPiece(id="1", name="run", input="ls -l", custom=True)
    assert read_all_pieces(*events, event(choice({}, "tool_calls"))) == [
        *(delta("1", "run", text, custom=True) for text in ("", "ls", " -l")),
        piece,
        EndPiece(
            reason="tool_use", parts=[f"choices[].message.tool_calls[].custom.{name}" for name in ("name", "input")]
        ),
    ]


@pytest.mark.parametrize("finish", ["function_call", "stop"])
def test_the_older_function_call_is_a_call(finish: str):
    parts = [{"name": "look", "arguments": ""}, {"arguments": '{"at"'}, {"arguments": ': "a"}'}]
    pieces = read(*(event(choice({"function_call": part})) for part in parts), event(choice({}, finish)), DONE)
    assert calls_of(pieces) == [A]
    assert pieces[-1] == EndPiece(reason="tool_use")


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
    parts = ["choices[].message.reasoning"]
    assert pieces[-1] == EndPiece(reason="tool_use", usage={"input_tokens": 1}, parts=parts)


@pytest.mark.parametrize("body", [b"{}", b'{"choices": []}', b"null"])
def test_a_body_without_an_answer_is_malformed(body: bytes):
    with pytest.raises(MalformedAnswerError):
        read_answer(body)


def test_an_error_in_place_of_a_whole_answer_is_reported():
    with pytest.raises(ReportedError):
        read_answer(b'{"error": {"message": "no"}}')


SOURCE: dict[str, Any] = {"url": "https://a.test", "title": "A"}
CITED = {"type": "url_citation", "url_citation": {**SOURCE, "content": "words", "start_index": 0, "end_index": 2}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
MORE: dict[str, tuple[dict[str, Any], list[AnyPiece]]] = {
    "a citation": (
        {"content": "so", "annotations": [CITED, {"type": "file", "file": {}}, "odd"]},
        [
            TextPiece(text="so"),
            CitationPiece(url="https://a.test", title="A", quote="words", start=0, end=2, source=CITED),
        ],
    ),
    "an image": ({"images": [IMAGE]}, [MediaPiece(media_type="image/png", data="AAAA", source=IMAGE)]),
    "the address of an image": (
        {"images": [{"image_url": "https://a.test/b"}, {"image_url": 1}]},
        [MediaPiece(media_type="image/*", uri="https://a.test/b", source={"image_url": "https://a.test/b"})],
    ),
    "content in parts": (
        {"content": [{"type": "text", "text": "a"}, IMAGE, {"type": "reference", "reference_ids": [1]}, "odd"]},
        [TextPiece(text="a"), MediaPiece(media_type="image/png", data="AAAA", source=IMAGE)],
    ),
    "sound": (
        {"audio": {"id": "s", "data": "UklGRg==", "transcript": "hi", "expires_at": 9}},
        [MediaPiece(media_type="audio/wav", data="UklGRg==", transcript="hi", source={"id": "s", "expires_at": 9})],
    ),
    "sound of an unknown form": ({"audio": {"data": "AAAA"}}, [MediaPiece(media_type="audio/pcm", data="AAAA")]),
    "reasoning in details": (
        {"reasoning_details": [{"type": "reasoning.text", "text": "a"}, {"type": "reasoning.summary", "summary": "b"}]},
        [ThinkingPiece(text="ab")],
    ),
    "reasoning in blocks": (
        {
            "reasoning_content": "abc",
            "thinking_blocks": [
                {"type": "thinking", "thinking": "ab", "signature": "s"},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "thinking", "thinking": "c", "signature": ""},
            ],
        },
        [
            ThinkingPiece(text="ab", signature="s"),
            ThinkingPiece(text="", signature="x", redacted=True),
            ThinkingPiece(text="c"),
        ],
    ),
}


@pytest.mark.parametrize("name", MORE)
def test_a_message_may_have_more_than_text(name: str):
    message, pieces = MORE[name]
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    assert list(read_answer(json.dumps(body).encode()))[:-1] == pieces
    if "thinking_blocks" not in message:  # in a stream they come one by one
        assert read(event(choice(message, "stop")))[:-1] == pieces


BLOCK_STREAMS: dict[str, list[dict[str, Any]]] = {
    "as Accord": [
        {"reasoning_content": "a"},
        {"reasoning_content": "b", "thinking_blocks": [{"type": "thinking", "thinking": "ab", "signature": "s"}]},
        {"reasoning_content": "c", "thinking_blocks": [{"type": "thinking", "thinking": "c", "signature": "t"}]},
    ],
    "as LiteLLM": [
        {"reasoning_content": "ab", "thinking_blocks": [{"type": "thinking", "thinking": "ab", "signature": ""}]},
        {"thinking_blocks": [{"type": "thinking", "thinking": "", "signature": "s"}]},
        {"reasoning_content": "c", "thinking_blocks": [{"type": "thinking", "thinking": "c", "signature": ""}]},
        {"thinking_blocks": [{"type": "thinking", "thinking": "", "signature": "t"}]},
    ],
    "without other text": [
        {"thinking_blocks": [{"type": "thinking", "thinking": "ab", "signature": "s"}]},
        {"thinking_blocks": [{"type": "thinking", "thinking": "c", "signature": "t"}]},
    ],
}


@pytest.mark.parametrize("name", BLOCK_STREAMS)
def test_reasoning_in_streamed_blocks_comes_once_with_its_signatures(name: str):
    pieces = read(*(event(choice(each)) for each in BLOCK_STREAMS[name]), STOP)
    thoughts = [(piece.text, piece.signature) for piece in pieces if isinstance(piece, ThinkingPiece)]
    assert "".join(text for text, _ in thoughts) == "abc"
    assert [signature for _, signature in thoughts if signature] == ["s", "t"]
    first = next(place for place, (_, signature) in enumerate(thoughts) if signature == "s")
    assert "".join(text for text, _ in thoughts[: first + 1]) == "ab"


def test_sound_in_pieces_is_one():
    parts = [{"id": "s"}, {"data": "AAA="}, {"data": "AQ==", "transcript": "h"}, {"transcript": "i"}, {"expires_at": 9}]
    pieces = read(*(event(choice({"audio": part})) for part in parts), STOP)
    source = {"id": "s", "expires_at": 9}
    assert pieces[0] == MediaPiece(media_type="audio/pcm", data="AAAB", transcript="hi", source=source)


def test_pages_beside_the_answer_are_citations_of_it():
    results = [{"url": "https://a.test", "title": "A", "snippet": "words"}, {"title": "no address"}]
    more = {"citations": ["https://a.test", "https://b.test"], "search_results": results}
    pieces = read(event({**choice({"content": "so"}), **more}), event({**choice({}, "stop"), **more}), DONE)
    assert pieces[1:-1] == [
        CitationPiece(url="https://a.test", title="A", quote="words", source=results[0]),
        CitationPiece(url="https://b.test", source={"url": "https://b.test"}),
    ]


USAGES: dict[str, dict[str, Any]] = {
    "in an event": {"choices": [], "usage": {"prompt_tokens": 3}},
    "in a choice": {"choices": [{"index": 0, "delta": {}, "usage": {"prompt_tokens": 3}}]},
    "beside it": {"choices": [{"index": 0, "delta": {}}], "x_groq": {"id": "r", "usage": {"prompt_tokens": 3}}},
}


@pytest.mark.parametrize("name", USAGES)
def test_usage_is_found_by_the_reader_and_by_the_relay(name: str):
    assert read(written("a"), STOP, event(USAGES[name]), DONE)[-1] == EndPiece(usage={"input_tokens": 3})
    watcher = ChatWatcher()
    watcher.note_event(msgspec.convert(USAGES[name], ChatEvent))
    assert watcher.summary.usage == {"input_tokens": 3}


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"prompt_cache_hit_tokens": 2, "prompt_cache_miss_tokens": 1}, {"cached_input_tokens": 2}),
        ({"prompt_cache_hit_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}}, {"cached_input_tokens": 3}),
        ({"cache_read_input_tokens": 2, "cache_creation_input_tokens": 1}, {"cached_input_tokens": 2, "cache_write_tokens": 1}),
        ({"reasoning_tokens": 4}, {"reasoning_tokens": 4}),
    ],
)  # fmt: skip
def test_each_name_of_a_count_is_known(usage: dict[str, Any], counts: dict[str, int]):
    assert read(event({**choice({}, "stop"), "usage": usage}))[-1] == EndPiece(usage=counts)


def test_the_tier_is_that_of_the_last_event():
    assert read(
        event({**choice({}), "service_tier": "auto"}), event({**choice({}, "stop"), "service_tier": "flex"})
    ) == [EndPiece(service_tier="flex")]


def test_an_event_of_another_kind_is_a_part():
    end = read_all_pieces(b"event: ping\ndata: {}\n\n", event({"new": 1}), written("a"), STOP)[-1]
    assert isinstance(end, EndPiece)
    assert end.parts == ["event.ping", "new"]


def test_an_alternative_answer_is_a_part():
    more = [{"index": 0, "delta": {"content": "a"}}, {"index": 1, "delta": {"content": "b"}}]
    end = read_all_pieces(event({"choices": more}), STOP)[-1]
    assert isinstance(end, EndPiece)
    assert end.parts == [OTHER_ANSWER]
    whole = [{"message": {"content": each}, "finish_reason": "stop"} for each in ("a", "b")]
    assert read_answer(json.dumps({"choices": whole}).encode()) == [
        TextPiece(text="a"),
        EndPiece(parts=[OTHER_ANSWER]),
    ]


PLAIN_FUNCTIONS: list[dict[str, str]] = [{"name": "f"}, {"name": "g", "arguments": "{}"}, {"arguments": " "}]
PLAIN_CALLS = st.builds(call, st.integers(0, 1), st.sampled_from(["1", "2", None]), st.just(None)).flatmap(
    lambda start: st.sampled_from(PLAIN_FUNCTIONS).map(lambda function: {**start, "function": function})
)
PLAIN_MEMBERS: dict[str, st.SearchStrategy[Any]] = {
    "content": st.sampled_from(["a", "", None]),
    "reasoning": st.sampled_from(["b", "", None]),
    "reasoning_content": st.sampled_from(["c", None]),
    "role": st.just("assistant"),
    "tool_calls": st.lists(PLAIN_CALLS, max_size=2),
}
PLAIN: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries({}, optional=PLAIN_MEMBERS)
HEAD_MEMBERS = ("model", "provider", "system_fingerprint", "service_tier", "obfuscation")
HEADS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from(HEAD_MEMBERS), st.sampled_from(["x", "y", None]), max_size=3
)


@example([({"reasoning": ""}, {}), ({"reasoning": "b"}, {})])
@given(st.lists(st.tuples(PLAIN, HEADS), max_size=6))
def test_plain_events_are_read_as_those_that_are_read_closely(events: list[tuple[dict[str, Any], dict[str, Any]]]):
    outcomes: list[Any] = []
    for more in ({}, {"not known": None}):  # what has more members than plain events may have is read closely
        try:
            pieces = read_all_pieces(*(event({**choice(delta), **head, **more}) for delta, head in events), STOP)
            outcomes.append(
                [
                    msgspec.structs.replace(piece, id="") if isinstance(piece, ToolCallPiece | ToolCallDelta) else piece
                    for piece in pieces
                ]
            )
        except MalformedAnswerError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


def test_a_total_that_is_not_the_sum_is_a_part():
    for total, parts in ((3, []), (9, [OTHER_TOTAL])):
        usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": total}
        end = read_all_pieces(event({**choice({}, "stop"), "usage": usage}))[-1]
        assert isinstance(end, EndPiece)
        assert end.parts == parts


@pytest.mark.parametrize("mark", [b"[DONE", b"[DONE]1", b"DONE"])
def test_only_the_end_mark_is_the_end_mark(mark: bytes):
    with pytest.raises(MalformedAnswerError):
        read(written("a"), b"data: " + mark + b"\n\n")


def test_a_dialect_has_its_own_words():
    class OtherCodec(ChatCodec):
        dialect = ChatDialect(
            end_mark=b"<end>",
            reasons={"fin": "end_turn"},
            failed_ends={"bad": Failure.OVERLOADED},
            usage={"in": "input_tokens"},
            reasoning=("thought",),
        )

    codec = OtherCodec()
    reader, watcher = codec.answer_reader(), codec.watcher()
    assert reader.feed(ServerEvent(json.dumps(choice({"thought": "hm"})).encode())) == [ThinkingPiece(text="hm")]
    ended = {**choice({}, "fin"), "usage": {"in": 3}}
    reader.feed(ServerEvent(json.dumps(ended).encode()))
    whole = {"choices": [{"message": {"thought": "hm"}, "finish_reason": "fin"}], "usage": {"in": 3}}
    read_whole = codec.read_answer(json.dumps(whole).encode())
    assert read_whole[0] == ThinkingPiece(text="hm")
    for end in (reader.feed(ServerEvent(b"<end>"))[-1], read_whole[-1]):
        assert isinstance(end, EndPiece)
        assert (end.reason, end.usage) == ("end_turn", {"input_tokens": 3})
    watcher.note_event(msgspec.convert(ended, ChatEvent))
    assert watcher.is_end_mark(b"<end>")
    assert not watcher.is_end_mark(b"[DONE]")
    assert watcher.summary.usage == {"input_tokens": 3}
    watcher.note_event(msgspec.convert(choice({}, "bad"), ChatEvent))
    assert watcher.summary.failure is not None
    assert watcher.summary.failure.failure is Failure.OVERLOADED


def test_a_stream_is_not_complete_while_another_answer_goes_on():
    watcher = ChatWatcher()
    for index, finish in ((0, "stop"), (1, None)):
        watcher.note_event(msgspec.convert({"choices": [{"index": index, "finish_reason": finish}]}, ChatEvent))
    assert not watcher.summary.is_complete


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


def test_probabilities_keep_half_characters_and_say_which_are_of_a_refusal():
    half = {"token": "\\xf0", "logprob": -1.0, "bytes": [240]}
    lists = {"content": [half], "refusal": [{"token": "no", "logprob": -2.0, "bytes": [110, 111]}]}
    end = read(event(choice({}, "stop", logprobs=lists)))[-1]
    assert isinstance(end, EndPiece)
    assert end.logprobs == [half, {"token": "no", "logprob": -2.0, "refusal": True}]


@pytest.mark.parametrize(
    ("requested", "fields"),
    [(True, {"logprobs": True}), (3, {"logprobs": True, "top_logprobs": 3}), (False, {"logprobs": False})],
)
def test_probabilities_are_requested_with_or_without_a_number(requested: object, fields: dict[str, object]):
    body = ChatCodec().write_request(WorkOrder(parameters={"logprobs": requested}), "m").body or {}
    assert {name: value for name, value in body.items() if "logprobs" in name} == fields
