"""A model without tools calls tools, and a wrong call is never made."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core.work.emulation.base import Accepted, Retry
from accord.core.work.emulation.run import EmulationRun
from accord.core.work.emulation.tool_use import NO_CALL, NOT_A_CALL, ToolUse
from accord.errors import InvalidMessageError
from accord.wire.conversation import Conversation
from accord.wire.work import (
    AnyPiece,
    EndPiece,
    TextPiece,
    ThinkingPiece,
    ToolCallPiece,
    ToolChoice,
    ToolSpec,
    WorkOrder,
)
from tests.core.work.emulation.scripted import (
    HELLO,
    PLACES,
    cut,
    joined,
    merged,
    pieces,
    read,
    run,
    scripted,
    system_text,
    text_answer,
)

WEATHER = ToolSpec(
    name="weather",
    input_schema={"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}},
)
USE = ToolUse()
ORDER = WorkOrder(conversation=HELLO, tools=[WEATHER, ToolSpec(name="now")])
ROME = '<tool_call>{"name": "weather", "arguments": {"city": "Rome"}}</tool_call>'
INCOMPLETE = NOT_A_CALL.problem.message
NOW = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'


def call(number: int, name: str, **arguments: str) -> ToolCallPiece:
    return ToolCallPiece(id=f"call_{number}", name=name, input=arguments)


@pytest.mark.parametrize(
    ("answer", "out", "reason"),
    [
        ("Hello!", pieces("Hello!"), "end_turn"),
        (ROME, [call(1, "weather", city="Rome")], "tool_use"),
        (f"Let me see. {ROME}", [*pieces("Let me see. "), call(1, "weather", city="Rome")], "tool_use"),
        (f"{ROME}\n{NOW}", [call(1, "weather", city="Rome"), call(2, "now")], "tool_use"),
        (f"{NOW} and {NOW} then", [call(1, "now"), *pieces(" and "), call(2, "now"), *pieces(" then")], "tool_use"),
        ("1 < 2 and <tool", pieces("1 < 2 and <tool"), "end_turn"),
    ],
)
def test_calls_are_parsed_and_the_text_around_them_stays(answer: str, out: list[AnyPiece], reason: str):
    reading = read(USE, ORDER, pieces(answer))
    assert reading.out == out
    assert isinstance(reading.result, Accepted)
    assert reading.result.end.reason == reason


@pytest.mark.parametrize(
    ("answer", "problem", "recorded"),
    [
        ("<tool_call>weather(Rome)</tool_call>", f"call 1 {INCOMPLETE}", f"call 1 {INCOMPLETE}"),
        (f"{ROME}<tool_call>", f"call 2 {INCOMPLETE}", f"call 2 {INCOMPLETE}"),
        (
            ROME.replace("weather", "wether"),
            'call 1 names the tool "wether", which is not one of: weather, now',
            "call 1 names a tool that is not one of: weather, now",
        ),
        (
            ROME.replace("city", "town"),
            'call 1 of weather, arguments (the whole value): "city" is a required property',
            "call 1 of weather, arguments does not meet /required of the schema (required)",
        ),
        (
            ROME.replace('"Rome"', "7"),
            'call 1 of weather, arguments /city: this value is not of type "string"',
            "call 1 of weather, arguments does not meet /properties/city/type of the schema (type)",
        ),
        (
            ROME.replace('{"city": "Rome"}', '"Rome"'),
            'call 1 should have a JSON object as its "arguments"',
            'call 1 should have a JSON object as its "arguments"',
        ),
    ],
)
def test_a_wrong_call_is_requested_again_with_its_problem(answer: str, problem: str, recorded: str):
    reading = read(USE, ORDER, pieces("Let me see. ", answer))
    assert reading.out == pieces("Let me see. ")
    assert isinstance(reading.result, Retry)
    assert reading.result.problems == (recorded,)
    assert reading.result.answer == f"Let me see. {answer}"
    assert f"- {problem}\n" in reading.result.correction


def test_text_streams_up_to_the_first_call_and_then_only_thoughts_do():
    reader = USE.reader(ORDER)
    assert reader.feed(TextPiece(text="Let me ")) == pieces("Let me ")
    assert reader.feed(TextPiece(text="see <tool_")) == pieces("see ")
    assert reader.feed(TextPiece(text=f"{ROME[6:]} text")) == []
    assert reader.feed(ThinkingPiece(text="hm")) == [ThinkingPiece(text="hm")]
    assert reader.feed(call(7, "native")) == []
    result = reader.finish(EndPiece())
    assert isinstance(result, Accepted)
    assert result.pieces == (call(1, "weather", city="Rome"), *pieces(" text"), call(7, "native"))


def test_ids_continue_after_the_calls_of_the_conversation():
    names = ("call_2", "toolu_9", "call_1")
    parts: list[Any] = [{"type": "tool_use", "id": name, "name": "now", "input": {}} for name in names]
    conversation = Conversation.model_validate({"messages": [{"role": "assistant", "content": parts}]})
    order = WorkOrder(conversation=conversation, tools=ORDER.tools)
    assert read(USE, order, pieces(NOW)).out == [call(3, "now")]
    prepared = USE.prepare(order)
    assert [(effect.kind, effect.count) for effect in prepared.effects] == [
        ("tool_history_written_out", 3),
        ("tools_described", 2),
    ]


def test_tools_are_described_in_the_prompt_and_not_sent():
    prepared = USE.prepare(ORDER).order
    assert prepared.tools == []
    assert "- weather" in system_text(prepared)
    assert len(ORDER.tools) == 2
    assert ORDER.conversation == HELLO


def test_a_tool_with_an_invalid_schema_is_refused_before_dispatch():
    broken = WorkOrder(tools=[ToolSpec(name="t", input_schema={"type": 7})])
    with pytest.raises(InvalidMessageError, match="Not a valid input_schema of the tool t: /type"):
        USE.prepare(broken)


def test_an_order_without_tools_is_unchanged():
    order = WorkOrder(conversation=HELLO)
    assert USE.prepare(order).order == order
    assert read(USE, order, pieces(ROME)).out == pieces(ROME)


ANSWERS = st.lists(
    st.sampled_from([ROME, NOW, "<tool_call>", "</tool_call>", "<tool", "{}", "text ", "\n", ROME[:30]]), max_size=6
).map("".join)


@given(ANSWERS, PLACES)
def test_where_the_answer_is_cut_does_not_matter(text: str, places: list[int]):
    assert read(USE, ORDER, cut(text, places)) == read(USE, ORDER, pieces(text))


@given(st.text().filter(lambda text: "<tool_call>" not in text), PLACES)
def test_text_without_calls_passes_unchanged(text: str, places: list[int]):
    assert joined(read(USE, ORDER, cut(text, places)).out) == text


NO_TOOL = ORDER.model_copy(update={"tool_choice": ToolChoice(mode="none")})
ANY_TOOL = ORDER.model_copy(update={"tool_choice": ToolChoice(mode="required")})
THE_NOW = ORDER.model_copy(update={"tool_choice": ToolChoice(mode="tool", name="now")})


@pytest.mark.parametrize(
    ("order", "listed", "sentence"),
    [
        (ORDER, ["- weather", "- now"], None),
        (NO_TOOL, [], None),
        (ANY_TOOL, ["- weather", "- now"], "You must call at least one of these tools in your next answer."),
        (THE_NOW, ["- now"], "You must call the tool now in your next answer."),
    ],
    ids=["auto", "none", "required", "tool"],
)
def test_each_tool_choice_describes_its_tools(order: WorkOrder, listed: list[str], sentence: str | None):
    prepared = USE.prepare(order)
    prompt = system_text(prepared.order)
    assert [line for line in prompt.splitlines() if line.startswith("- ")] == listed
    assert ("You must call" in prompt) is (sentence is not None)
    assert sentence is None or prompt.endswith(sentence)
    assert (prepared.order.tools, prepared.order.tool_choice) == ([], None)
    assert [effect.count for effect in prepared.effects] == ([len(listed)] if listed else [])


def test_with_the_choice_none_no_tool_is_called():
    assert USE.prepare(NO_TOOL).order.conversation == HELLO
    reading = read(USE, NO_TOOL, pieces(ROME))
    assert reading.out == pieces(ROME)
    assert isinstance(reading.result, Accepted)
    assert reading.result.end.reason == "end_turn"


@pytest.mark.parametrize("order", [ANY_TOOL, THE_NOW], ids=["required", "tool"])
def test_an_answer_without_the_call_that_must_be_made_is_requested_again(order: WorkOrder):
    reading = read(USE, order, pieces("It is ", "late."))
    assert reading.out == []
    assert isinstance(reading.result, Retry)
    assert (reading.result.answer, reading.result.problems) == ("It is late.", (NO_CALL,))
    assert "You must call" in reading.result.correction
    backend, orders = scripted(text_answer("It is late."), text_answer("So: ", NOW))
    answer = merged(run(EmulationRun(order, [USE]), backend))
    assert answer == [*pieces("So: "), call(1, "now"), EndPiece(reason="tool_use")]
    assert len(orders) == 2


def test_a_call_of_another_tool_than_the_one_that_must_be_called_is_requested_again():
    reading = read(USE, THE_NOW, pieces("Hm. ", ROME))
    assert reading.out == pieces("Hm. ")
    assert isinstance(reading.result, Retry)
    assert reading.result.problems == ("call 1 names a tool that is not one of: now",)


def test_a_quoted_call_is_not_the_call_that_must_be_made():
    reading = read(USE, ANY_TOOL, pieces(f"`{NOW}`"))
    assert isinstance(reading.result, Retry)
    assert reading.result.problems == (NO_CALL,)


def test_a_refusal_and_a_native_call_need_no_written_call():
    refused = read(USE, ANY_TOOL, pieces("I cannot."), EndPiece(reason="refusal"))
    assert (refused.out, refused.result) == (pieces("I cannot."), Accepted(EndPiece(reason="refusal")))
    native = read(USE, ANY_TOOL, [*pieces("So: "), call(7, "now")])
    assert (native.out, native.result) == ([*pieces("So: "), call(7, "now")], Accepted(EndPiece()))


def test_a_choice_of_a_tool_that_is_not_given_is_refused_before_dispatch():
    order = ORDER.model_copy(update={"tool_choice": ToolChoice(mode="tool", name="then")})
    with pytest.raises(InvalidMessageError, match="name: Expected the name of one of the tools"):
        USE.prepare(order)


@given(ANSWERS, PLACES)
def test_where_an_answer_is_cut_does_not_matter_if_a_tool_must_be_called(text: str, places: list[int]):
    assert read(USE, ANY_TOOL, cut(text, places)) == read(USE, ANY_TOOL, pieces(text))
