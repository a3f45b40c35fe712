"""The capabilities of a client: an absent list is not an empty one, on the wire too."""

import json

import pytest
from pydantic import ValidationError

from accord.wire.request import AgentRequest, ClientCapabilities, TextProfile


def test_decision_7_absent_events_stay_absent_on_the_wire():
    silent, nothing = ClientCapabilities(), ClientCapabilities(supported_events=[])
    assert silent.supported_events == nothing.supported_events == []
    assert (silent.declares_events, nothing.declares_events) == (False, True)
    assert json.loads(silent.to_json()) == {"prefers_markdown": True}
    assert json.loads(nothing.to_json()) == {"supported_events": [], "prefers_markdown": True}
    assert not ClientCapabilities.parse(silent.to_json()).declares_events
    assert "supported_events" not in AgentRequest(query="q", capabilities=silent).dump()["capabilities"]


@pytest.mark.parametrize(
    "raw",
    ['{"prefers_markdown":null}', '{"supported_events":[1]}', '{"supported_events":null}', '{"text_profile":"loud"}'],
)
def test_a_declaration_of_another_shape_is_refused(raw: str):
    with pytest.raises(ValidationError):
        ClientCapabilities.model_validate_json(raw)


def test_unknown_fields_and_values_are_accepted():
    declared = ClientCapabilities.parse('{"supported_events":["HOLOGRAM"],"image_resolution":"8k","future":1}')
    assert declared.supported_events == ["HOLOGRAM"]
    assert declared.image_resolution == "8k"
    assert "future" not in declared.dump()


def test_decision_8_a_client_can_declare_its_text_profile():
    assert ClientCapabilities.parse('{"text_profile":"speech"}').text_profile is TextProfile.SPEECH
