"""Laws of the estimate of tokens: nothing is 0, more is never less, and each script has about its known ratio."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core.work.estimate_tokens import IMAGE_TOKENS, PAGE_TOKENS, TOKENS_PER_BYTE, estimate_tokens
from accord.wire.conversation import Conversation
from accord.wire.work import ToolSpec, WorkOrder


def order(*parts: dict[str, Any], **fields: Any) -> WorkOrder:
    messages = [{"role": "user", "content": list(parts)}] if parts else []
    return WorkOrder(conversation=Conversation.model_validate({"messages": messages}), **fields)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def test_nothing_has_no_tokens():
    assert estimate_tokens(WorkOrder()) == 0
    assert estimate_tokens(WorkOrder(stream=True, parameters={"max_tokens": 5}, stop_sequences=["a"])) == 0


@given(st.text(), st.text())
def test_more_text_never_has_fewer_tokens(first: str, second: str):
    together = estimate_tokens(order(text(first + second)))
    assert estimate_tokens(order(text(first))) <= together
    assert estimate_tokens(order(text(second))) <= together
    assert together <= estimate_tokens(order(text(first), text(second))) <= together + 1


PARTS: list[dict[str, Any]] = [
    text("a"),
    {"type": "thinking", "text": "a"},
    {"type": "thinking", "text": "", "signature": "abcd", "redacted": True},
    {"type": "image", "media_type": "image/png", "data": "aGk="},
    {"type": "audio", "media_type": "audio/wav", "data": "a" * 800},
    {"type": "tool_use", "id": "t", "name": "a", "input": {"b": [1, None]}},
    {"type": "tool_result", "tool_use_id": "t", "content": [text("a")]},
    {"type": "resource", "uri": "a", "text": "words"},
    {"type": "resource", "uri": "", "media_type": "application/pdf", "data": "aGk="},
    {"type": "resource", "uri": "", "media_type": "application/zip", "data": "aGk="},
    {"type": "resource_link", "uri": "https://example.org", "name": "a", "description": "b"},
]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part["type"])
def test_each_part_adds_tokens(part: dict[str, Any]):
    assert estimate_tokens(order(text("Hello."), part)) > estimate_tokens(order(text("Hello.")))


@given(st.lists(st.sampled_from(PARTS), max_size=4), st.sampled_from(PARTS))
def test_more_work_never_has_fewer_tokens(parts: list[dict[str, Any]], more: dict[str, Any]):
    tool, schema = ToolSpec(name="a", description="b", input_schema={"type": "object"}), {"type": "object"}
    less = estimate_tokens(order(*parts))
    assert less <= estimate_tokens(order(*parts, more))
    assert less < estimate_tokens(order(*parts, tools=[tool])) < estimate_tokens(order(*parts, tools=[tool, tool]))
    assert less < estimate_tokens(order(*parts, response_schema=schema))


@pytest.mark.parametrize(
    ("words", "characters_per_token"),
    [
        # Wide ranges around published ratios: no tokenizer is at hand, and they differ by half.
        ("The ferry leaves the harbour at seven and is back before the lights of the town go out. " * 9, (3.3, 4.8)),
        ("Dampfschiffe verkehren zwischen beiden Ufern, solange der Nebel nicht über dem See liegt. " * 9, (2.6, 4.6)),
        ("Паром уходит из гавани в семь часов утра и возвращается до темноты. " * 9, (1.8, 3.3)),
        ("渡船早上七点离开港口天黑之前回来" * 9, (0.7, 1.5)),
        ("배는 아침 일곱 시에 항구를 떠나 해가 지기 전에 돌아온다 " * 9, (1.0, 2.1)),
        ("नाव सुबह सात बजे बंदरगाह से निकलती है और अंधेरा होने से पहले लौट आती है " * 9, (0.9, 2.9)),
        ("for (let i = 0; i < rows.length; i++) { sum += rows[i].price * (1 + rates[rows[i].kind]); }\n" * 9, (2.0, 3.5)),
        ("👋🎉🚢" * 9, (0.2, 1.0)),
    ],
)  # fmt: skip
def test_each_script_has_about_as_many_characters_per_token_as_tokenizers_need(
    words: str, characters_per_token: tuple[float, float]
):
    least, most = characters_per_token
    assert least <= len(words) / estimate_tokens(order(text(words))) <= most


def test_every_byte_that_begins_a_character_counts_once():
    counted = b"".join(found for found, _ in TOKENS_PER_BYTE)
    begins = {chr(code).encode()[0] for code in range(0x110000) if not 0xD800 <= code < 0xE000}
    controls = {*range(0x20), 0x7F} - set(b"\t\n\r")
    assert sorted(counted) == sorted({*begins - controls, 0xC2, 0xEE})


def test_media_have_fixed_prices():
    assert estimate_tokens(order(PARTS[3])) == IMAGE_TOKENS + 4
    assert estimate_tokens(order(PARTS[8])) == PAGE_TOKENS + 4
    assert estimate_tokens(order({**PARTS[8], "data": "a" * 80_001})) == 2 * PAGE_TOKENS + 4


def test_text_that_is_not_unicode_is_counted_too():
    assert estimate_tokens(order(text("a\ud800b"))) > 0
