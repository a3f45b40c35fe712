"""Installs real peers that tests talk to, by exact versions and hashes: small ones, with --heavy large ones.

With --clients, the model clients that `make record-clients` and `make test-peers` run.
"""

import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

from npm import install_npm

SOURCE = Path(__file__).parent.parent / "tests" / "peers"
UV = Path(sys.executable).parent / "uv"


VERB: Final = ("ci",)
HEAVY_VERB: Final = ("install", "--no-save")
"""Keeps to the lock as well, but forgives it that acpx and opencode name optional packages for other machines."""
FAST_AGENT_PYTHON: Final = ">=3.12"


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


def install_small(target: Path) -> None:
    """What `make test` needs."""
    install_npm(SOURCE, target, VERB)


def install_heavy(target: Path) -> None:
    """The agents and clients of `make test-peers`."""
    source = SOURCE / "heavy"
    install_npm(source, target, HEAVY_VERB)
    install_python(source, target / "python")
    install_python(source / "litellm", target / "litellm")
    install_fast_agent(source, target)


def install_clients(target: Path) -> None:
    """The model clients of `make test-peers` and `make record-clients`."""
    install_npm(SOURCE / "clients", target, HEAVY_VERB)
    install_python(SOURCE / "clients", target / "python")


INSTALLERS: Final = {"": install_small, "--heavy": install_heavy, "--clients": install_clients}

if __name__ == "__main__":
    INSTALLERS["".join(sys.argv[2:])](Path(sys.argv[1]))
