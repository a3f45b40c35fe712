"""Find and read the configuration: a `LoadedConfig`, or every mistake at once, each with its line."""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, cast

from pydantic import ValidationError

from accord.config.check import mistakes_of, stray_keys
from accord.config.locate import KeyPath, Position, locate
from accord.config.model import KEY_PREFIX, Config
from accord.config.origin import LoadedConfig, Origin, OriginKind, Override, written
from accord.config.trust import STATE_VARIABLE
from accord.core.vocabulary import closest
from accord.errors import ConfigError, Mistake, UsageError

# What environment variables say about the configuration: one table. Secrets are read where they are used, not here.
#
# Beside the table there are `ACCORD_CONFIG` (which file), `ACCORD_STATE_DIR` (where this user's state is kept),
# `ACCORD_KEY_<BACKEND>` (a backend's key, over `key_env`) and `ACCORD_STORE_URL` (the store's address unless
# `url_env` names another).

CONFIG_VARIABLE: Final = "ACCORD_CONFIG"
STORE_URL_VARIABLE: Final = "ACCORD_STORE_URL"
OTHERS: Final = (CONFIG_VARIABLE, STORE_URL_VARIABLE, STATE_VARIABLE)
"""Variables that set no key of the configuration."""
PREFIX: Final = "ACCORD_"
WORDS: Final = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def _text(given: str) -> str:
    return given


def _word(given: str) -> bool:
    if given.lower() not in WORDS:
        raise ValueError
    return WORDS[given.lower()]


VARIABLES: Final[Mapping[str, tuple[tuple[str, ...], Callable[[str], Any], str]]] = {
    "ACCORD_POLICY": (("policy",), _text, "text"),
    "ACCORD_UNKNOWN": (("unknown",), _text, "text"),
    "ACCORD_DEFAULT_AGENT": (("default_agent",), _text, "text"),
    "ACCORD_RETENTION_DAYS": (("retention_days",), int, "a whole number"),
    "ACCORD_EMULATION_PRESET": (("emulation", "preset"), _word, "true or false"),
    "ACCORD_EMULATION_MAX_RETRIES": (("emulation", "max_retries"), int, "a whole number"),
    "ACCORD_EMULATION_DESCRIBE_IMAGES_WITH": (("emulation", "describe_images_with"), _text, "text"),
    "ACCORD_LIMITS_FIRST_PACKET_S": (("limits", "first_packet_s"), float, "a number"),
    "ACCORD_LIMITS_GAP_S": (("limits", "gap_s"), float, "a number"),
    "ACCORD_LIMITS_TURN_S": (("limits", "turn_s"), float, "a number"),
    "ACCORD_LIMITS_CONCURRENT_TURNS": (("limits", "concurrent_turns"), int, "a whole number"),
    "ACCORD_SERVER_HOST": (("server", "host"), _text, "text"),
    "ACCORD_SERVER_PORT": (("server", "port"), int, "a whole number"),
    "ACCORD_STORE_KIND": (("store", "kind"), _text, "text"),
    "ACCORD_STORE_PATH": (("store", "path"), _text, "text"),
}
"""Variable, the key that it sets, how its text is read, and what is expected there."""


def overrides_of(environ: Mapping[str, str]) -> tuple[list[Override], list[Mistake]]:
    """What the environment puts over the file, and what is wrong with it. An empty variable says nothing."""
    overrides: list[Override] = []
    mistakes: list[Mistake] = []
    for name, (path, read, kind) in VARIABLES.items():
        given = environ.get(name, "")
        if not given:
            continue
        origin = Origin(OriginKind.ENV, name)
        try:
            overrides.append(Override(path, read(given), origin))
        except ValueError:
            mistakes.append(Mistake(str(origin), ".".join(path), f"expected {kind}"))
    return overrides, mistakes


def unread_variables(environ: Mapping[str, str]) -> list[str]:
    """A sentence for each `ACCORD_…` variable that looks like a misspelt one of the table."""
    told: list[str] = []
    for name in sorted(environ):
        known = name in VARIABLES or name in OTHERS or name.startswith(KEY_PREFIX)
        if known or not name.startswith(PREFIX):
            continue
        if near := closest(name.removeprefix(PREFIX), (each.removeprefix(PREFIX) for each in (*VARIABLES, *OTHERS))):
            told.append(f"env {name}: this variable is not used; did you mean {PREFIX}{near}?")
    return told


# A configuration's text in, a `LoadedConfig` out, or every mistake at once, each with its line.
#
# Default < file < environment < command line. Reads no file and no environment of its own: both are handed in.

CLEARED_BY: Final[Mapping[KeyPath, tuple[str, ...]]] = {("store", "kind"): ("path", "url_env")}
"""What the file says beside a key and only for its own value of it: another kind of store is another place."""

_AT: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def read_config(
    text: str | None,
    name: str = "accord.toml",
    *,
    environ: Mapping[str, str] | None = None,
    flags: Iterable[tuple[tuple[str, ...], Any, str]] = (),
) -> LoadedConfig:
    """The effective configuration of this text (None: no file), the environment and flags `(key path, value, flag)`."""
    data = _parse(text or "", name)
    positions = locate(text or "")
    said, mistakes = overrides_of(environ or {})
    said += [Override(path, value, Origin(OriginKind.FLAG, flag)) for path, value, flag in flags]
    origins = {path: Origin(OriginKind.FILE, f"{name}:{place.line}") for path, place in positions.items()}
    places = {path: f"{name}:{place.line}:{place.column}" for path, place in positions.items()}
    strays = stray_keys(data)
    for override in said:
        _put(data, override)
        origins = {path: origin for path, origin in origins.items() if path[: len(override.path)] != override.path}
        origins[override.path] = override.origin
        places[override.path] = str(override.origin)
    config, found = _validate(data)
    stray_places = {path for path, _ in strays}
    found = [(path, told) for path, told in found if path not in stray_places]  # one sentence for each key
    mistakes += [Mistake(_place(path, places, name), written(path), told) for path, told in [*strays, *found]]
    if config is None or mistakes:
        raise ConfigError(sorted(mistakes, key=lambda mistake: _order(mistake.place)))
    return LoadedConfig(config, origins, None if text is None else name)


def _parse(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError([Mistake(name, "", "nested too deeply")]) from None
    except ValueError as error:
        found = _AT.search(str(error))
        place = _end(text) if found is None or found[1] is None else Position(int(found[1]), int(found[2]))
        told = f"expected TOML: {_AT.sub('', str(error))}"
        raise ConfigError([Mistake(f"{name}:{place.line}:{place.column}", "", told)]) from None


def _end(text: str) -> Position:
    lines = text.replace("\r\n", "\n").split("\n")
    return Position(len(lines), len(lines[-1]) + 1)


def _put(data: dict[str, Any], override: Override) -> None:
    *tables, key = override.path
    for table in tables:
        inner = data.setdefault(str(table), {})
        if not isinstance(inner, dict):
            return  # the file has something else there, which is a mistake of its own
        data = cast("dict[str, Any]", inner)
    for other in CLEARED_BY.get(override.path, ()):
        data.pop(other, None)
    data[str(key)] = override.value


def _validate(data: dict[str, Any]) -> tuple[Config | None, list[tuple[KeyPath, str]]]:
    try:
        return Config.model_validate(data), []
    except ValidationError as error:
        return None, mistakes_of(error, data)


def _place(path: KeyPath, places: Mapping[KeyPath, str], name: str) -> str:
    """The place of a key, or of the nearest table around one that is not there."""
    while path:
        if path in places:
            return places[path]
        path = path[:-1]
    return name


def _order(place: str) -> tuple[int, ...]:
    """By line, what is not in the file last."""
    numbers = re.findall(r":(\d+)", place)
    return tuple(map(int, numbers[-2:])) if numbers else (10**9,)


# Finds and reads the configuration's file: the one named, `ACCORD_CONFIG`, `./accord.toml`, or none.

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
) -> LoadedConfig:
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
