"""A whole answer is sent in pieces."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core.work.emulation.base import Accepted
from accord.core.work.emulation.streaming import PIECE_CHARS, Streaming, cut_text, may_cut
from accord.wire.work import EndPiece, ThinkingPiece, WorkOrder
from tests.core.work.emulation.scripted import HELLO, joined, pieces

ORDER = WorkOrder(conversation=HELLO, stream=True)


@pytest.mark.parametrize(
    ("text", "size", "parts"),
    [
        ("", 5, []),
        ("short", 5, ["short"]),
        ("one two three", 5, ["one ", "two ", "three"]),
        ("onetwothree", 5, ["onetw", "othre", "e"]),
        ("a\r\nb", 2, ["a", "\r\n", "b"]),
        ("日本語日本語", 2, ["日本", "語日", "本語"]),
        ("aaa e\u0301e\u0301e\u0301", 3, ["aaa", " ", "e\u0301", "e\u0301", "e\u0301"]),
        ("👩\u200d👩\u200d👧x", 2, ["👩\u200d👩\u200d👧", "x"]),
        ("👍🏽👍🏽", 1, ["👍🏽", "👍🏽"]),
        ("🇩🇪🇫🇷 x", 3, ["🇩🇪🇫🇷", " x"]),
        ("한국어", 2, ["한국", "어"]),
        ("\u1112\u1161\u11ab\u1112", 2, ["\u1112\u1161\u11ab", "\u1112"]),
        ("क्षत्रिय", 3, ["क्ष", "त्रि", "य"]),
    ],
)
def test_text_is_cut_after_words_and_never_inside_a_character(text: str, size: int, parts: list[str]):
    assert list(cut_text(text, size)) == parts


@given(st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(" \n\u0301\u200d\ufe0f🏽🇩"), max_size=120))
def test_the_pieces_joined_are_the_text(text: str):
    parts = list(cut_text(text, 7))
    assert "".join(parts) == text
    assert all(parts)
    for part in parts[1:]:
        assert not unicodedata.category(part[0]).startswith("M")
        assert part[0] not in "\u200d\ufe0f🏽"


@given(st.text("ab \n", max_size=200), st.integers(1, 60))
def test_no_piece_of_plain_text_is_longer_than_the_size(text: str, size: int):
    assert max(map(len, cut_text(text, size)), default=0) <= size


def test_the_answer_is_sent_in_pieces_and_its_length_is_recorded():
    text = "word " * 100
    reader = Streaming().reader(ORDER)
    out = reader.feed(pieces(text)[0])
    assert joined(out) == text
    assert len(out) >= len(text) // PIECE_CHARS
    result = reader.finish(EndPiece())
    assert isinstance(result, Accepted)
    assert [(effect.kind, effect.count) for effect in result.effects] == [("cut_in_pieces", len(text))]


def test_thoughts_and_answers_without_streaming_are_not_cut():
    thought = ThinkingPiece(text="hm " * 100)
    assert Streaming().reader(ORDER).feed(thought) == [thought]
    whole = pieces("word " * 100)[0]
    assert Streaming().reader(WorkOrder()).feed(whole) == [whole]


def test_streaming_is_not_requested_from_the_backend():
    assert Streaming().prepare(ORDER).order.stream is False
    assert ORDER.stream is True


def test_halves_of_a_surrogate_pair_stay_together():
    assert not may_cut("\ud83d\ude00", 1)
