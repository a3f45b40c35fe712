"""The capabilities of a client: an absent list is not an empty one, on the wire too."""

import copy
import json
import pickle
from collections.abc import Callable

import pytest
from pydantic import ValidationError

from accord import AgentRequest, ClientAdapter, ClientCapabilities
from accord.wire.request import TextProfile

SILENT, NOTHING = ClientCapabilities(), ClientCapabilities(supported_events=[])


def test_decision_7_absent_events_stay_absent_on_the_wire():
    assert SILENT.supported_events == NOTHING.supported_events == []
    assert (SILENT.declares_events, NOTHING.declares_events) == (False, True)
    assert json.loads(SILENT.to_json()) == {}
    assert json.loads(NOTHING.to_json()) == {"supported_events": []}
    assert "supported_events" not in AgentRequest(query="q", capabilities=SILENT).dump()["capabilities"]


def test_decision_7_no_declaration_differs_from_an_empty_one():
    assert SILENT != NOTHING
    assert len({SILENT, NOTHING, ClientCapabilities(prefers_markdown=True)}) == 2
    assert AgentRequest(query="q", capabilities=SILENT) != AgentRequest(query="q", capabilities=NOTHING)
    assert ClientCapabilities() == SILENT
    assert ClientCapabilities(supported_events=[]) == NOTHING


def test_pydantics_own_dump_has_every_field():
    assert (
        SILENT.model_dump()
        == NOTHING.model_dump()
        == {
            "supported_events": [],
            "prefers_markdown": True,
            **dict.fromkeys(("image_resolution", "text_profile", "speech_format", "min_fidelity")),
        }
    )
    dumped = AgentRequest(query="q", requirements={}).model_dump()
    assert (dumped["files"], dumped["meta"], dumped["requirements"]) == ([], {}, {"required": [], "preferred": []})
    assert (SILENT.model_fields_set, NOTHING.model_fields_set) == (set(), {"supported_events"})


COPIES: dict[str, Callable[[ClientCapabilities], ClientCapabilities]] = {
    "model_dump": lambda caps: ClientCapabilities(**caps.model_dump(exclude_unset=True)),
    "model_dump json": lambda caps: ClientCapabilities.model_validate(caps.model_dump(mode="json", exclude_unset=True)),
    "model_dump_json": lambda caps: ClientCapabilities.model_validate_json(caps.model_dump_json(exclude_unset=True)),
    "to_json": lambda caps: ClientCapabilities.parse(caps.to_json()),
    "dump": lambda caps: ClientCapabilities.model_validate(caps.dump()),
    "model_validate": ClientCapabilities.model_validate,
    "model_copy": lambda caps: caps.model_copy(),
    "deep model_copy": lambda caps: caps.model_copy(deep=True),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda caps: pickle.loads(pickle.dumps(caps)),  # noqa: S301 - our own bytes
    "of a request": lambda caps: (
        AgentRequest.parse(AgentRequest(query="q", capabilities=caps).to_json()).capabilities or pytest.fail("lost")
    ),
    "of a request's dict": lambda caps: (
        AgentRequest(**AgentRequest(query="q", capabilities=caps).dump()).capabilities or pytest.fail("lost")
    ),
}


@pytest.mark.parametrize("repeat", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize(
    "declared", [SILENT, NOTHING, ClientCapabilities(supported_events=["CITATION_BLOCK"], prefers_markdown=False)]
)
def test_decision_7_every_copy_keeps_the_difference(
    repeat: Callable[[ClientCapabilities], ClientCapabilities], declared: ClientCapabilities
):
    copied = repeat(declared)
    assert copied == declared
    assert copied.declares_events is declared.declares_events
    assert copied.model_copy(update={"supported_events": []}).declares_events


def test_decision_7_the_report_says_what_was_declared():
    assert ClientAdapter(SILENT).report.assumed == ["standard_events"]
    assert ClientAdapter(NOTHING).report.assumed == []
    assert ClientAdapter(SILENT.dump()).report == ClientAdapter(SILENT).report


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
