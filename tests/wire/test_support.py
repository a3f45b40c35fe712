"""Support levels on the wire and in reports, and which minimum each satisfies."""

from typing import Any

import pytest
from pydantic import ValidationError

from accord.wire.manifest import (
    CapabilityManifest,
    MinSupport,
    ReportedEmulated,
    ReportedNative,
    ReportedSupport,
    ReportedUnsupported,
    SupportLevel,
)
from tests.vectors import read_vectors

SATISFIES = [line for line in read_vectors("negotiation.jsonl") if line["op"] == "satisfies"]
LIMITED = {"restricted": {"reason": "sandbox"}}


@pytest.mark.parametrize("line", SATISFIES, ids=lambda line: line["id"])
def test_each_vector_gives_its_verdict(line: dict[str, Any]):
    level = SupportLevel.model_validate(line["input"]["level"])
    assert level.satisfies(MinSupport(line["input"]["min_support"])) is line["expected"]


@pytest.mark.parametrize(
    ("level", "native", "emulated"),
    [("native", True, True), ("emulated", False, True), (LIMITED, False, True), ("unsupported", False, False)],
)
def test_each_level_satisfies_its_minimums(level: Any, native: bool, emulated: bool):
    offered = SupportLevel.model_validate(level)
    assert (offered.satisfies("native"), offered.satisfies("emulated")) == (native, emulated)


@pytest.mark.parametrize("wire", ["native", "emulated", "unsupported", LIMITED])
def test_a_level_is_written_as_it_was_read(wire: Any):
    assert SupportLevel.model_validate(wire).model_dump() == wire


@pytest.mark.parametrize("wire", ["restricted", "Native", "", None, 1, {}, {"restricted": {}}, {"restricted": "x"}, []])
def test_any_other_shape_is_refused(wire: Any):
    with pytest.raises(ValidationError):
        SupportLevel.model_validate(wire)


def test_a_restriction_has_a_reason():
    assert SupportLevel.restricted("sandbox") == SupportLevel.model_validate(LIMITED)
    assert SupportLevel.restricted("sandbox").reason == "sandbox"
    assert SupportLevel.NATIVE.reason is None


@pytest.mark.parametrize(
    ("wire", "kind"),
    [
        ({"level": "native"}, ReportedNative),
        ({"level": "emulated", "strategy": "adapter"}, ReportedEmulated),
        ({"level": "unsupported"}, ReportedUnsupported),
    ],
)
def test_a_reported_level_has_only_its_own_members(wire: dict[str, str], kind: type[ReportedSupport]):
    assert type(ReportedSupport.model_validate(wire)) is kind
    assert ReportedSupport.model_validate(wire).model_dump() == wire


def test_a_manifest_can_be_used_like_a_mapping():
    manifest = CapabilityManifest.model_validate({"streaming": "native", "tool_bash": LIMITED})
    assert manifest["streaming"] == SupportLevel.NATIVE
    assert manifest.get("logprobs") is None
    assert "tool_bash" in manifest
    assert len(manifest) == 2
    assert dict(manifest.items()) == {"streaming": SupportLevel.NATIVE, "tool_bash": SupportLevel.restricted("sandbox")}
    assert list(manifest) == ["streaming", "tool_bash"]
