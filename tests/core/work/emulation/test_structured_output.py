"""An answer is valid JSON, or it is requested again."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core.work.emulation.base import Accepted, Retry
from accord.core.work.emulation.structured_output import (
    CUT_SHORT,
    NO_JSON,
    NOT_ALONE,
    OBJECT_PROMPT,
    SEVERAL,
    JsonMode,
    StructuredOutput,
)
from accord.errors import InvalidMessageError
from accord.wire.work import EndPiece, TextPiece, ThinkingPiece, ToolCallPiece, WorkOrder
from tests.core.work.emulation.scripted import HELLO, PLACES, cut, joined, pieces, read, system_text

AGE = {"type": "object", "required": ["age"], "properties": {"age": {"type": "integer"}}}
OUTPUT, MODE = StructuredOutput(), JsonMode()


def fitting(schema: dict[str, Any]) -> WorkOrder:
    return WorkOrder(conversation=HELLO, response_schema=schema)


ANY = WorkOrder(conversation=HELLO, json_mode=True)


@pytest.mark.parametrize(
    ("schema", "answer", "out"),
    [
        (AGE, '{"age": 7}', '{"age": 7}'),
        (AGE, 'Sure:\n```json\n{"age": 7}\n```\n', '{"age": 7}'),
        (AGE, 'As in [1], {name}:\n{"age":\n 7}', '{"age":\n 7}'),
        (AGE, 'Did you say {"age": 7}? Yes:\n{"age":7}', '{"age":7}'),
        ({"type": "array"}, "Primes:\n[2, 3]", "[2, 3]"),
        ({"type": "integer"}, "It is\n42\n", "42"),
        ({"type": "string"}, '"yes"', '"yes"'),
    ],
)
def test_the_valid_value_is_sent_on_without_the_text_around_it(schema: dict[str, Any], answer: str, out: str):
    reading = read(OUTPUT, fitting(schema), pieces(answer))
    assert reading.out == pieces(out)
    assert isinstance(reading.result, Accepted)
    around = len(answer.strip()) - len(out)
    assert sum(effect.count for effect in reading.result.effects) == around


@pytest.mark.parametrize(
    ("answer", "end", "problem", "recorded"),
    [
        ("I'd rather not.", EndPiece(), NO_JSON, NO_JSON),
        ("", EndPiece(), NO_JSON, NO_JSON),
        ('{"age": ', EndPiece(reason="max_tokens"), CUT_SHORT, CUT_SHORT),
        ('The letter says {"age": 7}', EndPiece(), NOT_ALONE, NOT_ALONE),
        ('"{"age": 7}"', EndPiece(), NOT_ALONE, NOT_ALONE),
        ('It says:\n> {"age": 7}', EndPiece(), NOT_ALONE, NOT_ALONE),
        ('```json\n{"age": 7}\n```\nis what the letter says, and I disagree.', EndPiece(), NOT_ALONE, NOT_ALONE),
        ('```\nx = {"age": 7}\n```', EndPiece(), NOT_ALONE, NOT_ALONE),
        ('The letter says {"age": 7}.\n{"age": 8}', EndPiece(), SEVERAL, SEVERAL),
        ('{"age": 8}\nalthough the letter ends with\n{"age": 7}', EndPiece(), SEVERAL, SEVERAL),
        ('```json\n{"age": 7}\n```\n```json\n{"age": 8}\n```', EndPiece(), SEVERAL, SEVERAL),
        ('{"age": 7}\n{"age": "eight"}', EndPiece(), SEVERAL, SEVERAL),
        ('{"age": 7}\n' * 101, EndPiece(), SEVERAL, SEVERAL),
        (
            '{"age": "7"}',
            EndPiece(),
            '/age: this value is not of type "integer"',
            "does not meet /properties/age/type of the schema (type)",
        ),
        (
            "{}",
            EndPiece(),
            '(the whole value): "age" is a required property',
            "does not meet /required of the schema (required)",
        ),
    ],
)
def test_an_invalid_answer_is_requested_again_with_the_problems(
    answer: str, end: EndPiece, problem: str, recorded: str
):
    reading = read(OUTPUT, fitting(AGE), pieces(answer), end)
    assert reading.out == []
    assert isinstance(reading.result, Retry)
    assert reading.result.problems == (recorded,)
    assert reading.result.answer == answer
    assert f"- {problem}\n" in reading.result.correction


def test_only_thoughts_are_sent_on_before_the_answer_is_complete():
    reader = OUTPUT.reader(fitting(AGE))
    assert reader.feed(TextPiece(text='{"age": 7}')) == []
    assert reader.feed(ThinkingPiece(text="hm")) == [ThinkingPiece(text="hm")]


def test_an_answer_that_calls_tools_or_refuses_is_sent_on_without_validation():
    call = ToolCallPiece(id="call_1", name="t", input={})
    calling = read(OUTPUT, fitting(AGE), [*pieces("One moment."), call], EndPiece(reason="tool_use"))
    refusing = read(OUTPUT, fitting(AGE), pieces("No."), EndPiece(reason="refusal"))
    assert calling.out == [*pieces("One moment."), call]
    assert refusing.out == pieces("No.")
    for result in (calling.result, refusing.result):
        assert isinstance(result, Accepted)
        assert [effect.kind for effect in result.effects] == ["json_not_judged"]


def test_the_schema_is_in_the_prompt_and_not_in_the_order():
    order = fitting(AGE)
    prepared = OUTPUT.prepare(order).order
    assert prepared.response_schema is None
    assert json.dumps(AGE, separators=(",", ":")) in system_text(prepared)
    assert order == fitting(AGE)


def test_an_invalid_schema_is_refused_before_dispatch():
    with pytest.raises(InvalidMessageError, match="Not a valid response_schema: /type"):
        OUTPUT.prepare(fitting({"type": "number of things"}))


@pytest.mark.parametrize(
    ("answer", "out"),
    [('{"a": 1}', '{"a": 1}'), ("See [1]:\n{}", "{}"), ('[{"a": 1}]', None), ("42", None), ("words", None)],
)
def test_json_mode_accepts_any_object_and_only_objects(answer: str, out: str | None):
    reading = read(MODE, ANY, pieces(answer))
    assert reading.out == ([] if out is None else pieces(out))
    assert isinstance(reading.result, Retry if out is None else Accepted)


def test_json_mode_is_requested_in_the_prompt_unless_there_is_a_schema():
    prepared = MODE.prepare(ANY).order
    assert system_text(prepared) == OBJECT_PROMPT
    assert prepared.json_mode is False
    both = ANY.model_copy(update={"response_schema": AGE})
    assert system_text(MODE.prepare(both).order) == ""
    # The schema is checked elsewhere: here any JSON will do.
    assert joined(read(MODE, both, pieces("Sure:\n[1]")).out) == "[1]"


def test_structured_output_without_a_schema_is_an_object_for_json_mode():
    assert joined(read(OUTPUT, ANY, pieces("Sure:\n", '{"any": "thing"}')).out) == '{"any": "thing"}'
    assert isinstance(read(OUTPUT, ANY, pieces("[1]")).result, Retry)


def test_an_order_that_requests_no_json_is_unchanged():
    plain = WorkOrder(conversation=HELLO)
    for emulation in (OUTPUT, MODE):
        assert emulation.prepare(plain).order == plain
        assert read(emulation, plain, pieces("words")).out == pieces("words")


ANSWERS = st.lists(
    st.sampled_from(['{"age": 7}', '{"age": "x"}', "{}", "```json\n", "```\n", "\n", "Hm. ", "[1]", '"', "\\"]),
    max_size=8,
).map("".join)


@given(ANSWERS, PLACES)
def test_where_the_answer_is_cut_does_not_matter(text: str, places: list[int]):
    assert read(OUTPUT, fitting(AGE), cut(text, places)) == read(OUTPUT, fitting(AGE), pieces(text))


@given(ANSWERS)
def test_whatever_is_sent_on_is_valid(text: str):
    for piece in read(OUTPUT, fitting(AGE), pieces(text)).out:
        assert isinstance(piece, TextPiece)
        assert isinstance(json.loads(piece.text)["age"], int)
