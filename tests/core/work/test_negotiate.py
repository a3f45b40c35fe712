"""Negotiation sorts every requirement by what the manifest declares."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core.work.negotiate import check_capability, generate_report, negotiate
from accord.wire.capability import Capability
from accord.wire.manifest import (
    CapabilityManifest,
    CapabilityRequirement,
    CapabilityRequirements,
    MinSupport,
    NegotiationResult,
    SupportLevel,
)
from tests.vectors import read_vectors

VECTORS = read_vectors("negotiation.jsonl")
LIMITED = {"restricted": {"reason": "sandbox"}}
NATIVE, EMULATED = MinSupport.NATIVE, MinSupport.EMULATED


def needing(*wanted: tuple[str, MinSupport]) -> CapabilityRequirements:
    required = [CapabilityRequirement(capability=name, min_support=minimum) for name, minimum in wanted]
    return CapabilityRequirements(required=required)


def declaring(**levels: Any) -> CapabilityManifest:
    return CapabilityManifest.model_validate(levels)


@pytest.mark.parametrize("line", [line for line in VECTORS if line["op"] == "check"], ids=lambda line: line["id"])
def test_each_check_vector_gives_its_level(line: dict[str, Any]):
    manifest = CapabilityManifest.model_validate(line["input"]["manifest"])
    assert check_capability(manifest, line["input"]["capability"]).model_dump() == line["expected"]


@pytest.mark.parametrize("line", [line for line in VECTORS if line["op"] == "negotiate"], ids=lambda line: line["id"])
def test_each_negotiate_vector_gives_its_result(line: dict[str, Any]):
    manifest = CapabilityManifest.model_validate(line["input"]["manifest"])
    result = negotiate(manifest, CapabilityRequirements.model_validate(line["input"]["requirements"]))
    lists = {"native": result.native, "emulatable": result.emulatable, "unsupported": result.unsupported}
    assert lists == line["expected"]["result"]
    assert result.is_compatible() is line["expected"]["is_compatible"]
    assert result.total() == line["expected"]["total"]
    assert generate_report(result).summary == line["expected"]["summary"]


@pytest.mark.parametrize("line", [line for line in VECTORS if line["op"] == "report"], ids=lambda line: line["id"])
def test_each_report_vector_gives_its_report(line: dict[str, Any]):
    assert generate_report(NegotiationResult.model_validate(line["input"])).dump() == line["expected"]


@pytest.mark.parametrize(
    ("offer", "wanted", "bucket", "reason"),
    [
        ("native", NATIVE, "native", None),
        ("native", EMULATED, "native", None),
        ("emulated", NATIVE, "unsupported", "emulated is below native"),
        ("emulated", EMULATED, "emulatable", None),
        (LIMITED, NATIVE, "unsupported", "restricted (sandbox) is below native"),
        (LIMITED, EMULATED, "emulatable", None),
        ("unsupported", NATIVE, "unsupported", "declared unsupported"),
        ("unsupported", EMULATED, "unsupported", "declared unsupported"),
        (None, NATIVE, "unsupported", "not declared"),
        (None, EMULATED, "unsupported", "not declared"),
    ],
)
def test_decision_10_each_level_and_each_minimum_have_one_result(
    offer: Any, wanted: MinSupport, bucket: str, reason: str | None
):
    manifest = declaring(streaming=offer) if offer else declaring()
    result = negotiate(manifest, needing(("streaming", wanted)))
    assert getattr(result, bucket) == ["streaming"]
    assert result.total() == 1
    assert result.reasons.get("streaming") == reason


def test_decision_11_a_restriction_survives_into_the_report():
    result = negotiate(declaring(tool_bash=LIMITED), needing(("tool_bash", EMULATED)))
    assert generate_report(result).dump()["details"] == [
        ["ToolBash", {"level": "emulated", "strategy": "restricted: sandbox"}]
    ]


def test_decision_10_order_and_duplicates_are_kept():
    needs = needing(("tool_read", NATIVE), ("streaming", NATIVE), ("tool_read", NATIVE))
    assert negotiate(declaring(streaming="native", tool_read="native"), needs).native == [
        "tool_read",
        "streaming",
        "tool_read",
    ]


@pytest.mark.parametrize(
    ("declared", "required"), [("vision", "image_input"), ("image_input", "vision"), ("tool_use", "function_calling")]
)
def test_decision_15_declaring_one_alias_declares_the_other(declared: str, required: str):
    manifest = CapabilityManifest.model_validate({declared: "native"})
    assert negotiate(manifest, needing((required, NATIVE))).native == [required]


def test_decision_15_a_declared_name_takes_precedence_over_its_alias():
    manifest = declaring(vision="unsupported", image_input="native")
    assert check_capability(manifest, "vision").level == "unsupported"


def test_decision_15_an_unknown_capability_is_negotiated_like_any_other():
    assert negotiate(declaring(time_travel="emulated"), needing(("time_travel", EMULATED))).emulatable == [
        "time_travel"
    ]


NAMES = st.sampled_from([*Capability, "time_travel"])
LEVELS = st.sampled_from([*map(SupportLevel, ("native", "emulated", "unsupported")), SupportLevel.restricted("r")])
MANIFESTS = st.dictionaries(NAMES, LEVELS).map(CapabilityManifest)
NEEDS = st.lists(st.tuples(NAMES, st.sampled_from(MinSupport))).map(lambda wanted: needing(*wanted))


@given(MANIFESTS, NEEDS)
def test_every_need_lands_in_exactly_one_bucket(manifest: CapabilityManifest, needs: CapabilityRequirements):
    result = negotiate(manifest, needs)
    assert result.total() == len(needs.required)
    landed = sorted([*result.native, *result.emulatable, *result.unsupported])
    assert landed == sorted(need.capability for need in needs.required)
    assert set(result.reasons) == set(result.unsupported)
    assert set(result.strategies) <= set(result.emulatable)


@given(MANIFESTS, NEEDS)
def test_raising_a_minimum_never_improves_a_result(manifest: CapabilityManifest, needs: CapabilityRequirements):
    raised = needing(*((need.capability, NATIVE) for need in needs.required))
    assert len(negotiate(manifest, raised).unsupported) >= len(negotiate(manifest, needs).unsupported)


@given(MANIFESTS, NEEDS, NAMES, LEVELS)
def test_adding_a_capability_never_breaks_compatibility(
    manifest: CapabilityManifest, needs: CapabilityRequirements, name: str, level: SupportLevel
):
    if name in manifest or level == SupportLevel.UNSUPPORTED or not negotiate(manifest, needs).is_compatible():
        return
    # An alias that is declared under its other name already has a level; a name of its own would replace it.
    if check_capability(manifest, name).level != "unsupported":
        return
    grown = CapabilityManifest({**manifest.root, name: level})
    assert negotiate(grown, needs).is_compatible()


@given(MANIFESTS, NEEDS)
def test_a_result_round_trips_through_json(manifest: CapabilityManifest, needs: CapabilityRequirements):
    result = negotiate(manifest, needs)
    assert NegotiationResult.parse(result.to_json()) == result
    report = generate_report(result)
    assert type(report).parse(report.to_json()) == report
