"""Answers of the Messages API, streamed and whole: golden files, any cut, and malformed ones."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.apis.codec import MalformedAnswerError, ReportedError
from accord.apis.failure import FAILED_ENDS, Failure
from accord.apis.messages.answer_rows import NO_CALL
from accord.apis.messages.codec import MessagesCodec
from accord.apis.messages.read_answer import REASONS
from accord.core.sse import ServerEvent
from accord.wire.work import AnyPiece, CitationPiece, EndPiece, TextPiece, ToolCallDelta, ToolCallPiece
from tests.backends.models.message_streams import read, written

GOLDEN = Path(__file__).parent / "golden" / "anthropic"
STREAMS = sorted((GOLDEN / "streams").glob("*.sse"))
STOPPED = b'data: {"type":"message_stop"}\n\n'


def pieces_of(reported: list[dict[str, Any]]) -> list[AnyPiece]:
    return msgspec.convert(reported, list[AnyPiece])


def expected(path: Path) -> list[AnyPiece]:
    return pieces_of(json.loads(path.with_suffix(".json").read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_every_stream_gives_the_pieces_of_its_golden_file(path: Path):
    assert read([path.read_bytes()]) == expected(path)


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_a_stream_byte_by_byte_gives_the_same_pieces(path: Path):
    assert read(bytes([byte]) for byte in path.read_bytes()) == expected(path)


def test_a_stream_gives_the_same_pieces_wherever_it_is_cut():
    path = GOLDEN / "streams" / "crlf.sse"
    sent, reported = path.read_bytes(), expected(path)
    for cut in range(len(sent)):
        assert read((sent[:cut], sent[cut:])) == reported


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_a_stream_that_stops_before_its_end_is_malformed(path: Path):
    events = path.read_bytes().replace(b"\r\n", b"\n").split(b"\n\n")
    for count in range(len(events) - 2):
        with pytest.raises(MalformedAnswerError, match="before its end"):
            read([b"\n\n".join(events[:count]) + b"\n\n"])


@pytest.mark.parametrize("path", sorted((GOLDEN / "answers").glob("*.json")), ids=lambda path: path.stem)
def test_every_whole_answer_gives_the_pieces_of_its_golden_file(path: Path):
    case = json.loads(path.read_text(encoding="utf-8"))
    assert list(MessagesCodec().read_answer(json.dumps(case["body"]).encode())) == pieces_of(case["pieces"])


@given(st.binary(max_size=60))
def test_any_bytes_are_pieces_or_malformed(data: bytes):
    reader = MessagesCodec().answer_reader()
    try:
        reader.feed(ServerEvent(data))
    except (MalformedAnswerError, ReportedError):
        return


def event(**reported: Any) -> bytes:
    return written([reported])


CALL = event(
    type="content_block_start", index=0, content_block={"type": "tool_use", "id": "a", "name": "b", "input": {}}
)
CLOSED = event(type="content_block_stop", index=0)


TEXT = event(type="content_block_start", index=0, content_block={"type": "text", "text": ""})
BEGUN = event(type="message_start", message={})
ENDED = event(type="message_delta", delta={"stop_reason": "end_turn"})
SHAPE = "it does not have the API's shape"


def delta(index: int = 0, **added: Any) -> bytes:
    return event(type="content_block_delta", index=index, delta=added)


def arguments(text: str) -> bytes:
    return delta(type="input_json_delta", partial_json=text)


def ended(reason: str) -> bytes:
    return event(type="message_delta", delta={"stop_reason": reason}) + STOPPED


def answered(sent: bytes) -> list[AnyPiece]:
    """The pieces of a stream that goes on with these bytes."""
    return read([BEGUN + sent])


DEEP = '{"a":' * 300 + "1" + "}" * 300


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"data: {\n\n", "it is not JSON that every client can read"),
        (b"data: []\n\n", "it is not a JSON object"),
        (b'data: {"type": 1}\n\n', SHAPE),
        (b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":5}}\n\n', SHAPE),
        (b'data: {"type":"content_block_delta","index":"0","delta":{"type":"text_delta","text":"a"}}\n\n', SHAPE),
        (
            b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\xff"}}\n\n',
            "not JSON",
        ),
        (b'data: {"type":"content_block_delta","index":0}\n\n', SHAPE),
        (b'data: {"type":"content_block_start","index":0}\n\n', SHAPE),
        (event(type="content_block_start", index=0, content_block={"text": "a"}), SHAPE),
        (event(type="content_block_start", index=0, content_block={"type": "text", "citations": [1]}), SHAPE),
        (event(type="message_start"), SHAPE),
        (BEGUN, "the answer begins twice"),
        (event(type="message_delta", usage=[1]), SHAPE),
        (ENDED + STOPPED + STOPPED, "the answer ends twice"),
        (CALL + CALL, "a part of the answer begins twice"),
        (CALL + delta(type="text_delta", text="a"), "a delta is of another type than its block"),
        (TEXT + delta(type="thinking_delta", thinking="a"), "a delta is of another type than its block"),
        (TEXT + arguments("{"), "a delta is of another type than its block"),
        (delta(type="signature_delta", signature="a"), "a delta belongs to no open block"),
        (delta(type="citations_delta", citation={}), "a delta belongs to no open block"),
        (TEXT + delta(type="citations_delta", citation=[]), SHAPE),
        (TEXT + delta(type="citations_delta", citation=json.loads(DEEP)) + CLOSED, "nested too deeply"),
        (arguments("{}"), "a delta belongs to no open block"),
        (CALL + arguments('{"a"') + CLOSED + STOPPED, "the arguments of a call are not JSON"),
        (CALL + arguments(DEEP) + CLOSED + STOPPED, "the arguments of a call are nested too deeply"),
        (CALL + arguments("{}") + STOPPED, "a part of the answer has no end"),
        (
            event(type="content_block_start", index=0, content_block={"type": "tool_use", "id": "a"}) + CLOSED,
            "a call names no tool",
        ),
        (b"", "the answer stops before its end"),
    ],
)
def test_events_of_another_shape_are_malformed(sent: bytes, why: str):
    with pytest.raises(MalformedAnswerError, match=why):
        answered(sent)


def test_arguments_that_came_at_once_are_kept():
    opened = {"type": "tool_use", "id": "a", "name": "b", "input": {"c": 1}}
    pieces = answered(event(type="content_block_start", index=0, content_block=opened) + CLOSED + ENDED + STOPPED)
    assert pieces == [
        ToolCallDelta(id="a", name="b"),
        ToolCallPiece(id="a", name="b", input={"c": 1}),
        EndPiece(),
    ]


def test_events_of_different_blocks_may_be_mixed():
    second = event(type="content_block_start", index=1, content_block={"type": "tool_use", "id": "c", "name": "d"})
    more = event(type="content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": '{"x": 1}'})
    sent = CALL + second + arguments('{"y"') + more + arguments(": 2}") + event(type="content_block_stop", index=1)
    calls = [piece for piece in answered(sent + CLOSED + ended("tool_use")) if isinstance(piece, ToolCallPiece)]
    assert calls == [
        ToolCallPiece(id="c", name="d", input={"x": 1}),
        ToolCallPiece(id="a", name="b", input={"y": 2}),
    ]


@pytest.mark.parametrize(
    ("kind", "failure"),
    [("overloaded_error", Failure.OVERLOADED), ("api_error", Failure.FAILED), ("new", Failure.FAILED)],
)
def test_an_error_in_the_middle_is_raised_after_the_pieces_before_it(kind: str, failure: Failure):
    reader = MessagesCodec().answer_reader()
    text = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "so far"}}
    assert list(reader.feed(ServerEvent(json.dumps(text).encode()))) == [TextPiece(text="so far")]
    error = {"type": "error", "error": {"type": kind, "message": "Overloaded: secret"}}
    with pytest.raises(ReportedError) as caught:
        reader.feed(ServerEvent(json.dumps(error).encode(), None, "error"))
    reported = caught.value.report
    assert (reported.failure, reported.code, reported.message, reported.status) == (
        failure,
        kind,
        "Overloaded: secret",
        None,
    )
    assert "secret" not in str(caught.value)


STOPS: dict[str | None, EndPiece] = {
    **{reason: EndPiece(reason=ours) for reason, ours in REASONS.items()},
    "tool_use": EndPiece(reason="max_tokens", parts=[NO_CALL]),  # there is no call in the answer
    "pause_turn": EndPiece(reason="max_tokens", parts=["stop_reason=pause_turn"]),
    "compaction": EndPiece(reason="max_tokens", parts=["stop_reason=compaction"]),
    "model_context_window_exceeded": EndPiece(reason="max_tokens", parts=["stop_reason=model_context_window_exceeded"]),
    "not known yet": EndPiece(reason="max_tokens", parts=["stop_reason=not known yet"]),
    None: EndPiece(reason="max_tokens", parts=["stop_reason=null"]),
}


@pytest.mark.parametrize("reason", STOPS)
def test_an_end_that_not_every_api_has_is_never_a_normal_end(reason: str | None):
    assert answered(event(type="message_delta", delta={"stop_reason": reason}) + STOPPED) == [STOPS[reason]]
    body: dict[str, Any] = {"content": [], "stop_reason": reason}
    assert list(MessagesCodec().read_answer(json.dumps(body).encode())) == [STOPS[reason]]


@pytest.mark.parametrize("reason", FAILED_ENDS)
def test_an_answer_that_ends_with_an_error_has_failed(reason: str):
    begun = event(type="content_block_start", index=0, content_block={"type": "text", "text": "so far"})
    body = {"content": [{"type": "text", "text": "so far"}], "stop_reason": reason}
    for answer in (
        lambda: answered(begun + event(type="message_delta", delta={"stop_reason": reason}) + STOPPED),
        lambda: MessagesCodec().read_answer(json.dumps(body).encode()),
    ):
        with pytest.raises(ReportedError) as caught:
            answer()
        assert (caught.value.report.failure, caught.value.report.code) == (FAILED_ENDS[reason], reason)


CUT = ["max_tokens", "refusal", "model_context_window_exceeded", "new"]
LAST: dict[str, tuple[bytes, str]] = {
    "in its arguments": (arguments('{"c') + CLOSED, '{"c'),
    "in its arguments, without an end": (arguments('{"c'), '{"c'),
    "before its arguments": (CLOSED, ""),
    "before its arguments, without an end": (b"", ""),
    "at once": (arguments("{}") + CLOSED, "{}"),
}


@pytest.mark.parametrize("reason", CUT)
@pytest.mark.parametrize("name", LAST)
def test_a_call_that_was_cut_off_is_no_error_and_nothing_to_call_with(name: str, reason: str):
    sent, so_far = LAST[name]
    *_, call, end = answered(CALL + sent + ended(reason))
    assert call == ToolCallPiece(id="a", name="b", input=so_far, cut=True)
    assert isinstance(end, EndPiece)
    assert end.reason == ("refusal" if reason == "refusal" else "max_tokens")


@pytest.mark.parametrize("reason", ["max_tokens", "tool_use"])
def test_a_call_without_arguments_is_complete_if_something_follows_or_nothing_was_cut_off(reason: str):
    empty = ToolCallPiece(id="a", name="b", input={})
    second = event(type="content_block_start", index=1, content_block={"type": "text", "text": "x"})
    more = second + event(type="content_block_stop", index=1)
    assert answered(CALL + CLOSED + more + ended(reason))[1:3] == [empty, TextPiece(text="x")]
    block: dict[str, Any] = {"type": "tool_use", "id": "a", "name": "b", "input": {}}
    pieces = MessagesCodec().read_answer(json.dumps({"content": [block], "stop_reason": reason}).encode())
    assert pieces[0] == (empty if reason == "tool_use" else msgspec.structs.replace(empty, input="", cut=True))


def test_a_signed_call_is_read_at_once_with_its_signature():
    block: dict[str, Any] = {"type": "tool_use", "id": "a", "name": "b", "input": {}, "signature": "s"}
    start = event(type="content_block_start", index=0, content_block=block)
    assert answered(start + arguments('{"c": 1}') + CLOSED + ended("tool_use"))[0] == ToolCallPiece(
        id="a", name="b", input={"c": 1}, signature="s"
    )


def test_a_call_without_an_id_gets_one():
    start = event(type="content_block_start", index=0, content_block={"type": "tool_use", "name": "b"})
    begun, call, _ = answered(start + CLOSED + ended("tool_use"))
    assert isinstance(begun, ToolCallDelta)
    assert isinstance(call, ToolCallPiece)
    assert begun.id == call.id != ""


def test_a_message_may_begin_with_blocks():
    started = event(type="message_start", message={"content": [{"type": "text", "text": "a"}]})
    assert read([started + ended("end_turn")])[0] == TextPiece(text="a")


LINK = {"type": "web_search_result_location", "url": "https://a.example", "title": "A", "cited_text": "c"}


def test_citations_follow_the_text_of_their_block_with_its_place():
    blocks: list[dict[str, Any]] = [
        {"type": "text", "text": "No👋. "},
        {"type": "text", "text": "Yes.", "citations": [LINK, {"type": "char_location", "cited_text": "d"}]},
    ]
    body = {"content": blocks, "stop_reason": "end_turn"}
    expected = [
        TextPiece(text="No👋. "),
        TextPiece(text="Yes."),
        CitationPiece(url="https://a.example", title="A", quote="c", start=5, end=9, source=LINK),
        CitationPiece(quote="d", start=5, end=9, source={"type": "char_location", "cited_text": "d"}),
    ]
    assert list(MessagesCodec().read_answer(json.dumps(body).encode()))[:-1] == expected
    sent = TEXT + delta(type="text_delta", text="No👋. ") + CLOSED + TEXT
    sent += delta(type="citations_delta", citation=LINK) + delta(type="text_delta", text="Yes.")
    sent += delta(type="citations_delta", citation=blocks[1]["citations"][1]) + CLOSED
    assert answered(sent + ended("end_turn"))[:-1] == expected


def test_citations_of_a_block_that_was_cut_off_are_kept():
    sent = TEXT + delta(type="text_delta", text="Yes.") + delta(type="citations_delta", citation=LINK)
    assert [type(piece) for piece in answered(sent + ended("max_tokens"))] == [TextPiece, CitationPiece, EndPiece]


PARTS: dict[str, tuple[bytes, list[str]]] = {
    "what every API has": (TEXT + delta(type="text_delta", text="a") + CLOSED + event(type="ping"), []),
    "what says nothing": (TEXT + delta(type="text_delta", text="a", new=None) + CLOSED, []),
    "beside a plain text": (TEXT + delta(type="text_delta", text="a", new=1) + CLOSED, ["content[].text.new"]),
    "beside the delta": (
        TEXT + event(type="content_block_delta", index=0, delta={"type": "text_delta", "text": "a"}, new=1) + CLOSED,
        ["event.content_block_delta.new"],
    ),
    "a new delta": (TEXT + delta(type="new_delta", text="b") + CLOSED, ["content[].text.new_delta"]),
    "a new delta of no block": (delta(type="new_delta"), ["event.content_block_delta.new_delta"]),
    "a delta without what it adds": (TEXT + delta(type="text_delta") + CLOSED, []),
    "an event of a new type": (event(type="news", text="b"), ["event.news"]),
    "a member of an event": (event(type="ping", cost=1), ["event.ping.cost"]),
    "a block of a new type, with deltas": (
        event(type="content_block_start", index=0, content_block={"type": "new", "name": 5, "data": {}})
        + delta(type="text_delta", text="b")
        + delta(type="new_delta", text=5)
        + CLOSED,
        ["content[].new"],
    ),
    "members of the end": (
        event(
            type="message_delta",
            delta={"stop_reason": "end_turn", "stop_details": {"type": "refusal", "category": "bio"}},
            usage={"output_tokens": 1, "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 0}},
            context_management={"applied_edits": [{"type": "clear_tool_uses_20250919"}]},
        ),
        ["context_management.applied_edits", "stop_details.category", "usage.server_tool_use.web_search_requests"],
    ),
    "an estimate of the thinking": (
        event(type="content_block_start", index=0, content_block={"type": "thinking", "thinking": ""})
        + delta(type="thinking_delta", thinking="a", estimated_tokens=5)
        + CLOSED,
        ["content[].thinking.estimated_tokens", "content[].thinking.thinking"],
    ),
    "another Accord's label": (event(type="message_delta", accord={"answer": []}), []),
}


@pytest.mark.parametrize("name", PARTS)
def test_what_an_api_may_lack_is_a_part_of_the_answer(name: str):
    sent, parts = PARTS[name]
    *_, end = answered(sent + ended("end_turn"))
    assert isinstance(end, EndPiece)
    assert sorted(end.parts) == parts


def test_the_members_of_a_message_that_an_api_may_lack_are_parts():
    message: dict[str, Any] = {"container": {"id": "c"}, "new": {"a": 1}, "content": []}
    *_, end = read([event(type="message_start", message=message, accord={"served_by": "b"}) + ended("end_turn")])
    assert end == EndPiece(parts=["container", "new"])


@pytest.mark.parametrize("sent", [STOPPED, ENDED + STOPPED, TEXT + CLOSED + ENDED + STOPPED])
def test_a_stream_without_its_beginning_is_malformed(sent: bytes):
    with pytest.raises(MalformedAnswerError, match="there is no answer in it"):
        read([sent])


def test_a_service_tier_may_come_first_and_the_output_until_then_is_no_count():
    usage = {"input_tokens": 3, "output_tokens": 1, "service_tier": "priority"}
    started = event(type="message_start", message={"usage": usage})
    *_, end = read([started + ended("end_turn")])
    assert end == EndPiece(usage={"input_tokens": 3}, service_tier="priority")


@pytest.mark.parametrize(
    "sent",
    [
        b'event: error\ndata: {"error":{"type":"api_error","message":"m"}}\n\n',
        b'event: error\ndata: {"message":"m"}\n\n',
        b'data: {"type":"error","error":"m"}\n\n',
        b'data: {"error":{"message":"m"}}\n\n',
    ],
)
def test_an_error_is_an_error_in_whatever_form(sent: bytes):
    with pytest.raises(ReportedError):
        answered(TEXT + sent + ENDED + STOPPED)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"content": 1}', b'{"content": [{"text": "a"}]}', b"\xff"])
def test_a_malformed_whole_answer_is_an_error(body: bytes):
    with pytest.raises(MalformedAnswerError):
        MessagesCodec().read_answer(body)


def test_a_whole_answer_may_be_an_error():
    with pytest.raises(ReportedError) as caught:
        MessagesCodec().read_answer(b'{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}')
    assert caught.value.report.failure is Failure.RATE_LIMITED
