"""Lines come out the same however the bytes were cut; what is too long costs itself only."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core.rpc import LineSplitter, OversizedLine


def lines_of(pieces: list[bytes], max_bytes: int = 1_000) -> list[bytes | OversizedLine]:
    splitter = LineSplitter(max_bytes)
    return [line for piece in pieces for line in splitter.feed(piece)] + splitter.close()


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\r\nb", [b"a", b"b"]),
        (b"\n \n\t\r\n", []),
        (b"\xef\xbb\xbf{}\n", [b"{}"]),
        (b"x" * 11 + b"\nok\n", [OversizedLine(10), b"ok"]),
        (b"x" * 10 + b"\n", [b"x" * 10]),
        (b"x" * 11, [OversizedLine(10)]),
        (b"", []),
    ],
)
def test_lines_are_what_stands_between_line_ends(text: bytes, lines: list[bytes | OversizedLine]):
    assert lines_of([text], 10) == lines


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=10), st.integers(1, 40))
def test_lines_do_not_depend_on_where_the_stream_was_cut(text: bytes, cuts: list[int], max_bytes: int):
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[start:end] for start, end in itertools.pairwise(places)]
    assert lines_of(pieces, max_bytes) == lines_of([text], max_bytes)
