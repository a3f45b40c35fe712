"""The JSON examples of the protocols' documents: each is read, and written again as the same JSON value."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord import (
    AgentRequest,
    ClientCapabilities,
    CompatibilityReport,
    EmulationConfig,
    EmulationReport,
    HealthCheckResponse,
    NegotiationResult,
    PresentationEvent,
    PromptCapabilities,
    ServiceRequest,
    ServiceResponse,
    StreamPacket,
)
from accord.wire.message import Message

ID = "550e8400-e29b-41d4-a716-446655440000"
CONTEXT = {"session_id": "sess_abc", "user": {"id": "user_123", "name": "Alice", "role": "user"}}
THINK = {"type": "system_prompt_injection", "prompt": "Think step by step before answering."}

EXAMPLES: list[tuple[type[Message], Any]] = [
    (
        ServiceRequest,
        {
            "request_id": ID,
            "context": CONTEXT,
            "payload": {"query": "What is the status of the project?", "files": [], "conversation_id": "conv_123"},
        },
    ),
    (
        ServiceResponse,
        {
            "request_id": ID,
            "created_at": "2023-10-27T10:00:00Z",
            "output": {"text": "The project is on track."},
            "metrics": {"duration_ms": 450, "tokens": 120},
        },
    ),
    (StreamPacket, {"op": "delta", "p": "The"}),
    (
        StreamPacket,
        {
            "op": "error",
            "p": {
                "code": "rate_limit_exceeded",
                "message": "Too many requests",
                "severity": "transient",
                "details": {"retry_after": 60},
            },
        },
    ),
    (HealthCheckResponse, {"status": "ok", "agent_id": ID, "version": "1.0.0", "uptime_seconds": 3600.5}),
    (NegotiationResult, {"native": ["streaming", "tool_read"], "emulatable": ["tool_write"], "unsupported": []}),
    (
        CompatibilityReport,
        {
            "compatible": True,
            "native_count": 2,
            "emulated_count": 1,
            "unsupported_count": 0,
            "summary": "2 native, 1 emulatable, 0 unsupported — fully compatible",
            "details": [
                ["Streaming", {"level": "native"}],
                ["ToolRead", {"level": "native"}],
                ["ToolWrite", {"level": "emulated", "strategy": "adapter"}],
            ],
        },
    ),
    (
        EmulationReport,
        {
            "applied": [{"capability": "extended_thinking", "strategy": THINK}],
            "warnings": ["Capability CodeExecution not emulated: Cannot safely emulate sandboxed code execution"],
        },
    ),
    (PromptCapabilities, {"image": True, "audio": False, "embeddedContext": True}),
    (
        AgentRequest,
        {"query": "Sales?", "capabilities": {"supported_events": ["CITATION_BLOCK"], "image_resolution": "high"}},
    ),
]
"""As the documents print them, and the last as they describe it."""

ABSENT_OR_GIVEN: list[tuple[type[Message], Any]] = [
    (AgentRequest, {"query": "q"}),
    (AgentRequest, {"query": "q", "files": [], "meta": {}}),
    (AgentRequest, {"query": "q", "requirements": {}}),
    (AgentRequest, {"query": "q", "requirements": {"required": [], "preferred": []}}),
    (AgentRequest, {"query": "q", "requirements": {"preferred": []}}),
    (ClientCapabilities, {}),
    (ClientCapabilities, {"prefers_markdown": True}),
    (ClientCapabilities, {"supported_events": []}),
    (StreamPacket, {"op": "close"}),
    (EmulationConfig, {"strategies": {"extended_thinking": THINK}}),
    *[
        (PresentationEvent, {"id": ID, "timestamp": "2023-10-27T10:00:00Z", "type": "user_error", "data": data})
        for data in (
            {"message": "m"},
            {"message": "m", "domain": "system", "retryable": False},
            {"message": "m", "retryable": True, "hint": None},
        )
    ],
]
"""An absent member and a given one that means the same."""


@pytest.mark.parametrize(("model", "value"), [*EXAMPLES, *ABSENT_OR_GIVEN])
def test_a_message_is_written_as_it_was_read(model: type[Message], value: Any):
    for message in (model.parse(json.dumps(value)), model.model_validate(value)):
        assert json.loads(message.to_json()) == value
        assert message.dump() == value
        assert model.parse(message.to_json()) == message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NOTHING: dict[str, st.SearchStrategy[Any]] = {}
REQUESTS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"query": st.text(max_size=5)},
    optional={
        "files": st.lists(st.text(max_size=5), max_size=2),
        "conversation_id": st.text(max_size=5),
        "meta": st.dictionaries(st.text(max_size=5), JSON, max_size=3),
        "session_id": st.text(max_size=5),
        "capabilities": st.fixed_dictionaries(
            NOTHING,
            optional={
                "supported_events": st.lists(st.text(max_size=5), max_size=2),
                "prefers_markdown": st.booleans(),
                "image_resolution": st.sampled_from(["low", "8k"]),
                "text_profile": st.sampled_from(["plain", "speech"]),
            },
        ),
        "requirements": st.fixed_dictionaries(
            NOTHING,
            optional={
                name: st.lists(st.just({"capability": "streaming", "min_support": "native"}), max_size=2)
                for name in ("required", "preferred")
            },
        ),
    },
)


@given(REQUESTS)
def test_every_request_is_written_with_the_members_that_it_came_with(value: dict[str, Any]):
    for request in (AgentRequest.parse(json.dumps(value)), AgentRequest(**value)):
        assert request.dump() == json.loads(request.to_json()) == value


def test_what_is_added_to_an_absent_list_is_written():
    request = AgentRequest(query="q")
    request.files.append("a.txt")
    request.meta["timezone"] = "UTC"
    assert request.dump() == {"query": "q", "files": ["a.txt"], "meta": {"timezone": "UTC"}}
