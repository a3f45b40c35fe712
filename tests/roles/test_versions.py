"""Other versions: the lowest ones that the bounds allow, and every newer Python that is on this machine.

Unlike the other environments here, these are installed from the package index, by uv with its cache.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.roles.install import ROOT, UV, Installation, build_wheel, run
from tests.roles.test_library_user import DECISIONS
from tests.roles.user import User

TEST_TOOLS = (
    "hypothesis",
    "jsonschema",
    "packaging",
    "pytest",
    "pytest-timeout",
    "pytest-xdist",
    "pyyaml",
    "rfc8785",
    "trustme",
)
TESTS = (
    "tests/acp/test_golden.py",
    "tests/core/work/emulation/test_tool_format.py",
    "tests/client/test_connection.py",
    "tests/config",
    "tests/servers/acp/test_event_meta.py",
    "tests/servers/http/test_leaks.py",
    "tests/servers/http/test_stalled.py",
)
"""Tests that failed with a version below a bound, and some that touch every library."""
NEWER = ("3.12", "3.13", "3.14")


def install_wheel(environment: Path, wheel: Path, python: str, *requirements: str) -> Installation:
    """Install these requirements, then the wheel, into a new environment of this Python."""
    made = Installation(wheel, environment)
    run(str(UV), "venv", "--quiet", "--python", python, str(environment))
    install = (str(UV), "pip", "install", "--quiet", "--python", str(made.python))
    run(*install, *requirements, timeout_s=150)
    run(*install, "--no-deps", str(wheel))
    return made


def find_python(version: str) -> str | None:
    """Return a Python of this version: on the PATH, or one of pyenv's."""
    named = f"python{version}"
    places = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/{named}"), reverse=True)
    for candidate in (shutil.which(named), *map(str, places)):
        # pyenv puts programs on the PATH that only say that a version is not chosen.
        if candidate and not subprocess.run([candidate, "--version"], capture_output=True, check=False).returncode:
            return candidate
    return None


@pytest.mark.timeout(300)
def test_the_lowest_versions_that_the_bounds_allow_work(shared_folder: Path, tmp_path: Path):
    wheel = build_wheel(shared_folder)
    lowest = ("--resolution", "lowest-direct", "--requirement", "pyproject.toml", "--all-extras")
    made = install_wheel(tmp_path / "environment", wheel, sys.executable, *lowest)
    assert bounds_of_project().items() <= versions_in(made).items()
    run(str(UV), "pip", "install", "--quiet", "--python", str(made.python), *pinned(TEST_TOOLS))
    # In the checkout, but with the package of the wheel: `src` is not on the path.
    run(str(made.python), "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *TESTS, timeout_s=200)


def bounds_of_project() -> dict[str, str]:
    """The lowest version of each direct dependency, for versions that are written in full."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[dependency-groups]")[0]
    return dict(re.findall(r'"([a-z-]+)(?:\[[a-z]+\])?>=(\d+\.\d+\.\d+)', text))


def versions_in(made: Installation) -> dict[str, str]:
    listed = run(str(UV), "pip", "list", "--format", "json", "--python", str(made.python))
    return {each["name"]: each["version"] for each in json.loads(listed)}


def pinned(names: tuple[str, ...]) -> list[str]:
    """These packages in the versions of the lock."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    return [line.partition(" ")[0] for line in lock.splitlines() if line.partition("==")[0] in names]


@pytest.mark.parametrize("version", NEWER)
def test_a_newer_python_runs_the_library_and_a_service(shared_folder: Path, tmp_path: Path, version: str):
    python = find_python(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on this machine")
    for name in ("home", "work"):
        (tmp_path / name).mkdir()
    wheel = build_wheel(shared_folder)
    made = install_wheel(tmp_path / "environment", wheel, python, "--requirement", "pyproject.toml", "--all-extras")
    user = User(made, tmp_path / "home", tmp_path / "work")
    user.write("decisions.py", DECISIONS)
    assert user.run("python", "-W", "error", "decisions.py").stdout == "decided\n"
    assert "fully compatible" in user.accord("negotiate", "--example").stdout
    with user.serve() as served:
        assert served.ask("Hello").status == 200
        assert served.press_ctrl_c() == 0
    assert "Traceback" not in served.log
