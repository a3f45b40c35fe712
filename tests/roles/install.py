"""Build the wheel, and install it into fresh environments: with the packages that an extra declares, and no others.

Nothing is downloaded: the declared packages, and those that they declare in turn, are links to the ones that the tests
run with. An import of anything else fails there, as it would for a user.
"""

import fcntl
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
UV = Path(sys.executable).with_name("uv")
INSTALL_S = 50
NAME = "accord-agents"


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
    def python(self) -> Path:
        return self.commands / "python"

    @property
    def packages(self) -> Path:
        [folder] = self.environment.glob("lib/python*/site-packages")
        return folder


def build_wheel(folder: Path) -> Path:
    """Return the wheel in this folder, built if needed; only one of several processes builds it."""
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "built").exists():
            run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder))
            (folder / "built").touch()
    [wheel] = folder.glob("*.whl")
    return wheel


def install(folder: Path, extra: str) -> Installation:
    """Return the installation with this extra ("" for the library alone) in this folder, made if needed."""
    wheel = build_wheel(folder)
    installed = Installation(wheel, folder / f"environment-{extra}")
    with (folder / f"lock-{extra}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (installed.environment / "finished").exists():
            run(sys.executable, "-m", "venv", "--without-pip", str(installed.environment))
            wanted = f"{NAME}[{extra}]" if extra else NAME
            for required in _with_dependencies(wanted, requirements_of(wheel)):
                _link(required, installed.packages)
            # Without --no-deps: pip itself checks that everything which the wheel declares is there.
            pip = (sys.executable, "-m", "pip", "--python", str(installed.python))
            run(*pip, "install", "--quiet", "--no-index", f"{wanted} @ {wheel.as_uri()}")
            (installed.environment / "finished").touch()
    return installed


def requirements_of(wheel: Path) -> list[str]:
    """Return the requirements that the wheel declares."""
    with ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_bytes(archive.read(name)).get_all("Requires-Dist", [])


def _with_dependencies(wanted: str, own: list[str]) -> Iterator[Distribution]:
    """Yield what this requirement needs, each once; extras only where a requirement names them.

    `own` is what the wheel requires: its extras name each other.
    """
    waiting = [(wanted, "")]
    seen: set[tuple[str, str]] = set()
    while waiting:
        text, extra = waiting.pop()
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        is_own = requirement.name == NAME
        found = distribution(requirement.name)
        for each in ("", *requirement.extras):
            if (key := (canonicalize_name(requirement.name), each)) not in seen:
                seen.add(key)
                waiting += [(text, each) for text in (own if is_own else found.requires or ())]
                if not is_own:
                    yield found


def _link(package: Distribution, packages: Path) -> None:
    for name in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
        if not (packages / name).exists():
            (packages / name).symlink_to(Path(str(package.locate_file(name))))


def run(*command: str, timeout_s: float = INSTALL_S) -> str:
    """Run this in the checkout, without the settings of the environment that runs the tests; return its output."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
    done = subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
