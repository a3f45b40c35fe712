"""Which configurations are trusted, and the user's state folder that remembers it.

A file that the user named, with `--config` or `ACCORD_CONFIG`, is trusted. One that is merely in the working directory
may come from anyone (a cloned repository, an archive), and a configuration can run programs, send keys to an address
and write files; so it is used only after the user agreed to its exact content. Files that it names, such as the module
of an agent, are not covered by that.
"""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

from accord.config.model import BackendConfig
from accord.config.origin import LoadedConfig, OriginKind
from accord.errors import UsageError

STATE_VARIABLE: Final = "ACCORD_STATE_DIR"
PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600
FILE_NAME: Final = "trusted-configurations.json"
MAX_EFFECT_CHARS: Final = 1_000

HARMLESS: Final = frozenset({"policy", "unknown", "default_agent", "groups", "circuit", "emulation", "limits"})
"""Top-level keys that start no program, send nothing and write nothing. A new key needs trust until it is listed."""


def state_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of this user's state: as `ACCORD_STATE_DIR` says, else where the platform keeps it."""
    if named := environ.get(STATE_VARIABLE):
        return Path(named).expanduser().absolute()
    import platformdirs  # noqa: PLC0415 - an extra; reading a configuration does without it

    return platformdirs.user_state_path("accord", appauthor=False)


def make_state_folder(environ: Mapping[str, str]) -> Path:
    """Create the state folder if needed, closed to other users, and return it."""
    folder = state_folder(environ)
    try:
        folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        if folder.stat().st_mode & 0o077:
            folder.chmod(PRIVATE_FOLDER)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}; set {STATE_VARIABLE} to a folder of your own") from error
    return folder


def is_trusted(loaded: LoadedConfig, environ: Mapping[str, str]) -> bool:
    """Whether this configuration may be used without asking the user."""
    if loaded.file is None or loaded.is_named or not describe_effects(loaded):
        return True
    return _read_trusted(state_folder(environ)).get(str(Path(loaded.file).resolve())) == loaded.digest


def trust(file: str, digest: str, environ: Mapping[str, str]) -> None:
    """Remember that this file is trusted as long as it has this content."""
    folder = make_state_folder(environ)
    trusted = _read_trusted(folder) | {str(Path(file).resolve()): digest}
    try:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=folder, delete=False) as out:
            json.dump(trusted, out, indent=2)
        os.chmod(out.name, PRIVATE_FILE)  # noqa: PTH101 - a name, not a path
        os.replace(out.name, folder / FILE_NAME)  # noqa: PTH105 - as above
    except OSError as error:
        raise UsageError(f"{folder / FILE_NAME}: {error.strerror}") from error


def _read_trusted(folder: Path) -> dict[str, Any]:
    """Return the digest of each trusted file; none if the record cannot be read or parsed."""
    try:
        read = json.loads((folder / FILE_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", read) if isinstance(read, dict) else {}


def describe_effects(loaded: LoadedConfig) -> list[str]:
    """List what the file makes Accord do, such as `runs some-agent`; empty if it only sets harmless keys."""
    return [
        effect if len(effect) <= MAX_EFFECT_CHARS else f"{effect[:MAX_EFFECT_CHARS]}… ({len(effect)} characters)"
        for effect in _effects(loaded)
    ]


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
        elif not isinstance(value, dict | list):  # a table has no effect but those of its keys
            yield f"sets {key} to {json.dumps(value, ensure_ascii=False)}"


def _backend_effect(backend: BackendConfig) -> str:
    options: Mapping[str, Any] = backend.options
    command = options.get("command")
    if backend.kind == "acp" and isinstance(command, list):
        action = f"runs {' '.join(map(str, cast('list[Any]', command)))}"
    else:
        action = f"sends requests to {backend.base_url or f'the usual address of {backend.kind}'}"
    headers, environ = options.get("header_env"), options.get("environ")
    named: list[Any] = [*cast("dict[str, Any]", headers).values()] if isinstance(headers, dict) else []
    named += cast("list[Any]", environ) if isinstance(environ, list) else []
    variables = [*backend.key_variables[1:], *(name for name in named if isinstance(name, str))]
    if variables:
        action += f", with the values of {', '.join(variables)}"
    others = {name: value for name, value in options.items() if name != "command"}
    return f"{action} (options {json.dumps(others, ensure_ascii=False, default=str)})" if others else action
