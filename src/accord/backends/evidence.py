"""What is known of one backend's capabilities, and who says so: the operator first, then the shipped facts.

Decides which layer wins, nothing else. A capability that no layer speaks of stays unknown; what that means is a policy.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from accord.backends.facts.snapshot import ModelFacts
from accord.wire.manifest import CapabilityManifest, SupportLevel

OPERATOR: Final = "operator"


@dataclass(frozen=True, slots=True)
class Evidence:
    """A level, who says so, and when it was said."""

    level: SupportLevel
    source: str
    date: str | None = None


Layer = Mapping[str, Evidence]


def from_operator(overrides: CapabilityManifest, *, source: str = OPERATOR) -> Layer:
    """What the operator says."""
    return {name: Evidence(level, source) for name, level in overrides.items()}


def from_facts(model: ModelFacts) -> Layer:
    """What the shipped facts say about a model."""
    return {
        name: Evidence(SupportLevel.model_validate(fact.level), fact.source, fact.date)
        for name, fact in model.facts.items()
    }


def gather(*layers: Layer) -> dict[str, Evidence]:
    """Every capability that any layer speaks of, as the first of them has it."""
    gathered: dict[str, Evidence] = {}
    for layer in layers:
        for name, evidence in layer.items():
            gathered.setdefault(name, evidence)
    return dict(sorted(gathered.items()))


def manifest_of(gathered: Layer) -> CapabilityManifest:
    """The manifest that the evidence gives."""
    return CapabilityManifest({name: evidence.level for name, evidence in gathered.items()})
