"""Sessions: opening them, several at a time, and prompts to sessions that do not exist."""

import asyncio
import json
from typing import Final

from accord.acp_tools.inspect.blocks import TEXT
from accord.acp_tools.inspect.checks.table import MUST, SHOULD, CheckTable, Needs
from accord.acp_tools.inspect.inspection import NO_SESSIONS
from accord.acp_tools.inspect.probe import AgentProbe
from accord.acp_tools.inspect.replies import (
    Answered,
    CheckOutcome,
    describe,
    failed,
    judge_request_error,
    judge_session,
    not_applicable,
    not_judged,
    passed,
)
from accord.acp_tools.inspect.session_results import judge_both
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


@SESSION.check(
    "two-sessions",
    "two sessions work at the same time, each on its own",
    f"{SETUP} – sessions are independent",
    MUST,
    Needs.SESSION,
)
async def _two(probe: AgentProbe) -> CheckOutcome:
    baseline = await probe.baseline()
    if not isinstance(baseline, Answered):
        return not_judged(f"Plain text is not answered: {describe(baseline)}", baseline)
    connection = await probe.agent()
    sessions = [await probe.open_session(), await probe.open_session()]
    if sessions[0] == sessions[1]:
        return not_judged("Two sessions have the same id")
    since, marked = len(connection.updates), [probe.marked_text(), probe.marked_text()]
    # Twice the time: an agent may work on one after the other.
    prompts = (
        probe.prompt(text, session=session, wait_s=2 * connection.timeout_s)
        for session, (_, text) in zip(sessions, marked, strict=True)
    )
    replies = await asyncio.gather(*prompts)
    if outcome := judge_both(replies):
        return outcome
    markers = [marker for marker, _ in marked]
    foreign = dict(zip(sessions, reversed(markers), strict=True))
    updates = [(session, update) for session, update in connection.updates[since:] if session in foreign]
    if any(foreign[session] in json.dumps(update) for session, update in updates):
        return failed("An update of one session has the text of the other one")
    model = probe.inspection.model
    if model is not None and any(markers[1] in request.text for request in model.received(markers[0])):
        return failed("The model received the conversations of two sessions as one")
    return passed("Prompts in two sessions at the same time were both answered")
