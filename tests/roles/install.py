"""Build the wheel and install it into a fresh environment that has the packages it declares, and no others.

Nothing is downloaded: the declared packages, and those that they declare in turn, are links to the ones that the tests
run with. An import of anything else fails there, as it would for a user.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from email import message_from_bytes
from importlib.metadata import Distribution, distribution
from pathlib import Path
from zipfile import ZipFile

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent.parent
INSTALL_S = 50


@dataclass(frozen=True, slots=True)
class Installation:
    """A virtual environment with the wheel in it."""

    wheel: Path
    environment: Path

    @property
    def commands(self) -> Path:
        """The folder of its `python` and `accord`."""
        return self.environment / "bin"

    @property
    def packages(self) -> Path:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return self.environment / "lib" / version / "site-packages"


def install(folder: Path) -> Installation:
    """Return the installation in this folder, made if needed."""
    installed = Installation(next(folder.glob("*.whl"), folder / "none"), folder / "environment")
    finished = folder / "finished"
    if finished.exists():
        return installed
    _run("hatchling", "build", "--target", "wheel", "--directory", str(folder))
    [wheel] = folder.glob("*.whl")
    installed = Installation(wheel, folder / "environment")
    _run("venv", "--without-pip", str(installed.environment))
    for required in _with_dependencies(requirements_of(wheel)):
        _link(required, installed.packages)
    # Without --no-deps: pip itself checks that everything which the wheel declares is there.
    _run("pip", "--python", str(installed.commands / "python"), "install", "--quiet", "--no-index", str(wheel))
    finished.touch()
    return installed


def requirements_of(wheel: Path) -> list[str]:
    """Return the requirements that the wheel declares."""
    with ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_bytes(archive.read(name)).get_all("Requires-Dist", [])


def _with_dependencies(requirements: list[str]) -> Iterator[Distribution]:
    """Yield these requirements and their dependencies, each once; extras only where a requirement names them."""
    waiting = [(text, "") for text in requirements]
    seen: set[tuple[str, str]] = set()
    while waiting:
        text, extra = waiting.pop()
        wanted = Requirement(text)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": extra}):
            continue
        found = distribution(wanted.name)
        for each in ("", *wanted.extras):
            if (key := (canonicalize_name(wanted.name), each)) not in seen:
                seen.add(key)
                waiting += [(text, each) for text in found.requires or ()]
                yield found


def _link(package: Distribution, packages: Path) -> None:
    for name in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
        if not (packages / name).exists():
            (packages / name).symlink_to(Path(str(package.locate_file(name))))


def _run(module: str, *arguments: str) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=INSTALL_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
