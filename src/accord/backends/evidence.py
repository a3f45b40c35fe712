"""Evidence of a backend's capabilities: a level with its source and date, from the operator, a probe or model facts.

Reads the files that hold it and decides which layer wins. A capability that no layer mentions stays unknown; what that
means for a plan is a policy of `core/work`. It does not ask a backend anything: that is `model.py` and `probe.py`.
"""

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from accord.backends.facts import Catalogue, ModelFacts, UnknownModel, find_model
from accord.core.vocabulary import unknown_name_warnings
from accord.core.work.evidence import Evidence, Layer
from accord.errors import UsageError
from accord.files import STDIN, parse_message, path_exists, read_json, read_message, read_text
from accord.wire.manifest import CapabilityManifest, SupportLevel
from accord.wire.service import ProbeRecord

if TYPE_CHECKING:  # looking up a model needs no configuration
    from accord.config import BackendConfig, LoadedConfig

OPERATOR: Final = "operator"
PROBE: Final = "accord backends probe"


def from_operator(overrides: CapabilityManifest, *, source: str = OPERATOR) -> Layer:
    """Return what the operator declares."""
    return {name: Evidence(level, source) for name, level in overrides.items()}


def from_facts(model: ModelFacts) -> Layer:
    """Return what the model facts say about a model."""
    return {
        name: Evidence(SupportLevel.model_validate(fact.level), fact.source, fact.date)
        for name, fact in model.facts.items()
    }


def from_probe(record: ProbeRecord) -> dict[str, Evidence]:
    """Return what a probe found, with its date."""
    return {name: Evidence(level, PROBE, record.date) for name, level in record.found.items()}


def gather(*layers: Layer) -> dict[str, Evidence]:
    """Merge layers by capability; the first layer that has one wins."""
    gathered: dict[str, Evidence] = {}
    for layer in layers:
        for name, evidence in layer.items():
            gathered.setdefault(name, evidence)
    return dict(sorted(gathered.items()))


def manifest_of(gathered: Layer) -> CapabilityManifest:
    """Return the levels of the evidence as a manifest."""
    return CapabilityManifest({name: evidence.level for name, evidence in gathered.items()})


def read_evidence(given: str, snapshot: str | None) -> dict[str, Evidence]:
    """Return the evidence in the file of a manifest or a probe, or the facts about the model of this name."""
    if given == STDIN or path_exists(given):
        value = read_json(given)
        members: dict[str, Any] = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        # A manifest has no text as the level of one capability beside an object as the level of another.
        if isinstance(members.get("found"), dict) and isinstance(members.get("backend"), str):
            return from_probe(parse_message(value, ProbeRecord, given))
        return dict(from_operator(parse_message(value, CapabilityManifest, given), source=given))
    if given.endswith(".json"):
        raise UsageError(f"{given}: No such file; expected the file of a manifest or a probe, or the name of a model")
    found = read_catalogue(snapshot).find(given) if snapshot else find_model(given)
    if isinstance(found, UnknownModel):
        raise UsageError(found.message if found.ambiguous else f"{found.message}; there is no such file, either")
    return gather(from_facts(found))


def read_catalogue(snapshot: str) -> Catalogue:
    """Return the model facts in this file instead of the shipped ones."""
    try:
        return Catalogue.read(read_text(snapshot))
    except ValueError as error:
        raise UsageError(f"{snapshot}: {error}") from error


@dataclass(frozen=True, slots=True)
class BackendEvidence:
    """What is known of a backend before anything is sent to it, by layer, and warnings for the operator.

    `unknown_model` is the error for backends that cannot do without facts about their model.
    """

    declared: Layer = field(default_factory=dict[str, Evidence])
    probed: Layer = field(default_factory=dict[str, Evidence])
    facts: Layer = field(default_factory=dict[str, Evidence])
    warnings: tuple[str, ...] = ()
    unknown_model: str | None = None

    @property
    def manifest(self) -> CapabilityManifest:
        """All layers as one manifest, for backends that learn nothing more from their endpoint."""
        return manifest_of(gather(self.declared, self.probed, self.facts))


def configured_evidence(config: "BackendConfig", loaded: "LoadedConfig") -> BackendEvidence:
    """Return what the configuration, its files and the model facts say about this backend.

    A model without facts is not an error here: what an endpoint tells of itself, or a probe, may be enough.
    """
    place = f"backends.{config.name}: "
    warnings = [f"{place}overrides: {warning}" for warning in unknown_name_warnings(config.overrides)]
    declared = from_operator(config.overrides)
    if config.manifest_file is not None:
        written = read_message(str(loaded.path_of(config.manifest_file)), CapabilityManifest)
        declared = gather(declared, from_operator(written, source=config.manifest_file))
    probed: Layer = {}
    if config.probed is not None:
        record = read_message(str(loaded.path_of(config.probed)), ProbeRecord)
        if record.model == config.model:
            probed = from_probe(record)
        else:
            model = json.dumps(record.model, ensure_ascii=False)
            warnings.append(f"{place}{config.probed} is a probe of {model}, so it is not used; probe this model")
    found = _model_facts(config)
    if not isinstance(found, UnknownModel):
        return BackendEvidence(declared, probed, found, tuple(warnings))
    if not probed:
        warnings.append(f"{place}{found.message}; its capabilities are unknown until `accord backends probe` runs")
    unknown_model = f'{place}{found.message}; or declare it: manifest = "declared"'
    return BackendEvidence(declared, probed, {}, tuple(warnings), unknown_model)


def _model_facts(config: "BackendConfig") -> Layer | UnknownModel:
    if config.manifest != config.FACTS or config.model is None:
        return {}
    found = find_model(config.model)
    if isinstance(found, UnknownModel):  # several providers may have it, of which the backend's kind names one
        of_kind = find_model(f"{config.kind}/{config.model}")
        return found if isinstance(of_kind, UnknownModel) else from_facts(of_kind)
    return from_facts(found)
