"""Find and read the configuration: a `LoadedConfig`, or every mistake at once, each with its line.

A flag overrides the environment, which overrides the file, which overrides the defaults. Secrets are not read here but
where they are used.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, cast

from pydantic import ValidationError

from accord.config.check import explain_errors, find_unknown_keys
from accord.config.locate import KeyPath, locate
from accord.config.model import KEY_PREFIX, QUEUE_URL_VARIABLE, STORE_URL_VARIABLE, Config
from accord.config.origin import LoadedConfig, Origin, OriginKind, Override, format_key
from accord.config.trust import STATE_VARIABLE
from accord.core.vocabulary import closest
from accord.errors import ConfigError, ConfigProblem, UsageError

FILE_NAME: Final = "accord.toml"
CONFIG_VARIABLE: Final = "ACCORD_CONFIG"
OTHER_VARIABLES: Final = (CONFIG_VARIABLE, STORE_URL_VARIABLE, QUEUE_URL_VARIABLE, STATE_VARIABLE)
"""Variables that set no key of the configuration."""
PREFIX: Final = "ACCORD_"
BOOLEANS: Final = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


def _boolean(text: str) -> bool:
    if text.lower() not in BOOLEANS:
        raise ValueError
    return BOOLEANS[text.lower()]


VARIABLES: Final[Mapping[str, tuple[tuple[str, ...], Callable[[str], Any], str]]] = {
    "ACCORD_POLICY": (("policy",), str, "text"),
    "ACCORD_UNKNOWN": (("unknown",), str, "text"),
    "ACCORD_DEFAULT_AGENT": (("default_agent",), str, "text"),
    "ACCORD_RETENTION_DAYS": (("retention_days",), int, "a whole number"),
    "ACCORD_EMULATION_PRESET": (("emulation", "preset"), _boolean, "true or false"),
    "ACCORD_EMULATION_MAX_RETRIES": (("emulation", "max_retries"), int, "a whole number"),
    "ACCORD_EMULATION_DESCRIBE_IMAGES_WITH": (("emulation", "describe_images_with"), str, "text"),
    "ACCORD_LIMITS_FIRST_PACKET_S": (("limits", "first_packet_s"), float, "a number"),
    "ACCORD_LIMITS_GAP_S": (("limits", "gap_s"), float, "a number"),
    "ACCORD_LIMITS_TURN_S": (("limits", "turn_s"), float, "a number"),
    "ACCORD_LIMITS_CONCURRENT_TURNS": (("limits", "concurrent_turns"), int, "a whole number"),
    "ACCORD_SERVER_HOST": (("server", "host"), str, "text"),
    "ACCORD_SERVER_PORT": (("server", "port"), int, "a whole number"),
    "ACCORD_SERVER_WORKERS": (("server", "workers"), int, "a whole number"),
    "ACCORD_STORE_KIND": (("store", "kind"), str, "text"),
    "ACCORD_STORE_PATH": (("store", "path"), str, "text"),
    "ACCORD_QUEUE_KIND": (("queue", "kind"), str, "text"),
}
"""Each variable with the key that it sets, how its text is parsed, and what is expected there."""

CLEARED_BY: Final[Mapping[KeyPath, tuple[str, ...]]] = {
    ("store", "kind"): ("path", "url_env"),
    ("queue", "kind"): ("url_env",),
}
"""Keys of the same table that are dropped when a key is overridden: the path of a SQLite store fits no other kind."""

_TOML_PLACE: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def load_config(
    given: str | None = None,
    *,
    environ: Mapping[str, str],
    flags: Iterable[tuple[tuple[str, ...], Any, str]] = (),
    folder: Path = Path(),
) -> LoadedConfig:
    """Find and read the configuration; without a file, the defaults with environment and flags."""
    name = find_config(given, environ, folder)
    text = None
    if name is not None:
        try:
            # Some editors begin a file with a byte order mark, which TOML does not allow.
            text = Path(name).read_text(encoding="utf-8-sig")
        except OSError as error:
            raise UsageError(f"{name}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ConfigError([ConfigProblem(name, "", f"byte {error.start}: expected UTF-8 text")]) from error
    loaded = read_config(text, name or FILE_NAME, environ=environ, flags=flags)
    is_named = given is not None or bool(environ.get(CONFIG_VARIABLE))
    return replace(loaded, is_named=is_named, digest=None if text is None else sha256(text.encode()).hexdigest())


def find_config(given: str | None, environ: Mapping[str, str], folder: Path) -> str | None:
    """Return the file to read: the given one, that of `ACCORD_CONFIG`, `accord.toml` in the folder, or None.

    A file that the user named must exist.
    """
    named = given if given is not None else environ.get(CONFIG_VARIABLE) or None
    if named is None:
        usual = folder / FILE_NAME
        return (FILE_NAME if folder == Path() else str(usual)) if usual.is_file() else None
    place = named if given is not None else f"env {CONFIG_VARIABLE}: {named}"
    if Path(named).is_dir():
        raise UsageError(f"{place}: is a directory; name the file in it, such as {Path(named) / FILE_NAME}")
    if not Path(named).exists():  # also a device or a pipe: `--config /dev/null` is the empty configuration
        raise UsageError(f"{place}: No such file; `accord config init {named}` writes one")
    return named


def read_config(
    text: str | None,
    name: str = FILE_NAME,
    *,
    environ: Mapping[str, str] | None = None,
    flags: Iterable[tuple[tuple[str, ...], Any, str]] = (),
) -> LoadedConfig:
    """Read a configuration from its text (None: no file), the environment and flags `(key path, value, flag)`."""
    data = _parse(text or "", name)
    positions = locate(text or "")
    overrides, mistakes = read_environment(environ or {})
    overrides += [Override(path, value, Origin(OriginKind.FLAG, flag)) for path, value, flag in flags]
    origins = {path: Origin(OriginKind.FILE, f"{name}:{at.line}") for path, at in positions.items()}
    places = {path: f"{name}:{at.line}:{at.column}" for path, at in positions.items()}
    unknown = dict(find_unknown_keys(data))
    for override in overrides:
        _apply(override, data)
        origins = {path: origin for path, origin in origins.items() if path[: len(override.path)] != override.path}
        origins[override.path] = override.origin
        places[override.path] = str(override.origin)
    config, invalid = None, dict[KeyPath, str]()
    try:
        config = Config.model_validate(data)
    except ValidationError as error:
        invalid = dict(explain_errors(error, data))
    for path, message in {**invalid, **unknown}.items():  # one message for each key
        mistakes.append(ConfigProblem(_place(path, places, name), format_key(path), message))
    if config is None or mistakes:
        raise ConfigError(sorted(mistakes, key=lambda mistake: _order(mistake.place)))
    return LoadedConfig(config, origins, None if text is None else name)


def read_environment(environ: Mapping[str, str]) -> tuple[list[Override], list[ConfigProblem]]:
    """Return what environment variables set, and what is wrong with them; an empty variable counts as unset."""
    overrides: list[Override] = []
    mistakes: list[ConfigProblem] = []
    for name, (path, parse, kind) in VARIABLES.items():
        if given := environ.get(name):
            origin = Origin(OriginKind.ENV, name)
            try:
                overrides.append(Override(path, parse(given), origin))
            except ValueError:
                mistakes.append(ConfigProblem(str(origin), ".".join(path), f"expected {kind}"))
    return overrides, mistakes


def find_misspelled_variables(environ: Mapping[str, str]) -> list[str]:
    """Return a message for each `ACCORD_…` variable that is not used and looks like one that is."""
    messages: list[str] = []
    known = (*VARIABLES, *OTHER_VARIABLES)
    for name in sorted(environ):
        if name in known or name.startswith(KEY_PREFIX) or not name.startswith(PREFIX):
            continue
        if near := closest(name.removeprefix(PREFIX), (each.removeprefix(PREFIX) for each in known)):
            messages.append(f"env {name}: this variable is not used; did you mean {PREFIX}{near}?")
    return messages


def _parse(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError([ConfigProblem(name, "", "nested too deeply")]) from None
    except ValueError as error:
        found = _TOML_PLACE.search(str(error))
        if found is not None and found[1] is not None:
            line, column = found[1], found[2]
        else:  # at the end of the document
            lines = text.replace("\r\n", "\n").split("\n")
            line, column = len(lines), len(lines[-1]) + 1
        message = f"expected TOML: {_TOML_PLACE.sub('', str(error))}"
        raise ConfigError([ConfigProblem(f"{name}:{line}:{column}", "", message)]) from None


def _apply(override: Override, data: dict[str, Any]) -> None:
    *tables, key = override.path
    for table in tables:
        inner = data.setdefault(str(table), {})
        if not isinstance(inner, dict):
            return  # the file has something else there, which is reported as a mistake of the file
        data = cast("dict[str, Any]", inner)
    for other in CLEARED_BY.get(override.path, ()):
        data.pop(other, None)
    data[str(key)] = override.value


def _place(path: KeyPath, places: Mapping[KeyPath, str], name: str) -> str:
    """Return the place of a key or, if it is missing, that of the nearest table around it."""
    while path:
        if path in places:
            return places[path]
        path = path[:-1]
    return name


def _order(place: str) -> tuple[int, ...]:
    """Sort by line and column; what is not in the file comes last."""
    numbers = re.findall(r":(\d+)", place)
    return tuple(map(int, numbers[-2:])) if numbers else (10**9,)
