"""A configuration's text in, a `Loaded` out, or every mistake at once, each with its line.

Default < file < environment < command line. Reads no file and no environment of its own: both are handed in.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from pydantic import ValidationError

from accord.config.check import mistakes_of, stray_keys
from accord.config.environment import overrides_of
from accord.config.locate import Path, Position, locate
from accord.config.model import Config
from accord.config.origin import Loaded, Origin, OriginKind, Override, written
from accord.errors import ConfigError, Mistake

CLEARED_BY: Final[Mapping[Path, tuple[str, ...]]] = {("store", "kind"): ("path", "url_env")}
"""What the file says beside a key and only for its own value of it: another kind of store is another place."""

_AT: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def read_config(
    text: str | None,
    name: str = "accord.toml",
    *,
    environ: Mapping[str, str] | None = None,
    flags: Iterable[tuple[tuple[str, ...], Any, str]] = (),
) -> Loaded:
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
    return Loaded(config, origins, None if text is None else name)


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


def _validate(data: dict[str, Any]) -> tuple[Config | None, list[tuple[Path, str]]]:
    try:
        return Config.model_validate(data), []
    except ValidationError as error:
        return None, mistakes_of(error, data)


def _place(path: Path, places: Mapping[Path, str], name: str) -> str:
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
