"""The `accord` command: version, help, exit statuses."""

import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest

from accord.cli import main


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


def accord(*arguments: str) -> Done:
    """Run the command in this process as its entry point does: a process for each test would take minutes."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main(arguments)
    code = ended.value.code
    return Done(code if isinstance(code, int) else 0, out.getvalue(), err.getvalue())


def test_the_command_runs_as_a_module():
    command = [sys.executable, "-m", "accord", "negotiate", "--example"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert "fully compatible" in done.stdout


def test_a_pipe_that_is_closed_early_is_no_error():
    command = f"{sys.executable} -m accord models --limit 0 | head -n 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_the_version_is_printed():
    assert accord("--version").stdout.startswith("accord 0.")


def test_a_wrong_flag_gives_exit_status_2():
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
    assert {"asyncapi.json", "openapi.json", "ServiceRequest.json", "StreamPacket.json"} <= written
    assert json.loads((tmp_path / "a" / "b" / "openapi.json").read_text())["openapi"] == "3.1.0"


def test_a_folder_that_cannot_be_written_gives_one_line(tmp_path: Path):
    (tmp_path / "file").touch()
    done = accord("schemas", str(tmp_path / "file"))
    assert done.returncode == 2
    assert done.stderr == f"accord: {tmp_path}/file: cannot be written: Not a directory\n"


@pytest.mark.parametrize(
    ("name", "new"), [("tokens", "accord keys"), ("top", "/metrics"), ("trace", "accord proxy --log FILE")]
)
@pytest.mark.parametrize("arguments", [(), ("--help",), ("list", "--json")])
def test_the_old_name_of_a_command_answers_with_the_new_one_alone(name: str, new: str, arguments: tuple[str, ...]):
    done = accord(name, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"accord: `accord {name}` ")
    assert new in done.stderr
    assert done.stderr.count("\n") == 1
