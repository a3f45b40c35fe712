"""Several emulations of one order work together, in the order that the tables give."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core.work.emulation.base import Accepted, Retry
from accord.core.work.emulation.choose import EMULATIONS, EmulationSettings
from accord.core.work.emulation.injection import PromptInjection
from accord.core.work.emulation.run import PREPARE_ORDER, READ_ORDER, ReaderChain, prepare_order, sort_emulations
from accord.wire.conversation import Conversation
from accord.wire.emulation import SystemPromptInjection
from accord.wire.work import EndPiece, TextPiece, ThinkingPiece, ToolCallPiece, ToolSpec, WorkOrder
from tests.core.work.emulation.scripted import HELLO, PLACES, cut, merged, pieces, talk, texts_of

ALL = [perform(EmulationSettings()) for perform in EMULATIONS.values()]
FULL = WorkOrder(
    conversation=talk(("system", "s"), ("user", "u")),
    tools=[ToolSpec(name="now")],
    response_schema={"type": "object"},
    stop_sequences=["STOP"],
    stream=True,
    thinking=True,
)


def test_both_tables_list_every_emulation():
    assert set(PREPARE_ORDER) == set(READ_ORDER) == set(EMULATIONS)


@pytest.mark.parametrize(
    ("table", "first", "then"),
    [
        (PREPARE_ORDER, "image_input", "tool_use"),  # images inside tool results
        (PREPARE_ORDER, "tool_use", "structured_output_json_schema"),  # what can be done, then the form of the answer
        (PREPARE_ORDER, "structured_output_json_schema", "extended_thinking"),
        (PREPARE_ORDER, "extended_thinking", "system_message"),  # every injected prompt is folded
        (READ_ORDER, "extended_thinking", "tool_use"),  # a call inside a thought is none
        (READ_ORDER, "tool_use", "stop_sequences"),  # a stop inside a call is none
        (READ_ORDER, "stop_sequences", "structured_output_json_schema"),  # cut, then judged
        (READ_ORDER, "structured_output_json_schema", "streaming"),  # judged, then cut in pieces
    ],
)
def test_the_tables_decide_the_order_whatever_the_input_order(table: dict[str, str], first: str, then: str):
    for given_order in (ALL, ALL[::-1]):
        names = [emulation.capability for emulation in sort_emulations(given_order, table)]
        assert names.index(first) < names.index(then)


def test_an_emulation_that_is_not_in_the_tables_goes_first():
    unlisted = PromptInjection("code_execution", SystemPromptInjection(prompt="Pretend."))
    assert sort_emulations([*ALL, unlisted], PREPARE_ORDER)[0] is unlisted


def test_all_prompts_end_up_in_the_first_user_message():
    order, effects = prepare_order(FULL, ALL)
    (message,) = order.conversation.messages
    text = "".join(texts_of(message))
    places = [
        text.index(mark) for mark in ("Instructions", "s", "- now", "JSON Schema below", "Think step by step", "u")
    ]
    assert places[2] < places[3] < places[4]
    assert text.endswith("\n\nu")
    assert order == WorkOrder(conversation=order.conversation)
    assert {effect.capability for effect in effects} == {
        "tool_use",
        "structured_output_json_schema",
        "extended_thinking",
        "system_message",
    }


@pytest.mark.parametrize(
    ("answer", "out", "reason"),
    [
        (
            '<thinking>STOP {"a":1}</thinking>{"b":2}',
            [ThinkingPiece(text='STOP {"a":1}'), *pieces('{"b":2}')],
            "end_turn",
        ),
        ('{"a":1} STOP {"b":2,"c":3}', pieces('{"a":1}'), "stop_sequence"),
        (
            '<tool_call>{"name":"now","arguments":{"x":"STOP"}}</tool_call>',
            [ToolCallPiece(id="call_1", name="now", input={"x": "STOP"})],
            "tool_use",
        ),
        (
            '<thinking><tool_call></thinking>{"a":1}',
            [ThinkingPiece(text="<tool_call>"), TextPiece(text='{"a":1}')],
            "end_turn",
        ),
    ],
)
def test_readers_of_one_chain_do_not_disturb_each_other(answer: str, out: list[object], reason: str):
    chain = ReaderChain(ALL, FULL)
    passed = [piece for whole in pieces(answer) for piece in chain.feed(whole)]
    closing = chain.finish(EndPiece())
    assert merged([*passed, *closing.pieces]) == out
    assert isinstance(closing.result, Accepted)
    assert closing.result.end.reason == reason


def test_the_first_retry_ends_the_chain_and_names_its_emulation():
    chain = ReaderChain(ALL, FULL)
    chain.feed(TextPiece(text="no JSON <tool_call>"))
    closing = chain.finish(EndPiece())
    assert isinstance(closing.result, Retry)
    assert closing.by is not None
    assert closing.by.capability == "tool_use"


SYNTAX = [
    "<thinking>",
    "</thinking>",
    "<tool_call>",
    '{"name":"now"}',
    "</tool_call>",
    "STOP",
    '{"a":1}',
    "word ",
    "<t",
]


@given(st.lists(st.sampled_from(SYNTAX), max_size=8).map("".join), PLACES)
def test_where_the_answer_is_cut_does_not_matter(text: str, places: list[int]):
    outcomes: list[object] = []
    for answer in (pieces(text), cut(text, places)):
        chain = ReaderChain(ALL, FULL)
        out = [passed for piece in answer for passed in chain.feed(piece)]
        closing = chain.finish(EndPiece())
        outcomes.append((merged([*out, *closing.pieces]), closing.result))
    assert outcomes[0] == outcomes[1]


@given(
    st.lists(st.sampled_from(["hi", "STOP", ""]), max_size=2).filter(lambda stops: "" not in stops),
    st.booleans(),
    st.lists(st.sampled_from(["system", "user", "assistant", "tool"]), max_size=4),
)
def test_preparing_never_changes_the_given_order(stops: list[str], flag: bool, roles: list[str]):
    image = {"type": "image", "media_type": "image/png", "data": "YQ=="}
    used: dict[str, Any] = {"type": "tool_use", "id": "call_1", "name": "now", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "call_1", "content": [image]}
    messages = [{"role": role, "content": [image, used, result]} for role in roles]
    conversation = Conversation.model_validate({"messages": messages})
    order = FULL.model_copy(
        update={"conversation": conversation, "stop_sequences": stops, "stream": flag, "json_mode": flag}
    )
    before = order.model_dump_json()
    prepared, _ = prepare_order(order, ALL)
    assert order.model_dump_json() == before
    assert '"image"' not in prepared.model_dump_json()
    assert '"tool_use"' not in prepared.model_dump_json()
    assert '"system"' not in prepared.model_dump_json()


def test_an_empty_chain_passes_everything():
    assert prepare_order(WorkOrder(conversation=HELLO), []) == (WorkOrder(conversation=HELLO), [])
    chain = ReaderChain([], WorkOrder())
    assert chain.feed(TextPiece(text="a")) == pieces("a")
    assert chain.finish(EndPiece()).result == Accepted(EndPiece())
