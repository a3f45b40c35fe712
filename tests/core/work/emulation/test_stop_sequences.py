"""The answer ends exactly where a backend with stop sequences would have ended it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core.work.emulation.base import Accepted
from accord.core.work.emulation.streaming import StopSequences
from accord.errors import InvalidMessageError
from accord.wire.work import EndPiece, TextPiece, ThinkingPiece, ToolCallPiece, WorkOrder
from tests.core.work.emulation.scripted import HELLO, PLACES, cut, joined, pieces, read

STOP = StopSequences()


def stopping(*stops: str) -> WorkOrder:
    return WorkOrder(conversation=HELLO, stop_sequences=list(stops))


def counts(result: object) -> dict[str, int]:
    assert isinstance(result, Accepted)
    return {effect.kind: effect.count for effect in result.effects}


@pytest.mark.parametrize(
    ("answer", "stops", "text", "dropped"),
    [
        (["one STOP two"], ["STOP"], "one ", 4),
        (["one ST", "OP two", " three"], ["STOP"], "one ", 10),
        (["S", "T", "O", "P"], ["STOP"], "", 0),
        (["a\n\nb"], ["\n\n", "\n"], "a", 2),
        (["xabcdx"], ["abcd", "bc"], "xa", 2),
        (["SSTOP!"], ["STOP"], "S", 1),
    ],
)
def test_the_text_is_cut_right_before_the_first_stop_sequence(
    answer: list[str], stops: list[str], text: str, dropped: int
):
    reading = read(STOP, stopping(*stops), pieces(*answer))
    assert joined(reading.out) == text
    assert isinstance(reading.result, Accepted)
    assert reading.result.end.reason == "stop_sequence"
    assert counts(reading.result) == ({"text_after_stop": dropped} if dropped else {})
    assert all(effect.lost for effect in reading.result.effects)


def test_an_answer_without_a_stop_sequence_keeps_its_end():
    reading = read(STOP, stopping("STOP"), pieces("all ", "of it ST"), EndPiece(reason="max_tokens"))
    assert reading.out == pieces("all of it ST")
    assert reading.result == Accepted(EndPiece(reason="max_tokens"))


def test_a_stop_sequence_does_not_reach_across_a_thought():
    answer = [TextPiece(text="ST"), ThinkingPiece(text="hm"), TextPiece(text="OP")]
    assert read(STOP, stopping("STOP"), answer).out == answer


def test_calls_and_thoughts_after_the_cut_are_dropped_and_counted():
    answer = [*pieces("a|b"), ThinkingPiece(text="hm"), ToolCallPiece(id="call_1", name="t", input={})]
    reading = read(STOP, stopping("|"), answer)
    assert reading.out == pieces("a")
    assert counts(reading.result) == {"text_after_stop": 3, "calls_after_stop": 1}


def test_stop_sequences_are_not_sent_to_the_backend():
    order = stopping("x")
    assert STOP.prepare(order).order.stop_sequences == []
    assert order.stop_sequences == ["x"]


def test_an_empty_stop_sequence_is_refused_before_dispatch():
    with pytest.raises(InvalidMessageError, match=r"stop_sequences\.1: should not be empty"):
        STOP.prepare(stopping("x", ""))


STOPS = st.lists(st.text("ab|", min_size=1, max_size=3), max_size=3)


@given(st.text("ab|", max_size=40), STOPS, PLACES)
def test_where_the_answer_is_cut_does_not_matter(text: str, stops: list[str], places: list[int]):
    order = stopping(*stops)
    assert read(STOP, order, cut(text, places)) == read(STOP, order, pieces(text))


@given(st.text("ab|", max_size=40), STOPS, PLACES)
def test_the_output_never_contains_a_stop_sequence(text: str, stops: list[str], places: list[int]):
    out = joined(read(STOP, stopping(*stops), cut(text, places)).out)
    assert not any(stop in out for stop in stops)
    assert text.startswith(out)


@given(st.text(), PLACES)
def test_text_without_stop_sequences_passes_unchanged(text: str, places: list[int]):
    assert joined(read(STOP, stopping(), cut(text, places)).out) == text
