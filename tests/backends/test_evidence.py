"""Evidence of capabilities: the operator counts before the facts, and without evidence a capability is unknown."""

from accord.backends.evidence import from_facts, from_operator, gather, manifest_of
from accord.backends.facts.snapshot import Fact, ModelFacts
from accord.wire.manifest import CapabilityManifest

FACTS = ModelFacts(
    "acme",
    "one",
    {"image_input": Fact("unsupported", "list 1", "2026-01-01"), "tool_use": Fact("native", "list 1", "2026-01-01")},
)
SAID = CapabilityManifest.model_validate({"image_input": {"restricted": {"reason": "small ones"}}})


def test_the_operator_wins_over_the_facts():
    gathered = gather(from_operator(SAID), from_facts(FACTS))
    assert gathered["image_input"].source == "operator"
    assert gathered["tool_use"].source == "list 1"
    assert gathered["tool_use"].date == "2026-01-01"


def test_the_manifest_has_the_levels_of_the_evidence():
    assert manifest_of(gather(from_operator(SAID), from_facts(FACTS))).model_dump() == {
        "image_input": {"restricted": {"reason": "small ones"}},
        "tool_use": "native",
    }


def test_a_capability_without_evidence_stays_unknown():
    assert "streaming" not in gather(from_operator(SAID), from_facts(FACTS))
