"""What differs between protocol version 1 and the version 2 draft, as one table for each rule."""

import json
from typing import Any

import pytest

from accord.core.prompt import ContentLimits, ContentValidator, ValidationContext, ValidationPolicy, read_declaration
from accord.core.prompt.verdict import FLAGS
from tests.core.prompt.test_validator import ALL, AUDIO, BLOB, IMAGE, LINK, RESOURCE, TEXT

SUPPORTED: dict[int, Any] = {1: True, 2: {}}
"""The value that declares a flag."""

REQUIRED = [
    (1, IMAGE, "promptCapabilities.image"),
    (1, AUDIO, "promptCapabilities.audio"),
    (1, RESOURCE, "promptCapabilities.embeddedContext"),
    (2, IMAGE, "session.prompt.image"),
    (2, AUDIO, "session.prompt.audio"),
    (2, RESOURCE, "session.prompt.embeddedContext"),
    (7, IMAGE, "session.prompt.image"),
]
"""The path in the agent's capabilities; in the draft those are `capabilities` of the response to `initialize`."""


@pytest.mark.parametrize(("version", "block", "path"), REQUIRED)
def test_a_refusal_names_the_capability_where_its_version_declares_it(version: int, block: dict[str, Any], path: str):
    for other in (1, 2):
        for validator in (
            ContentValidator({}, protocol_version=version),
            ContentValidator({}, protocol_version=other).in_version(version),
        ):
            error = validator.validate([block]).error
            assert error is not None
            assert error["data"] == {
                "contentType": block["type"],
                "declaredCapability": False,
                "required": path,
                "supportedTypes": ["text", "resource_link"],
            }
            assert validator.validate_json(json.dumps([block])).error == error


@pytest.mark.parametrize("target", [1, 2])
@pytest.mark.parametrize("source", [1, 2])
@pytest.mark.parametrize("flags", [(), ("image",), ("audio", "embeddedContext"), tuple(FLAGS.values())])
def test_another_version_accepts_the_same_types_under_the_same_limits_and_policies(
    flags: tuple[str, ...], source: int, target: int
):
    declared = dict.fromkeys(flags, SUPPORTED[source])
    limits = ContentLimits(max_blocks=9)
    original = ContentValidator(
        declared, protocol_version=source, policies={"tool_result": "warn", "session_update": "off"}, limits=limits
    )
    other = original.in_version(target)
    assert other.declaration == read_declaration(dict.fromkeys(flags, SUPPORTED[target]), target)
    assert other.declaration.accepted == original.declaration.accepted
    assert (other.policies, other.limits) == (original.policies, limits)
    assert list(other.validate(ALL).results) == list(original.validate(ALL).results)


CUSTOM = {"type": "_acme.widget", "v": 1}
FUTURE = {"type": "video", "v": 1}

UNKNOWN_TYPES = [
    (1, "prompt", CUSTOM, False),
    (1, "tool_result", CUSTOM, False),
    (1, "session_update", CUSTOM, False),
    (2, "prompt", CUSTOM, False),  # the schema: "Agents MUST reject a session/prompt … with -32602"
    (2, "tool_result", CUSTOM, True),
    (2, "session_update", CUSTOM, True),
    (2, "session_update", {"type": "_"}, True),
    (2, "prompt", FUTURE, False),
    (2, "tool_result", FUTURE, False),
    (2, "session_update", FUTURE, False),
    (2, "session_update", {"type": "x_y"}, False),
]


@pytest.mark.parametrize(("version", "context", "block", "accepted"), UNKNOWN_TYPES)
def test_the_draft_accepts_extension_types_in_what_an_agent_sends(
    version: int, context: str, block: dict[str, Any], accepted: bool
):
    validator = ContentValidator({}, protocol_version=version)
    by_value = validator.validate([TEXT, block], context)
    by_bytes = validator.validate_json(json.dumps([TEXT, block]), context)
    assert list(by_value.results) == list(by_bytes.results) == [True, accepted]
    assert by_value.error == by_bytes.error
    if not accepted:
        assert by_value.violations[0].data == {
            "error": "unsupported_content_type",
            "contentType": block["type"],
            "supportedTypes": ["text", "resource_link"],
            "index": 1,
        }


@pytest.mark.parametrize(
    ("block", "error"),
    [
        ({"type": "_x", "v": "a" * 100}, "content_size_exceeded"),
        ({"type": "_x", "v": object()}, "invalid_content_structure"),
        ({"type": "_x", "v": "\ud800"}, "invalid_content_structure"),
    ],
)
def test_an_extension_block_is_json_within_the_limits(block: dict[str, Any], error: str):
    validator = ContentValidator({}, protocol_version=2, limits=ContentLimits(max_block_bytes=50))
    (violation,) = validator.validate([block], "session_update").violations
    assert violation.data["error"] == error


EMPTY = [
    (1, "prompt", "enforce", True, 0),
    (2, "prompt", "enforce", False, 1),
    (2, "prompt", "warn", True, 1),
    (2, "prompt", "off", True, 0),
    (2, "tool_result", "enforce", True, 0),
    (2, "session_update", "enforce", True, 0),
]


@pytest.mark.parametrize(("version", "context", "policy", "valid", "violations"), EMPTY)
def test_only_the_draft_refuses_an_empty_prompt(version: int, context: str, policy: str, valid: bool, violations: int):
    validator = ContentValidator({}, protocol_version=version, policies={context: policy})
    for verdict in (validator.validate([], context), validator.validate_json("[ ]", context)):
        assert (verdict.valid, list(verdict.results), len(verdict.violations)) == (valid, [], violations)


def test_the_error_of_an_empty_prompt_says_what_is_expected():
    assert ContentValidator({}, protocol_version=2).validate([]).error == {
        "code": -32602,
        "message": "Invalid content structure",
        "data": {
            "error": "invalid_content_structure",
            "details": "a prompt must have at least one content block",
            "index": 0,
        },
    }


@pytest.mark.parametrize("context", ValidationContext)
@pytest.mark.parametrize("block", [TEXT, LINK, IMAGE, AUDIO, RESOURCE, BLOB])
def test_everything_else_is_the_same_in_both_versions(block: dict[str, Any], context: ValidationContext):
    validator = ContentValidator({"image": True}, policies={context: ValidationPolicy.ENFORCE})
    first, second = validator.validate([block], context), validator.in_version(2).validate([block], context)
    assert list(first.results) == list(second.results)
