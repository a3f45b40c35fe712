"""The backend that answered, in `accord ask` and `accord receipts show`; and files that no backend can read."""

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CONFIG = """\
[[backends]]
name = "first"
kind = "openai"
model = "tiny"
base_url = "http://127.0.0.1:{port}/v1"

[backends.options]
retries = 0

[backends.overrides]
streaming = "native"
extended_thinking = "native"

[[backends]]
name = "second"
kind = "echo"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    (tmp_path / "two.toml").write_text(CONFIG.format(port=port))
    return tmp_path


def accord(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "accord", *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=False, env={"COLUMNS": "300"}
    )


def ask_json(folder: Path, *arguments: str) -> tuple[dict[str, Any], str]:
    done = accord(folder, "ask", "hello", "--json", *arguments)
    return json.loads(done.stdout), done.stderr


def test_json_output_names_the_backend_and_the_emulations(folder: Path):
    result, err = ask_json(folder, "--config", "two.toml", "--require", "extended_thinking", "--receipt")
    assert (result["status"], result["backend"], result["error"]) == ("done", "second", None)
    (work,) = result["work"]
    assert work["backend"] == "second"
    assert work["fallbacks"] == [{"backend": "first", "code": "backend_failed"}]
    assert [(each["capability"], each["by"]) for each in work["emulated"]] == [("extended_thinking", "accord")]
    assert "emulated: extended_thinking (not declared)" in err
    assert any(line.startswith("failed: first: ") for line in err.splitlines())

    (folder / "r.json").write_text(json.dumps(result["receipt"]))
    text = accord(folder, "receipts", "show", "r.json").stdout
    rows = {line.split("│")[1].strip(): line for line in text.splitlines() if line.startswith("│")}
    assert "answered by second" in text
    assert "yes" in rows["first"]
    assert "failed: backend_failed" in rows["first"]
    assert "answered" in rows["second"]


def test_a_failed_turn_names_no_backend(folder: Path):
    result, _ = ask_json(folder, "--config", "two.toml", "--backend", "first")
    assert (result["status"], result["backend"]) == ("failed", None)
    assert result["error"]["code"] == "backend_failed"
    assert result["work"] == [{"fallbacks": [{"backend": "first", "code": "backend_failed"}]}]


def test_a_binary_file_that_the_echo_cannot_read_is_refused(folder: Path):
    (folder / "data.bin").write_bytes(b"\x00\x01\xff\xfe")
    result, err = ask_json(folder, "--file", "data.bin")
    assert (result["status"], result["error"]["code"]) == ("refused", "CAPABILITY_UNSUPPORTED")
    assert "file_input (declared unsupported)" in err
