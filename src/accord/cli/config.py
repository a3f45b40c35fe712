"""`accord config`: check, show, create and trust configurations."""

import json
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Final, cast

import typer

from accord.assembly.extras import missing_extras, tracing_note
from accord.assembly.parts import backend_mistakes
from accord.cli.options import ConfigOption, JsonOption
from accord.config import Config, LoadedConfig, StoreKind, load_config
from accord.config.locate import KeyPath
from accord.config.origin import format_key
from accord.config.read import FILE_NAME, find_misspelled_variables
from accord.config.starter import STARTER
from accord.config.trust import describe_effects, is_trusted, trust
from accord.console import Cell, Console, styled
from accord.core.vocabulary import unknown_name_warnings
from accord.errors import ConfigError, ConfigProblem, UsageError
from accord.terminal import escape_line, format_count

COLOURS: Final = {"default": "bright_black", "file": "", "env": "yellow", "flag": "cyan"}

config_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, add_completion=False)


@config_app.callback()
def _config() -> None:
    """Check, show, create and trust configurations.

    Examples:
      accord config init
      accord config check
    """


@config_app.command("check")
def check_command(
    file: Annotated[str | None, typer.Argument(help="Configuration file; the same as --config.")] = None,
    *,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Validate the configuration and show every value and its origin.

    Exit status 1 if the configuration is invalid. Needs no trust: nothing of the file is run.

    Example:
      accord config check staging.toml --json
    """
    try:
        loaded = load_config(config if file is None else file, environ=os.environ)
        mistakes = [
            ConfigProblem(str(loaded.origin(key.split("."))), key, message) for key, message in missing_extras(loaded)
        ]
        mistakes += backend_mistakes(loaded)
        if mistakes:
            raise ConfigError(mistakes)  # to be printed as the mistakes of the file are
    except ConfigError as error:
        if as_json:
            print(json.dumps({"valid": False, **error.details}, indent=2, ensure_ascii=False))
        else:
            print(*error.problems, format_count(len(error.problems), "mistake"), sep="\n")
        raise typer.Exit(1) from None
    if as_json:
        _print_json(loaded)
    else:
        _print_table(loaded)


@config_app.command("init")
def init_command(
    file: Annotated[Path, typer.Argument(help="File to write.")] = Path(FILE_NAME),
    *,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a configuration with every setting, commented out.

    Example:
      accord config init
    """
    try:
        with file.open("w" if force else "x", encoding="utf-8") as out:
            out.write(STARTER)
        trust(str(file), sha256(STARTER.encode()).hexdigest(), os.environ)
    except FileExistsError:
        raise UsageError(f"{file}: exists already; --force overwrites it") from None
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from error
    print(f"Wrote {file}; `accord config check` shows the effective values")


@config_app.command("trust")
def trust_command(
    file: Annotated[str, typer.Argument(help="Configuration file.")] = FILE_NAME,
) -> None:
    """Trust a configuration until its content changes.

    Prints what the file makes Accord do. Commands in its folder then use it without asking.

    Example:
      accord config trust ./accord.toml
    """
    loaded = load_config(file, environ=os.environ)
    for effect in describe_effects(loaded):
        print(f"it {escape_line(effect)}")
    trust(file, loaded.digest or "", os.environ)
    print(f"Trusted {Path(file).resolve()} until its content changes")


def _print_json(loaded: LoadedConfig) -> None:
    members = {
        "valid": True,
        "file": loaded.file,
        "config": loaded.config.model_dump(mode="json"),
        "origins": {format_key(path): str(loaded.origin(path)) for path, _ in _leaves(loaded.config)},
        "secrets": [
            {"key": key, "variable": variable, "set": bool(os.environ.get(variable))}
            for key, variable in _secret_variables(loaded.config)
        ],
        "notes": list(_notes(loaded)),
    }
    print(json.dumps(members, indent=2, ensure_ascii=False))


def _print_table(loaded: LoadedConfig) -> None:
    rows: list[tuple[Cell, ...]] = []
    for path, value in _leaves(loaded.config):
        origin = loaded.origin(path)
        rows.append((format_key(path), _format_value(value), styled(str(origin), COLOURS[origin.kind])))
    for key, variable in _secret_variables(loaded.config):
        state = styled("is set", "green") if os.environ.get(variable) else styled("is not set", "yellow")
        rows.append((key, state, f"env {variable}"))
    console = Console()
    console.print_table(("key", "value", "from"), rows)
    for note in _notes(loaded):
        console.print(note, soft_wrap=True)
    summary = f"{loaded.file}: valid" if loaded.file else "No configuration file: the defaults are in effect"
    console.print(summary, soft_wrap=True)


def _notes(loaded: LoadedConfig) -> Iterator[str]:
    """Yield warnings about a configuration that is valid."""
    yield from find_misspelled_variables(os.environ)
    if note := tracing_note(os.environ):
        yield note
    for backend in loaded.config.backends:
        for warning in unknown_name_warnings(backend.overrides):
            yield f"backends.{backend.name}: overrides: {warning}"
    for warning in unknown_name_warnings(loaded.config.emulation.strategies):
        yield f"emulation.strategies: {warning}"
    if not is_trusted(loaded, os.environ):
        yield f"{loaded.file} is not trusted yet: `accord config trust` shows what it does, and trusts it"


def _leaves(config: Config) -> Iterator[tuple[KeyPath, Any]]:
    """Yield every value of the configuration with its path; an empty table or list counts as a value."""
    left: list[tuple[KeyPath, Any]] = [((), config.model_dump(mode="json"))]
    while left:
        path, value = left.pop()
        if isinstance(value, dict) and value:
            members = cast("dict[str, Any]", value).items()
        elif isinstance(value, list) and value:
            members = enumerate(cast("list[Any]", value))
        else:
            yield path, value
            continue
        left += reversed([((*path, key), inner) for key, inner in members])


def _format_value(value: Any) -> str:
    if value is None:
        return "not set"
    if value in ({}, []):
        return "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _secret_variables(config: Config) -> Iterator[tuple[str, str]]:
    """Yield each secret that the configuration needs, with the variable that may hold it."""
    for index, backend in enumerate(config.backends):
        for variable in backend.key_variables:
            yield f"backends[{index}] key", variable
    if config.store.kind is StoreKind.POSTGRES:
        yield "store address", config.store.url_env
