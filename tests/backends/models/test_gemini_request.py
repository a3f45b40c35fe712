"""Work orders as Gemini requests: golden files, round trips, and what is unsupported."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.backends.gemini import Gemini
from accord.backends.gemini.answer import generate_id
from accord.backends.gemini.request import SUPPORTED, UNSUPPORTED
from accord.backends.model_api import UnsupportedByApiError
from accord.core.work.derive import PARAMETERS, PART_REASONS
from accord.wire.capability import IMAGE_URL
from accord.wire.conversation import (
    AudioPart,
    Conversation,
    ConversationMessage,
    ImagePart,
    MessagePart,
    ResourceLinkPart,
    ResourcePart,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
)
from accord.wire.work import ToolChoice, ToolSpec, WorkOrder
from tests.backends.models.gemini_reverse import order_of

GOLDEN = Path(__file__).parent / "golden" / "gemini"
GEMINI = Gemini()
CASES = sorted(path.name for path in GOLDEN.glob("ask_*.json"))


def request_body(order: WorkOrder) -> dict[str, Any]:
    body = GEMINI.request(order, "gemini-3-pro").body
    assert body is not None
    return dict(body)


def written(role: str, *parts: MessagePart) -> ConversationMessage:
    return ConversationMessage.model_validate({"role": role, "content": list(parts)})


def talk(*messages: ConversationMessage, **fields: Any) -> WorkOrder:
    return WorkOrder(conversation=Conversation(messages=list(messages)), **fields)


def hello(**fields: Any) -> WorkOrder:
    return talk(written("user", TextPart(text="Hello")), **fields)


@pytest.mark.parametrize("name", CASES)
def test_a_golden_order_gives_its_request_and_can_be_read_back(name: str):
    case = json.loads((GOLDEN / name).read_text(encoding="utf-8"))
    order = WorkOrder.model_validate(case["order"])
    requested = GEMINI.request(order, case["model"])
    assert requested.path == case["path"]
    assert json.dumps(requested.body, ensure_ascii=False) == json.dumps(case["body"], ensure_ascii=False)
    if case.get("there_and_back", True):
        assert order_of(case["body"]) == order.model_copy(update={"stream": False})


def test_there_are_golden_orders():
    assert len(CASES) >= 3


texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
words = st.from_regex(r"[a-z]{1,6}", fullmatch=True)
data = st.binary(max_size=6).map(lambda held: held.hex())
objects = st.dictionaries(words, st.none() | st.booleans() | st.integers(-9, 9) | texts, max_size=3)
signatures = st.none() | words
text_parts = texts.map(lambda text: TextPart(text=text))
media_parts = st.one_of(
    st.builds(ImagePart, media_type=st.sampled_from(["image/png", "image/webp"]), data=data),
    st.builds(AudioPart, media_type=st.just("audio/wav"), data=data),
    st.builds(ResourcePart, uri=texts, media_type=st.sampled_from(["application/pdf", "video/mp4"]), data=data),
)
readable_parts = st.one_of(
    text_parts,
    st.builds(ResourcePart, uri=texts, media_type=st.none() | words, text=texts),
    st.builds(ResourceLinkPart, uri=texts, name=texts, description=st.none() | texts),
)
user_parts = readable_parts | media_parts
model_parts = st.one_of(
    text_parts,
    st.builds(ThinkingPart, text=texts, signature=signatures),
    st.builds(ThinkingPart, text=st.just(""), signature=words, redacted=st.just(value=True)),
)


@st.composite
def conversations(draw: st.DrawFn) -> Conversation:
    """System first, then questions with answers; calls have ids of their own and results in the order of calls."""
    messages = (
        [written("system", *draw(st.lists(readable_parts, min_size=1, max_size=2)))] if draw(st.booleans()) else []
    )
    for turn in range(draw(st.integers(1, 3))):
        messages.append(written("user", *draw(st.lists(user_parts, min_size=1, max_size=3))))
        calls = [
            ToolUsePart(id=f"c{turn}-{at}", name=draw(words), input=draw(objects), signature=draw(signatures))
            for at in range(draw(st.integers(0, 3)))
        ]
        messages.append(written("assistant", *draw(st.lists(model_parts, min_size=1, max_size=3)), *calls))
        results = [
            ToolResultPart(
                tool_use_id=call.id, content=draw(st.lists(user_parts, max_size=3)), is_error=draw(st.booleans())
            )
            for call in calls
        ]
        messages.extend([written("tool", *results)] if results else [])
    return Conversation(messages=messages)


parameters = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.floats(0, 2),
        "top_p": st.floats(0, 1),
        "top_k": st.integers(1, 64),
        "max_tokens": st.integers(1, 9999),
        "seed": st.integers(0, 9),
        "presence_penalty": st.floats(-2, 2),
        "frequency_penalty": st.floats(-2, 2),
        "labels": objects,
    },
)
orders = st.builds(
    WorkOrder,
    conversation=conversations(),
    tools=st.lists(st.builds(ToolSpec, name=words, description=st.just("") | texts, input_schema=objects), max_size=2),
    response_schema=st.none() | objects,
    stop_sequences=st.lists(texts, max_size=2),
    thinking=st.booleans(),
    parameters=parameters,
)


@given(orders)
def test_what_an_order_holds_is_all_in_the_request(order: WorkOrder):
    assert order_of(json.loads(json.dumps(request_body(order)))) == order


def test_json_mode_sets_only_the_media_type():
    assert request_body(hello(json_mode=True))["generationConfig"] == {"responseMimeType": "application/json"}
    assert order_of(request_body(hello(json_mode=True))) == hello(json_mode=True)


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_parameter_is_sent_or_declared_unsupported(name: str):
    order = hello(parameters={name: {"max_tokens": 1} if name == "reasoning" else 1})
    if PARAMETERS[name] not in UNSUPPORTED:
        sent = {"includeThoughts": True, "thinkingBudget": 1} if name == "reasoning" else 1
        assert list(request_body(order)["generationConfig"].values()) == [sent]
        return
    with pytest.raises(UnsupportedByApiError) as caught:
        request_body(order)
    assert caught.value.capability == PARAMETERS[name]


def test_all_content_of_a_conversation_can_be_sent():
    everything: list[MessagePart] = [
        ImagePart(media_type="image/png", data="aa"),
        AudioPart(media_type="audio/wav", data="aa"),
        ResourcePart(uri="file:///a.pdf", media_type="application/pdf", data="aa"),
        ResourcePart(uri="file:///a.bin", data="aa"),
    ]
    request_body(
        talk(written("user", *everything), written("tool", ToolResultPart(tool_use_id="a", content=everything)))
    )
    assert set(UNSUPPORTED) & set(PART_REASONS) == {IMAGE_URL}
    with pytest.raises(UnsupportedByApiError) as caught:
        request_body(talk(written("user", ImagePart(media_type="", data="", uri="https://a.test/b.png"))))
    assert caught.value.capability == IMAGE_URL
    assert not set(UNSUPPORTED) & set(SUPPORTED)


def test_every_capability_is_supported_unsupported_or_the_models():
    on_the_model = {"image_input", "audio", "pdf_input", "frequency_penalty", "presence_penalty", "extended_thinking"}
    asked_for = {*PARAMETERS.values(), *PART_REASONS, "streaming", "system_message", "stop_sequences"}
    assert {*SUPPORTED, *UNSUPPORTED} == asked_for - on_the_model
    assert all(UNSUPPORTED.values())


def test_only_text_can_be_an_instruction():
    with pytest.raises(UnsupportedByApiError) as caught:
        request_body(talk(written("system", ImagePart(media_type="image/png", data="aa"))))
    assert caught.value.capability == "image_input"


def test_arguments_that_are_not_an_object_are_refused():
    with pytest.raises(UnsupportedByApiError):
        request_body(talk(written("assistant", ToolUsePart(id="a", name="look", input=[1]))))


def test_a_result_cannot_hold_a_call():
    held = ToolUsePart(id="b", name="look", input={})
    with pytest.raises(UnsupportedByApiError):
        request_body(talk(written("tool", ToolResultPart(tool_use_id="a", content=[held]))))


def test_results_are_in_the_order_of_their_calls_and_generated_ids_are_left_out():
    first, second = (generate_id("r", count, "look", {"at": count}) for count in (1, 2))
    calls = [ToolUsePart(id=made, name="look", input={"at": at}) for at, made in enumerate((first, second), start=1)]
    results = [
        written("tool", ToolResultPart(tool_use_id=made, content=[TextPart(text=text)]))
        for made, text in ((second, "two"), (first, "one"))
    ]
    contents = request_body(talk(written("assistant", *calls), *results))["contents"]
    assert contents == [
        {
            "role": "model",
            "parts": [
                {"functionCall": {"name": "look", "args": {"at": 1}}},
                {"functionCall": {"name": "look", "args": {"at": 2}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "look", "response": {"output": "one"}}},
                {"functionResponse": {"name": "look", "response": {"output": "two"}}},
            ],
        },
    ]


def test_of_two_calls_with_one_id_the_later_one_names_the_result():
    turns = [
        message
        for name in ("look", "listen")
        for message in (
            written("assistant", ToolUsePart(id="same", name=name, input={})),
            written("user", ToolResultPart(tool_use_id="same")),
        )
    ]
    named = [
        part["functionResponse"]["name"]
        for turn in request_body(talk(*turns))["contents"][1::2]
        for part in turn["parts"]
    ]
    assert named == ["look", "listen"]


def test_a_result_without_a_call_is_named_by_its_id():
    (content,) = request_body(talk(written("tool", ToolResultPart(tool_use_id="gone"))))["contents"]
    assert content["parts"] == [{"functionResponse": {"id": "gone", "name": "gone", "response": {"output": []}}}]


def test_adjacent_messages_of_one_role_are_one_turn_and_empty_ones_are_none():
    order = talk(written("user", TextPart(text="a")), written("user", TextPart(text="b")), written("assistant"))
    assert request_body(order)["contents"] == [{"role": "user", "parts": [{"text": "a"}, {"text": "b"}]}]


def test_the_operators_parameters_are_merged_into_the_body():
    extra: dict[str, Any] = {
        "generationConfig": {"thinkingConfig": {"thinkingBudget": 64}, "temperature": 0.5},
        "tools": [{"googleSearch": {}}],
        "cachedContent": "cachedContents/a",
    }
    body = request_body(hello(tools=[ToolSpec(name="look")], thinking=True, parameters={"temperature": 1, **extra}))
    assert body["generationConfig"] == {
        "temperature": 0.5,
        "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 64},
    }
    assert body["tools"] == [{"functionDeclarations": [{"name": "look"}]}, {"googleSearch": {}}]
    assert body["cachedContent"] == "cachedContents/a"


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("gemini-3-pro", "/models/gemini-3-pro"),
        ("models/gemini-3-pro", "/models/gemini-3-pro"),
        ("tunedModels/mine", "/tunedModels/mine"),
        ("../secret?x", "/models/..%2Fsecret%3Fx"),
    ],
)
def test_a_model_is_addressed_by_its_name(model: str, path: str):
    requested = GEMINI.discovery_request(model)
    assert (requested.method, requested.path, requested.body) == ("GET", path, None)
    assert GEMINI.request(hello(stream=True), model).path == f"{path}:streamGenerateContent?alt=sse"


def test_the_key_is_in_a_header_and_nowhere_else():
    assert GEMINI.headers("k") == {"x-goog-api-key": "k"}
    assert GEMINI.headers(None) == {}
    assert GEMINI.base_url == "https://generativelanguage.googleapis.com/v1beta"


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ({"mode": "auto"}, {"mode": "AUTO"}),
        ({"mode": "none"}, {"mode": "NONE"}),
        ({"mode": "required"}, {"mode": "ANY"}),
        ({"mode": "tool", "name": "f"}, {"mode": "ANY", "allowedFunctionNames": ["f"]}),
    ],
)
def test_each_tool_choice_has_its_mode(choice: dict[str, Any], sent: dict[str, Any]):
    tools = [ToolSpec(name="f"), ToolSpec(name="g")]
    body = request_body(hello(tools=tools, tool_choice=ToolChoice.model_validate(choice)))
    assert body["toolConfig"] == {"functionCallingConfig": sent}
    assert "toolConfig" not in request_body(hello(tool_choice=ToolChoice.model_validate(choice)))


@pytest.mark.parametrize(
    ("reasoning", "sent"),
    [
        ({"effort": "none"}, {"thinkingBudget": 0}),
        ({"effort": "low"}, {"includeThoughts": True, "thinkingBudget": 1024}),
        ({"effort": "max"}, {"includeThoughts": True, "thinkingBudget": 24576}),
        ({"effort": "a new word"}, {"includeThoughts": True}),
        ({"effort": "low", "max_tokens": 2000}, {"includeThoughts": True, "thinkingBudget": 2000}),
        ({"summary": "auto"}, {"includeThoughts": True}),
    ],
)
def test_each_effort_is_a_budget(reasoning: dict[str, Any], sent: dict[str, Any]):
    for thinking in (False, True):
        order = hello(parameters={"reasoning": reasoning}, thinking=thinking)
        assert request_body(order)["generationConfig"]["thinkingConfig"] == sent
