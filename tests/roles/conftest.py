"""The installations, made once for all workers, and a user of one for each test.

They start about a hundred commands, so they have a target of their own, `make test-roles`.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.roles.install import Installation, install
from tests.roles.user import User

collect_ignore_glob = [] if os.environ.get("ACCORD_ROLES") else ["test_*.py"]


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers share: their own ones are inside of it."""
    folder = tmp_path_factory.getbasetemp()
    return (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "roles"


@pytest.fixture(scope="session")
def installed(shared_folder: Path) -> Installation:
    """The wheel with the extra `serve`, which most users have."""
    return install(shared_folder, "serve")


@pytest.fixture
def user_with(shared_folder: Path, tmp_path: Path) -> Callable[[str], User]:
    """Makes a user of the installation with this extra."""
    home, folder = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    folder.mkdir()
    return lambda extra: User(install(shared_folder, extra), home, folder)


@pytest.fixture
def user(user_with: Callable[[str], User]) -> User:
    return user_with("serve")
