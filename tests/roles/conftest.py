"""The installation, made once for all workers, and a user of it for each test.

They start about a hundred commands, so they have a target of their own, `make test-roles`.
"""

import fcntl
import os
from pathlib import Path

import pytest

from tests.roles.install import Installation, install
from tests.roles.user import User

collect_ignore_glob = [] if os.environ.get("ACCORD_ROLES") else ["test_*.py"]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # the workers' folders are inside of one that they share
    (folder / "roles").mkdir(exist_ok=True)
    with (folder / "roles.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return install(folder / "roles")


@pytest.fixture
def user(installed: Installation, tmp_path: Path) -> User:
    home, folder = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    folder.mkdir()
    return User(installed, home, folder)
