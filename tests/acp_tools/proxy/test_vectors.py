"""The conformance vectors through `accord proxy`: prompts to the agent, and updates from a foreign agent.

One proxy for all of them: a second `initialize` replaces the declaration.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.acp.editor import Editor
from tests.vectors import read_vectors

AGENT = Path(__file__).with_name("scripted_agent.py")
ROWS = read_vectors("content.jsonl")
PROMPTS = [row for row in ROWS if row["context"] == "prompt"]
SENT = [row for row in ROWS if row["context"] != "prompt"]
TEXT = {"type": "text", "text": "Hello"}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vectors") / "log.jsonl"


@pytest.fixture(scope="module")
def editor(log: Path) -> Iterator[Editor]:
    agent = [sys.executable, "-S", str(AGENT)]
    command = [sys.executable, "-m", "accord", "proxy", "--log", str(log), "--", *agent]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=os.environ
    )
    assert process.stdin is not None
    assert process.stdout is not None
    made = Editor(process.stdin, process.stdout, process)
    yield made
    made.close()


def initialize(editor: Editor, row: dict[str, Any]) -> None:
    """Let the agent declare exactly what the vector says, malformed or not."""
    declared = row["capabilities"]
    answer: dict[str, Any] = {"protocolVersion": 1, "agentCapabilities": {"promptCapabilities": declared}}
    if row["protocolVersion"] == 2:
        answer = {"protocolVersion": 2, "capabilities": {"session": {"prompt": declared}}}
    editor.call("initialize", protocolVersion=row["protocolVersion"], _meta={"answer": answer})


@pytest.mark.parametrize("row", PROMPTS, ids=lambda row: row["id"])
def test_every_prompt_gets_its_verdict_for_any_declaration_of_a_foreign_agent(editor: Editor, row: dict[str, Any]):
    initialize(editor, row)
    answer, messages = editor.call("session/prompt", sessionId="s", prompt=row["content"])
    expected = row["response"]
    if row["valid"]:
        assert answer["result"] == {"stopReason": "end_turn"}
        return
    assert messages == []
    if row["exact"]:
        assert answer["error"] == expected
    assert (answer["error"]["code"], answer["error"]["message"]) == (expected["code"], expected["message"])
    assert answer["error"]["data"].get("error") == expected["data"].get("error")


def updates_of(row: dict[str, Any]) -> list[dict[str, Any]]:
    """The content of a vector as an agent sends it."""
    if row["context"] == "session_update":
        return [{"sessionUpdate": "agent_message_chunk", "content": block} for block in row["content"]]
    given = [{"type": "content", "content": block} for block in row["content"]]
    return [{"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": given}]


@pytest.mark.parametrize("row", SENT, ids=lambda row: row["id"])
def test_decision_18_updates_of_a_foreign_agent_pass_and_only_their_shape_is_a_finding(
    editor: Editor, log: Path, row: dict[str, Any]
):
    """The declaration is about prompts: audio from the agent is no fault, an image without data is."""
    initialize(editor, row)
    updates = updates_of(row)
    seen = len(log.read_text().splitlines())
    _, messages = editor.call("session/prompt", sessionId="s", prompt=[TEXT], _meta={"updates": updates})
    assert [frame["params"]["update"] for frame in messages] == updates
    initialize(editor, row)  # after its answer, everything before it is in the log
    entries = [json.loads(line) for line in log.read_text().splitlines()[seen:]]
    found = [entry["findings"] for entry in entries if entry.get("method") == "session/update"]
    is_malformed = row["response"] is not None and "error" in row["response"]["data"]
    assert len(found) == len(updates)
    assert all(bool(findings) is is_malformed for findings in found)
