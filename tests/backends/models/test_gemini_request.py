"""Work orders as Gemini requests, both directions: golden files, round trips, and what is unsupported."""

import json
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.apis.codec import UnsupportedByApiError
from accord.apis.gemini.call_ids import generate_id
from accord.apis.gemini.codec import SUPPORTED, UNSUPPORTED, GeminiCodec
from accord.core.work.derive import PARAMETERS, PART_REASONS
from accord.errors import RefusedError
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
from accord.wire.work import Reasoning, ToolChoice, ToolSpec, WorkOrder
from tests.backends.models.document_parts import part_of_text

GOLDEN = Path(__file__).parent / "golden" / "gemini"
GEMINI = GeminiCodec()
CASES = sorted(path.name for path in GOLDEN.glob("ask_*.json"))


def request_body(order: WorkOrder) -> dict[str, Any]:
    body = GEMINI.write_request(order, "gemini-3-pro").body
    assert body is not None
    return dict(body)


def order_of(body: dict[str, Any], *, streaming: bool = False) -> WorkOrder:
    """The order in this body, with documents and links instead of the text that they became."""
    order = GEMINI.read_request(body, "gemini-3-pro", streaming=streaming).order
    messages = [
        message.model_copy(update={"content": [unfold(part) for part in message.content]})
        for message in order.conversation.messages
    ]
    return order.model_copy(update={"conversation": Conversation(messages=messages)})


def unfold(part: MessagePart) -> MessagePart:
    if isinstance(part, ToolResultPart):
        return part.model_copy(update={"content": [unfold(inner) for inner in part.content]})
    return part_of_text(part.text) if isinstance(part, TextPart) else part


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
    requested = GEMINI.write_request(order, case["model"])
    assert requested.path == case["path"]
    assert json.dumps(requested.body, ensure_ascii=False) == json.dumps(case["body"], ensure_ascii=False)
    if case.get("there_and_back", True):
        named = GEMINI.read_path(f"/v1beta{case['path'].partition('?')[0]}")
        assert named == (case["model"], order.stream)
        assert order_of(case["body"], streaming=order.stream) == order


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


drawn_parameters = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.floats(0, 2),
        "top_p": st.floats(0, 1),
        "top_k": st.integers(1, 64),
        "max_tokens": st.integers(1, 9999),
        "seed": st.integers(0, 9),
        "logprobs": st.just(value=True) | st.integers(0, 20),
        "presence_penalty": st.floats(-2, 2),
        "frequency_penalty": st.floats(-2, 2),
        "labels": objects,
        "safetySettings": st.lists(objects, min_size=1, max_size=2),
    },
)
REASONINGS = (None, Reasoning(enabled=True), Reasoning(enabled=False), Reasoning(enabled=True, max_tokens=2048))
tools = st.lists(st.builds(ToolSpec, name=words, description=st.just("") | texts, input_schema=objects), max_size=2)


@st.composite
def orders(draw: st.DrawFn) -> WorkOrder:
    """Orders in their shortest form: a choice of tools only with tools, and reasoning in the words of this API."""
    parameters, offered = draw(drawn_parameters), draw(tools)
    named = [{"mode": "tool", "name": tool.name} for tool in offered[:1]]
    choices = st.none() | st.sampled_from([*({"mode": mode} for mode in ("auto", "none", "required")), *named])
    choice = draw(choices) if offered else None
    return WorkOrder(
        conversation=draw(conversations()),
        tools=offered,
        tool_choice=None if choice is None else ToolChoice.model_validate(choice),
        response_schema=draw(st.none() | objects),
        stop_sequences=draw(st.lists(texts, max_size=2)),
        stream=draw(st.booleans()),
        reasoning=draw(st.sampled_from(REASONINGS)),
        parameters=parameters,
    )


@given(orders())
def test_what_an_order_holds_is_all_in_the_request(order: WorkOrder):
    body = json.loads(json.dumps(request_body(order)))
    assert order_of(body, streaming=order.stream) == order
    assert GEMINI.read_request(body).fields == ()


@given(orders())
def test_a_request_that_was_read_is_written_as_it_came(order: WorkOrder):
    body = json.loads(json.dumps(request_body(order)))
    assert request_body(GEMINI.read_request(body).order) == body


def snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def in_snake_case(body: Any) -> Any:
    """The same body in Google's other spelling; what is the caller's own keeps its names."""
    free = {"args", "response", "parametersJsonSchema", "responseJsonSchema", "labels", "safetySettings"}
    if isinstance(body, list):
        return [in_snake_case(each) for each in cast("list[Any]", body)]
    if not isinstance(body, dict):
        return body
    members = cast("dict[str, Any]", body).items()
    return {snake(name): value if name in free else in_snake_case(value) for name, value in members}


@given(orders())
def test_both_spellings_of_a_member_mean_the_same(order: WorkOrder):
    body = json.loads(json.dumps(request_body(order)))
    assert GEMINI.read_request(in_snake_case(body)).order == GEMINI.read_request(body).order


READ: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "what no order has stays in its place": (
        {
            "safetySettings": [{"category": "HARM_CATEGORY_JAILBREAK"}],
            "tools": [{"googleSearch": {}}, {"functionDeclarations": [{"name": "f"}], "codeExecution": {}}],
            "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f", "g"]}},
            "generationConfig": {"responseModalities": ["IMAGE"], "thinkingConfig": {"thinkingLevel": "LOW"}},
        },
        {
            "tools": [{"name": "f"}],
            "tool_choice": {"mode": "required"},
            "reasoning": {"enabled": True, "effort": "low"},
            "parameters": {
                "safetySettings": [{"category": "HARM_CATEGORY_JAILBREAK"}],
                "tools": [{"googleSearch": {}}, {"codeExecution": {}}],
                "toolConfig": {"functionCallingConfig": {"allowedFunctionNames": ["f", "g"]}},
                "generationConfig": {"responseModalities": ["IMAGE"]},
            },
        },
    ),
    "a mode that no order has": (
        {"toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}}},
        {"parameters": {"toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}}}},
    ),
    "schemas in the older form": (
        {
            "generationConfig": {
                "responseMimeType": "application/json",
                "responseSchema": {
                    "type": "OBJECT",
                    "properties": {"type": {"type": "STRING", "nullable": True, "maxLength": "9"}},
                    "anyOf": [{"type": "ARRAY", "items": {"type": "INTEGER"}, "minItems": "1"}],
                },
            },
            "tools": [{"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT"}}]}],
        },
        {
            "response_schema": {
                "type": "object",
                "properties": {"type": {"type": ["string", "null"], "maxLength": 9}},
                "anyOf": [{"type": "array", "items": {"type": "integer"}, "minItems": 1}],
            },
            "tools": [{"name": "f", "input_schema": {"type": "object"}}],
        },
    ),
    "the model decides how long to think": (
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": -1, "includeThoughts": True}}},
        {"reasoning": {"enabled": True}},
    ),
}


@pytest.mark.parametrize("name", READ)
def test_each_member_of_a_body_has_its_place_in_the_order(name: str):
    body, fields = READ[name]
    assert GEMINI.read_request({"contents": [], **body}).order == WorkOrder.model_validate(fields)


def read_content(*parts: dict[str, Any], role: str = "user") -> list[dict[str, Any]]:
    order = GEMINI.read_request({"contents": [{"role": role, "parts": list(parts)}]}).order
    return [message.model_dump() for message in order.conversation.messages]


IMAGE = "https://a.test/b.png"
PARTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "an image by its address": (
        {"fileData": {"mimeType": "image/png", "fileUri": IMAGE}},
        {"type": "image", "media_type": "image/png", "data": "", "uri": IMAGE},
    ),
    "a file by its address": (
        {"fileData": {"mimeType": "application/pdf", "fileUri": "files/a", "displayName": "A"}},
        {"type": "resource_link", "uri": "files/a", "name": "A", "media_type": "application/pdf"},
    ),
    "a file with its name": (
        {"inlineData": {"mimeType": "video/mp4", "data": "aa", "displayName": "a.mp4"}},
        {"type": "resource", "uri": "a.mp4", "media_type": "video/mp4", "data": "aa"},
    ),
    "a result of any shape": (
        {"functionResponse": {"id": "a", "name": "f", "response": {"degrees": 9}}},
        {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": '{"degrees": 9}'}]},
    ),
    "a result with more than its output": (
        {"functionResponse": {"id": "a", "name": "f", "response": {"output": "x", "more": 1}}},
        {
            "type": "tool_result",
            "tool_use_id": "a",
            "content": [{"type": "text", "text": '{"output": "x", "more": 1}'}],
        },
    ),
    "a result whose only member is its own": (
        {"functionResponse": {"id": "a", "name": "f", "response": {"degrees": "9"}}},
        {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": '{"degrees": "9"}'}]},
    ),
    "a value that is no text": (
        {"functionResponse": {"id": "a", "name": "f", "response": {"result": 9}}},
        {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "9"}]},
    ),
    "an error": (
        {"functionResponse": {"id": "a", "name": "f", "response": {"error": "no"}}},
        {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "no"}], "is_error": True},
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_each_part_of_a_message_is_read(name: str):
    part, expected = PARTS[name]
    ((message),) = read_content(part)
    role = "tool" if expected["type"] == "tool_result" else "user"
    assert message == written(role, MessagePart(**expected)).model_dump()


def test_an_image_by_its_address_keeps_it_after_a_line_that_names_a_file():
    parts = [{"text": '<file {"uri": "a"}/>'}, {"fileData": {"mimeType": "image/png", "fileUri": IMAGE}}]
    ((text, image),) = (message["content"] for message in read_content(*parts))
    assert (text["type"], image["uri"]) == ("text", IMAGE)


def test_media_that_no_value_of_a_result_names_is_kept():
    blob = {"inlineData": {"mimeType": "image/png", "data": "aa"}}
    (message,) = read_content({"functionResponse": {"name": "f", "response": {"output": "x"}, "parts": [blob]}})
    assert [part["type"] for part in message["content"][0]["content"]] == ["text", "image"]


def test_text_with_a_signature_is_two_parts():
    assert read_content({"text": "So.", "thoughtSignature": "s"}, role="model") == [
        written("assistant", TextPart(text="So."), ThinkingPart(text="", signature="s", redacted=True)).model_dump()
    ]


def test_calls_and_results_without_ids_are_paired_by_name_and_order():
    body: dict[str, Any] = {
        "contents": [
            {"role": "model", "parts": [{"functionCall": {"name": name, "args": {}}} for name in ("f", "g", "f")]},
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": name, "response": {"output": text}}}
                    for name, text in (("f", "one"), ("f", "three"), ("g", "two"), ("h", "other"))
                ],
            },
        ]
    }
    order = GEMINI.read_request(body).order
    calls, results = (message.content for message in order.conversation.messages)
    ids = [call.id for call in calls if isinstance(call, ToolUsePart)]
    assert len(set(ids)) == 3
    assert [part.tool_use_id for part in results if isinstance(part, ToolResultPart)] == [ids[0], ids[2], ids[1], "h"]


def test_what_no_part_can_hold_is_reported():
    parts = [{"executableCode": {"code": "1"}}, {"text": "a", "videoMetadata": {"fps": 1}}]
    tools = [{"functionDeclarations": [{"name": "f", "behavior": "BLOCKING"}]}]
    request = GEMINI.read_request({"contents": [{"parts": parts}], "tools": tools})
    assert request.fields == (
        "contents[].parts[].executableCode",
        "contents[].parts[].videoMetadata",
        "tools[].functionDeclarations[].behavior",
    )


def test_the_request_has_its_model_and_how_many_answers_are_wanted():
    body: dict[str, Any] = {"contents": [], "generationConfig": {"candidateCount": 2}, "accord": {"policy": "strict"}}
    request = GEMINI.read_request(body, "m", streaming=True)
    assert (request.model, request.answers, request.accord) == ("m", 2, {"policy": "strict"})
    assert request.order == WorkOrder(stream=True)
    assert request.body is body


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1beta/models/gemini-3-pro:generateContent", ("gemini-3-pro", False)),
        ("/models/a%2Fb:streamGenerateContent", ("a/b", True)),
        ("/v1beta/tunedModels/mine:generateContent", ("tunedModels/mine", False)),
        ("/v1/projects/p/locations/l/publishers/google/models/m:generateContent", ("m", False)),
        ("/v1beta/models/m:countTokens", None),
        ("/v1beta/models", None),
    ],
)
def test_a_path_names_the_model(path: str, expected: tuple[str, bool] | None):
    assert GEMINI.read_path(path) == expected


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"contents": {}}, "contents"),
    ({"contents": ["a"]}, "contents[0]"),
    ({"contents": [{"role": "other"}]}, "contents[0].role"),
    ({"contents": [{"parts": "a"}]}, "contents[0].parts"),
    ({"contents": [{"parts": [{"text": 1}]}]}, "contents[0].parts[0].text"),
    ({"contents": [{"parts": [{"functionCall": {}}]}]}, "contents[0].parts[0].functionCall.name"),
    ({"contents": [{"parts": [{"inlineData": 1}]}]}, "contents[0].parts[0].inlineData"),
    ({"tools": [{"functionDeclarations": [{}]}]}, "tools[0].functionDeclarations[0].name"),
    ({"generationConfig": {"temperature": "hot"}}, "generationConfig.temperature"),
    ({"generationConfig": {"topP": True}}, "generationConfig.topP"),
    ({"generationConfig": {"candidateCount": 0}}, "generationConfig.candidateCount"),
    ({"temperature": 1}, "temperature"),
]


@pytest.mark.parametrize(("body", "field"), REFUSED, ids=str)
def test_a_body_that_is_no_request_is_refused_by_its_field(body: dict[str, Any], field: str):
    with pytest.raises(RefusedError) as caught:
        GEMINI.read_request(body)
    assert caught.value.details["field"] == field
    assert str(caught.value).startswith(f"{field}: expected ")


def test_json_mode_sets_only_the_media_type():
    assert request_body(hello(json_mode=True))["generationConfig"] == {"responseMimeType": "application/json"}
    assert order_of(request_body(hello(json_mode=True))) == hello(json_mode=True)


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_parameter_is_sent_or_declared_unsupported(name: str):
    order = hello(parameters={name: 1})
    if PARAMETERS[name] not in UNSUPPORTED:
        assert list(request_body(order)["generationConfig"].values())[-1:] == [1]
        return
    with pytest.raises(UnsupportedByApiError) as caught:
        request_body(order)
    assert caught.value.capability == PARAMETERS[name]


@pytest.mark.parametrize(
    ("likeliest", "sent"),
    [
        (True, {"responseLogprobs": True}),
        (0, {"responseLogprobs": True, "logprobs": 0}),
        (3, {"responseLogprobs": True, "logprobs": 3}),
        (False, None),
    ],
)
def test_log_probabilities_are_requested(likeliest: int, sent: dict[str, Any] | None):
    assert request_body(hello(parameters={"logprobs": likeliest})).get("generationConfig") == sent


def test_all_content_of_a_conversation_can_be_sent():
    everything: list[MessagePart] = [
        ImagePart(media_type="image/png", data="aa"),
        AudioPart(media_type="audio/wav", data="aa"),
        ResourcePart(uri="file:///a.pdf", media_type="application/pdf", data="aa"),
        ResourcePart(uri="file:///a.bin", data="aa"),
        ImagePart(media_type="", data="", uri="https://a.test/b.png"),
        ResourcePart(uri="https://a.test/a.pdf", media_type="application/pdf", data=""),
    ]
    request_body(
        talk(written("user", *everything), written("tool", ToolResultPart(tool_use_id="a", content=everything)))
    )
    assert not set(UNSUPPORTED) & {*PART_REASONS, *SUPPORTED}


ADDRESSES: list[tuple[ImagePart | ResourcePart, dict[str, str]]] = [
    (ImagePart(media_type="", data="", uri="https://a.test/b.JPG?x=1.y"), {"mimeType": "image/jpeg"}),
    (ImagePart(media_type="", data="", uri="https://a.test/b"), {}),
    (ImagePart(media_type="image/heic", data="", uri="https://a.test/b"), {"mimeType": "image/heic"}),
    (ResourcePart(uri="https://a.test/b", media_type="application/pdf", data=""), {"mimeType": "application/pdf"}),
]


@pytest.mark.parametrize(("part", "media_type"), ADDRESSES)
def test_the_endpoint_fetches_media_by_their_addresses(part: ImagePart | ResourcePart, media_type: dict[str, str]):
    file = {**media_type, "fileUri": part.uri}
    sent = request_body(talk(written("user", part)))
    assert sent["contents"] == [{"role": "user", "parts": [{"fileData": file}]}]
    result = request_body(talk(written("tool", ToolResultPart(tool_use_id="a", content=[part]))))
    response = result["contents"][0]["parts"][0]["functionResponse"]
    assert response["parts"] == [{"fileData": {**file, "displayName": "part_1"}}]
    if isinstance(part, ResourcePart) or part.media_type:
        assert GEMINI.read_request(sent).order.conversation.messages[0].content == [part]


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
    assert GEMINI.write_request(hello(stream=True), model).path == f"{path}:streamGenerateContent?alt=sse"


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
