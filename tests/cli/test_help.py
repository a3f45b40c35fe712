"""The help of every command, and shell completion."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from accord.cli import app as accord_app
from accord.cli.app import COMMANDS, app
from accord.cli.receipts import EXIT_EMPTY
from tests.cli.test_app import accord
from tests.cli.test_every_command import COMMANDS as RUNNABLE

WIDTH = 80
GROUPS = [name for name in COMMANDS if any(each.startswith(f"{name} ") for each in RUNNABLE)]
ALL = sorted({*RUNNABLE, *GROUPS})


def help_of(name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    done = accord(*name.split(), "--help")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("name", ["", *ALL])
def test_every_help_has_an_example_that_runs_this_command(name: str, monkeypatch: pytest.MonkeyPatch):
    lines = help_of(name, monkeypatch).splitlines()
    start = next(number for number, line in enumerate(lines) if re.fullmatch(r"  Examples?:", line))
    assert f"accord {name}".strip() in lines[start + 1]


@pytest.mark.parametrize("name", ["", *ALL])
def test_no_help_is_wider_than_80_columns_or_cut_off(name: str, monkeypatch: pytest.MonkeyPatch):
    text = help_of(name, monkeypatch)
    assert [line for line in text.splitlines() if len(line) > WIDTH] == []
    assert "..." not in re.sub(r"\[ARGS\]\.\.\.|\bcommand\]?\}?\.\.\.", "", text)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_of_a_command_is_the_first_line_of_its_help(name: str, monkeypatch: pytest.MonkeyPatch):
    assert f"\n  {COMMANDS[name].summary}\n" in help_of(name, monkeypatch)
    line = rf"^  {name} +{re.escape(COMMANDS[name].summary)}$"
    assert re.search(line, help_of("", monkeypatch), re.MULTILINE)


@pytest.mark.parametrize("name", [name for name in ALL if " " in name])
def test_the_summary_of_a_sub_command_is_the_first_line_of_its_help(name: str, monkeypatch: pytest.MonkeyPatch):
    group, sub_command = name.split()
    summary = help_of(name, monkeypatch).splitlines()[2].strip()
    assert re.search(rf"^  {sub_command} +{re.escape(summary)}$", help_of(group, monkeypatch), re.MULTILINE)


@pytest.mark.parametrize("name", ALL)
def test_every_option_and_argument_has_a_help_text(name: str):
    command: Any = typer.main.get_command(app)
    for part in name.split():
        command = command.get_command(None, part)
    assert [each.name for each in command.params if not each.help] == []


def test_the_help_lists_every_exit_status(monkeypatch: pytest.MonkeyPatch):
    listed = {int(number) for number in re.findall(r"^    (\d+)  +\w", help_of("", monkeypatch), re.MULTILINE)}
    named = {value for name, value in vars(accord_app).items() if name.startswith("EXIT_")}
    assert listed == {0, 1, EXIT_EMPTY, *named}


def test_help_imports_no_command():
    script = (
        "import sys; from accord.cli import main\ntry: main(['--help'])\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    loaded = {name for name in done.stderr.split() if name.startswith("accord.")}
    assert "accord.cli.app" in loaded
    assert loaded.isdisjoint(f"accord.cli.{name}" for name in COMMANDS)
    assert "accord.config" not in loaded


def complete(*words: str) -> list[str]:
    """Complete the last of these words as bash does."""
    environ = {"_ACCORD_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [Path(sys.executable).with_name("accord")],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (("accord", "nego"), ["negotiate"]),
        (("accord", ""), list(COMMANDS)),
        (("accord", "--vers"), ["--version"]),
        (("accord", "keys", "re"), ["revoke"]),
        (("accord", "serve", "--ho"), ["--host"]),
        (("accord", "backends", "probe", "--w"), ["--write"]),
    ],
)
def test_a_shell_completes_commands_and_options(words: tuple[str, ...], completed: list[str]):
    assert complete(*words) == completed


def test_the_completion_script_for_bash_is_printed():
    accord_path = Path(sys.executable).with_name("accord")
    # A second command keeps bash from replacing itself: completion looks at the parent process to find the shell.
    command = ["bash", "-c", '"$0" --show-completion; exit $?', str(accord_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "complete -o default -F _accord_completion accord" in done.stdout
