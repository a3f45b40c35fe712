"""`accord config`, as a user runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

import accord as accord_package
from accord.config.read import VARIABLES
from tests.cli.test_app import accord

TEXT = """\
policy = "strict"
[[backends]]
name = "local"
kind = "echo"
key_env = "LOCAL_KEY"
[emulation]
preset = true
describe_images_with = "local"
[store]
kind = "postgres"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and no variable of the user."""
    monkeypatch.chdir(tmp_path)
    for name in (*VARIABLES, "ACCORD_CONFIG", "ACCORD_STORE_URL", "LOCAL_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_without_a_file_the_defaults_are_shown():
    done = accord("config", "check")
    assert done.returncode == 0
    assert "No configuration file: the defaults are in effect" in done.stdout
    assert "concurrent_turns" in done.stdout


def test_each_value_is_shown_with_its_origin(folder: Path, monkeypatch: pytest.MonkeyPatch):
    (folder / "accord.toml").write_text(TEXT)
    monkeypatch.setenv("LOCAL_KEY", "sk-hidden")
    monkeypatch.setenv("ACCORD_LIMITS_GAP_S", "5")
    done = accord("config", "check", "--json")
    result: Any = json.loads(done.stdout)
    assert done.returncode == 0
    assert result["file"] == "accord.toml"
    assert result["config"]["backends"][0]["name"] == "local"
    origins = result["origins"]
    assert origins["policy"] == "accord.toml:1"
    assert origins["backends[0].kind"] == "accord.toml:4"
    assert origins["backends[0].model"] == "default"
    assert origins["emulation.preset.tool_use"] == "accord.toml:7"
    assert result["config"]["emulation"]["describe_images_with"] == "local"
    assert origins["emulation.describe_images_with"] == "accord.toml:8"
    assert origins["limits.gap_s"] == "env ACCORD_LIMITS_GAP_S"
    assert result["secrets"] == [
        {"key": "backends[0] key", "variable": "ACCORD_KEY_LOCAL", "set": False},
        {"key": "backends[0] key", "variable": "LOCAL_KEY", "set": True},
        {"key": "store address", "variable": "ACCORD_STORE_URL", "set": False},
    ]


def test_a_secret_is_never_printed(folder: Path, monkeypatch: pytest.MonkeyPatch):
    (folder / "accord.toml").write_text(TEXT)
    monkeypatch.setenv("LOCAL_KEY", "sk-hidden")
    for flags in ([], ["--json"]):
        done = accord("config", "check", *flags)
        assert "sk-hidden" not in done.stdout + done.stderr
    assert "is set" in accord("config", "check").stdout


def test_every_mistake_is_listed_with_exit_status_1(folder: Path):
    (folder / "a.toml").write_text('polici = 1\n[limits]\ngap_s = "x"')
    done = accord("config", "check", str(folder / "a.toml"))
    assert done.returncode == 1
    assert done.stdout == (
        f"{folder}/a.toml:1:1: polici: unknown key; did you mean policy?\n"
        f"{folder}/a.toml:3:1: limits.gap_s: expected a number\n"
        "2 mistakes\n"
    )


def test_mistakes_are_printed_as_json(folder: Path):
    (folder / "accord.toml").write_text("policy = 1")
    done = accord("config", "check", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout) == {
        "valid": False,
        "mistakes": [
            {"place": "accord.toml:1:1", "key": "policy", "message": "expected one of strict, standard, permissive"}
        ],
    }


def test_one_mistake_is_counted_as_one(folder: Path):
    (folder / "accord.toml").write_text("policy = 1")
    assert accord("config", "check").stdout.endswith("1 mistake\n")


def test_backends_that_cannot_be_built_are_mistakes(folder: Path):
    of_no_kind, of_no_model = '[[backends]]\nname = "a"\nkind = "zzz"\n', '[[backends]]\nname = "b"\nkind = "openai"\n'
    (folder / "accord.toml").write_text(of_no_kind + of_no_model)
    done = accord("config", "check")
    first, second, count = done.stdout.splitlines()
    assert (done.returncode, count) == (1, "2 mistakes")
    assert first.startswith("accord.toml: backends.a: kind should be one of acp, ")
    assert second == "accord.toml: backends.b: model is missing; name the model as its endpoint does"


def test_the_file_is_found_by_flag_and_variable(folder: Path, monkeypatch: pytest.MonkeyPatch):
    (folder / "b.toml").write_text('policy = "permissive"')
    assert "b.toml: valid" in accord("config", "check", "--config", "b.toml").stdout
    monkeypatch.setenv("ACCORD_CONFIG", "b.toml")
    assert "b.toml: valid" in accord("config", "check").stdout


def test_a_misspelled_variable_is_noted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ACCORD_POLICI", "strict")
    assert (
        "env ACCORD_POLICI: this variable is not used; did you mean ACCORD_POLICY?" in accord("config", "check").stdout
    )


def test_a_starter_file_is_not_overwritten_without_force(folder: Path):
    assert accord("config", "init").stdout == "Wrote accord.toml; `accord config check` shows the effective values\n"
    assert accord("config", "check").returncode == 0
    (folder / "accord.toml").write_text("mine")
    again = accord("config", "init")
    assert (again.returncode, again.stderr) == (2, "accord: accord.toml: exists already; --force overwrites it\n")
    assert (folder / "accord.toml").read_text() == "mine"
    assert accord("config", "init", "--force").returncode == 0
    assert accord("config", "check").returncode == 0


MISTAKES = [
    (["check", "none.toml"], "accord: none.toml: No such file; `accord config init none.toml` writes one\n"),
    (["init", "no/folder/a.toml"], "accord: no/folder/a.toml: No such file or directory\n"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_a_missing_file_gives_one_line(arguments: list[str], message: str):
    done = accord("config", *arguments)
    assert (done.returncode, done.stderr) == (2, message)


EXTRAS = {
    "postgres": ('[store]\nkind = "postgres"\n', "asyncpg", "store.kind"),
    "oidc": ('[server.oidc]\nissuer = "https://example.com"\naudience = "a"\n', "jwt", "server.oidc"),
    "signing": ('signing_key = "key.pem"\n', "cryptography", "signing_key"),
    "images": ("[limits]\nconcurrent_images = 2\n", "PIL", "limits.concurrent_images"),
}
"""For each extra: a configuration that needs it, one of its modules, and the key in the message."""


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_that_is_needed_and_not_installed_is_a_mistake(tmp_path: Path, extra: str):
    text, module, key = EXTRAS[extra]
    (tmp_path / "a.toml").write_text(text)
    done = check_without(module, tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"{key}: needs an extra that is not installed: pip install 'accord-agents[{extra}]'\n" in done.stdout
    assert "1 mistake\n" in done.stdout


def test_traces_without_their_extra_are_noted(tmp_path: Path):
    (tmp_path / "a.toml").touch()
    done = check_without("opentelemetry", tmp_path, OTEL_TRACES_EXPORTER="otlp")
    assert done.returncode == 0
    assert "env OTEL_TRACES_EXPORTER is set, but traces need an extra that is not installed: pip install" in done.stdout


def check_without(module: str, folder: Path, **environ: str) -> "subprocess.CompletedProcess[str]":
    """Run `config check` with an interpreter that has every installed package but this one."""
    packages = folder / "packages"
    packages.mkdir()
    for installed in Path(typer.__file__).parent.parent.iterdir():
        if installed.name != module:
            (packages / installed.name).symlink_to(installed)
    path = os.pathsep.join((str(packages), str(Path(accord_package.__file__).parent.parent)))
    command = [sys.executable, "-S", "-m", "accord", "config", "check", "a.toml"]
    environment = {**os.environ, "PYTHONPATH": path, **environ}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=folder, env=environment)
