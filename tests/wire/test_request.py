"""Requests: the current shape and the older one."""

import json
from typing import Any
from uuid import UUID

import pytest
from pydantic import ValidationError

from accord import AgentRequest, InvalidMessageError, ServiceRequest
from accord.acp.schema_parts import ImageContent, TextContent

OLDER = {"session_id": "s1", "payload": {"input": "Show me"}, "capabilities": {"supported_events": ["CITATION_BLOCK"]}}


def test_decision_1_a_request_has_its_defaults():
    request = AgentRequest(query="hi")
    assert (request.files, request.conversation_id, request.meta) == ([], None, {})
    assert request.dump() == {"query": "hi"}


def test_decision_1_the_older_shape_is_understood():
    request = AgentRequest.parse(json.dumps(OLDER))
    assert (request.query, request.session_id) == ("Show me", "s1")
    assert request.capabilities is not None
    assert AgentRequest.parse(request.to_json()) == request


def test_decision_1_the_older_shape_is_understood_inside_the_envelope():
    envelope = {
        "request_id": "550e8400-e29b-41d4-a716-446655440000",
        "context": {"session_id": "s", "user": {"id": "u", "name": "U"}},
        "payload": OLDER,
    }
    assert ServiceRequest.model_validate(envelope).payload.query == "Show me"


@pytest.mark.parametrize(
    "raw", ["{}", '{"payload":{}}', '{"payload":"x"}', '{"payload":{"input":1}}', '{"query":null}']
)
def test_decision_1_a_request_needs_a_query(raw: str):
    with pytest.raises(ValidationError):
        AgentRequest.model_validate_json(raw)


def test_decision_1_a_query_wins_over_the_older_shape():
    assert AgentRequest.parse('{"query":"new","payload":{"input":"old"}}').query == "new"


def test_decision_1_a_request_can_carry_content_and_requirements():
    request = AgentRequest.parse(
        '{"query":"q","content":[{"type":"text","text":"t"},{"type":"image","data":"aGk=","mimeType":"image/png"}],'
        '"requirements":{"required":[{"capability":"image_input","min_support":"native"}]}}'
    )
    assert [type(block) for block in request.content or []] == [TextContent, ImageContent]
    assert AgentRequest.parse(request.to_json()) == request


def test_free_metadata_keeps_its_nulls():
    request = AgentRequest.parse('{"query":"q","meta":{"timezone":null,"deep":{"k":null}}}')
    assert request.dump()["meta"] == {"timezone": None, "deep": {"k": None}}


OLDER_SESSION = UUID("550e8400-e29b-41d4-a716-446655440000")


@pytest.mark.parametrize("session_id", [OLDER_SESSION, str(OLDER_SESSION), "s1"])
def test_decision_1_a_session_id_is_a_uuid_or_text(session_id: UUID | str):
    request = AgentRequest(session_id=session_id, payload={"input": "Hi"})
    assert (request.session_id, request.query) == (str(session_id), "Hi")
    assert AgentRequest.model_validate({"session_id": session_id, "query": "Hi"}).session_id == str(session_id)


@pytest.mark.parametrize("session_id", [1, True, b"s1", 1.5])
def test_decision_1_a_session_id_is_nothing_else(session_id: Any):
    with pytest.raises(ValidationError, match="session_id"):
        AgentRequest.model_validate({"session_id": session_id, "query": "Hi"})


PAYLOADS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"payload": {"input": "q"}}, {"query": "q"}),
    ({"payload": {"input": "q", "timezone": "UTC", "n": None}}, {"query": "q", "meta": {"timezone": "UTC", "n": None}}),
    (
        {"payload": {"input": "q", "timezone": "UTC", "a": 1}, "meta": {"a": 2, "b": 3}},
        {"query": "q", "meta": {"timezone": "UTC", "a": 2, "b": 3}},
    ),
    (
        {"payload": {"input": "q", "meta": {"a": 1}, "b": 2}},
        {"query": "q", "meta": {"a": 1, "b": 2}},
    ),
    (
        {"payload": {"input": "q", "files": ["a.txt"], "conversation_id": "c"}},
        {"query": "q", "files": ["a.txt"], "conversation_id": "c"},
    ),
    ({"payload": {"input": "q", "files": ["a.txt"]}, "files": []}, {"query": "q", "files": []}),
    ({"payload": {"input": "q", "capabilities": {}}}, {"query": "q", "capabilities": {}}),
    (
        {"payload": {"input": "q", "content": [{"type": "text", "text": "t"}]}},
        {"query": "q", "content": [{"type": "text", "text": "t"}]},
    ),
    ({"query": "q", "payload": "anything"}, {"query": "q"}),
    ({"query": "q", "payload": {"files": 1}}, {"query": "q"}),
]


@pytest.mark.parametrize(("older", "read"), PAYLOADS)
def test_decision_1_nothing_of_the_older_payload_is_lost(older: dict[str, Any], read: dict[str, Any]):
    for request in (AgentRequest.parse(json.dumps(older)), AgentRequest.model_validate(older), AgentRequest(**older)):
        assert request.dump() == read
        assert AgentRequest.parse(request.to_json()) == request


def test_decision_1_an_error_in_the_older_payload_is_named():
    with pytest.raises(InvalidMessageError, match=r"payload\.files\.0: Input should be a valid string"):
        AgentRequest.parse('{"payload":{"input":"q","files":[1]}}')
