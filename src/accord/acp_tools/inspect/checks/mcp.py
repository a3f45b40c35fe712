"""MCP servers in `session/new`: a real one on stdio, and one that cannot be started.

Servers over HTTP and SSE are not tested.
"""

import json
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from accord.acp_tools.inspect import mcp_server
from accord.acp_tools.inspect.blocks import TEXT
from accord.acp_tools.inspect.checks.table import MUST, SHOULD, CheckTable, Needs
from accord.acp_tools.inspect.client import InspectorClient, PermissionPolicy
from accord.acp_tools.inspect.connection import AgentConnection
from accord.acp_tools.inspect.fake_model import explain_absence
from accord.acp_tools.inspect.probe import AgentProbe, CannotJudgeError
from accord.acp_tools.inspect.replies import (
    Answered,
    CheckOutcome,
    Refused,
    Reply,
    describe,
    failed,
    judge_answered,
    not_applicable,
    not_judged,
    passed,
)
from accord.acp_tools.json_values import as_object
from accord.wire.inspection import CheckGroup

STDIO: Final = "ACP: Session Setup – all agents must support MCP servers over stdio"
CONNECTING: Final = "ACP: Session Setup – agents should connect to all MCP servers"
CALL_TOOL: Final = f"Call the tool {mcp_server.TOOL}. accord:call {mcp_server.TOOL} {{}}"
CONNECTION_S: Final = 2.0
"""How long after the first turn to wait for an agent that connects in the background."""

MCP: Final = CheckTable(CheckGroup.SESSION)


class RunningServer:
    """The MCP server that an agent is given; agents start it, so all that is known of it is what it wrote."""

    def __init__(self, received: Path, *, is_draft: bool) -> None:
        self._received: Final = received
        # As a file and isolated: it starts fast, and the environment of the agent does not change what it imports.
        arguments = ["-I", mcp_server.__file__, str(received)]
        self.declaration: Final = _stdio_server(sys.executable, arguments, is_draft=is_draft)

    @property
    def methods(self) -> list[str]:
        """The methods that the agent has called so far."""
        if not self._received.exists():
            return []
        lines = self._received.read_text(encoding="utf-8").splitlines()
        return [str(as_object(json.loads(line)).get("method")) for line in lines]


def _stdio_server(command: str, arguments: list[str], *, is_draft: bool) -> Mapping[str, Any]:
    server = {"name": mcp_server.NAME, "command": command, "args": arguments, "env": []}
    return {"type": "stdio", **server} if is_draft else server


@contextmanager
def _mcp_server(probe: AgentProbe) -> Generator[RunningServer]:
    """A server for one check; raises if the agent need not support it."""
    if probe.is_draft and not probe.declared.supports("session.mcp.stdio"):
        raise CannotJudgeError(not_applicable("session.mcp.stdio is not declared"))
    with TemporaryDirectory(prefix="accord-inspect-") as folder:
        yield RunningServer(Path(folder) / "received.jsonl", is_draft=probe.is_draft)


async def _new_session(probe: AgentProbe, connection: AgentConnection, server: Mapping[str, Any]) -> Reply:
    params = probe.inspection.session_params(mcpServers=[server])
    return await connection.call("session/new", params, wait_s=probe.settings.startup_s)


def _session_id(reply: Reply) -> str | None:
    session = as_object(reply.result).get("sessionId") if isinstance(reply, Answered) else None
    return session if isinstance(session, str) else None


@MCP.check("mcp-stdio", "session/new with an MCP server on stdio creates a session", STDIO, MUST, Needs.SESSION)
async def _stdio(probe: AgentProbe) -> CheckOutcome:
    with _mcp_server(probe) as server:
        reply = await _new_session(probe, await probe.agent(), server.declaration)
    if isinstance(reply, Refused):
        return failed("session/new with an MCP server was refused", reply)
    return judge_answered(reply, "session/new with an MCP server")


@MCP.check("mcp-connect", "the agent connects to an MCP server", CONNECTING, SHOULD, Needs.SESSION, quick=False)
async def _connect(probe: AgentProbe) -> CheckOutcome:
    connection, baseline = await probe.agent(), await probe.baseline()
    with _mcp_server(probe) as server:
        reply = await _new_session(probe, connection, server.declaration)
        session = _session_id(reply)
        if session is None:
            return not_judged(f"There is no session with an MCP server: {describe(reply)}", reply)
        # Some agents connect when a prompt needs the tools, some do so in the background.
        if "initialize" not in server.methods and isinstance(baseline, Answered):
            await probe.prompt(TEXT, session=session)
        for _ in range(int(CONNECTION_S / probe.settings.watch_s)):
            if "tools/list" in server.methods:
                return passed("The agent connected to the MCP server and listed its tools")
            await connection.received_within(probe.settings.watch_s)
        if "initialize" in server.methods:
            return passed("The agent connected to the MCP server")
    if not isinstance(baseline, Answered):
        return not_judged("The agent did not connect to the MCP server, but no prompt is answered", baseline)
    return failed("The agent did not connect to the MCP server until the end of the first turn")


@MCP.check("mcp-tool", "the model can call a tool of an MCP server", CONNECTING, SHOULD, Needs.SESSION, quick=False)
async def _tool(probe: AgentProbe) -> CheckOutcome:
    if probe.inspection.model is None:
        return not_judged("Only the fake model (--mock-llm) is sure to call a tool")
    connection = await probe.fresh(initialized=True, client=InspectorClient(permissions=PermissionPolicy.ALLOW))
    with _mcp_server(probe) as server:
        session = _session_id(await _new_session(probe, connection, server.declaration))
        if session is None:
            return not_judged("There is no session with an MCP server")
        marker, text = probe.marked_text(CALL_TOOL)
        reply = await probe.prompt(text, session=session, connection=connection)
        if "tools/call" in server.methods:
            return passed("The model called the tool of the MCP server", reply)
        methods = server.methods
    model = probe.inspection.model
    requests = model.received(marker)
    if not requests and (refused := model.refused_request(marker)):
        return not_judged(explain_absence(refused), reply)
    if not requests or "tools/list" not in methods:
        return not_judged("The agent did not call the fake model, or did not connect to the MCP server", reply)
    if not any(tool.name.endswith(mcp_server.TOOL) for request in requests for tool in request.tools):
        return not_judged("The tool was not offered by its name; the model may have to search for it", reply)
    return failed("The model called the tool of the MCP server, but the server did not get the call", reply)


@MCP.check(
    "mcp-broken", "an MCP server that cannot be started does no harm", CONNECTING, SHOULD, Needs.SESSION, quick=False
)
async def _broken(probe: AgentProbe) -> CheckOutcome:
    if probe.is_draft and not probe.declared.supports("session.mcp.stdio"):
        return not_applicable("session.mcp.stdio is not declared")
    connection, baseline = await probe.agent(), await probe.baseline()
    missing = _stdio_server("/accord/no-such-mcp-server", [], is_draft=probe.is_draft)
    reply = await _new_session(probe, connection, missing)
    if isinstance(reply, Refused):
        session = await probe.open_session()
    elif (session := _session_id(reply)) is None:
        return judge_answered(reply, "session/new with an MCP server that cannot be started")
    if isinstance(baseline, Answered):
        prompt_reply = await probe.prompt(TEXT, session=session)
        if not isinstance(prompt_reply, Answered):
            return failed("With an MCP server that cannot be started, prompts are not answered", prompt_reply)
    did = "was refused" if isinstance(reply, Refused) else "was answered"
    return passed(f"session/new with an MCP server that cannot be started {did}", reply)
