"""The README tells the truth: every code block of it is run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)
PYTHON = [body for language, body in BLOCKS if language == "python"]
COMMANDS = [
    line
    for language, body in BLOCKS
    if language == "sh"
    for line in body.splitlines()
    if line.strip() and not line.startswith("#")
]
RUN_BY_CI = {"make test", "make check"}


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 150


def test_every_block_says_its_language():
    assert {language for language, _ in BLOCKS} <= {"python", "sh"}


@pytest.mark.parametrize("code", PYTHON, ids=lambda code: code.splitlines()[0])
def test_every_python_block_runs(code: str):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", [command for command in COMMANDS if command not in RUN_BY_CI])
def test_every_command_runs(command: str):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(
        ["sh", "-c", command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_commands_of_the_readme_are_what_ci_runs():
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert {command for command in COMMANDS if command in RUN_BY_CI} == RUN_BY_CI
    assert all(command in ci for command in RUN_BY_CI)
