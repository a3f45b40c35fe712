"""What a receipt records of a request and of a decision."""

import json

from accord.core.work.plan import Candidate, PlanConfig, plan
from accord.run.record import record_candidates, record_request
from accord.wire.manifest import CapabilityManifest
from accord.wire.request import AgentRequest
from accord.wire.work import WorkOrder


def test_a_request_is_recorded_without_its_words():
    request = AgentRequest.model_validate(
        {
            "query": "My secret question",
            "files": ["a.txt"],
            "meta": {"big": 10**30},
            "content": [{"type": "text", "text": "hidden"}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}],
            "requirements": {"required": [{"capability": "streaming", "min_support": "native"}]},
        }
    )
    told = record_request(request)
    assert len(told.pop("digest")) == 64
    assert told == {"text_chars": 18, "blocks": {"image": 1, "text": 1}, "files": 1, "requirements": 1}
    assert "secret" not in json.dumps(told)


ORDER = WorkOrder.model_validate({"stream": True, "tools": [{"name": "look"}]})
ABLE = Candidate("able", CapabilityManifest.model_validate({"streaming": "native", "tool_use": "native"}))
LESS = Candidate("less", CapabilityManifest.model_validate({"streaming": "native", "tool_use": "emulated"}))
NONE = Candidate("none", CapabilityManifest.model_validate({"streaming": "native"}))


def test_a_plan_names_the_chosen_backend_and_why_the_others_lost():
    told = record_candidates(plan(ORDER, [NONE, LESS, ABLE], PlanConfig()))
    assert [(one.backend, one.chosen, one.why) for one in told] == [
        ("able", True, "0 losses, 0 compromises"),
        ("none", False, "tool_use (not declared)"),
        ("less", False, "1 compromises against 0 of able"),
    ]


def test_a_refusal_says_why_each_lost():
    told = record_candidates(plan(ORDER, [NONE], PlanConfig()))
    assert [(one.backend, one.chosen, one.why) for one in told] == [("none", False, "tool_use (not declared)")]
