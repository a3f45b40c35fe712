"""Options that several commands share: the configuration and its trust, requirements and levels as typed."""

import os
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from accord.config import LoadedConfig, StoreKind, load_config
from accord.config.trust import describe_effects, is_trusted, trust
from accord.core.vocabulary import unknown_names
from accord.errors import UsageError
from accord.files import STDIN, parse_message, path_exists, read_message
from accord.terminal import escape_line
from accord.wire.manifest import CapabilityManifest, CapabilityRequirements, MinSupport

MINIMA: Final = tuple(map(str, MinSupport))
LEVELS: Final = ("native", "emulated", "unsupported")
EXPECTED_REQUIREMENTS: Final = "a requirements file, or capabilities such as tool_use=native,streaming"

ConfigOption = Annotated[
    str | None, typer.Option("--config", help="The configuration's file; else ACCORD_CONFIG, else ./accord.toml.")
]
TrustOption = Annotated[
    bool, typer.Option("--trust", help="Trust the ./accord.toml that is found, from now on and as it is.")
]
StoreOption = Annotated[
    str | None, typer.Option("--store", help="The SQLite file with the sessions; else as configured.")
]


def load(
    config: str | None,
    *,
    trusts: bool,
    store: str | None = None,
    flags: Iterable[tuple[tuple[str, ...], Any, str]] = (),
) -> LoadedConfig:
    """The configuration that a command runs on; raises `UsageError` for one that is not trusted."""
    loaded = _read(config, store, flags)
    if not is_trusted(loaded, os.environ):
        _ask(loaded, trusts=trusts)
    return loaded


def load_if_trusted(config: str | None, *, store: str | None = None) -> LoadedConfig:
    """The same, for a command that can do without: nobody is asked."""
    loaded = _read(config, store, ())
    if not is_trusted(loaded, os.environ):
        raise UsageError(f"{loaded.file} is not trusted")
    return loaded


def _read(config: str | None, store: str | None, flags: Iterable[tuple[tuple[str, ...], Any, str]]) -> LoadedConfig:
    stored = []
    if store is not None:
        place = str(Path(store).expanduser().absolute())  # what is typed is relative to the working directory
        stored = [(("store", "kind"), StoreKind.SQLITE.value, "--store"), (("store", "path"), place, "--store")]
    return load_config(config, environ=os.environ, flags=[*flags, *stored])


def _ask(loaded: LoadedConfig, *, trusts: bool) -> None:
    """Have the user trust this file, or refuse to use it."""
    path = Path(loaded.file or "").resolve()
    will = [escape_line(effect) for effect in describe_effects(loaded)]
    if not trusts:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UsageError(
                f"{path} was found in the working directory and is not trusted; it {'; it '.join(will)}. If that is "
                f"what you want, run `accord config trust {shlex.quote(str(path))}`, or give --trust or --config"
            )
        print(
            f"{escape_line(str(path))} was found in the working directory and is not trusted yet. It", file=sys.stderr
        )
        for effect in will:
            print(f"  {effect}", file=sys.stderr)
        if not typer.confirm("Trust it as it is now?", err=True):
            raise UsageError(f"{path} is not trusted, so nothing was done")
    trust(str(path), loaded.digest or "", os.environ)


def read_requirements(given: str) -> CapabilityRequirements:
    """Return the requirements in a file, or typed as `parse_requirements` takes them."""
    if given == STDIN or path_exists(given):
        requirements = read_message(given, CapabilityRequirements)
        check_spelling((need.capability for need in (*requirements.required, *requirements.preferred)), given)
        return requirements
    if "/" in given or given.endswith(".json"):  # no capability has such a name
        raise UsageError(f"--require {given}: No such file; expected {EXPECTED_REQUIREMENTS}")
    return parse_requirements([given])


def parse_requirements(items: Iterable[str]) -> CapabilityRequirements:
    """Return requirements from `CAPABILITY` (accepts emulation) or `CAPABILITY=native`; commas separate several."""
    required: list[dict[str, str]] = []
    for given in items:
        for item in filter(None, map(str.strip, given.split(","))):
            name, level = split_level(item)
            check_spelling([name], f"--require {item}")
            if level is not None and level not in MINIMA:
                raise UsageError(f'--require {item}: unknown level "{level}"; use {" or ".join(MINIMA)}')
            required.append({"capability": name, "min_support": level or MinSupport.EMULATED})
        if not required:
            raise UsageError(f"--require {given}: names no capability; expected {EXPECTED_REQUIREMENTS}")
    return parse_message({"required": required}, CapabilityRequirements, "--require")


def parse_levels(items: Iterable[str]) -> CapabilityManifest:
    """Return a manifest from `CAPABILITY=LEVEL` items."""
    levels: dict[str, str] = {}
    for item in items:
        name, level = split_level(item)
        if level is None:
            raise UsageError(f"--override {item}: expected name=level, such as streaming=native")
        check_spelling([name], f"--override {item}")
        if level not in LEVELS:
            raise UsageError(f'--override {item}: unknown level "{level}"; use {", ".join(LEVELS)}')
        levels[name] = level
    return parse_message(levels, CapabilityManifest, "--override")


def split_level(item: str) -> tuple[str, str | None]:
    """Split `name=level`, or `name:level`, into its two parts; the level is None if there is none."""
    name, separator, level = item.replace(":", "=", 1).partition("=")
    return name.strip(), level.strip() if separator else None


def check_spelling(names: Iterable[str], place: str) -> None:
    """Raise `UsageError` if a name is nearly that of a known capability."""
    for unknown in unknown_names(names):
        if unknown.is_misspelling:
            raise UsageError(f"{place}: {unknown}")
