"""The TypeScript SDK's client as a conforming editor in front of an agent that declares no images.

Without the proxy it does not send the image. Through `accord proxy --mode adapt` it does, and the user sees the notice.
acpx, which checks what it sends itself, does the same in `heavy/test_heavy.py`.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acp_tools.proxy.conversation import proxy
from tests.peers.test_typescript import NODE, ROOT

CLIENT = ROOT / ".venv" / "peers" / "conforming.mjs"
SDK_AGENT = (sys.executable, str(Path(__file__).with_name("sdk_echo.py")))
RAW_AGENT = (sys.executable, "-S", str(Path(__file__).with_name("raw_baseline.py")))
TEXT = {"type": "text", "text": "Look:"}
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}
FILE = {"type": "resource", "resource": {"uri": "file:///b.txt", "text": "words"}}
HALF = {"type": "text", "text": "\ud83d"}


def run_client(*command: str, blocks: list[Any]) -> dict[str, Any]:
    """What the client received from this agent."""
    whole = [NODE, CLIENT, json.dumps(blocks), *command]
    done = subprocess.run(whole, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def texts_of(received: dict[str, Any]) -> list[str]:
    return [update["content"]["text"] for update in received["updates"]]


def test_without_the_proxy_a_conforming_client_does_not_send_the_image():
    assert run_client(*SDK_AGENT, blocks=[TEXT, IMAGE, AUDIO, FILE])["notSent"] == ["image", "audio", "resource"]


def test_through_adapt_it_sends_everything_and_the_user_sees_the_notice():
    received = run_client(*proxy("adapt"), *SDK_AGENT, blocks=[TEXT, IMAGE, AUDIO, FILE])
    assert received["notSent"] == []
    assert received["initialized"]["agentCapabilities"]["promptCapabilities"] == {
        "image": True,
        "audio": True,
        "embeddedContext": True,
        "_meta": {"accord.adapted": ["image", "audio", "embeddedContext"]},
    }
    notice, echo, _ = texts_of(received)
    assert notice.startswith(
        "[Accord: the agent did not declare this content, so an image was saved and sent as a link"
    )
    assert [block["type"] for block in json.loads(echo)] == ["text", "resource_link", "resource_link", "text"]
    assert received["answered"]["stopReason"] == received["again"]["stopReason"] == "end_turn"


@pytest.mark.parametrize("mode", ["guard", "adapt", "observe"])
@pytest.mark.parametrize("blocks", [[HALF], [TEXT, HALF], [HALF, IMAGE]])
def test_half_of_a_surrogate_pair_does_not_break_the_conversation(tmp_path: Path, mode: str, blocks: list[Any]):
    front = proxy(mode, "--log", str(tmp_path / "log.jsonl"))
    received = run_client(*front, *RAW_AGENT, str(tmp_path / "received"), blocks=blocks)
    assert received["answered"] == received["again"] == {"stopReason": "end_turn"}
    if mode != "adapt" or len(blocks) == 1:
        assert b'"\\ud83d"' in (tmp_path / "received").read_bytes(), "it passes as it came"


def test_half_of_a_surrogate_pair_reaches_an_agent_of_the_python_sdk():
    received = run_client(*proxy("guard"), *SDK_AGENT, blocks=[TEXT, HALF])
    assert json.loads(texts_of(received)[0]) == [TEXT, HALF]
    assert received["answered"]["stopReason"] == received["again"]["stopReason"] == "end_turn"


def test_a_client_whose_agent_is_killed_gets_an_error(tmp_path: Path):
    agent = (*RAW_AGENT, str(tmp_path / "received"))
    received = run_client(*proxy("guard"), *agent, blocks=[{"type": "text", "text": "die"}])
    assert received["answered"]["code"] == -32603
    assert received["answered"]["message"].startswith("The agent was ended by SIGKILL")
