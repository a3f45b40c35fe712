"""What is known of a backend before it is asked: the operator, a probe, the shipped facts; and reading such files."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from accord.backends.evidence import Evidence, Layer, from_facts, from_operator, gather, manifest_of
from accord.backends.facts import Catalogue, ModelFacts, Unfound, find
from accord.config import BackendConfig, LoadedConfig
from accord.core.vocabulary import unknown_names
from accord.errors import UsageError
from accord.wire.manifest import CapabilityManifest, CapabilityRequirements, MinSupport
from accord.wire.message import invalid_message
from accord.wire.service import Probed

# Read what a user gave on the command line: a file, a model's name, or a short list.
#
# One clear line for every mistake: the file or flag, where in it, and what was expected there.

ModelT = TypeVar("ModelT", bound=BaseModel)

STDIN: Final = "-"
PROBE: Final = "accord backends probe"
"""The source of what a probe found."""
MINIMA: Final = tuple(map(str, MinSupport))
LEVELS: Final = ("native", "emulated", "unsupported")
EXPECTED_REQUIREMENTS: Final = "a requirements file, or capabilities such as tool_use=native,streaming"


def read_text(name: str) -> str:
    """The text of a file, or of standard input for `-`."""
    try:
        return sys.stdin.read() if name == STDIN else Path(name).read_text(encoding="utf-8")
    except IsADirectoryError:
        raise UsageError(f"{name}: is a directory; give a file") from None
    except (OSError, ValueError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise UsageError(f"{name}: byte {error.start}: expected UTF-8 text") from error
        # A name with a NUL character is a ValueError of the system call.
        raise UsageError(f"{name}: {error.strerror if isinstance(error, OSError) else error}") from error


def is_path(name: str) -> bool:
    """Whether there is a file or directory of this name."""
    try:
        return Path(name).exists()
    except (OSError, ValueError):  # longer than a name may be, or with a NUL character
        return False


def read_json(name: str) -> Any:
    """The JSON value in a file."""
    text = read_text(name)
    if not text.strip():
        raise UsageError(f"{name}: is empty; expected JSON")
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise UsageError(f"{name}: expected JSON: {error}") from error


def read_message(name: str, model: type[ModelT]) -> ModelT:
    """The message in a file."""
    return as_message(read_json(name), model, name)


def as_message(value: Any, model: type[ModelT], place: str) -> ModelT:
    """The message that this value is."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problems = invalid_message(model.__name__, error).problems
        told = "; ".join(f"{problem.field}: {problem.expected}" for problem in problems)
        raise UsageError(f"{place}: expected {model.__name__}: {told}") from None


def read_requirements(given: str) -> CapabilityRequirements:
    """Requirements from a file, or typed as `parse_requirements` takes them."""
    if given == STDIN or is_path(given):
        requirements = read_message(given, CapabilityRequirements)
        refuse_misspelled((need.capability for need in (*requirements.required, *requirements.preferred)), given)
        return requirements
    if "/" in given or given.endswith(".json"):  # no capability has such a name
        raise UsageError(f"--require {given}: No such file; expected {EXPECTED_REQUIREMENTS}")
    return parse_requirements([given])


def parse_requirements(items: Iterable[str]) -> CapabilityRequirements:
    """Requirements as typed: `CAPABILITY`, which accepts emulation, or `CAPABILITY=native`; commas separate several."""
    required: list[dict[str, str]] = []
    for given in items:
        for item in filter(None, map(str.strip, given.split(","))):
            name, level = split_level(item)
            refuse_misspelled([name], f"--require {item}")
            if level is not None and level not in MINIMA:
                raise UsageError(f'--require {item}: unknown level "{level}"; use {" or ".join(MINIMA)}')
            required.append({"capability": name, "min_support": level or MinSupport.EMULATED})
        if not required:
            raise UsageError(f"--require {given}: names no capability; expected {EXPECTED_REQUIREMENTS}")
    return as_message({"required": required}, CapabilityRequirements, "--require")


def split_level(item: str) -> tuple[str, str | None]:
    """The name and the level of `name=level`; `name:level` is understood, too."""
    name, separator, level = item.replace(":", "=", 1).partition("=")
    return name.strip(), level.strip() if separator else None


def read_levels(items: Iterable[str]) -> CapabilityManifest:
    """Levels from `name=level` on the command line."""
    levels: dict[str, str] = {}
    for item in items:
        name, level = split_level(item)
        if level is None:
            raise UsageError(f"--override {item}: expected name=level, such as streaming=native")
        refuse_misspelled([name], f"--override {item}")
        if level not in LEVELS:
            raise UsageError(f'--override {item}: unknown level "{level}"; use {", ".join(LEVELS)}')
        levels[name] = level
    return as_message(levels, CapabilityManifest, "--override")


def refuse_misspelled(names: Iterable[str], place: str) -> None:
    """Raise `UsageError` if a name is nearly that of a known capability."""
    for unknown in unknown_names(names):
        if unknown.is_misspelling:
            raise UsageError(f"{place}: {unknown}")


def warnings_about(names: Iterable[str], declared: Iterable[str] = ()) -> list[str]:
    """A sentence for each capability that is neither known nor declared by the backend in question."""
    known = frozenset(declared)
    return [str(unknown) for unknown in unknown_names(names) if unknown.name not in known]


def one_of(name: str, known: Sequence[str], flag: str, what: str) -> str:
    """This name, if it is known; otherwise `UsageError` says what is, and which one was probably meant."""
    if name in known:
        return name
    near = get_close_matches(name, known, n=1)
    cure = f"did you mean {near[0]}?" if near else f"expected {', '.join(known)}"
    raise UsageError(f'{flag}: unknown {what} "{name}"; {cure}')


def read_evidence(given: str, snapshot: str | None) -> dict[str, Evidence]:
    """What is known of a backend: from the file of a manifest or a probe, or from the facts about a model."""
    if given == STDIN or is_path(given):
        value = read_json(given)
        if _is_probe(value):
            return probed_evidence(as_message(value, Probed, given))
        return dict(from_operator(as_message(value, CapabilityManifest, given), source=given))
    if given.endswith(".json"):
        raise UsageError(f"{given}: No such file; expected the file of a manifest or a probe, or the name of a model")
    return gather(from_facts(read_model(given, snapshot)))


def probed_evidence(record: Probed) -> dict[str, Evidence]:
    """What a probe found, with its date."""
    return {name: Evidence(level, PROBE, record.date) for name, level in record.found.items()}


def _is_probe(value: Any) -> bool:
    """Whether this is what `backends probe` wrote: no level of a manifest is a text beside an object of levels."""
    members: dict[str, Any] = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return isinstance(members.get("found"), dict) and isinstance(members.get("backend"), str)


def read_model(name: str, snapshot: str | None) -> ModelFacts:
    """The facts about the model of this name."""
    found = catalogue(snapshot).find(name) if snapshot else find(name)
    if isinstance(found, Unfound):
        raise UsageError(found.message if found.ambiguous else f"{found.message}; there is no such file, either")
    return found


def catalogue(snapshot: str) -> Catalogue:
    """A snapshot of the user's own."""
    try:
        return Catalogue.read(read_text(snapshot))
    except ValueError as error:
        raise UsageError(f"{snapshot}: {error}") from error


# What is known of a backend before it is asked anything: the operator's word, what was seen, the shipped facts.
#
# Decides where each of them is read. Whose word counts first is `backends/evidence.py`'s and the backend's business.


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


def known_of(config: BackendConfig, loaded: LoadedConfig) -> Known:
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


def _seen(config: BackendConfig, loaded: LoadedConfig, warnings: list[str]) -> Mapping[str, Evidence]:
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
