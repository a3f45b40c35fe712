"""The explanation of each decision: everything that a log line needs, and never the content."""

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.acp.schema_parts import ContentBlock
from accord.core.prompt import BlockDecision, ContentLimits, ContentValidator, ValidationContext, ValidationPolicy
from tests.core.prompt.test_validator import AUDIO, IMAGE, TEXT

NO_AUDIO = "Invalid content type: agent does not support audio content"
UNKNOWN = "Unsupported content type: video"

DECISIONS: list[tuple[int, str, Any, tuple[str, str | None, bool, str, str]]] = [
    (1, "enforce", TEXT, ("text", None, True, "accepted", "accepted")),
    (1, "enforce", IMAGE, ("image", "promptCapabilities.image", True, "accepted", "accepted")),
    (1, "enforce", ContentBlock(**IMAGE), ("image", "promptCapabilities.image", True, "accepted", "accepted")),
    (1, "enforce", AUDIO, ("audio", "promptCapabilities.audio", False, "refused", NO_AUDIO)),
    (2, "enforce", AUDIO, ("audio", "session.prompt.audio", False, "refused", NO_AUDIO)),
    (1, "warn", AUDIO, ("audio", "promptCapabilities.audio", False, "warned", NO_AUDIO)),
    (1, "off", AUDIO, ("audio", "promptCapabilities.audio", False, "accepted", "not checked")),
    (1, "enforce", {"type": "image"}, ("image", "promptCapabilities.image", True, "refused", "Missing required field: data")),
    (1, "enforce", {"type": "video"}, ("video", None, False, "refused", UNKNOWN)),
    (2, "enforce", {"type": "video"}, ("video", None, False, "refused", UNKNOWN)),
    (1, "enforce", 7, ("unknown", None, False, "refused", "Invalid content structure")),
    (1, "enforce", {"type": ["text"]}, ("unknown", None, False, "refused", "Invalid content structure")),
]  # fmt: skip


@pytest.mark.parametrize("context", ValidationContext)
@pytest.mark.parametrize(("version", "policy", "block", "expected"), DECISIONS)
def test_a_decision_has_what_a_log_line_needs(
    version: int, policy: str, block: Any, expected: tuple[str, str | None, bool, str, str], context: ValidationContext
):
    validator = ContentValidator({"image": True}, policies={context: policy}).in_version(version)
    _, decision = validator.explain([TEXT, block], context)
    content_type, capability, declared, outcome, why = expected
    assert dataclasses.asdict(decision) == {
        "index": 1,
        "content_type": content_type,
        "context": context,
        "policy": policy,
        "capability": capability,
        "declared": declared,
        "outcome": outcome,
        "why": why,
    }
    assert decision.accepted is (outcome != "refused")


@pytest.mark.parametrize(("policy", "outcome"), [("enforce", "refused"), ("warn", "warned")])
def test_each_block_beyond_the_limit_has_its_reason(policy: str, outcome: str):
    validator = ContentValidator({}, policies={"prompt": policy}, limits=ContentLimits(max_blocks=2))
    decisions = validator.explain([TEXT] * 5)
    assert [decision.outcome for decision in decisions] == ["accepted"] * 2 + [outcome] * 3
    assert {decision.why for decision in decisions[2:]} == {
        "Content size exceeded: the number of blocks is larger than 2"
    }


# A word that no text of Accord contains, so that finding it means that a payload was quoted.
MARKER = "ZzMarkerZz"
PAYLOADS: st.SearchStrategy[Any] = st.recursive(
    st.just(MARKER) | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just(MARKER) | st.just("uri"), inner, max_size=2),
    max_leaves=4,
)
FIELDS = ("text", "data", "mimeType", "uri", "name", "resource", "_meta", MARKER)
TYPES = st.sampled_from(["text", "resource_link", "image", "audio", "resource", "video", "_x", 7, None])
MEMBERS: dict[str, st.SearchStrategy[Any]] = dict.fromkeys(FIELDS, PAYLOADS)
BLOCKS: st.SearchStrategy[list[Any]] = st.lists(
    st.fixed_dictionaries({"type": TYPES}, optional=MEMBERS) | PAYLOADS, max_size=4
)


@given(
    BLOCKS,
    st.sampled_from([{}, {"image": True, "audio": True, "embeddedContext": True}]),
    st.sampled_from([1, 2]),
    st.sampled_from(ValidationContext),
    st.sampled_from(ValidationPolicy),
)
def test_no_decision_quotes_a_payload(
    blocks: list[Any], declared: dict[str, Any], version: int, context: ValidationContext, policy: ValidationPolicy
):
    limits = ContentLimits(max_block_bytes=20, max_blocks=3)
    validator = ContentValidator(declared, policies={context: policy}, limits=limits).in_version(version)
    decisions = validator.explain(blocks, context)
    assert [decision.index for decision in decisions] == list(range(len(blocks)))
    assert [decision.accepted for decision in decisions] == list(validator.validate(blocks, context).results)
    for decision in decisions:
        members = {field.name: getattr(decision, field.name) for field in dataclasses.fields(BlockDecision)}
        assert MARKER not in json.dumps(members)
