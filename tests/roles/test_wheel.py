"""What `pip install 'accord-agents[serve]'` gives: the wheel's files, its version, and a service without other extras."""

import json
import os
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import pytest
from scripts.fetch_page import EXPECTED, find_problems

from tests.roles.install import ROOT, Installation
from tests.roles.user import User

IMPORT_ALL = """\
from importlib import import_module
from pkgutil import walk_packages

import accord

for module in walk_packages(accord.__path__, "accord."):
    if ".__main__" in module.name or ".migrations." in module.name:
        continue
    try:
        import_module(module.name)
    except Exception:
        print(module.name)
"""
PAGE = "accord/servers/page"
STATIC = ROOT / "src" / PAGE / "static"
EXPECTED_FILES = json.loads(EXPECTED.read_text(encoding="utf-8"))
EXTRAS = ("asyncpg", "PIL", "jwt", "opentelemetry", "cryptography")


def test_the_wheel_has_everything_that_runs_and_nothing_that_does_not(installed: Installation):
    names = set(ZipFile(installed.wheel).namelist())
    [folder] = {name.split("/")[0] for name in names if ".dist-info/" in name}
    assert {
        "accord/py.typed",
        "accord/backends/facts/snapshot.json",
        "accord/stores/migrations/env.py",
        f"{folder}/licenses/LICENSE",
        f"{folder}/entry_points.txt",
    } <= names
    assert {name for name in names if name.startswith(f"{PAGE}/") and not name.endswith(".py")} == {
        f"{PAGE}/vendor.json",
        *(f"{PAGE}/static/{path.relative_to(STATIC)}" for path in STATIC.rglob("*") if path.is_file()),
    }
    assert find_problems(vendored(installed.wheel), EXPECTED_FILES) == []
    assert any(name.startswith("accord/stores/migrations/versions/") for name in names)
    assert {name.split("/")[0] for name in names} == {"accord", folder}
    assert [name for name in names if "test" in Path(name).name or "__pycache__" in name] == []


def test_a_wheel_of_the_source_distribution_is_the_same_and_needs_no_npm(installed: Installation, tmp_path: Path):
    build("sdist", ROOT, tmp_path)
    [archive] = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as source:
        source.extractall(tmp_path, filter="data")
    build("wheel", tmp_path / archive.name.removesuffix(".tar.gz"), tmp_path)
    [wheel] = tmp_path.glob("*.whl")
    with ZipFile(wheel) as rebuilt, ZipFile(installed.wheel) as direct:
        assert sorted(rebuilt.namelist()) == sorted(direct.namelist())
        assert [name for name in direct.namelist() if rebuilt.read(name) != direct.read(name)] == []


def build(target: str, source: Path, folder: Path) -> None:
    """Build this target while nothing listens where npm is sent to."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)]
    environ = {**os.environ, "NPM_CONFIG_REGISTRY": "http://127.0.0.1:9/", "NPM_CONFIG_FETCH_RETRIES": "0"}
    done = subprocess.run(command, cwd=source, env=environ, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def vendored(wheel: Path) -> dict[str, bytes]:
    """The libraries of the page in a wheel."""
    with ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith(f"{PAGE}/static/vendor/")]
        return {Path(name).name: archive.read(name) for name in names}


def test_the_environment_runs_the_wheel_and_not_this_checkout(user: User, installed: Installation):
    place = user.run("python", "-c", "import accord; print(accord.__file__)").stdout.strip()
    assert Path(place) == installed.packages / "accord" / "__init__.py"


def test_the_command_and_the_wheel_agree_on_the_version(user: User, installed: Installation):
    version = installed.wheel.name.split("-")[1]
    assert user.accord("--version").stdout == f"accord {version}\n"
    for expression in ("accord.__version__", "importlib.metadata.version('accord-agents')"):
        script = f"import accord, importlib.metadata; print({expression})"
        assert user.run("python", "-c", script).stdout == f"{version}\n"


@pytest.mark.parametrize("package", EXTRAS)
def test_no_other_extra_is_installed(user: User, package: str):
    looked = f"from importlib.util import find_spec; print(find_spec({package!r}))"
    assert user.run("python", "-c", looked).stdout == "None\n"


def test_only_what_an_extra_is_for_needs_it(user: User):
    user.write("import_all.py", IMPORT_ALL)
    failed = user.run("python", "-W", "error", "import_all.py").stdout.split()
    assert failed == [
        "accord.queues.nats.connection",
        "accord.queues.nats.log",
        "accord.queues.nats.work",
        "accord.queues.postgres",
        "accord.servers.http.oidc",
        "accord.stores.postgres",
    ]


def test_the_demo_is_served_without_any_other_extra(user: User):
    with user.serve() as served:
        assert served.ask("Hello").status == 200
        assert served.fetch("/health").body["status"] == "ok"
        assert "accord_turns_total" in served.fetch("/metrics").text
        assert served.fetch("/docs", accept="text/html").status == 200
        assert served.fetch("/", accept="text/html").status == 200
        assert served.fetch("/page/vendor/lit-html.js").status == 200
        assert served.press_ctrl_c() == 0
    assert "Traceback" not in served.log


@pytest.mark.parametrize(
    ("config", "extra"),
    [
        ('[store]\nkind = "postgres"\n', "accord-agents[postgres]"),
        ('[server.oidc]\nissuer = "https://id.example"\naudience = "accord"\n', "accord-agents[oidc]"),
        ('signing_key = "key.pem"\n', "accord-agents[signing]"),
    ],
)
def test_a_configuration_that_takes_an_extra_names_it(user: User, config: str, extra: str):
    user = replace(user, variables={"ACCORD_STORE_URL": "postgresql://localhost/accord"})
    user.write("mine.toml", config)
    user.write("key.pem", "")
    errors = user.accord("serve", "--port", "0", "--config", "mine.toml", status=2).stderr
    assert extra in errors
    assert errors.count("\n") == 1
