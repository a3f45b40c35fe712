"""Keeps what a probe found: in a file beside the configuration, and a line in the configuration that names it.

The line is put in as text, so that every comment stays. The changed text is read before it is written: if it would mean
anything else than the old one and that line, it is left as it is and the operator is told the line.
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
from accord.wire.service import Probed

KEY: Final = "probed"


def keep_probed(loaded: LoadedConfig, backend: BackendConfig, record: Probed) -> str:
    """Write what was found; gives a sentence that says where, and what is left to do."""
    config = Path(loaded.file or "")
    name = backend.probed or f"{config.stem}.{backend.name}.probed.json"
    _write(loaded.path_of(name), json.dumps(record.dump(), indent=2, ensure_ascii=False) + "\n")
    told = f"Wrote {loaded.path_of(name)}"
    if backend.probed is not None:
        return told
    text = config.read_text(encoding="utf-8-sig")
    changed = with_line(text, [each.name for each in loaded.config.backends].index(backend.name), name)
    if changed is None:
        return f"{told}. Add this line to the backend {backend.name} in {config}: {_line(name)}"
    _write(config, changed)
    if not loaded.is_named:  # it was trusted before, and this line is ours
        trust(str(config), sha256(changed.encode()).hexdigest(), os.environ)
    return f"{told}, and in {config} the line: {_line(name)}"


def with_line(text: str, index: int, name: str) -> str | None:
    """The configuration's text with the line that names the file; None if it cannot be put in with certainty."""
    found = locate(text).get(("backends", index, "name"))
    if found is None:
        return None
    lines = text.splitlines(keepends=True)
    before = lines[found.line - 1]
    indent = before[: found.column - 1]
    end = "\r\n" if before.endswith("\r\n") else "\n"
    first = before if before.endswith("\n") else before + end
    changed = "".join((*lines[: found.line - 1], first, indent + _line(name) + end, *lines[found.line :]))
    return changed if _means_the_same(text, changed, index, name) else None


def _means_the_same(text: str, changed: str, index: int, name: str) -> bool:
    try:
        before, after = read_config(text).config, read_config(changed).config
    except ConfigError:
        return False
    backends = list(before.backends)
    backends[index] = backends[index].model_copy(update={KEY: name})
    return before.model_copy(update={"backends": backends}) == after


def _line(name: str) -> str:
    return f"{KEY} = {json.dumps(name)}"


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all; it keeps its mode."""
    kept: str | None = None
    try:
        mode = path.stat().st_mode if path.exists() else 0o644
        with tempfile.NamedTemporaryFile("wb", dir=path.parent, delete=False) as out:
            kept = out.name
            out.write(text.encode())
        os.chmod(kept, mode)  # noqa: PTH101 - a name, not a path
        os.replace(kept, path.resolve())  # noqa: PTH105 - as above
    except OSError as error:
        if kept is not None:
            Path(kept).unlink(missing_ok=True)
        raise UsageError(f"{path}: {error.strerror}") from error
