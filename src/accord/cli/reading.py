"""Reads what a user gave on the command line: a file, a model's name, or a short list. Errors name the place.

One clear line for every mistake: the file, where in it, and what was expected there.
"""

import sys
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from accord.backends.evidence import Evidence, from_facts, from_operator, gather
from accord.backends.facts import Catalogue, ModelFacts, Unfound, find
from accord.errors import UsageError
from accord.wire.manifest import CapabilityManifest
from accord.wire.message import invalid_message
from accord.wire.requirement import CapabilityRequirements

ModelT = TypeVar("ModelT", bound=BaseModel)

STDIN: Final = "-"


def read_text(name: str) -> str:
    """The text of a file, or of standard input for `-`."""
    try:
        return sys.stdin.read() if name == STDIN else Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: byte {error.start}: expected UTF-8 text") from error


def read_json(name: str) -> Any:
    """The JSON value in a file."""
    try:
        return from_json(read_text(name), allow_inf_nan=False)
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
    """Requirements from a file, or from `name=level,name` on the command line; a bare name accepts emulation."""
    if Path(given).is_file() or given == STDIN:
        return read_message(given, CapabilityRequirements)
    if given.endswith(".json"):
        raise UsageError(f"{given}: No such file")
    required = [
        {"capability": name.strip(), "min_support": level.strip() or "emulated"}
        for name, _, level in (item.partition("=") for item in given.split(",") if item.strip())
    ]
    return as_message({"required": required}, CapabilityRequirements, f"--require {given}")


def read_levels(items: list[str]) -> CapabilityManifest:
    """Levels from `name=level` on the command line."""
    levels: dict[str, str] = {}
    for item in items:
        name, equals, level = item.partition("=")
        if not equals:
            raise UsageError(f"--override {item}: expected name=level, such as streaming=native")
        levels[name.strip()] = level.strip()
    return as_message(levels, CapabilityManifest, "--override")


def read_evidence(given: str, overrides: CapabilityManifest, snapshot: str | None) -> dict[str, Evidence]:
    """What is known of a backend: from a manifest's file, or from the facts about a model of that name."""
    said = from_operator(overrides)
    if Path(given).is_file() or given == STDIN:
        return gather(said, from_operator(read_message(given, CapabilityManifest), source=given))
    if given.endswith(".json"):
        raise UsageError(f"{given}: No such file")
    return gather(said, from_facts(read_model(given, snapshot)))


def read_model(name: str, snapshot: str | None) -> ModelFacts:
    """The facts about the model of this name."""
    found = catalogue(snapshot).find(name) if snapshot else find(name)
    if isinstance(found, Unfound):
        raise UsageError(found.message)
    return found


def catalogue(snapshot: str) -> Catalogue:
    """A snapshot of the user's own."""
    try:
        return Catalogue.read(read_text(snapshot))
    except ValueError as error:
        raise UsageError(f"{snapshot}: {error}") from error
