"""The model is prompted to think, and its thoughts are separated from its answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core.work.emulation.base import Accepted
from accord.core.work.emulation.injection import ExtendedThinking
from accord.wire.emulation import PostProcessing, SystemPromptInjection
from accord.wire.work import AnyPiece, TextPiece, ThinkingPiece, ToolCallPiece, WorkOrder
from tests.core.work.emulation.scripted import HELLO, PLACES, cut, joined, pieces, read, system_text

THINK = ExtendedThinking()
ORDER = WorkOrder(conversation=HELLO, thinking=True)


def thought(text: str) -> ThinkingPiece:
    return ThinkingPiece(text=text)


def text_piece(text: str) -> TextPiece:
    return TextPiece(text=text)


@pytest.mark.parametrize(
    ("answer", "out"),
    [
        (["plain"], [text_piece("plain")]),
        (["<thinking>hm</thinking>42"], [thought("hm"), text_piece("42")]),
        (["<thin", "king>h", "m</thi", "nking>", "42"], [thought("hm"), text_piece("42")]),
        (
            ["a <thinking>b</thinking> c <thinking>d</thinking>"],
            [text_piece("a "), thought("b"), text_piece(" c "), thought("d")],
        ),
        (["1 < 2 <thinking"], [text_piece("1 < 2 <thinking")]),
        (["</thinking>"], [text_piece("</thinking>")]),
        (["<thinking></thinking>x"], [text_piece("x")]),
        (["<thinking>open"], [thought("open")]),
    ],
)
def test_tagged_thoughts_become_thoughts_and_the_rest_stays_text(answer: list[str], out: list[AnyPiece]):
    assert read(THINK, ORDER, pieces(*answer)).out == out


@pytest.mark.parametrize(
    ("answer", "effects"),
    [
        ("plain", {}),
        ("<thinking>hm</thinking>42", {"thoughts_separated": 2}),
        ("<thinking>hm", {"thoughts_separated": 2, "thoughts_not_closed": 1}),
    ],
)
def test_separated_thoughts_are_recorded(answer: str, effects: dict[str, int]):
    result = read(THINK, ORDER, pieces(answer)).result
    assert isinstance(result, Accepted)
    assert {effect.kind: effect.count for effect in result.effects} == effects


def test_decision_13_the_default_prompt_is_injected_and_native_thinking_is_not_requested():
    prepared = THINK.prepare(ORDER)
    assert system_text(prepared.order) == "Think step by step before answering."
    assert prepared.order.thinking is False
    assert WorkOrder(conversation=HELLO, thinking=True) == ORDER


def test_an_operators_prompt_is_used_instead():
    assert system_text(ExtendedThinking(SystemPromptInjection(prompt="Hm?")).prepare(ORDER).order) == "Hm?"
    assert system_text(ExtendedThinking(PostProcessing(detail="read tags only")).prepare(ORDER).order) == ""


def test_a_tag_does_not_reach_across_a_call():
    answer: list[AnyPiece] = [text_piece("<think"), ToolCallPiece(id="call_1", name="t", input={}), text_piece("ing>")]
    assert read(THINK, ORDER, answer).out == answer


TAGGED = st.lists(st.sampled_from(["<thinking>", "</thinking>", "<", "think", "a", "é"]), max_size=12).map("".join)


@given(TAGGED, PLACES)
def test_where_the_answer_is_cut_does_not_matter(text: str, places: list[int]):
    assert read(THINK, ORDER, cut(text, places)) == read(THINK, ORDER, pieces(text))


@given(st.text().filter(lambda text: "<thinking>" not in text), PLACES)
def test_text_without_tags_passes_unchanged(text: str, places: list[int]):
    assert joined(read(THINK, ORDER, cut(text, places)).out) == text
