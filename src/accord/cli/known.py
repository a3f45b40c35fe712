"""What is known of a backend before it is asked anything: the operator's word, what was seen, the shipped facts.

Decides where each of them is read. Whose word counts first is `backends/evidence.py`'s and the backend's business.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from accord.backends.evidence import Evidence, Layer, from_facts, from_operator, gather, manifest_of
from accord.backends.facts import Unfound, find
from accord.cli.reading import probed_evidence, read_message, warnings_about
from accord.config import BackendConfig, Loaded
from accord.wire.manifest import CapabilityManifest
from accord.wire.probed import Probed


@dataclass(frozen=True, slots=True)
class Known:
    """What is said of a backend, by whom, and what the operator should hear about that."""

    declared: Layer = field(default_factory=dict[str, Evidence])
    seen: Layer = field(default_factory=dict[str, Evidence])
    facts: Layer = field(default_factory=dict[str, Evidence])
    warnings: tuple[str, ...] = ()
    unfound: str | None = None

    @property
    def manifest(self) -> CapabilityManifest:
        """All of it as one manifest, for backends that know nothing better."""
        return manifest_of(gather(self.declared, self.seen, self.facts))


def known_of(config: BackendConfig, loaded: Loaded) -> Known:
    """What is known of this backend.

    A model that no facts speak of is no mistake here: backends that know more of themselves go on without them, and
    what nobody speaks of stays unknown.
    """
    warnings = [f"overrides: {warning}" for warning in warnings_about(config.overrides)]
    declared = from_operator(config.overrides)
    if config.manifest_file is not None:
        written = read_message(str(loaded.path_of(config.manifest_file)), CapabilityManifest)
        declared = gather(declared, from_operator(written, source=config.manifest_file))
    seen = _seen(config, loaded, warnings)
    facts = _facts(config)
    place = f"backends.{config.name}: "
    if isinstance(facts, Unfound):
        unfound = f'{place}{facts.message}; or declare it: manifest = "declared"'
        if not seen:
            warnings.append(
                f"{facts.message}; what nobody speaks of is unknown until `accord backends probe` finds out"
            )
        return Known(declared, seen, {}, tuple(map(place.__add__, warnings)), unfound)
    return Known(declared, seen, facts, tuple(map(place.__add__, warnings)))


def _seen(config: BackendConfig, loaded: Loaded, warnings: list[str]) -> Mapping[str, Evidence]:
    if config.probed is None:
        return {}
    record = read_message(str(loaded.path_of(config.probed)), Probed)
    if record.model != config.model:
        told = json.dumps(record.model, ensure_ascii=False)
        warnings.append(f"{config.probed} was found of {told}, so it is not used; probe this model")
        return {}
    return probed_evidence(record)


def _facts(config: BackendConfig) -> Layer | Unfound:
    if config.manifest != BackendConfig.FACTS or config.model is None:
        return {}
    found, at_home = find(config.model), find(f"{config.kind}/{config.model}")
    if not isinstance(found, Unfound):
        return from_facts(found)
    return found if isinstance(at_home, Unfound) else from_facts(at_home)
