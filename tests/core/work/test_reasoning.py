"""How an order says what reasoning it wants, the older form of it, and what each API is sent for it."""

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from accord.apis.chat.codec import ChatCodec
from accord.apis.gemini.codec import GeminiCodec
from accord.apis.messages.codec import MessagesCodec
from accord.apis.responses.codec import ResponsesCodec
from accord.core.work.conversation import build_order
from accord.core.work.reasoning import EFFORTS, effort_for, requested_reasoning, tokens_for
from accord.wire.work import Reasoning, WorkOrder

HELLO: Final = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]}
ENCRYPTED: Final = ["reasoning.encrypted_content"]


def sent(order: WorkOrder) -> tuple[Any, ...]:
    """What requests of the four APIs say of reasoning."""
    bodies: list[Any] = [
        codec.write_request(order, "m").body
        for codec in (ChatCodec(), ResponsesCodec(), MessagesCodec(), GeminiCodec())
    ]
    chat, responses, messages, gemini = bodies
    return (
        chat.get("reasoning_effort"),
        responses.get("reasoning"),
        (messages.get("thinking"), messages.get("output_config", {}).get("effort")),
        gemini.get("generationConfig", {}).get("thinkingConfig"),
    )


ADAPTIVE: Final = {"type": "adaptive"}
SHOWN: Final = {"type": "adaptive", "display": "summarized"}
THOUGHTS: Final = {"includeThoughts": True}
SENT: Final[list[tuple[dict[str, Any], Any, Any, Any, Any]]] = [
    # What is asked for, then what chat, responses, messages and Gemini are sent.
    ({}, None, None, (None, None), None),
    ({"reasoning": {}}, None, None, (None, None), None),
    ({"reasoning": {"enabled": False}}, "none", {"effort": "none"}, ({"type": "disabled"}, None), {"thinkingBudget": 0}),
    ({"reasoning": {"enabled": False, "effort": "low"}}, "none", {"effort": "none"}, ({"type": "disabled"}, "low"), {"thinkingBudget": 0}),
    ({"reasoning": {"enabled": True}}, "medium", {"effort": "medium"}, (ADAPTIVE, None), THOUGHTS),
    ({"reasoning": {"enabled": True, "effort": "low"}}, "low", {"effort": "low"}, (ADAPTIVE, "low"), THOUGHTS | {"thinkingBudget": 1024}),
    ({"reasoning": {"enabled": True, "effort": "minimal"}}, "minimal", {"effort": "minimal"}, (ADAPTIVE, "low"), THOUGHTS | {"thinkingBudget": 1024}),
    ({"reasoning": {"enabled": True, "effort": "max"}}, "max", {"effort": "max"}, (ADAPTIVE, "max"), THOUGHTS | {"thinkingBudget": 24576}),
    ({"reasoning": {"enabled": True, "effort": "new"}}, "new", {"effort": "new"}, (ADAPTIVE, "new"), THOUGHTS),
    ({"reasoning": {"enabled": True, "effort": "low", "summary": "auto"}}, "low", {"effort": "low", "summary": "auto"}, (SHOWN, "low"), THOUGHTS | {"thinkingBudget": 1024}),
    ({"reasoning": {"effort": "high"}}, "high", {"effort": "high"}, (None, "high"), THOUGHTS | {"thinkingBudget": 24576}),
    ({"reasoning": {"summary": "auto"}}, None, {"summary": "auto"}, (None, None), THOUGHTS),
    ({"reasoning": {"enabled": True, "max_tokens": 3000}}, "low", {"effort": "low"}, ({"type": "enabled", "budget_tokens": 3000}, None), THOUGHTS | {"thinkingBudget": 3000}),
    ({"reasoning": {"enabled": True, "max_tokens": 5000, "effort": "low"}}, "low", {"effort": "low"}, ({"type": "enabled", "budget_tokens": 5000}, "low"), THOUGHTS | {"thinkingBudget": 5000}),
    ({"thinking": True}, "medium", {"effort": "medium", "summary": "auto"}, (SHOWN, None), THOUGHTS),
    ({"thinking": True, "reasoning": {"effort": "low"}}, "low", {"effort": "low", "summary": "auto"}, (SHOWN, "low"), THOUGHTS | {"thinkingBudget": 1024}),
    ({"thinking": True, "reasoning": {"enabled": False}}, "medium", {"effort": "medium", "summary": "auto"}, (SHOWN, None), THOUGHTS),
]  # fmt: skip


@pytest.mark.parametrize(("members", "chat", "responses", "messages", "gemini"), SENT)
def test_each_api_is_sent_what_is_asked_for_and_nothing_more(
    members: dict[str, Any], chat: Any, responses: Any, messages: Any, gemini: Any
):
    order = WorkOrder.model_validate({"conversation": HELLO, **members})
    assert sent(order) == (chat, responses, messages, gemini)


@pytest.mark.parametrize(("members", "included"), [({"enabled": True}, True), ({"summary": "auto"}, True), ({"enabled": False}, False)])  # fmt: skip
def test_reasoning_comes_back_encrypted_unless_it_is_turned_off(members: dict[str, Any], included: bool):
    order = WorkOrder.model_validate({"conversation": HELLO, "reasoning": members})
    body: Any = ResponsesCodec().write_request(order, "m").body
    assert body.get("include") == (ENCRYPTED if included else None)


@pytest.mark.parametrize("word", [row.word for row in EFFORTS if row.upto is not None])
def test_a_word_in_tokens_is_the_same_word_again(word: str):
    assert effort_for(tokens_for(word) or 0) == word


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_more_tokens_are_never_less_effort(one: int, other: int):
    fewer, more = (tokens_for(effort_for(tokens)) or 0 for tokens in sorted((one, other)))
    assert fewer <= more


@given(st.sampled_from([row.word for row in EFFORTS]), st.integers(1024, 10**6))
def test_a_share_of_a_budget_is_at_most_the_budget(word: str, most: int):
    assert 0 <= (tokens_for(word, most) or 0) <= most
    assert tokens_for("a new word", most) is None


OLDER: Final[list[tuple[dict[str, Any], dict[str, Any]]]] = [
    ({}, {"enabled": True}),
    ({"effort": "low"}, {"enabled": True, "effort": "low"}),
    ({"effort": "none"}, {"enabled": False}),
    ({"effort": "high", "enabled": False}, {"effort": "high"}),
    ({"max_tokens": 2048, "effort": "low"}, {"enabled": True, "max_tokens": 2048, "effort": "low"}),
    ({"summary": "auto"}, {"summary": "auto"}),
]


@pytest.mark.parametrize(("older", "reasoning"), OLDER)
def test_the_older_form_in_the_parameters_is_understood(older: dict[str, Any], reasoning: dict[str, Any]):
    expected = Reasoning(**reasoning)
    parameters = {"reasoning": older, "temperature": 0.5}
    read = WorkOrder.model_validate({"parameters": parameters})
    by_agent = build_order(prompt="Hello", content=(), history=(), system=None, parameters=parameters)
    for order in (read, WorkOrder.model_validate_json(read.to_json()), by_agent):
        assert (order.reasoning, order.parameters) == (expected, {"temperature": 0.5})


def test_the_typed_form_counts_before_the_older_one():
    both = {"reasoning": {"effort": "low"}, "parameters": {"reasoning": {"effort": "high"}}}
    order = WorkOrder.model_validate(both)
    assert (requested_reasoning(order).effort, order.parameters) == ("low", {})
    with pytest.raises(ValidationError):
        WorkOrder.model_validate({"parameters": {"reasoning": "high"}})
