"""Server-sent events: the same events wherever the stream is cut, every line end, and the size limit."""

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core.sse import EventDecoder, ServerEvent
from accord.errors import InvalidMessageError

CASES: list[tuple[bytes, list[ServerEvent]]] = [
    (b"data: a\n\n", [ServerEvent(b"a")]),
    (b"data:a\n\n", [ServerEvent(b"a")]),
    (b"data:  a \n\n", [ServerEvent(b" a ")]),
    (b"data: a\ndata: b\n\n", [ServerEvent(b"a\nb")]),
    (b"data: a\ndata\ndata: b\n\n", [ServerEvent(b"a\n\nb")]),
    (b"data\n\n", [ServerEvent(b"")]),
    (b"id: 7\nevent: note\ndata: a\n\n", [ServerEvent(b"a", "7", "note")]),
    (b"data: a\nid: 7\n\n", [ServerEvent(b"a", "7")]),
    (b"id: 7\ndata: a\n\ndata: b\n\n", [ServerEvent(b"a", "7"), ServerEvent(b"b")]),
    (b"id: 7\n\ndata: b\n\n", [ServerEvent(b"b")]),
    (b"id: 7\0\ndata: a\n\n", [ServerEvent(b"a")]),
    (b"id\ndata: a\n\n", [ServerEvent(b"a", "")]),
    (b": a comment\n\n:\n\ndata: a\n\n", [ServerEvent(b"a")]),
    (b"retry: 5\nunknown: x\nDATA: x\n data: x\ndata: a\n\n", [ServerEvent(b"a")]),
    (b"\xef\xbb\xbfdata: a\n\n", [ServerEvent(b"a")]),
    (b"\n\xef\xbb\xbfdata: a\n\n", []),
    (b"data: a\r\rdata: b\r\n\r\ndata: c\n\r", [ServerEvent(b"a"), ServerEvent(b"b"), ServerEvent(b"c")]),
    (b"data: a: b\n\n", [ServerEvent(b"a: b")]),
    (b"data: \xff\n\n", [ServerEvent(b"\xff")]),
    (b"data: a\n", []),
    (b"data: a\n\ndata: half", [ServerEvent(b"a")]),
    (b"", []),
    (b"\n\n\n", []),
]


def decoded(pieces: Iterable[bytes], **limits: int) -> tuple[list[ServerEvent], str | None, int]:
    """The events, the error in the end, and the number of comments."""
    decoder, events = EventDecoder(**limits), list[ServerEvent]()
    try:
        for piece in pieces:
            events.extend(decoder.feed(piece))
    except InvalidMessageError as error:
        return events, error.message, decoder.comments
    return events, None, decoder.comments


def cut(whole: bytes, at: Iterable[int]) -> list[bytes]:
    places = sorted({0, len(whole), *(min(place, len(whole)) for place in at)})
    return [whole[start:end] for start, end in pairwise(places)]


@pytest.mark.parametrize(("stream", "events"), CASES)
def test_a_stream_is_parsed_into_its_events(stream: bytes, events: list[ServerEvent]):
    assert decoded([stream]) == (events, None, stream.count(b"\n:") + stream.startswith(b":"))


@pytest.mark.parametrize(("stream", "events"), CASES)
def test_byte_by_byte_gives_the_same_events(stream: bytes, events: list[ServerEvent]):
    assert decoded(stream[at : at + 1] for at in range(len(stream)))[0] == events


LINES = st.sampled_from(
    [
        b"data: a",
        b"data:",
        b"data",
        b"id: 1",
        b"id: \0",
        b"event: e",
        b": beat",
        b"",
        b"",
        b"x" * 20,
        b"\xef\xbb\xbf",
        b"\xff",
    ]
)
STREAMS = st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r", b"\r\n", b""])), max_size=30).map(
    lambda lines: b"".join(line + end for line, end in lines)
)
CUTS = st.lists(st.integers(0, 300), max_size=12)


@given(STREAMS, CUTS, st.integers(1, 40))
def test_any_cut_gives_the_same_events_and_the_same_error(stream: bytes, at: list[int], limit: int):
    assert decoded(cut(stream, at), max_event_bytes=limit)[:2] == decoded([stream], max_event_bytes=limit)[:2]
    assert decoded(cut(stream, at)) == decoded([stream])


@given(st.binary(max_size=300), CUTS, st.integers(1, 300))
def test_any_bytes_raise_only_invalid_message_error(stream: bytes, at: list[int], limit: int):
    assert decoded(cut(stream, at), max_event_bytes=limit)[0] == decoded([stream], max_event_bytes=limit)[0]


@given(st.lists(st.tuples(st.binary(max_size=50), st.integers(0, 9)), max_size=10), CUTS)
def test_written_events_are_read_back(sent: list[tuple[bytes, int]], at: list[int]):
    clean = [(data.replace(b"\r", b"").replace(b"\n", b""), str(number)) for data, number in sent]
    stream = b"".join(b"id: " + number.encode() + b"\ndata: " + data + b"\n\n" for data, number in clean)
    assert decoded(cut(stream, at))[0] == [ServerEvent(data, number) for data, number in clean]


@pytest.mark.parametrize("stream", [b"data: 12345", b"data: 123\ndata: 456789\n", b"data\n" * 12, b":" * 11, b"x" * 11])
def test_an_event_past_the_limit_is_refused_before_its_end(stream: bytes):
    events, message, _ = decoded([b"data: a\n\n", stream], max_event_bytes=10)
    assert events == [ServerEvent(b"a")]
    assert message == "Not a valid event stream: event: at most 10 bytes"


def test_many_events_within_the_limit_are_fine():
    assert len(decoded([b"data: 1234\n\n" * 1000], max_event_bytes=10)[0]) == 1000
