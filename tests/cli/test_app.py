"""The `accord` command, as a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


def accord(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "accord", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_version_is_told():
    assert accord("--version").stdout.startswith("accord 0.")


@pytest.mark.parametrize("arguments", [["--help"], ["negotiate", "--help"], ["schemas", "--help"]])
def test_help_is_given_without_complaint(arguments: list[str]):
    done = accord(*arguments)
    assert done.returncode == 0
    assert "Usage" in done.stdout


def test_a_wrong_flag_is_told_in_one_line_and_costs_two():
    done = accord("negotiate", "--exmaple")
    assert done.returncode == 2
    assert "--exmaple" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_built_in_example_is_compatible():
    done = accord("negotiate", "--example")
    assert done.returncode == 0
    assert "1 native, 2 emulatable, 0 unsupported — fully compatible" in done.stdout


def test_the_schemas_are_written(tmp_path: Path):
    done = accord("schemas", str(tmp_path / "a" / "b"))
    assert done.returncode == 0
    written = {path.name for path in (tmp_path / "a" / "b").iterdir()}
    assert {"openapi.json", "ServiceRequest.json", "StreamPacket.json"} <= written
    assert json.loads((tmp_path / "a" / "b" / "openapi.json").read_text())["openapi"] == "3.1.0"


def test_a_folder_that_cannot_be_written_is_told_in_one_line(tmp_path: Path):
    (tmp_path / "file").touch()
    done = accord("schemas", str(tmp_path / "file"))
    assert done.returncode == 2
    assert done.stderr.startswith("accord: Cannot write to ")
    assert done.stderr.count("\n") == 1
