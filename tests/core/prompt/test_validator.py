"""The content check as a whole: vectors, contexts, policies, explanations."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.acp import schema_v2
from accord.acp.schema_parts import ContentBlock, PromptCapabilities
from accord.acp.schema_v1 import AgentCapabilities, InitializeResponse
from accord.core.prompt import (
    ContentLimits,
    ContentValidator,
    Declaration,
    ValidationContext,
    ValidationPolicy,
    Verdict,
)
from accord.core.prompt.fast_check import are_all_valid, count_valid_json
from accord.core.prompt.rules import check_block
from accord.core.prompt.verdict import MAX_LISTED
from accord.errors import ErrorCode, UsageError
from tests.vectors import read_vectors

VECTORS = read_vectors("content.jsonl")
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8/5+hHgAHggJ/PchI7wAAAABJRU5ErkJggg=="
TEXT = {"type": "text", "text": "hello"}
LINK = {"type": "resource_link", "uri": "file:///a.txt", "name": "a.txt"}
IMAGE = {"type": "image", "mimeType": "image/png", "data": PNG}
AUDIO = {"type": "audio", "mimeType": "audio/wav", "data": "UklGRiQAAABXQVZFZm10IBAAAAABAAEA"}
RESOURCE = {"type": "resource", "resource": {"uri": "file:///b.py", "text": "print()"}}
BLOB = {"type": "resource", "resource": {"uri": "file:///c.bin", "blob": "AAECAw=="}}
EVERYTHING = {"image": True, "audio": True, "embeddedContext": True}
ALL = [TEXT, LINK, IMAGE, AUDIO, RESOURCE, BLOB]


def assert_matches(verdict: Verdict, line: dict[str, Any]):
    assert verdict.valid is line["valid"]
    assert list(verdict.results) == line["blockResults"]
    assert [violation.index for violation in verdict.violations] == line["errorIndexes"]
    expected = line["response"]
    if line["exact"] or expected is None:
        assert verdict.error == expected
        return
    assert verdict.error is not None
    assert verdict.error["code"] == expected["code"]
    assert verdict.error["data"].get("error") == expected["data"].get("error")


@pytest.mark.parametrize("line", VECTORS, ids=lambda line: f"{line['id']}-{line['name']}")
def test_each_vector_gives_its_verdict_from_values_and_from_bytes(line: dict[str, Any]):
    validator = ContentValidator(line["capabilities"], protocol_version=line["protocolVersion"])
    assert_matches(validator.validate(line["content"], context=line["context"]), line)
    assert_matches(validator.validate_json(json.dumps(line["content"]).encode(), context=line["context"]), line)


@pytest.mark.parametrize("context", ValidationContext)
@pytest.mark.parametrize("block", [TEXT, LINK])
def test_decision_16_text_and_links_are_always_accepted(context: ValidationContext, block: dict[str, Any]):
    for declared in (None, {}, {"image": False}):
        assert ContentValidator(declared).validate([block], context=context).valid


def test_decision_17_several_violations_are_one_error_that_lists_them_all():
    error = ContentValidator({"audio": True}).validate([IMAGE, TEXT, RESOURCE, AUDIO]).error
    assert error is not None
    assert error["message"] == "Multiple content capability violations: 2 issues"
    assert [violation["data"]["contentType"] for violation in error["data"]["violations"]] == ["image", "resource"]


@pytest.mark.parametrize("context", ValidationContext)
def test_decision_18_all_three_contexts_enforce_by_default(context: ValidationContext):
    assert not ContentValidator({}).validate([IMAGE], context=context).valid


def test_decision_18_a_warning_accepts_the_content_and_lists_the_violation():
    validator = ContentValidator({}, policies={"session_update": "warn"})
    verdict = validator.validate([IMAGE], context="session_update")
    assert verdict.valid
    assert verdict.error is None
    assert list(verdict.results) == [True]
    assert [violation.index for violation in verdict.violations] == [0]
    assert not validator.validate([IMAGE], context="prompt").valid


def test_decision_18_a_context_that_is_off_is_not_checked():
    verdict = ContentValidator({}, policies={ValidationContext.TOOL_RESULT: ValidationPolicy.OFF}).validate(
        [None], context="tool_result"
    )
    assert verdict.valid
    assert verdict.violations == ()


def test_an_unknown_context_is_a_usage_error():
    with pytest.raises(UsageError, match="weather"):
        ContentValidator().validate([], context="weather")


@pytest.mark.parametrize(
    "declared", [EVERYTHING, PromptCapabilities(image=True, audio=True, embedded_context=True)], ids=["dict", "model"]
)
def test_a_declaration_may_be_as_received_or_a_model(declared: Any):
    assert ContentValidator(declared).validate(ALL).valid


def test_a_draft_declaration_may_be_a_model():
    declared = schema_v2.PromptCapabilities.model_validate({"image": {}})
    assert ContentValidator(declared, protocol_version=2).validate([IMAGE]).valid
    assert not ContentValidator(declared, protocol_version=2).validate([AUDIO]).valid


@pytest.mark.parametrize("declared", [{"image": {}}, {"image": "true"}, {"image": 1}, {"promptCapabilities": True}])
def test_a_malformed_declaration_declares_nothing(declared: Any):
    assert ContentValidator(declared).declaration.accepted == ("text", "resource_link")


@pytest.mark.parametrize("declared", [[], ["image"], "image", 1, True, b"{}"])
def test_a_value_that_is_no_declaration_is_refused(declared: Any):
    with pytest.raises(UsageError) as caught:
        ContentValidator(declared)
    assert str(caught.value) == (
        'capabilities: expected prompt capabilities such as {"image": True}, or an object with promptCapabilities, '
        f"not {type(declared).__name__}"
    )


FLAGGED = {"image": True, "embeddedContext": True}
DECLARATIONS: dict[str, Any] = {
    "prompt capabilities": FLAGGED,
    "with unknown members": {**FLAGGED, "_meta": {"audio": True}, "video": True},
    "as Python spells them": {"image": True, "embedded_context": True},
    "agent capabilities": {"promptCapabilities": FLAGGED, "loadSession": True},
    "of the documents": {"agentCapabilities": {"promptCapabilities": FLAGGED}},
    "an initialize result": {"protocolVersion": 1, "agentCapabilities": {"promptCapabilities": FLAGGED}},
    "an initialize response": {
        "jsonrpc": "2.0",
        "id": 0,
        "result": {"agentCapabilities": {"promptCapabilities": FLAGGED}},
    },
    "all as Python spells them": {
        "agent_capabilities": {"prompt_capabilities": {"image": True, "embedded_context": True}}
    },
    "a model": PromptCapabilities(image=True, embedded_context=True),
    "a model of agent capabilities": AgentCapabilities(prompt_capabilities=PromptCapabilities.model_validate(FLAGGED)),
    "a model of the result": InitializeResponse.model_validate(
        {"protocolVersion": 1, "agentCapabilities": {"promptCapabilities": FLAGGED}}
    ),
    "flags beside an object of that name": {**FLAGGED, "promptCapabilities": {"audio": True}},
}


@pytest.mark.parametrize("declared", DECLARATIONS.values(), ids=DECLARATIONS)
def test_a_declaration_is_found_in_what_contains_it(declared: Any):
    assert ContentValidator(declared).declaration.accepted == ("text", "resource_link", "image", "resource")


@pytest.mark.parametrize(
    "declared",
    [None, {}, {"loadSession": True}, {"agentCapabilities": {}}, {"protocolVersion": 1}, {"result": {"image": True}}],
)
def test_what_is_omitted_is_unsupported(declared: Any):
    assert ContentValidator(declared).declaration.accepted == ("text", "resource_link")


@pytest.mark.parametrize(
    "declared",
    [
        {"image": {}},
        {"session": {"prompt": {"image": {}}}},
        {"protocolVersion": 2, "capabilities": {"session": {"prompt": {"image": {}}}}},
        schema_v2.InitializeResponse.model_validate(
            {
                "protocolVersion": 2,
                "info": {"name": "a", "version": "1"},
                "capabilities": {"session": {"prompt": {"image": {}}}},
            }
        ),
    ],
)
def test_a_draft_declaration_is_found_in_what_contains_it(declared: Any):
    assert ContentValidator(declared, protocol_version=2).declaration.accepts("image")


@pytest.mark.parametrize("block", [*ALL, {"type": "video"}, {}, None, "text", 1])
def test_one_block_gets_the_verdict_that_it_gets_in_a_list(block: Any):
    validator = ContentValidator({"audio": True}, policies={"tool_result": "warn"})
    for context in ValidationContext:
        assert validator.validate_content_block(block, context) == validator.validate([block], context)
    assert validator.validate_content_block(block).error == validator.validate([block]).error


def test_one_block_may_be_a_model():
    assert ContentValidator({"image": True}).validate_content_block(ContentBlock.model_validate(IMAGE)).valid
    assert ContentValidator({}).validate_content_block(ContentBlock.model_validate(IMAGE)).error == (
        ContentValidator({}).validate_content_block(IMAGE).error
    )


ITERABLES: list[Callable[[list[Any]], Any]] = [
    tuple,
    iter,
    lambda blocks: (block for block in blocks),
    lambda blocks: dict(enumerate(blocks)).values(),
    lambda blocks: map(ContentBlock.model_validate, blocks),
]


@pytest.mark.parametrize("wrap", ITERABLES)
def test_blocks_may_be_any_iterable(wrap: Callable[[list[Any]], Any]):
    validator = ContentValidator({"audio": True})
    assert validator.validate(wrap(ALL)) == validator.validate(ALL)
    assert validator.explain(wrap(ALL)) == validator.explain(ALL)


@pytest.mark.parametrize("blocks", ["text", b"[]", {"type": "text", "text": "a"}, None, 1])
def test_what_is_no_list_of_blocks_is_refused(blocks: Any):
    validator = ContentValidator({})
    assert not validator.validate(blocks).valid
    assert [decision.why for decision in validator.explain(blocks)] == ["Invalid content structure"]


def test_blocks_may_be_models():
    blocks = [ContentBlock.model_validate(block) for block in ALL]
    assert ContentValidator(EVERYTHING).validate(blocks).valid
    assert list(ContentValidator({}).validate(blocks).results) == [True, True, False, False, False, False]


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"not json", -32700),
        (b"", -32700),
        (b'[{"type":"text","text":NaN}]', -32700),
        (b"[" * 100_000, -32700),
        (b"\xff", -32700),
        (b"{}", -32602),
        (b"null", -32602),
        (b'"text"', -32602),
    ],
)
def test_bytes_that_are_no_array_of_blocks_give_one_error(raw: bytes, code: int):
    verdict = ContentValidator(EVERYTHING).validate_json(raw)
    assert not verdict.valid
    assert verdict.error is not None
    assert verdict.error["code"] == code


def test_the_results_name_which_blocks_are_accepted():
    assert list(ContentValidator({}).validate([TEXT, IMAGE, LINK, None]).results) == [True, False, True, False]


CODES: list[tuple[list[Any], ErrorCode | None]] = [
    ([IMAGE], ErrorCode.CONTENT_UNSUPPORTED),
    ([{}], ErrorCode.CONTENT_INVALID),
    ([TEXT], None),
]


@pytest.mark.parametrize(("blocks", "code"), CODES)
def test_a_verdict_has_one_error_code(blocks: list[Any], code: ErrorCode | None):
    assert ContentValidator({}).validate(blocks).code is code


def test_every_decision_can_be_explained_without_its_payload():
    secret = {"type": "text", "text": "hunter2"}
    decisions = ContentValidator({}).explain([secret, IMAGE, 7])
    assert [(decision.content_type, decision.accepted) for decision in decisions] == [
        ("text", True),
        ("image", False),
        ("unknown", False),
    ]
    assert decisions[1].why == "Invalid content type: agent does not support image content"
    assert "hunter2" not in str(decisions)


def test_an_error_stays_small_whatever_was_sent():
    huge = "A" * 1_000_000
    for block in (
        {"type": huge},
        {"type": "image", "mimeType": huge, "data": "!" + huge},
        {"type": "text", "text": [huge]},
    ):
        assert len(json.dumps(ContentValidator(EVERYTHING).validate([block]).error)) < 1_000
    error = ContentValidator({}).validate([IMAGE] * (MAX_LISTED + 7)).error
    assert error is not None
    assert error["data"]["violationCount"] == MAX_LISTED + 7
    assert len(error["data"]["violations"]) == error["data"]["violationsListed"] == MAX_LISTED


SMALL = ContentLimits(max_block_bytes=10, max_prompt_bytes=25, max_blocks=4)


@pytest.mark.parametrize(
    ("texts", "results"),
    [
        (["a" * 10], [True]),
        (["a" * 11], [False]),
        (["é" * 5], [True]),
        (["é" * 6], [False]),
        (["a" * 10, "a" * 10, "a" * 5], [True, True, True]),
        (["a" * 10, "a" * 10, "a" * 6], [True, True, False]),
        (["a"] * 4, [True] * 4),
        (["a"] * 6, [True] * 4 + [False] * 2),
    ],
)
def test_limits_are_settings(texts: list[str], results: list[bool]):
    verdict = ContentValidator({}, limits=SMALL).validate([{"type": "text", "text": text} for text in texts])
    assert list(verdict.results) == results
    if not all(results):
        assert verdict.violations[0].data["error"] == "content_size_exceeded"


# --- laws ---

NEARLY: st.SearchStrategy[Any] = st.sampled_from(
    [*ALL, None, 5, "x", [], {}, {"type": "video"}, {"type": None}, {"text": "x"}]
)
FIELDS = st.sampled_from(["type", "text", "data", "mimeType", "uri", "name", "resource", "blob", "extra"])
VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [None, 1, "", "x", PNG, "AAA", "AA==", "====", "image/png", "audio/wav", "text", "image", {}, []]
)


@st.composite
def changed_blocks(draw: st.DrawFn) -> Any:
    block = draw(NEARLY)
    if not isinstance(block, dict) or not draw(st.booleans()):
        return block  # pyright: ignore[reportUnknownVariableType]
    changed: dict[str, Any] = {**block}
    field = draw(FIELDS)
    if draw(st.booleans()):
        changed.pop(field, None)
    else:
        changed[field] = draw(VALUES)
    if field in ("text", "blob", "uri") and isinstance(changed.get("resource"), dict):
        changed["resource"] = {**changed["resource"], field: draw(VALUES)}
    return changed


BLOCKS = st.lists(changed_blocks(), max_size=6)
DECLARED = st.fixed_dictionaries({flag: st.booleans() for flag in ("image", "audio", "embeddedContext")})


@given(BLOCKS, DECLARED)
def test_the_fast_check_and_the_rules_agree(blocks: list[Any], declared: dict[str, bool]):
    declaration: Declaration = ContentValidator(declared).declaration
    limits = ContentLimits()
    clean = not any(not isinstance(check_block(0, block, declaration, limits), int) for block in blocks)
    if are_all_valid(blocks, declaration, limits):
        assert clean
    if (count := count_valid_json(json.dumps(blocks), declaration, limits)) is not None:
        assert clean
        assert count == len(blocks)


@given(BLOCKS, DECLARED)
def test_bytes_and_values_give_the_same_verdict(blocks: list[Any], declared: dict[str, bool]):
    validator = ContentValidator(declared)
    by_value, by_bytes = validator.validate(blocks), validator.validate_json(json.dumps(blocks))
    assert (list(by_value.results), by_value.error) == (list(by_bytes.results), by_bytes.error)


@given(BLOCKS, DECLARED)
def test_declaring_more_never_refuses_more(blocks: list[Any], declared: dict[str, bool]):
    less = ContentValidator(declared).validate(blocks).results
    more = ContentValidator(EVERYTHING).validate(blocks)
    for index, accepted in enumerate(less):
        assert not accepted or more.results[index]


@given(st.binary(max_size=60) | st.text(max_size=60))
def test_any_bytes_get_a_verdict(raw: bytes | str):
    verdict = ContentValidator(EVERYTHING).validate_json(raw)
    assert verdict.valid is (verdict.error is None)
