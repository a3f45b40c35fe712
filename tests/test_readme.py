"""Every code block of the README runs."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)
PYTHON = [body for language, body in BLOCKS if language == "python"]
SHELL = [body for language, body in BLOCKS if language == "sh"]
COMMANDS = [line for body in SHELL for line in body.splitlines() if line.strip() and not line.startswith("#")]
PRINTED = {
    command: output
    for (language, command), (next_language, output) in pairwise(BLOCKS)
    if (language, next_language) == ("sh", "text")
}
RUN_BY_CI = {"make test", "make check"}
SERVES = "make run"


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 150


def test_every_block_names_its_language():
    assert {language for language, _ in BLOCKS} <= {"json", "python", "sh", "text"}


@pytest.mark.parametrize("body", [body for language, body in BLOCKS if language == "json"])
def test_every_json_block_is_json(body: str):
    assert json.loads(body)


@pytest.mark.parametrize("code", PYTHON, ids=lambda code: code.splitlines()[0])
def test_every_python_block_runs(code: str):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def run_in_shell(script: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    environment.pop("COLUMNS", None)  # of pytest's workers
    return subprocess.run(
        ["sh", "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("script", [each for each in SHELL if each not in PRINTED])
def test_every_command_runs(script: str):
    others = [line for line in script.splitlines() if line not in {*RUN_BY_CI, SERVES}]
    done = run_in_shell("set -e\n" + "\n".join(others))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("script", PRINTED)
def test_what_a_command_prints_is_what_the_readme_shows(script: str):
    done = run_in_shell(script)
    assert [line.rstrip() for line in done.stdout.splitlines()] == PRINTED[script].splitlines()
    assert done.returncode == 1, "the text below says so"


def test_make_run_prints_a_command_that_works(tmp_path: Path):
    assert SERVES in COMMANDS
    environment = {**os.environ, "ACCORD_STORE_PATH": str(tmp_path / "accord.db")}
    with subprocess.Popen(
        ["make", "run", "ARGS=--port 0"], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, process_group=0
    ) as serving:
        assert serving.stdout is not None
        line = next(line for line in serving.stdout if line.startswith("curl "))
        # As it is, again, with another text, and on a machine that has no uuidgen.
        commands = [
            (line, None),
            (line, None),
            (line.replace("Hello", "Another text"), None),
            (line.replace("Hello", "A third text"), {"PATH": str(make_path(tmp_path, "cat", "curl"))}),
        ]
        try:
            done = [
                subprocess.run(
                    ["/bin/sh", "-c", command], env=env, capture_output=True, text=True, timeout=10, check=False
                )
                for command, env in commands
            ]
        finally:
            os.killpg(serving.pid, signal.SIGINT)
            serving.wait(60)
    for each in done:
        assert each.returncode == 0, each.stderr
        assert '"op":"close"' in each.stdout
    assert "Another text" in "".join(json.loads(data)["p"] for data in deltas(done[2].stdout))
    assert "A third text" in "".join(json.loads(data)["p"] for data in deltas(done[3].stdout))


def deltas(stream: str) -> list[str]:
    return re.findall(r'^data: (\{"op":"delta".*)$', stream, flags=re.MULTILINE)


def make_path(folder: Path, *programs: str) -> Path:
    """Make a folder for PATH that has these programs and no others."""
    path = folder / "bin"
    path.mkdir()
    for program in programs:
        (path / program).symlink_to(str(shutil.which(program)))
    return path


def test_the_commands_of_the_readme_are_what_ci_runs():
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert {command for command in COMMANDS if command in RUN_BY_CI} == RUN_BY_CI
    assert all(command in ci for command in RUN_BY_CI)
