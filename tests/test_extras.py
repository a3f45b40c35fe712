"""The table of extras is that of pyproject.toml, and what misses a library names the command that installs it."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from accord import MissingExtraError
from accord.extras import EXTRAS, naming_extra

PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DECLARED: dict[str, list[str]] = PROJECT["optional-dependencies"]
DISTRIBUTIONS = packages_distributions()
INDIRECT = {"greenlet": "sqlalchemy", "opentelemetry": "opentelemetry-api"}
"""Modules that a requirement brings under another name than its own: sqlalchemy[asyncio] installs greenlet."""


def name_of(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9_-]+", requirement)
    assert found, requirement
    return found.group().lower().replace("_", "-")


def own_requirements(extra: str) -> set[str]:
    return {name_of(text) for text in DECLARED[extra]} - {PROJECT["name"]}


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_installs_the_modules_of_the_table(extra: str):
    installed = {
        INDIRECT.get(module) or name_of(DISTRIBUTIONS[module][0]) for module in EXTRAS[extra] if module in DISTRIBUTIONS
    }
    assert installed == own_requirements(extra)


def test_the_extra_all_has_every_other_one():
    assert set(DECLARED) == {*EXTRAS, "all"}
    [everything] = DECLARED["all"]
    named = set(everything.partition("[")[2].rstrip("]").split(","))
    assert named | {"cli"} == set(EXTRAS)
    assert "accord-agents[cli]" in DECLARED["serve"]


def test_another_missing_module_is_an_error_like_any_other():
    with pytest.raises(ModuleNotFoundError, match="'no_such_module'") as raised, naming_extra("This"):
        import no_such_module  # noqa: F401, PLC0415 # pyright: ignore[reportMissingImports, reportUnusedImport]
    assert not isinstance(raised.value, MissingExtraError)


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (
            "import accord.client",
            "accord.client needs aiohttp, which is not installed: pip install 'accord-agents[serve]'",
        ),
        (
            "import accord.stores.sqlite",
            "accord.stores.sqlite needs sqlalchemy, which is not installed: pip install 'accord-agents[serve]'",
        ),
        (
            "import accord.stores.postgres",
            "accord.stores.postgres needs asyncpg, which is not installed: pip install 'accord-agents[postgres]'",
        ),
        (
            "import accord.servers.http.app",
            "accord.servers.http needs starlette, which is not installed: pip install 'accord-agents[serve]'",
        ),
    ],
)
def test_an_import_names_the_extra(code: str, sentence: str):
    assert run(code, *EXTRAS["serve"], *EXTRAS["postgres"]).stderr.endswith(f"MissingExtraError: {sentence}\n")


@pytest.mark.parametrize(
    ("arguments", "extra", "sentence"),
    [
        (
            "--version",
            "cli",
            "The accord command needs typer, which is not installed: pip install 'accord-agents[cli]'",
        ),
        ("serve", "serve", "This command needs uvicorn, which is not installed: pip install 'accord-agents[serve]'"),
    ],
)
def test_a_command_names_the_extra_in_one_sentence(arguments: str, extra: str, sentence: str):
    done = run(f"from accord.cli import main; main({arguments.split()})", *EXTRAS[extra])
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"accord: {sentence}\n")


def run(code: str, *missing: str) -> subprocess.CompletedProcess[str]:
    """Run this where these modules are not installed."""
    # None in place of a module: importing it fails as if it were not there.
    command = [sys.executable, "-c", f"import sys; sys.modules.update(dict.fromkeys({missing})); {code}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
