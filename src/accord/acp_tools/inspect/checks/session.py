"""Sessions: opening them, several at a time, and prompts to sessions that do not exist."""

from typing import Final

from accord.acp_tools.inspect.blocks import TEXT
from accord.acp_tools.inspect.checks.table import MUST, SHOULD, CheckTable, Needs
from accord.acp_tools.inspect.probe import NO_SESSIONS, AgentProbe
from accord.acp_tools.inspect.replies import (
    CheckOutcome,
    failed,
    judge_request_error,
    judge_session,
    not_applicable,
    passed,
)
from accord.wire.inspection import CheckGroup

SETUP: Final = "ACP: Session Setup"

SESSION: Final = CheckTable(CheckGroup.SESSION)


@SESSION.check("session-new", "session/new creates a session", SETUP, MUST)
async def _session_new(probe: AgentProbe) -> CheckOutcome:
    if probe.inspection.lacks_sessions:
        return not_applicable(NO_SESSIONS)
    return judge_session(probe.inspection.first_session)


@SESSION.check("distinct-sessions", "every session has an id of its own", SETUP, MUST, Needs.SESSION)
async def _distinct(probe: AgentProbe) -> CheckOutcome:
    ids = [await probe.open_session(), await probe.open_session()]
    if ids[0] == ids[1]:
        return failed(f"Two sessions have the id {ids[0]!r}")
    return passed("Two sessions have different ids")


@SESSION.check("unknown-session", "a prompt to an unknown session gets an error", SETUP, SHOULD, Needs.SESSION)
async def _unknown_session(probe: AgentProbe) -> CheckOutcome:
    reply = await probe.prompt(TEXT, session="accord-no-session")
    return judge_request_error(reply, "A prompt to an unknown session", baseline=await probe.baseline())
