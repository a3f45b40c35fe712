"""Save what a probe found: in a file beside the configuration, with a line in the configuration that names it.

The line is inserted as text, so that comments stay. The changed text is parsed before it is written: if it differs from
the old configuration in more than that line, the file is left alone and the operator gets the line to add.
"""

import json
import os
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Final

from accord.config import BackendConfig, LoadedConfig, read_config
from accord.config.locate import locate
from accord.config.trust import trust
from accord.errors import ConfigError, UsageError
from accord.wire.service import ProbeRecord

KEY: Final = "probed"


def save_probe(loaded: LoadedConfig, backend: BackendConfig, record: ProbeRecord) -> str:
    """Write what was found; return a sentence that says where, and what is left to do."""
    config = Path(loaded.file or "")
    name = backend.probed or f"{config.stem}.{backend.name}.probed.json"
    _write(loaded.path_of(name), json.dumps(record.dump(), indent=2, ensure_ascii=False) + "\n")
    done = f"Wrote {loaded.path_of(name)}"
    if backend.probed is not None:
        return done
    text = config.read_text(encoding="utf-8-sig")
    changed = add_probed_line(text, [each.name for each in loaded.config.backends].index(backend.name), name)
    if changed is None:
        return f"{done}. Add this line to the backend {backend.name} in {config}: {_line(name)}"
    _write(config, changed)
    if not loaded.is_named:  # the file was trusted before, and this line is ours
        trust(str(config), sha256(changed.encode()).hexdigest(), os.environ)
    return f"{done} and added to {config}: {_line(name)}"


def add_probed_line(text: str, index: int, name: str) -> str | None:
    """Insert the line that names the file into the text of a configuration; None if that cannot be done safely."""
    found = locate(text).get(("backends", index, "name"))
    if found is None:
        return None
    lines = text.splitlines(keepends=True)
    before = lines[found.line - 1]
    indent = before[: found.column - 1]
    end = "\r\n" if before.endswith("\r\n") else "\n"
    first = before if before.endswith("\n") else before + end
    changed = "".join((*lines[: found.line - 1], first, indent + _line(name) + end, *lines[found.line :]))
    try:
        expected, actual = read_config(text).config, read_config(changed).config
    except ConfigError:
        return None
    backends = list(expected.backends)
    backends[index] = backends[index].model_copy(update={KEY: name})
    return changed if expected.model_copy(update={"backends": backends}) == actual else None


def _line(name: str) -> str:
    return f"{KEY} = {json.dumps(name)}"


def _write(path: Path, text: str) -> None:
    """Replace a file in one step, keeping its mode."""
    temporary: str | None = None
    try:
        mode = path.stat().st_mode if path.exists() else 0o644
        with tempfile.NamedTemporaryFile("wb", dir=path.parent, delete=False) as out:
            temporary = out.name
            out.write(text.encode())
        os.chmod(temporary, mode)  # noqa: PTH101 - a name, not a path
        os.replace(temporary, path.resolve())  # noqa: PTH105 - as above
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise UsageError(f"{path}: {error.strerror}") from error
