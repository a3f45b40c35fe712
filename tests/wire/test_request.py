"""Requests: the current shape and the older one."""

import json

import pytest
from pydantic import ValidationError

from accord.wire.acp.content import ImageBlock, TextBlock
from accord.wire.request import AgentRequest, ServiceRequest

OLDER = {"session_id": "s1", "payload": {"input": "Show me"}, "capabilities": {"supported_events": ["CITATION_BLOCK"]}}


def test_decision_1_a_request_has_its_defaults():
    request = AgentRequest(query="hi")
    assert request.dump() == {"query": "hi", "files": [], "meta": {}}


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
    assert [type(block) for block in request.content or []] == [TextBlock, ImageBlock]
    assert AgentRequest.parse(request.to_json()) == request


def test_free_metadata_keeps_its_nulls():
    request = AgentRequest.parse('{"query":"q","meta":{"timezone":null,"deep":{"k":null}}}')
    assert request.dump()["meta"] == {"timezone": None, "deep": {"k": None}}
