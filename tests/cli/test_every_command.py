"""Each command with no arguments, a wrong flag, and a missing, empty or unreadable file.

One table of expectations over all commands; a command without a row fails. Never a traceback, always a message that says
what to do. Pipes, narrow terminals and NO_COLOR are tried in real processes.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer.main

from accord.cli.app import app
from tests.cli.on_terminal import run_on_terminal
from tests.cli.test_app import Done, accord

Expected = tuple[int, str]
"""An exit status, and words that standard output or standard error has."""

NO_FILE = "No such file"
DIRECTORY = "is a directory"
NOT_UTF8 = "expected UTF-8 text"
EMPTY_JSON = "is empty; expected JSON"
IGNORED: Expected = (0, "")


@dataclass(frozen=True)
class Row:
    """What is expected of one command."""

    bare: Expected | None
    """Without any argument; None for commands that then serve or read standard input until they are stopped."""
    call: tuple[str, ...] | None = None
    """A call in which FILE stands for a file that the command reads; None if it reads none."""
    missing: Expected = (2, NO_FILE)
    directory: Expected = (2, DIRECTORY)
    empty: Expected = (2, EMPTY_JSON)
    garbage: Expected = (2, NOT_UTF8)


def config(*arguments: str, bare: Expected | None = None, empty: Expected = IGNORED) -> Row:
    """A command that reads no file but the configuration, of which an empty one is valid."""
    return Row(bare, (*arguments, "--config", "FILE"), (2, "accord config init"), empty=empty)


TABLE: dict[str, Row] = {
    "serve": config("demo", "--log-level", "error", "--port", "0", "--host", "192.0.2.1", empty=(2, "accord keys add")),
    "chat": Row(None, ("--as", "FILE"), (2, "or a file with ClientCapabilities")),
    "worker": config("demo", empty=(2, "There is no queue to take turns from")),
    "acp": config("no.such:agent", empty=(2, "no.such")),
    "ask": Row((2, "Missing argument 'prompt'"), ("hi", "--file", "FILE"), empty=(2, "is empty; give a file"), garbage=(1, "would help: ")),
    "proxy": Row((2, "give it after --"), ("--show", "FILE"), empty=(0, "no messages yet"), garbage=(2, "expected a file that accord proxy --log wrote")),
    "negotiate": Row((2, "--manifest FILE|MODEL or --backend NAME"), ("--manifest", "openai/gpt-4o", "--require", "./FILE")),
    "capabilities": Row((0, "image_input")),
    "inspect": Row((2, "give it after --"), ("--cwd", "FILE", "--", "true"), (2, "is not a folder"), (1, "did not answer initialize"), *[(2, "is not a folder")] * 2),
    "models": Row((0, "--limit 0 for all"), ("--snapshot", "FILE"), empty=(2, "not a snapshot of model facts; expected JSON")),
    "validate": Row((2, "Missing argument 'file'"), ("FILE",)),
    "render": Row(None, ("--client", "FILE"), (2, "or a file with ClientCapabilities")),
    "schemas": Row((2, "Missing argument 'folder'"), ("FILE",), IGNORED, IGNORED, *[(2, "cannot be written")] * 2),
    "backends": config(bare=(0, "No backend is configured"), empty=(0, "No backend is configured")),
    "backends probe": config("local", bare=(2, "Missing argument 'name'"), empty=(2, "`accord backends` shows how to add one")),
    "backends forget": config("local", bare=(2, "Missing argument 'name'"), empty=(2, "`accord backends` shows how to add one")),
    "config check": Row((0, "the defaults are in effect"), ("FILE",), (2, "accord config init"), empty=IGNORED, garbage=(1, NOT_UTF8)),
    "config init": Row((0, "accord config check"), ("FILE",), IGNORED, (2, "exists already"), *[(2, "--force overwrites it")] * 2),
    "config trust": Row((2, "accord config init"), ("FILE",), (2, "accord config init"), empty=(0, "Trusted")),
    "keys add": config("me", bare=(2, "Missing argument 'user'"), empty=(0, "accord keys revoke")),
    "keys list": config(bare=(0, "No keys yet"), empty=(0, "accord keys add USER")),
    "keys show": config("k", bare=(2, "Missing argument 'ID'"), empty=(1, "`accord keys list` lists them")),
    "keys set": config("k", "--budget", "5/day", bare=(2, "Missing argument 'ID'"), empty=(1, "`accord keys list` lists them")),
    "keys revoke": config("k", bare=(2, "Missing argument 'ID'"), empty=(1, "`accord keys list` lists them")),
    "keys usage": config(bare=(0, "No usage yet"), empty=(0, "No usage yet")),
    "keys open": config(bare=(0, "No key is required"), empty=(0, "No key is required")),
    "receipts verify": Row((2, "Missing argument 'file'"), ("FILE",), empty=(3, "accord sessions receipts SESSION")),
    "receipts keygen": Row((0, "set signing_key"), ("FILE",), IGNORED, *[(2, "exists already")] * 3),
    "receipts show": Row((2, "Missing argument 'file'"), ("FILE",), empty=(0, "no receipts; ")),
    "sessions list": config("me", bare=(2, "Missing argument 'owner'"), empty=(0, "No sessions of me yet")),
    "sessions receipts": config("s", bare=(2, "Missing argument 'session'"), empty=(0, "No receipts of session s yet")),
    "sessions delete-user": config("me", "--yes", bare=(2, "Missing argument 'owner'"), empty=(0, "no sessions yet")),
    "sessions usage": config(bare=(0, "No sessions yet"), empty=(0, "No sessions yet")),
    "sessions expire": config("--days", "1", bare=(2, "give --days, or set retention_days"), empty=(0, "no sessions yet")),
}  # fmt: skip


def command_names(command: Any, *names: str) -> Iterator[str]:
    """Every command of the program; a group counts as one if it does something by itself."""
    if names and (not hasattr(command, "commands") or command.invoke_without_command):
        yield " ".join(names)
    for name in getattr(command, "commands", {}):
        yield from command_names(command.get_command(None, name), *names, name)


COMMANDS = list(command_names(typer.main.get_command(app)))
FILES = ("missing", "directory", "empty", "garbage")
CASES = [(name, kind) for name, row in TABLE.items() if row.call for kind in FILES]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with one file of each kind in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)  # xdist sets it, and in a pipe no width is given
    (tmp_path / "directory").mkdir()
    (tmp_path / "empty").touch()
    (tmp_path / "garbage").write_bytes(bytes(range(128, 256)) + b"\n" + os.urandom(200) + b"\n")
    return tmp_path


def check(done: Done, expected: Expected) -> None:
    status, words = expected
    output = done.stdout + done.stderr
    assert "Traceback" not in output, output
    assert words in output
    assert done.returncode == status, output


def test_every_command_has_a_row():
    assert sorted(TABLE) == sorted(COMMANDS)


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row.bare])
def test_without_arguments(name: str):
    bare = TABLE[name].bare
    assert bare is not None
    check(accord(*name.split()), bare)


@pytest.mark.parametrize("name", TABLE)
def test_a_wrong_flag_is_named_and_help_is_offered(name: str):
    done = accord(*name.split(), "--no-such-flag")
    check(done, (2, "No such option: --no-such-flag"))
    assert f"accord {name} --help" in done.stderr


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_file_that_cannot_be_used(name: str, kind: str):
    row = TABLE[name]
    done = accord(*name.split(), *(part.replace("FILE", kind) for part in row.call or ()))
    expected = getattr(row, kind)
    check(done, expected)
    if expected[0] == 2 and kind != "empty":  # an empty configuration is valid, and the mistake another one
        assert kind in done.stderr  # the sentence says which file it is about


def accord_process(*arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "accord", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


@pytest.mark.parametrize("name", ["acp", "chat", "render"])
def test_commands_that_read_standard_input_end_with_it(name: str):
    done = accord_process(name, stdin=subprocess.DEVNULL)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)


def test_serve_without_arguments_serves_until_it_is_interrupted():
    environ = {**os.environ, "ACCORD_SERVER_PORT": "0"}
    command = [sys.executable, "-m", "accord", "serve"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stderr is not None
        seen = next(line for line in process.stderr if "Serving demo at" in line)
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=30)
    assert "stop with Ctrl-C" in seen
    assert "Traceback" not in rest
    assert process.returncode in (0, 130)


@pytest.mark.parametrize("arguments", ["models --limit 0", "capabilities", "negotiate --example --json"])
def test_a_reader_that_goes_away_gives_exit_status_141(arguments: str):
    reader, writer = os.pipe()
    os.close(reader)  # before anything is written, so that even a short output meets it
    command = [sys.executable, "-m", "accord", *arguments.split()]
    # Buffered, as for users: what is short is then written only when the command ends.
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, check=False, env=environ
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


JUDGED = "negotiate --manifest openai/gpt-4o --require structured_output_json_schema,audio,vision"


@pytest.mark.parametrize("arguments", ["capabilities", "config check", JUDGED])
def test_a_table_in_a_pipe_has_every_row_on_one_line_and_nothing_cut_off(arguments: str):
    done = accord(*arguments.split())
    assert "…" not in done.stdout
    rows = [line for line in done.stdout.splitlines() if line.startswith("│")]
    assert rows
    assert all(row.split("│")[1].strip() for row in rows)  # a folded row would begin with an empty cell


NO_WORDS = re.compile("[\u2500-\u257f]+|\x1b\\[[0-9;]*m")
COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-7]|38|9[0-7])[;m]")


def screen(arguments: str, **environ: str) -> str:
    return run_on_terminal(*arguments.split(), cwd=Path(), environ=environ).received


@pytest.mark.parametrize("arguments", ["config check", "models gpt-4o", "keys list", JUDGED])
def test_nothing_is_cut_off_at_40_columns(arguments: str):
    accord("keys", "add", "a-user-with-a-long-name", "--label", "the laptop in the meeting room")
    wide, narrow = (screen(arguments, COLUMNS=width, NO_COLOR="1") for width in ("400", "40"))
    assert "…" not in narrow
    folded = "".join(NO_WORDS.sub("", narrow).split())
    assert not [word for word in NO_WORDS.sub(" ", wide).split() if word not in folded]


@pytest.mark.parametrize("arguments", ["models gpt-4o", "negotiate --example"])
def test_no_color_and_pipes_turn_colours_off(arguments: str):
    assert COLOUR.search(screen(arguments))
    assert not COLOUR.search(screen(arguments, NO_COLOR="1"))
    assert "\x1b" not in accord(*arguments.split()).stdout  # no terminal
