"""Finds and reads the configuration's file: the one named, `ACCORD_CONFIG`, `./accord.toml`, or none."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from accord.config.environment import CONFIG_VARIABLE
from accord.config.origin import Loaded
from accord.config.read import read_config
from accord.errors import ConfigError, Mistake, UsageError

FILE_NAME: Final = "accord.toml"


def find_config(given: str | None, environ: Mapping[str, str], folder: Path) -> str | None:
    """The file to read, by name, or None where there is none; one that was asked for must be there."""
    if given is not None:
        return _there(given, given)
    if named := environ.get(CONFIG_VARIABLE):
        return _there(named, f"env {CONFIG_VARIABLE}: {named}")
    usual = folder / FILE_NAME
    return (FILE_NAME if folder == Path() else str(usual)) if usual.is_file() else None


def load_config(
    given: str | None = None,
    *,
    environ: Mapping[str, str],
    flags: Iterable[tuple[tuple[str, ...], Any, str]] = (),
    folder: Path = Path(),
) -> Loaded:
    """The effective configuration; without a file, the embedded defaults under environment and flags."""
    name = find_config(given, environ, folder)
    text = None if name is None else _read(name)
    loaded = read_config(text, name or FILE_NAME, environ=environ, flags=flags)
    is_named = given is not None or bool(environ.get(CONFIG_VARIABLE))
    return replace(loaded, is_named=is_named, digest=None if text is None else sha256(text.encode()).hexdigest())


def _there(name: str, told: str) -> str:
    if Path(name).is_dir():
        raise UsageError(f"{told}: is a directory; name the file in it, such as {Path(name) / FILE_NAME}")
    if not Path(name).is_file():
        raise UsageError(f"{told}: No such file; `accord config init {name}` writes one")
    return name


def _read(name: str) -> str:
    try:
        # Some editors begin a file with a byte order mark; TOML has none.
        return Path(name).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError([Mistake(name, "", f"byte {error.start}: expected UTF-8 text")]) from error
