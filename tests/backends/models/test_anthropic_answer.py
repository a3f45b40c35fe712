"""Answers of the Messages API, streamed and whole: golden files, any cut, and malformed ones."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.backends.anthropic import AnthropicMessages
from accord.backends.anthropic.answer import REASONS
from accord.backends.failure import Failure
from accord.backends.model_api import MalformedAnswerError, ReportedError
from accord.core.sse import ServerEvent
from accord.wire.work import AnswerPiece, AnyPiece, EndPiece, TextPiece, ThinkingPiece, ToolCallPiece
from tests.backends.models.anthropic_reverse import events_of, read, written
from tests.laws import examples

GOLDEN = Path(__file__).parent / "golden" / "anthropic"
STREAMS = sorted((GOLDEN / "streams").glob("*.sse"))
STOPPED = b'data: {"type":"message_stop"}\n\n'


def pieces_of(reported: list[dict[str, Any]]) -> list[AnswerPiece]:
    return [AnswerPiece.kinds[piece["type"]].model_validate(piece) for piece in reported]  # pyright: ignore[reportReturnType]


def expected(path: Path) -> list[AnswerPiece]:
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
    assert list(AnthropicMessages().read_answer(json.dumps(case["body"]).encode())) == pieces_of(case["pieces"])


TEXTS = st.sampled_from(["a", " ", "ß世👋", "\n\n", "\r", "\u2028", '"}', "\\", "data: x"])
PIECES = st.lists(
    st.builds(TextPiece, text=TEXTS)
    | st.builds(ThinkingPiece, text=TEXTS)
    | st.builds(ThinkingPiece, text=st.just(""), signature=TEXTS)
    | st.builds(ThinkingPiece, text=st.just(""), signature=TEXTS, redacted=st.just(value=True))
    | st.builds(
        ToolCallPiece, id=TEXTS, name=TEXTS, input=st.dictionaries(TEXTS, TEXTS | st.integers(0, 9), max_size=2)
    ),
    max_size=5,
)


@settings(max_examples=examples(60))
@given(PIECES, st.sampled_from(["end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal"]), st.integers(1, 99))
def test_pieces_survive_a_round_trip(pieces: list[AnyPiece], reason: Any, size: int):
    reported = [*pieces, EndPiece(reason=reason, usage={"input_tokens": 3, "output_tokens": 7})]
    sent = written(events_of(reported))
    assert read(sent[start : start + size] for start in range(0, len(sent), size)) == reported


@given(st.binary(max_size=60))
def test_any_bytes_are_pieces_or_malformed(data: bytes):
    reader = AnthropicMessages().answer_reader()
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


def arguments(text: str) -> bytes:
    return event(type="content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": text})


DEEP = '{"a":' * 300 + "1" + "}" * 300


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"data: {\n\n", "an event cannot be understood"),
        (b"data: []\n\n", "an event cannot be understood"),
        (b'data: {"type": 1}\n\n', "an event cannot be understood"),
        (b'data: {"type":"content_block_delta","delta":{"type":"text_delta","text":5}}\n\n', "cannot be understood"),
        (
            b'data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"\xff"}}\n\n',
            "cannot be understood",
        ),
        (arguments("{}"), "a delta belongs to no open block"),
        (CALL + arguments('{"a"') + CLOSED + STOPPED, "the arguments of a call are not JSON"),
        (CALL + arguments(DEEP) + CLOSED + STOPPED, "the arguments of a call are nested too deeply"),
        (CALL + arguments("{}") + STOPPED, "a part of the answer has no end"),
        (
            event(type="content_block_start", index=0, content_block={"type": "tool_use"}) + CLOSED,
            "a call has no id or names no tool",
        ),
        (b"", "the answer stops before its end"),
    ],
)
def test_events_of_another_shape_are_malformed(sent: bytes, why: str):
    with pytest.raises(MalformedAnswerError, match=why):
        read([sent])


def test_arguments_that_came_at_once_are_kept():
    opened = {"type": "tool_use", "id": "a", "name": "b", "input": {"c": 1}}
    pieces = read([event(type="content_block_start", index=0, content_block=opened) + CLOSED + STOPPED])
    assert pieces == [ToolCallPiece(id="a", name="b", input={"c": 1}), EndPiece()]


def test_events_of_different_blocks_may_be_mixed():
    second = event(type="content_block_start", index=1, content_block={"type": "tool_use", "id": "c", "name": "d"})
    more = event(type="content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": '{"x": 1}'})
    sent = CALL + second + arguments('{"y"') + more + arguments(": 2}") + event(type="content_block_stop", index=1)
    assert read([sent + CLOSED + STOPPED])[:2] == [
        ToolCallPiece(id="c", name="d", input={"x": 1}),
        ToolCallPiece(id="a", name="b", input={"y": 2}),
    ]


@pytest.mark.parametrize(
    ("kind", "failure"),
    [("overloaded_error", Failure.OVERLOADED), ("api_error", Failure.FAILED), ("new", Failure.FAILED)],
)
def test_an_error_in_the_middle_is_raised_after_the_pieces_before_it(kind: str, failure: Failure):
    reader = AnthropicMessages().answer_reader()
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


@pytest.mark.parametrize("reason", [*REASONS, "not known yet", None])
def test_every_stop_reason_of_the_api_has_an_end_reason(reason: str | None):
    ended = event(type="message_delta", delta={"stop_reason": reason}) + STOPPED
    assert read([ended]) == [EndPiece(reason=REASONS.get(reason or "", "end_turn"))]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"content": 1}', b'{"content": [{"text": "a"}]}', b"\xff"])
def test_a_malformed_whole_answer_is_an_error(body: bytes):
    with pytest.raises(MalformedAnswerError):
        AnthropicMessages().read_answer(body)


def test_a_whole_answer_may_be_an_error():
    with pytest.raises(ReportedError) as caught:
        AnthropicMessages().read_answer(b'{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}')
    assert caught.value.report.failure is Failure.RATE_LIMITED
