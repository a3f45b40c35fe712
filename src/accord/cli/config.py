"""`accord config`: is the configuration right, what is in effect, and who said so? Exit status 1 when it is wrong."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Final, cast

import typer

from accord.assembly.extras import missing_extras, tracing_note
from accord.cli.options import ConfigOption
from accord.config import Config, LoadedConfig, StoreKind, load_config
from accord.config.origin import format_key
from accord.config.read import FILE_NAME, find_misspelled_variables
from accord.config.starter import STARTER
from accord.config.trust import describe_effects, is_trusted, trust
from accord.core.vocabulary import unknown_name_warnings
from accord.errors import ConfigError, ConfigProblem, UsageError
from accord.terminal import Cell, Console, escape_line, format_count, styled

COLOURS: Final = {"default": "bright_black", "file": "", "env": "yellow", "flag": "cyan"}

config_app = typer.Typer(
    help="Check, show and begin a configuration.", no_args_is_help=True, rich_markup_mode=None, add_completion=False
)


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret that the configuration names, and whether its variable is set; never the secret."""

    key: str
    variable: str
    is_set: bool


@config_app.command("check")
def check_command(
    file: Annotated[str | None, typer.Argument(help="The configuration's file; the same as --config.")] = None,
    *,
    config: ConfigOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result for a program.")] = False,
) -> None:
    """Validate the configuration and show what is in effect, and where each value came from."""
    given = config if file is None else file
    try:
        loaded = load_config(given, environ=os.environ)
        _check_parts(loaded)
    except ConfigError as error:
        _print_mistakes(error, as_json=as_json)
        raise typer.Exit(1) from None
    secrets = list(_secrets(loaded.config, os.environ))
    notes = list(_notes(loaded))
    if as_json:
        _print_json(loaded, secrets, notes)
    else:
        _print_table(loaded, secrets, notes)


@config_app.command("init")
def init_command(
    file: Annotated[Path, typer.Argument(help="Where to write.")] = Path(FILE_NAME),
    *,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Write a configuration to begin with: every setting, commented out."""
    try:
        with file.open("w" if force else "x", encoding="utf-8") as out:
            out.write(STARTER)
        trust(str(file), sha256(STARTER.encode()).hexdigest(), os.environ)
    except FileExistsError:
        raise UsageError(f"{file}: is there already; --force writes over it") from None
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from error
    print(f"Wrote {file}; `accord config check` shows what is in effect")


@config_app.command("trust")
def trust_command(
    file: Annotated[str, typer.Argument(help="The configuration's file.")] = FILE_NAME,
) -> None:
    """Trust a configuration as it is, so that commands in its folder use it without asking."""
    loaded = load_config(file, environ=os.environ)
    for effect in describe_effects(loaded):
        print(f"it {escape_line(effect)}")
    trust(file, loaded.digest or "", os.environ)
    print(f"Trusted {Path(file).resolve()} until it changes")


def _check_parts(loaded: LoadedConfig) -> None:
    """Raise `ConfigError` if a command could not build the backends and other parts of this configuration."""
    mistakes = [
        ConfigProblem(str(loaded.origin(tuple(key.split(".")))), key, told) for key, told in missing_extras(loaded)
    ]
    if loaded.config.backends:
        from accord.assembly.parts import backend_mistakes  # noqa: PLC0415 - the engine takes a while to load

        mistakes += backend_mistakes(loaded)
    if mistakes:
        raise ConfigError(mistakes)


def _notes(loaded: LoadedConfig) -> Iterator[str]:
    """What an operator should know about a configuration that is in order."""
    yield from find_misspelled_variables(os.environ)
    if note := tracing_note(os.environ):
        yield note
    for backend in loaded.config.backends:
        yield from (
            f"backends.{backend.name}: overrides: {unknown}" for unknown in unknown_name_warnings(backend.overrides)
        )
    yield from (
        f"emulation.strategies: {unknown}" for unknown in unknown_name_warnings(loaded.config.emulation.strategies)
    )
    if not is_trusted(loaded, os.environ):
        yield f"{loaded.file} is not trusted yet: `accord config trust` shows what it does, and trusts it"


def _print_mistakes(error: ConfigError, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"valid": False, **error.details}, indent=2, ensure_ascii=False))
        return
    for problem in error.problems:
        print(problem)
    print(format_count(len(error.problems), "mistake"))


def _print_json(loaded: LoadedConfig, secrets: list[Secret], notes: list[str]) -> None:
    told = {
        "valid": True,
        "file": loaded.file,
        "config": loaded.config.model_dump(mode="json"),
        "origins": {format_key(path): str(loaded.origin(path)) for path, _ in _leaves(loaded.config)},
        "secrets": [{"key": secret.key, "variable": secret.variable, "set": secret.is_set} for secret in secrets],
        "notes": notes,
    }
    print(json.dumps(told, indent=2, ensure_ascii=False))


def _print_table(loaded: LoadedConfig, secrets: list[Secret], notes: list[str]) -> None:
    rows: list[tuple[Cell, ...]] = []
    for path, value in _leaves(loaded.config):
        origin = loaded.origin(path)
        rows.append((format_key(path), _told(value), styled(str(origin), COLOURS[origin.kind])))
    for secret in secrets:
        state = styled("is set", "green") if secret.is_set else styled("is not set", "yellow")
        rows.append((secret.key, state, f"env {secret.variable}"))
    console = Console()
    console.print_table(("key", "value", "from"), rows)
    for note in notes:
        console.print(note, soft_wrap=True)
    name = loaded.file or "No file: the embedded defaults"
    console.print(f"{name}: in order", soft_wrap=True)


def _leaves(config: Config) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Every value of the configuration with its path; an empty table or list is one as well."""
    yield from _inner_leaves((), config.model_dump(mode="json"))


def _inner_leaves(path: tuple[str | int, ...], value: Any) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    if isinstance(value, dict) and value:
        for key, inner in cast("dict[str, Any]", value).items():
            yield from _inner_leaves((*path, key), inner)
    elif isinstance(value, list) and value:
        for index, inner in enumerate(cast("list[Any]", value)):
            yield from _inner_leaves((*path, index), inner)
    else:
        yield path, value


def _told(value: Any) -> str:
    if value is None:
        return "not set"
    if value in ({}, []):
        return "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _secrets(config: Config, environ: Mapping[str, str]) -> Iterator[Secret]:
    for index, backend in enumerate(config.backends):
        for variable in backend.key_variables:
            yield Secret(f"backends[{index}] key", variable, bool(environ.get(variable)))
    if config.store.kind is StoreKind.POSTGRES:
        yield Secret("store address", config.store.url_env, bool(environ.get(config.store.url_env)))
