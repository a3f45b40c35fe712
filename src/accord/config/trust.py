"""Which configurations are trusted, and the user's own state folder in which that is remembered."""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

import platformdirs

from accord.config.model import BackendConfig
from accord.config.origin import LoadedConfig, OriginKind
from accord.errors import UsageError

# The folder in which Accord keeps what belongs to this user: sessions, and which configurations are trusted.

STATE_VARIABLE: Final = "ACCORD_STATE_DIR"
PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600


def state_folder(environ: Mapping[str, str]) -> Path:
    """The folder that the environment names, else the platform's own place for a user's state."""
    if named := environ.get(STATE_VARIABLE):
        return Path(named).expanduser().absolute()
    return platformdirs.user_state_path("accord", appauthor=False)


def make_state_folder(environ: Mapping[str, str]) -> Path:
    """The same folder, there and closed to other users."""
    folder = state_folder(environ)
    try:
        folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        if folder.stat().st_mode & 0o077:
            folder.chmod(PRIVATE_FOLDER)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}; set {STATE_VARIABLE} to a folder of your own") from error
    return folder


# Decides whether a configuration may be used, and remembers which ones were trusted.
#
# A file that was named, with `--config` or `ACCORD_CONFIG`, is trusted. One that merely lies in the working directory
# may come from anybody (a cloned repository, an archive), and a configuration can run programs, send keys to an
# address and write files; so it is used only after the user agreed to its exact content. Files that it names, such as
# an agent's module, are not covered by that.

FILE_NAME: Final = "trusted-configurations.json"
MAX_SHOWN_CHARS: Final = 1_000

HARMLESS: Final = frozenset({"policy", "unknown", "default_agent", "emulation", "limits"})
"""Top-level keys that run nothing, reach nothing and write nothing. A new key is not one of them until it is listed."""


def effects(loaded: LoadedConfig) -> list[str]:
    """What the file has Accord do beyond itself, a phrase each; empty if it only sets what is harmless."""
    return [_bounded(effect) for effect in _effects(loaded)]


def _effects(loaded: LoadedConfig) -> Iterator[str]:
    config = loaded.config
    values = config.model_dump(mode="json")
    in_file = (path for path, origin in loaded.origins.items() if origin.kind is OriginKind.FILE)
    for key, *inner in dict.fromkeys(path[:2] for path in in_file if path[0] not in HARMLESS):
        value = values[str(key)]
        if key == "backends" and inner:
            yield _backend_effect(config.backends[int(inner[0])])
        elif key == "agents" and inner:
            yield f"imports {value[inner[0]].partition(':')[0]}"
        elif inner:
            yield f"sets {key}.{inner[0]} to {json.dumps(value[inner[0]], ensure_ascii=False)}"
        elif not isinstance(value, dict | list):  # of a table, only what is in it counts
            yield f"sets {key} to {json.dumps(value, ensure_ascii=False)}"


def _backend_effect(backend: BackendConfig) -> str:
    options: Mapping[str, Any] = backend.options
    command = options.get("command")
    if backend.kind == "acp" and isinstance(command, list):
        does = f"runs {' '.join(map(str, cast('list[Any]', command)))}"
    else:
        does = f"sends requests to {backend.base_url or f'the usual address of {backend.kind}'}"
    variables = [*backend.key_variables[1:], *_named_variables(options)]
    sends = f", with the values of {', '.join(variables)}" if variables else ""
    others = {name: value for name, value in options.items() if name != "command"}
    said = f" (options {json.dumps(others, ensure_ascii=False, default=str)})" if others else ""
    return f"{does}{sends}{said}"


def _named_variables(options: Mapping[str, Any]) -> list[str]:
    headers, environ = options.get("header_env"), options.get("environ")
    names: list[Any] = [*cast("dict[str, Any]", headers).values()] if isinstance(headers, dict) else []
    names += cast("list[Any]", environ) if isinstance(environ, list) else []
    return [name for name in names if isinstance(name, str)]


def _bounded(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}… ({len(text)} characters)"


def is_trusted(loaded: LoadedConfig, environ: Mapping[str, str]) -> bool:
    """Whether this configuration may be used without asking."""
    if loaded.file is None or loaded.is_named or not effects(loaded):
        return True
    return _read(state_folder(environ)).get(_key(loaded.file)) == loaded.digest


def trust(file: str, digest: str, environ: Mapping[str, str]) -> None:
    """Remember that this file is trusted as long as it has this content."""
    folder = make_state_folder(environ)
    known = _read(folder) | {_key(file): digest}
    try:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=folder, delete=False) as out:
            json.dump(known, out, indent=2)
        os.chmod(out.name, PRIVATE_FILE)  # noqa: PTH101 - a name, not a path
        os.replace(out.name, folder / FILE_NAME)  # noqa: PTH105 - as above
    except OSError as error:
        raise UsageError(f"{folder / FILE_NAME}: {error.strerror}") from error


def _key(file: str) -> str:
    return str(Path(file).resolve())


def _read(folder: Path) -> dict[str, Any]:
    """What was trusted so far; a file that cannot be read or understood trusts nothing."""
    try:
        read = json.loads((folder / FILE_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", read) if isinstance(read, dict) else {}
