"""`accord acp` exits soon after its input is closed, whatever becomes of its output."""

import json
import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.acp.editor import Editor, start

FLOOD = """import asyncio
from accord import Agent
agent = Agent(name="flood")


@agent
async def run(turn):
    while True:
        yield "x" * 1000
        await asyncio.sleep(0)
"""
EXIT_S = 20
"""Far more than the few seconds that it takes, and far less than for ever."""


@pytest.mark.parametrize("version", [1, 2])
def test_a_process_whose_output_is_full_and_unread_exits_after_its_input_is_closed(tmp_path: Path, version: int):
    (tmp_path / "flood.py").write_text(FLOOD)
    editor = start(tmp_path, "flood:agent")
    try:
        session = editor.new_session(version)
        params = {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}
        call = {"jsonrpc": "2.0", "id": 9, "method": "session/prompt", "params": params}
        editor.send(json.dumps(call).encode() + b"\n")
        editor.receive()  # the turn runs, and nothing is read from now on
        assert editor.end(EXIT_S) == 0
    finally:
        editor.close()


def test_a_process_with_unread_input_and_a_full_output_exits_after_its_input_is_closed(tmp_path: Path):
    editor = start(tmp_path)
    try:
        editor.new_session()
        lines = b"".join(b'{"jsonrpc":"2.0","id":%d,"method":"no/such"}\n' % number for number in range(1_000))
        fill(editor, lines)
        assert editor.end(EXIT_S) == 0
    finally:
        editor.close()


def fill(editor: Editor, lines: bytes) -> None:
    """Write these lines again and again, until the process has read nothing for two seconds."""
    os.set_blocking(editor.input_fd, False)
    while select.select([], [editor.input_fd], [], 2.0)[1]:
        os.write(editor.input_fd, lines)


def test_a_process_that_writes_to_a_file_exits_with_everything_written(tmp_path: Path):
    out = tmp_path / "out.jsonl"
    call = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    environ = {**os.environ, "ACCORD_STORE_KIND": "memory"}
    with out.open("wb") as written:
        command = [sys.executable, "-m", "accord", "acp"]
        subprocess.run(
            command, input=json.dumps(call).encode(), stdout=written, env=environ, check=True, timeout=EXIT_S
        )
    assert json.loads(out.read_text())["id"] == 1
