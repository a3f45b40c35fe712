"""Options that several commands share: configuration and trust, store, requirements, logs, JSON.

Loading a configuration is in `configuration.py`, so that commands which need none do not wait for its imports.
"""

from collections.abc import Iterable
from typing import Annotated, Final

import typer

from accord.core.vocabulary import unknown_names
from accord.errors import UsageError
from accord.files import STDIN, parse_message, path_exists, read_message
from accord.wire.capability import KNOWN_CAPABILITIES
from accord.wire.manifest import CapabilityManifest, CapabilityRequirements, MinSupport

MINIMUM_LEVELS: Final = tuple(map(str, MinSupport))
LEVELS: Final = ("native", "emulated", "unsupported")
EXPECTED_REQUIREMENTS: Final = "capabilities such as tool_use=native,streaming, or a file with requirements"

AgentArgument = Annotated[
    str | None,
    typer.Argument(help="module:name, file.py:name or a name of the configuration; by default its default_agent."),
]
ConfigOption = Annotated[
    str | None,
    typer.Option("--config", metavar="FILE", help="Configuration; by default $ACCORD_CONFIG, else ./accord.toml."),
]
TrustOption = Annotated[
    bool, typer.Option("--trust", help="Trust ./accord.toml without asking, until its content changes.")
]
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store", metavar="STORE", help="SQLite file, postgresql://… or memory, instead of the configured store."
    ),
]
QueueOption = Annotated[
    str | None,
    typer.Option("--queue", metavar="URL", help="Queue for workers: nats://…, or the postgresql://… of the store."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
LogJsonOption = Annotated[bool, typer.Option("--log-json", help="Write log lines as JSON.")]
LogLevelOption = Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")]
SnapshotOption = Annotated[
    str | None, typer.Option("--snapshot", metavar="FILE", help="Model facts to use instead of the shipped ones.")
]
RequireOption = Annotated[
    list[str] | None,
    typer.Option(
        "--require",
        metavar="NAME[=LEVEL]",
        help="Required capability, such as tool_use or tool_use=native, or a file with requirements; repeatable.",
    ),
]


def read_requirements(given: Iterable[str]) -> CapabilityRequirements:
    """Parse the values of `--require`: `NAME` (accepts emulation), `NAME=LEVEL`, several with commas, or a file."""
    requirements = CapabilityRequirements()
    for value in given:
        if value == STDIN or (value and path_exists(value) and value not in KNOWN_CAPABILITIES):
            more = read_message(value, CapabilityRequirements)
            check_spelling((need.capability for need in (*more.required, *more.preferred)), value)
        elif "/" in value or value.endswith(".json"):  # no capability has such a name
            raise UsageError(f"--require {value}: No such file; expected {EXPECTED_REQUIREMENTS}")
        else:
            more = _parse_requirements(value)
        requirements = CapabilityRequirements(
            required=[*requirements.required, *more.required], preferred=[*requirements.preferred, *more.preferred]
        )
    return requirements


def _parse_requirements(value: str) -> CapabilityRequirements:
    required: list[dict[str, str]] = []
    for item in filter(None, map(str.strip, value.split(","))):
        name, level = split_level(item)
        check_spelling([name], f"--require {item}")
        if level is not None and level not in MINIMUM_LEVELS:
            raise UsageError(f'--require {item}: unknown level "{level}"; use {" or ".join(MINIMUM_LEVELS)}')
        required.append({"capability": name, "min_support": level or MinSupport.EMULATED})
    if not required:
        raise UsageError(f'--require "{value}": names no capability; expected {EXPECTED_REQUIREMENTS}')
    return parse_message({"required": required}, CapabilityRequirements, f"--require {value}")


def parse_levels(given: Iterable[str]) -> CapabilityManifest:
    """Parse the values of `--override`: `NAME=LEVEL` each."""
    levels: dict[str, str] = {}
    for item in given:
        name, level = split_level(item)
        if level is None:
            raise UsageError(f"--override {item}: expected NAME=LEVEL, such as streaming=native")
        check_spelling([name], f"--override {item}")
        if level not in LEVELS:
            raise UsageError(f'--override {item}: unknown level "{level}"; use {", ".join(LEVELS)}')
        levels[name] = level
    return parse_message(levels, CapabilityManifest, "--override")


def split_level(item: str) -> tuple[str, str | None]:
    """Split `NAME=LEVEL` into its two parts; the level is None if there is none.

    `NAME:LEVEL` is accepted as well: earlier versions of `accord ask` had it.
    """
    name, separator, level = item.replace(":", "=", 1).partition("=")
    return name.strip(), level.strip() if separator else None


def check_spelling(names: Iterable[str], place: str) -> None:
    """Raise `UsageError` if a name is nearly that of a known capability."""
    for unknown in unknown_names(names):
        if unknown.is_misspelling:
            raise UsageError(f"{place}: {unknown}")
