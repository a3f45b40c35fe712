"""How work orders are written for the Messages API: golden files both ways, and nothing lost that it can carry."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.apis.codec import UnsupportedByApiError
from accord.apis.messages.codec import MessagesCodec
from accord.core.work.derive import PARAMETERS
from accord.wire.capability import FILE_INPUT, IMAGE_URL, Capability
from accord.wire.conversation import Conversation
from accord.wire.work import ToolChoice, ToolSpec, WorkOrder

GOLDEN = Path(__file__).parent / "golden" / "anthropic" / "asks"
API = MessagesCodec()
MODEL = "claude-test"
IMAGE = {"type": "image", "media_type": "image/png", "data": "aGk="}
PDF = {"type": "resource", "uri": "file:///a.pdf", "media_type": "application/pdf", "data": "aGk="}
MERGED = {"untidy", "tools", "cache", "documents"}
"""Orders whose messages are moved or merged for the API, or have what it carries in another form."""


def order(*parts: dict[str, Any], role: str = "user", **fields: Any) -> WorkOrder:
    talk = Conversation.model_validate(
        {"messages": [{"role": role, "content": parts or [{"type": "text", "text": "a"}]}]}
    )
    return WorkOrder(conversation=talk, **fields)


def body(work: WorkOrder, api: MessagesCodec = API) -> Any:
    return api.write_request(work, MODEL).body


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_every_order_gives_the_body_of_its_golden_file(path: Path):
    case = json.loads(path.read_text(encoding="utf-8"))
    work = WorkOrder.model_validate(case["order"])
    api_request = MessagesCodec(**case["options"]).write_request(work, MODEL)
    assert (api_request.method, api_request.path) == ("POST", "/v1/messages")
    assert api_request.body == case["body"]
    assert api_request.body is not None
    assert list(api_request.body) == list(case["body"])
    assert work == WorkOrder.model_validate(case["order"])


@pytest.mark.parametrize("name", sorted({path.stem for path in GOLDEN.glob("*.json")} - MERGED))
def test_every_golden_body_reads_back_as_its_conversation(name: str):
    path = GOLDEN / f"{name}.json"
    case = json.loads(path.read_text(encoding="utf-8"))
    work = WorkOrder.model_validate(case["order"])
    assert API.read_request(case["body"]).order.conversation == work.conversation


TEXTS = st.sampled_from(["a", " b ", "ß世👋", "two\nlines\n", '{"c": 1}', "<b>"])
NAMES = st.sampled_from(["a", "b_c", "toolu_1"])
DATA = st.sampled_from(["aGk=", "AAAA"])
SEALS = st.sampled_from(["c2VhbA==", "EqQB"])
Parts = st.SearchStrategy[dict[str, Any]]


def kind(named: str, optional: dict[str, Any] | None = None, /, **fields: Any) -> Parts:
    return st.fixed_dictionaries({"type": st.just(named), **fields}, optional=optional or {})


URIS = st.sampled_from(["file:///a", "https://example.org/" + "a" * 600])
TEXT_PARTS = kind("text", text=TEXTS)
TEXT_DOCUMENTS = kind(
    "resource", {"media_type": st.sampled_from(["text/plain", "text/csv"])}, uri=URIS, text=TEXTS | st.just("")
)
LINKS = kind("resource_link", {"description": TEXTS}, uri=URIS, name=NAMES)
IMAGES = kind("image", media_type=st.just("image/png"), data=DATA)
PDFS = kind("resource", uri=URIS, media_type=st.just("application/pdf"), data=DATA)
GIVEN = st.lists(TEXT_PARTS | TEXT_DOCUMENTS | LINKS | IMAGES | PDFS, min_size=1, max_size=4)
RESULTS = st.lists(
    kind("tool_result", {"content": GIVEN, "is_error": st.booleans()}, tool_use_id=NAMES), min_size=1, max_size=2
)
SEALED = kind("thinking", text=TEXTS | st.just(""), signature=SEALS)
REDACTED = kind("thinking", text=st.just(""), signature=SEALS, redacted=st.just(value=True))
CALLS = kind("tool_use", id=NAMES, name=NAMES, input=st.dictionaries(NAMES, TEXTS | st.lists(st.none()), max_size=2))
ANSWERS = st.lists(TEXT_PARTS | SEALED | REDACTED | CALLS, min_size=1, max_size=4)


@st.composite
def conversations(draw: st.DrawFn) -> Conversation:
    """A conversation in the form in which the API holds it."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": [part]} for part in draw(st.lists(TEXT_PARTS, max_size=2))
    ]
    messages.append({"role": "user", "content": draw(GIVEN)})
    for _ in range(draw(st.integers(0, 2))):
        messages.append({"role": "assistant", "content": draw(ANSWERS)})
        is_answered = draw(st.booleans())
        messages += [{"role": "tool", "content": draw(RESULTS)}] if is_answered else []
        messages += [{"role": "user", "content": draw(GIVEN)}] if not is_answered or draw(st.booleans()) else []
    return Conversation.model_validate({"messages": messages})


PARAMETER_SETS = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.just(1),
        "top_p": st.sampled_from([0.95, 1]),
        "max_tokens": st.integers(1025, 8191),
        "cache_control": st.just(True) | st.just({"ttl": "1h"}),
        "metadata": st.just({"user_id": "u"}),
        "service_tier": st.just("auto"),
    },
)
ORDERS = st.builds(
    WorkOrder,
    conversation=conversations(),
    tools=st.lists(
        st.builds(
            ToolSpec,
            name=NAMES,
            description=TEXTS | st.just(""),
            input_schema=st.just({"type": "object", "title": "a"}),
        ),
        max_size=2,
    ),
    response_schema=st.none() | st.just({"type": "object"}),
    stop_sequences=st.lists(TEXTS, max_size=2),
    stream=st.booleans(),
    thinking=st.booleans(),
    parameters=PARAMETER_SETS,
)


@given(ORDERS)
def test_the_rules_of_the_api_are_kept(work: WorkOrder):
    written = json.loads(json.dumps(body(work)))
    roles = [message["role"] for message in written["messages"]]
    assert roles[0] == "user"
    assert all(first != second for first, second in pairwise(roles))
    for message in written["messages"]:
        assert message["content"]
        kinds = [block["type"] == "tool_result" for block in message["content"]]
        assert kinds == sorted(kinds, reverse=True)
        assert all(block["text"].strip() for block in message["content"] if block["type"] == "text")


NEEDING: dict[str, WorkOrder] = {
    "reasoning_history": order({"type": "thinking", "text": "Hm.", "signature": "seal"}, role="assistant"),
    Capability.STREAMING: order(stream=True),
    Capability.SYSTEM_MESSAGE: order(role="system"),
    Capability.STOP_SEQUENCES: order(stop_sequences=["a"]),
    Capability.TOOL_USE: order(tools=[ToolSpec(name="a")]),
    Capability.EXTENDED_THINKING: order(thinking=True),
    Capability.STRUCTURED_OUTPUT_JSON_SCHEMA: order(response_schema={}),
    Capability.JSON_MODE: order(json_mode=True),
    Capability.IMAGE_INPUT: order(IMAGE),
    Capability.PDF_INPUT: order(PDF),
    IMAGE_URL: order({"type": "image", "media_type": "", "data": "", "uri": "https://example.org/a.png"}),
    Capability.AUDIO: order({"type": "audio", "media_type": "audio/wav", "data": "aGk="}),
    FILE_INPUT: order({**PDF, "media_type": "application/zip"}),
    "tool_result_media": order({"type": "tool_result", "tool_use_id": "a", "content": [IMAGE]}),
    **{capability: order(parameters={name: 1}) for name, capability in PARAMETERS.items()},
}
SPEAKERS = {
    "default": MessagesCodec(),
    "without schemas": MessagesCodec(structured_output=False),
    "newer": MessagesCodec(version="2026-10-21"),
}
OF_MODELS = {
    Capability.TOOL_USE,
    Capability.EXTENDED_THINKING,
    Capability.STRUCTURED_OUTPUT_JSON_SCHEMA,
    Capability.IMAGE_INPUT,
    Capability.PDF_INPUT,
}


@pytest.mark.parametrize("api", SPEAKERS.values(), ids=SPEAKERS)
@pytest.mark.parametrize("capability", NEEDING)
def test_exactly_the_unsupported_capabilities_are_refused(capability: str, api: MessagesCodec):
    if capability not in api.unsupported:
        body(NEEDING[capability], api)
        return
    with pytest.raises(UnsupportedByApiError) as caught:
        body(NEEDING[capability], api)
    assert (caught.value.capability, caught.value.reason) == (capability, api.unsupported[capability])


@pytest.mark.parametrize("api", SPEAKERS.values(), ids=SPEAKERS)
def test_every_capability_of_an_order_is_supported_unsupported_or_the_models(api: MessagesCodec):
    assert set(api.supported).isdisjoint(api.unsupported)
    assert set(NEEDING) == {*api.supported, *api.unsupported, *(OF_MODELS - set(api.unsupported))}


@pytest.mark.parametrize(
    ("work", "capability"),
    [
        (order(thinking=True, parameters={"temperature": 0.5}), Capability.TEMPERATURE),
        (order(thinking=True, parameters={"top_p": 0.5}), Capability.TOP_P),
        (order(thinking=True, parameters={"top_k": 5}), Capability.TOP_K),
        (order(thinking=True, parameters={"max_tokens": 1024}), Capability.EXTENDED_THINKING),
        (order(IMAGE, role="assistant"), Capability.IMAGE_INPUT),
        (order(PDF, role="system"), Capability.PDF_INPUT),
        (order({"type": "tool_use", "id": "a", "name": "a", "input": [1]}, role="assistant"), Capability.TOOL_USE),
        (order({"type": "tool_use", "id": "a", "name": "a", "input": {}}), Capability.TOOL_USE),
        (order({"type": "tool_result", "tool_use_id": "a"}, role="assistant"), Capability.TOOL_USE),
    ],
)
def test_invalid_combinations_are_refused_and_not_left_out(work: WorkOrder, capability: str):
    with pytest.raises(UnsupportedByApiError) as caught:
        body(work, MessagesCodec(thinking_budget=2048))
    assert caught.value.capability == capability


def test_thinking_leaves_room_for_the_answer():
    api = MessagesCodec(thinking_budget=4096)
    for max_tokens, budget in ((1025, 1024), (4096, 2048), (4097, 4096), (9000, 4096)):
        requested = body(order(thinking=True, parameters={"max_tokens": max_tokens}), api)
        assert (requested["thinking"]["budget_tokens"], requested["max_tokens"]) == (budget, max_tokens)


def test_reasoning_without_a_signature_becomes_text():
    thought = {"type": "thinking", "text": "hm"}
    hidden = {"type": "thinking", "text": "", "redacted": True}
    written = body(order(thought, hidden, {"type": "text", "text": "a"}, role="assistant"))
    assert [block.get("text") for block in written["messages"][-1]["content"]] == ["[thought: hm]", "a"]


def test_documents_become_text_where_the_api_takes_only_text():
    notes = {"type": "resource", "uri": "file:///a", "text": "words"}
    written = body(order(notes, role="system"))
    assert written["system"] == [{"type": "text", "text": '<document {"uri": "file:///a"}>\nwords\n</document>'}]


def test_the_operators_parameters_win():
    requested = body(order(thinking=True, parameters={"thinking": {"type": "disabled"}, "cache_control": False}))
    assert requested["thinking"] == {"type": "disabled"}
    assert "cache_control" not in json.dumps(requested)


MARK = {"type": "ephemeral"}
TOOLS = [ToolSpec(name="a", strict=True, cache_control=MARK), ToolSpec(name="b", strict=False)]


def test_tools_keep_their_strictness_and_their_marks():
    schema = {"type": "object"}
    assert body(order(tools=TOOLS))["tools"] == [
        {"name": "a", "input_schema": schema, "strict": True, "cache_control": MARK},
        {"name": "b", "input_schema": schema, "strict": False},
    ]


@pytest.mark.parametrize(
    ("choice", "parallel", "written"),
    [
        (None, None, None),
        (None, True, None),
        (ToolChoice(), None, None),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        (ToolChoice(mode="none"), False, {"type": "none"}),
        (ToolChoice(mode="required"), None, {"type": "any"}),
        (ToolChoice(mode="required"), False, {"type": "any", "disable_parallel_tool_use": True}),
        (ToolChoice(mode="tool", name="b"), None, {"type": "tool", "name": "b"}),
    ],
)
def test_each_tool_choice_has_its_form(choice: ToolChoice | None, parallel: bool | None, written: Any):
    requested = body(order(tools=TOOLS, tool_choice=choice, parallel_tool_calls=parallel))
    assert requested.get("tool_choice") == written


def test_without_tools_there_is_no_choice_and_none_can_be_forced():
    assert "tool_choice" not in body(order(tool_choice=ToolChoice(mode="none"), parallel_tool_calls=False))
    for work, capability in (
        (order(tool_choice=ToolChoice(mode="required")), Capability.TOOL_USE),
        (order(tools=TOOLS, tool_choice=ToolChoice(mode="required"), thinking=True), Capability.EXTENDED_THINKING),
    ):
        with pytest.raises(UnsupportedByApiError) as caught:
            body(work)
        assert caught.value.capability == capability


@pytest.mark.parametrize(
    ("options", "reasoning", "thinking", "config"),
    [
        ({"thinking_budget": 8000}, {}, {"type": "enabled", "budget_tokens": 8000}, None),
        ({"thinking_budget": 48000}, {"effort": "medium"}, {"type": "enabled", "budget_tokens": 16000}, None),
        ({"thinking_budget": 2000}, {"effort": "low"}, {"type": "enabled", "budget_tokens": 1024}, None),
        ({"thinking_budget": 8000}, {"effort": "max"}, {"type": "enabled", "budget_tokens": 8000}, None),
        ({"thinking_budget": 8000}, {"effort": "a new word"}, {"type": "enabled", "budget_tokens": 8000}, None),
        ({"thinking_budget": 8000}, {"max_tokens": 2048}, {"type": "enabled", "budget_tokens": 2048}, None),
    ],
)
def test_a_configured_budget_is_shared_out_by_the_effort(options: Any, reasoning: Any, thinking: Any, config: Any):
    requested = body(order(reasoning={"enabled": True, **reasoning}), MessagesCodec(**options))
    assert (requested.get("thinking"), requested.get("output_config")) == (thinking, config)


def test_the_callers_budget_does_not_shorten_the_answer():
    requested = body(order(reasoning={"enabled": True, "max_tokens": 2048}), MessagesCodec(max_tokens=100))
    assert requested["max_tokens"] == 2148


def test_an_effort_and_a_schema_share_their_object():
    requested = body(order(response_schema={"type": "object"}, reasoning={"effort": "low"}))
    assert requested["output_config"] == {
        "format": {"type": "json_schema", "schema": {"type": "object"}},
        "effort": "low",
    }


def test_an_image_by_its_address_is_fetched_by_the_endpoint():
    part = {"type": "image", "media_type": "", "data": "", "uri": "https://example.org/a.png", "detail": "high"}
    source = {"type": "url", "url": "https://example.org/a.png"}
    assert body(order(part))["messages"][0]["content"] == [{"type": "image", "source": source}]
    read_from = {**IMAGE, "uri": "https://example.org/a.png"}
    assert body(order(read_from))["messages"][0]["content"][0]["source"]["type"] == "base64"


@pytest.mark.parametrize(
    ("role", "part", "is_marked"),
    [
        ("user", {"type": "text", "text": "a"}, True),
        ("system", {"type": "text", "text": "a"}, True),
        ("user", IMAGE, True),
        ("user", PDF, True),
        ("assistant", {"type": "tool_use", "id": "a", "name": "a", "input": {}}, True),
        ("tool", {"type": "tool_result", "tool_use_id": "a"}, True),
        ("assistant", {"type": "thinking", "text": "a", "signature": "s"}, False),
        ("assistant", {"type": "thinking", "text": "", "signature": "s", "redacted": True}, False),
    ],
)
def test_each_part_keeps_its_mark_where_the_api_takes_one(role: str, part: dict[str, Any], is_marked: bool):
    requested = body(order({**part, "cache_control": MARK}, role=role))
    written = requested["system"] if role == "system" else requested["messages"][-1]["content"]
    assert (written[0].get("cache_control") == MARK) is is_marked


def test_a_document_without_a_name_has_no_title():
    untitled = [{"type": "resource", "uri": "", "text": "words"}, {**PDF, "uri": ""}]
    documents = body(order(*untitled))["messages"][0]["content"]
    assert [sorted(document) for document in documents] == [["source", "type"]] * 2
