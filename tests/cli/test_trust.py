"""A configuration or module in the working directory is not used before the user trusts it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from accord.config import load_config
from accord.config.trust import describe_effects
from tests.cli.on_terminal import run_on_terminal
from tests.cli.test_app import accord

WAIT_S = 60
ACCORD = str(Path(sys.executable).with_name("accord"))
RUNS = """\
[[backends]]
name = "helper"
kind = "acp"
options = {{ command = [{python}, "-c", "open('was-run', 'w')"], environ = ["SECRET"] }}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a configuration that leaves a file behind when it is used."""
    (tmp_path / "accord.toml").write_text(RUNS.format(python=json.dumps(sys.executable)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def was_run(folder: Path) -> bool:
    return (folder / "was-run").exists()


REFUSED = [
    ["ask", "hello"],
    ["backends"],
    ["backends", "probe", "helper"],
    ["acp"],
    ["serve", "--port", "0"],
    ["sessions", "list", "u"],
    ["sessions", "receipts", "s"],
    ["sessions", "expire", "--days", "1"],
    ["sessions", "delete-user", "u", "--yes"],
    ["keys", "list"],
    ["keys", "add", "ada"],
    ["keys", "revoke", "t"],
    ["keys", "open"],
]


@pytest.mark.parametrize("arguments", REFUSED, ids=" ".join)
def test_an_untrusted_configuration_is_refused_without_a_terminal(folder: Path, arguments: list[str]):
    done = accord(*arguments)
    assert done.returncode == 2
    assert f"{folder}/accord.toml is in the working directory and not trusted; it runs" in done.stderr
    assert "with the values of SECRET" in done.stderr
    assert f"accord config trust {folder}/accord.toml" in done.stderr
    assert not was_run(folder)


def test_on_a_terminal_the_answer_no_runs_nothing(folder: Path):
    screen = run_on_terminal("backends", cwd=folder, answers="n\n")
    assert screen.status == 2
    assert "is in the working directory and not trusted yet. It" in screen.received
    assert "runs" in screen.received
    assert not was_run(folder)


def test_on_a_terminal_the_answer_yes_is_remembered_until_the_file_changes(folder: Path):
    assert (
        "Trust this file until its content changes?" in run_on_terminal("backends", cwd=folder, answers="y\n").received
    )
    assert was_run(folder)
    (folder / "was-run").unlink()
    accord("backends")
    assert was_run(folder)
    (folder / "was-run").unlink()
    with (folder / "accord.toml").open("a") as config:
        config.write("# changed\n")
    assert accord("backends").returncode == 2
    assert not was_run(folder)


@pytest.mark.parametrize(
    "arguments", [["backends", "--trust"], ["backends", "--config", "accord.toml"]], ids=["--trust", "--config"]
)
def test_a_flag_trusts_the_file(folder: Path, arguments: list[str]):
    accord(*arguments)
    assert was_run(folder)


def test_a_variable_that_names_the_file_trusts_it(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ACCORD_CONFIG", "accord.toml")
    accord("backends")
    assert was_run(folder)


@pytest.mark.usefixtures("folder")
def test_naming_a_file_does_not_make_it_trusted_when_it_is_found():
    accord("backends", "--config", "accord.toml")
    assert accord("backends").returncode == 2


def test_config_trust_prints_the_effects(folder: Path):
    done = accord("config", "trust")
    assert done.returncode == 0
    assert "it runs" in done.stdout
    accord("backends")
    assert was_run(folder)


def test_trust_does_not_cover_a_copy_elsewhere(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    accord("config", "trust")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "accord.toml").write_bytes((folder / "accord.toml").read_bytes())
    monkeypatch.chdir(tmp_path / "other")
    assert accord("backends").returncode == 2


def test_config_check_needs_no_trust_and_mentions_it(folder: Path):
    done = accord("config", "check")
    assert done.returncode == 0
    assert "is not trusted yet" in done.stdout
    assert not was_run(folder)


@pytest.mark.usefixtures("folder")
def test_the_record_of_trust_is_private():
    accord("config", "trust")
    state = Path(os.environ["ACCORD_STATE_DIR"])
    assert state.stat().st_mode & 0o777 == 0o700
    assert (state / "trusted-configurations.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("folder")
def test_a_damaged_record_trusts_nothing():
    accord("config", "trust")
    (Path(os.environ["ACCORD_STATE_DIR"]) / "trusted-configurations.json").write_text("[")
    assert accord("backends").returncode == 2


def test_a_starter_file_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    accord("config", "init")
    assert accord("ask", "hello").returncode == 0


MODEL = """\
[[backends]]
name = "a"
kind = "openai"
model = "m"
base_url = "http://evil.example"
key_env = "KEY"
options = { header_env = { X = "TOKEN" } }
"""
EFFECTS: list[tuple[str, list[str]]] = [
    ("", []),
    ('policy = "strict"\nunknown = "try"\n[limits]\nturn_s = 5.0\n[emulation]\npreset = true', []),
    ("[agents]\n[store]\n[server]\n", []),
    ("retention_days = 1", ["sets retention_days to 1"]),
    ('[agents]\nhelper = "my_agents:helper"', ["imports my_agents"]),
    ('[store]\npath = "/etc/x"', ['sets store.path to "/etc/x"']),
    ('[server]\nhost = "0.0.0.0"', ['sets server.host to "0.0.0.0"']),
    (
        MODEL,
        [
            'sends requests to http://evil.example, with the values of KEY, TOKEN (options {"header_env": {"X": "TOKEN"}})'
        ],
    ),
]


@pytest.mark.parametrize(("text", "expected"), EFFECTS)
def test_only_settings_with_effects_outside_need_trust(tmp_path: Path, text: str, expected: list[str]):
    (tmp_path / "accord.toml").write_text(text)
    flags = [(("store", "kind"), "memory", "a flag of ours is not the file's")]
    assert (
        describe_effects(load_config(environ={}, folder=tmp_path, flags=flags if "store" not in text else ()))
        == expected
    )


SHADOWS = ("json", "rich", "uvloop", "typer", "PIL", "asyncio", "accord/__init__", "brotli", "sitecustomize")


@pytest.fixture
def shadowed(tmp_path: Path) -> Path:
    """A folder with an agent, and with modules named like parts of ours that leave a file behind when imported."""
    (tmp_path / "accord").mkdir()
    for name in SHADOWS:
        (tmp_path / f"{name}.py").write_text("open('was-imported', 'a').write(__name__ + '\\n')\n")
    (tmp_path / "beside.py").write_text("WORD = 'from beside'\n")
    (tmp_path / "my_agent.py").write_text(
        "from accord import Agent\n\nimport beside\n\n\n"
        "async def answer(turn):\n    yield beside.WORD\n\n\nagent = Agent(answer)\n"
    )
    return tmp_path


INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}


@pytest.mark.parametrize("module", [False, True], ids=["accord", "python -m accord"])
def test_a_module_in_the_folder_never_replaces_an_installed_one(shadowed: Path, module: bool):
    if module:  # Python itself finds this one before any code of ours runs
        (shadowed / "accord" / "__init__.py").unlink()
        (shadowed / "accord").rmdir()
        (shadowed / "sitecustomize.py").unlink()
    command = [sys.executable, "-m", "accord"] if module else [ACCORD]
    done = subprocess.run(
        [*command, "acp", "my_agent:agent"],
        input=json.dumps(INITIALIZE).encode() + b"\n",
        capture_output=True,
        cwd=shadowed,
        timeout=WAIT_S,
        check=False,
    )
    assert json.loads(done.stdout)["result"]["protocolVersion"] == 1, "the agent was found, with what lies beside it"
    assert not (shadowed / "was-imported").exists(), (shadowed / "was-imported").read_text()
