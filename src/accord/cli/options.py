"""Loads the configuration for a command: the shared options, and whether a file that was found is trusted."""

import os
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from accord.config import LoadedConfig, StoreKind, load_config
from accord.config.trust import effects, is_trusted, trust
from accord.errors import UsageError
from accord.terminal import escape_line

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
    will = [escape_line(effect) for effect in effects(loaded)]
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
