"""Installs the gateways that ours is measured against, each in an environment of its own, by exact versions and hashes.

One that cannot be installed does not stop the others: `NAME.failed` then says so, and the report repeats it.

    python scripts/fetch_gateways.py .venv/gateways
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fetch_peers import VERB, install_python
from npm import install_npm

ROOT: Final = Path(__file__).parent.parent
GATEWAYS: Final[dict[str, tuple[Path, Callable[[Path, Path], None]]]] = {
    # The same lock as in the tests, so that the project has one version of it.
    "litellm": (ROOT / "tests" / "peers" / "heavy" / "litellm", install_python),
    "smg": (ROOT / "bench" / "gateways" / "smg", install_python),
    "caddy": (ROOT / "bench" / "gateways" / "caddy", install_python),
    "portkey": (ROOT / "bench" / "gateways" / "portkey", lambda source, target: install_npm(source, target, VERB)),
}


def main(target: Path) -> None:
    """Install all of them into this folder."""
    target.mkdir(parents=True, exist_ok=True)
    for name, (source, install) in GATEWAYS.items():
        note = target / f"{name}.failed"
        note.unlink(missing_ok=True)
        print(f"Installing {name} ...", file=sys.stderr)
        try:
            install(source, target / name)
        except (subprocess.CalledProcessError, OSError) as error:
            # Not the installer's own words: they can name hosts of this machine, and the report is published.
            how = f"exit status {error.returncode}" if isinstance(error, subprocess.CalledProcessError) else str(error)
            note.write_text(f"could not be installed ({how})", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
