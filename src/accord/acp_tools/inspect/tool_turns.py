"""Run the turns in which an agent is to use a tool, each once for all checks.

The agents of these turns are offered files and terminals, so they are not those of other checks; there is one for each
`ClientOffer`, which works on one task after the other, in a session and a folder for each `PermissionPolicy`.
"""

import asyncio
from pathlib import Path
from typing import Final

from accord.acp.methods import Method
from accord.acp_tools.inspect.blocks import text_block
from accord.acp_tools.inspect.client import InspectorClient, PermissionPolicy
from accord.acp_tools.inspect.connection import AgentConnection
from accord.acp_tools.inspect.inspection import has_died
from accord.acp_tools.inspect.probe import AgentProbe, CannotJudgeError, StartedPrompt
from accord.acp_tools.inspect.replies import Answered, Reply, Silent, describe, not_applicable, not_judged
from accord.acp_tools.inspect.tool_use import (
    CAPABILITIES,
    COMMAND,
    DISK_TEXT,
    NO_TOOL_USED,
    UNSAVED_TEXT,
    ToolTask,
    ToolTurn,
)

RELEASE_S: Final = 2.0
"""How long after the end of a turn its terminals may be released."""
POLL_S: Final = 0.05
WAITS_S: Final = 0.3
"""How long an agent has to wait for a permission before the turn is cancelled."""


async def run_task(probe: AgentProbe, task: ToolTask) -> ToolTurn:
    """The turn of this task; raises `CannotJudgeError` if prompts do not work at all."""
    inspection, baseline = probe.inspection, await probe.baseline()
    if not isinstance(baseline, Answered):
        raise CannotJudgeError(not_judged(f"Plain text is not answered: {describe(baseline)}", baseline))
    async with inspection.lock(f"tools: {task.offer}"):
        turns = inspection.tool_turns
        if task not in turns:
            if any(turn.model_requests is None and not turn.tries_tool for turn in turns.values()):
                raise CannotJudgeError(not_applicable(NO_TOOL_USED))
            turns[task] = await _run_task(probe, task)
        return turns[task]


async def _run_task(probe: AgentProbe, task: ToolTask) -> ToolTurn:
    inspection, connection = probe.inspection, await _take_agent(probe, task)
    folder = inspection.folder / f"{task.offer.name}-{task.permissions.name}".lower()
    folder.mkdir(exist_ok=True)
    path = folder / task.file_name
    if task.has_file:
        path.write_text(DISK_TEXT, encoding="utf-8")
        connection.client.unsaved[str(path)] = UNSAVED_TEXT
    connection.client.permissions = task.permissions
    connection.is_busy = True  # until the turn has ended: a check may be stopped by its time limit
    key, sessions = (connection, task.permissions), inspection.tool_sessions
    try:
        session = sessions.pop(key, None) or await probe.open_session(connection, cwd=str(folder))
        turn = await _run_turn(probe, connection, session, task, path)
        connection.is_busy = isinstance(turn.reply, Silent)
        if isinstance(turn.reply, Answered):
            sessions[key] = session
        if task.permissions is PermissionPolicy.HOLD and turn.permissions and not connection.is_busy:
            await probe.prompt_text_again("a cancelled permission request", connection, session)
    finally:
        inspection.collect(connection, probe.check)
        if has_died(connection):
            inspection.crashed_in.append(probe.check)
    return turn


async def _take_agent(probe: AgentProbe, task: ToolTask) -> AgentConnection:
    """The agent for this task's offer; a new one if there is none, or if it does not work any more."""
    inspection = probe.inspection
    agents = inspection.tool_agents
    connection = agents.get(task.offer)
    if connection is not None and (connection.is_busy or not connection.is_alive):
        await inspection.end(connection, probe.check)
        connection = None
    if connection is None:
        client = InspectorClient(CAPABILITIES[task.offer], folder=inspection.folder, command=COMMAND)
        connection = agents[task.offer] = await inspection.start(client)
        await inspection.initialize(connection, probe.settings.protocol)
    return connection


async def _run_turn(
    probe: AgentProbe, connection: AgentConnection, session: str, task: ToolTask, path: Path
) -> ToolTurn:
    client, model, since = connection.client, probe.inspection.model, len(connection.log)
    requests, updates, terminals = len(client.requests), len(connection.updates), len(client.terminals.created)
    marker, _ = probe.marked_text()
    reply, was_cancelled = await _prompt(probe, connection, task, session, text=f"({marker}) {task.prompt(path)}")
    new_terminals = set(client.terminals.created[terminals:])
    deadline = asyncio.get_running_loop().time() + RELEASE_S
    while new_terminals & set(client.terminals.unreleased) and connection.is_alive:
        left = deadline - asyncio.get_running_loop().time()
        if left <= 0:
            break
        await connection.received_within(left)
    return ToolTurn(
        task,
        reply,
        requests=client.requests[requests:],
        updates=[update for updated, update in connection.updates[updates:] if updated == session],
        model_requests=None if model is None else model.received(marker),
        has_file=_exists(path),
        was_cancelled=was_cancelled,
        unreleased=sorted(new_terminals & set(client.terminals.unreleased)),
        lines=probe.inspection.render(connection, range(since, len(connection.log))),
        refused=None if model is None else model.refused_request(marker),
    )


async def _prompt(
    probe: AgentProbe, connection: AgentConnection, task: ToolTask, session: str, *, text: str
) -> tuple[Reply, bool]:
    """Send a prompt; how the turn ended, and whether it was cancelled because its permission is held."""
    first = len(connection.client.requests)
    prompt = await probe.start_prompt(text_block(text), session=session, connection=connection)
    was_cancelled = False
    if task.permissions is PermissionPolicy.HOLD:
        is_waiting = await _wait_for_permission(prompt, first)
        # A turn that ends now did not wait for the permission, and may cross the cancellation.
        was_cancelled = is_waiting and not await prompt.has_ended_within(WAITS_S)
        if was_cancelled:
            await connection.notify(Method.SESSION_CANCEL, {"sessionId": session})
        connection.client.cancel_permissions()
    return await prompt.ending(), was_cancelled


async def _wait_for_permission(prompt: StartedPrompt, first: int) -> bool:
    """Whether there is a permission request among the requests from `first` on, before the turn ends."""
    connection = prompt.connection
    deadline = asyncio.get_running_loop().time() + connection.timeout_s
    while asyncio.get_running_loop().time() < deadline:
        methods = [request.method for request in connection.client.requests[first:]]
        if Method.SESSION_REQUEST_PERMISSION in methods:
            return True
        if await prompt.has_ended_within(POLL_S):
            break
    return False


def _exists(path: Path) -> bool:
    return path.exists()
