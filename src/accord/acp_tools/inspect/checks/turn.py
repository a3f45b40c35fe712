"""Turns: how they are cancelled, and whether a session works after a bad or a cancelled prompt."""

import asyncio
from dataclasses import replace
from typing import Final

from accord.acp_tools.inspect.blocks import LONG_WORK
from accord.acp_tools.inspect.checks.table import MUST, SHOULD, CheckTable, Needs
from accord.acp_tools.inspect.fake_model import AnswerState, explain_absence
from accord.acp_tools.inspect.probe import AgentProbe
from accord.acp_tools.inspect.replies import (
    Answered,
    CheckOutcome,
    Refused,
    Silent,
    describe,
    failed,
    is_agent_error,
    judge_cancelled,
    not_judged,
    passed,
    silent_text,
    stop_reason,
)
from accord.wire.inspection import CheckGroup

SLOW: Final = "accord:slow"
"""Makes the fake model answer with one word every 100 ms."""
RUNNING_S: Final = 0.3
"""How long to let a turn run before it is cancelled."""
MODEL_STOPS_S: Final = 3.0
"""How long after the end of a cancelled turn the agent may take to close the connection to its model."""
CANCELLATION: Final = "ACP: Prompt Turn – cancellation"

TURN: Final = CheckTable(CheckGroup.TURN)
RECOVERY: Final = CheckTable(CheckGroup.TURN, reports_all=True)


@TURN.check("cancel", "session/cancel ends a turn as cancelled", CANCELLATION, MUST, Needs.SESSION)
async def _cancel(probe: AgentProbe) -> CheckOutcome:
    baseline = await probe.baseline()
    if isinstance(baseline, Silent) and probe.is_draft:
        return not_judged(silent_text(baseline))
    _, text = probe.marked_text(f"{LONG_WORK} {SLOW}")
    prompt = await probe.start_prompt(text)
    connection, pending, is_draft = prompt.connection, prompt.pending, prompt.is_draft
    # One future for both waits, so that no reply is lost between them. In the draft the reply says that the prompt was
    # accepted; before that there is no turn to cancel.
    wait_s = connection.timeout_s if is_draft else min(RUNNING_S, connection.timeout_s)
    await asyncio.wait({pending}, timeout=wait_s)
    early = pending.result() if pending.done() else Silent(RUNNING_S)
    if isinstance(early, Refused) or (isinstance(early, Answered) and not is_draft):
        did = "answered with an unrelated error" if is_agent_error(early) else "ended the turn before it was cancelled"
        return not_judged(f"The agent {did}: {describe(early)}", early)
    clock = asyncio.get_running_loop().time
    cancelled_at = clock()
    await connection.notify("session/cancel", {"sessionId": prompt.session})
    reply = await prompt.ending()
    outcome = judge_cancelled(reply, baseline, clock() - cancelled_at)
    if not connection.is_busy and isinstance(baseline, Answered):
        outcome = replace(outcome, lines=probe.lines())
        await probe.prompt_text_again("a cancelled turn")
    return outcome


@TURN.check(
    "cancel-model", "session/cancel stops the request to the model", CANCELLATION, SHOULD, Needs.SESSION, quick=False
)
async def _cancel_model(probe: AgentProbe) -> CheckOutcome:
    model = probe.inspection.model
    if model is None:
        return not_judged("Only the fake model shows it: add --mock-llm")
    if isinstance(await probe.baseline(), Answered) and not model.requests:
        return not_judged(explain_absence(model.refused_request()))
    marker, text = probe.marked_text(f"{LONG_WORK} {SLOW}")
    prompt = await probe.start_prompt(text)
    connection = prompt.connection

    def is_answering() -> bool:
        return any(request.state is AnswerState.OPEN for request in model.received(marker))

    if not await model.wait_until(is_answering, connection.timeout_s):
        connection.is_busy = True
        return not_judged(explain_absence(model.refused_request(marker)))
    await connection.notify("session/cancel", {"sessionId": prompt.session})
    reply = await prompt.ending()
    if stop_reason(reply) != "cancelled":
        connection.is_busy = True
        return not_judged(f"The turn did not end as cancelled: {describe(reply)}", reply)
    if await model.wait_until(lambda: not is_answering(), MODEL_STOPS_S):
        return passed("The agent closed the connection to its model", reply)
    return failed(f"{MODEL_STOPS_S:g} s after session/cancel the model still answers to the agent", reply)


@RECOVERY.check(
    "next-prompt", "a session works after a rejected or cancelled prompt", "ACP: Prompt Turn", MUST, Needs.SESSION
)
async def _next_prompt(probe: AgentProbe) -> CheckOutcome:
    baseline = await probe.baseline()
    prompts = probe.inspection.next_prompts
    if not prompts or not isinstance(baseline, Answered):
        return not_judged("No prompt was sent after a bad one, because plain text is not answered")
    if stuck := [found for found in prompts if not isinstance(found.reply, Answered)]:
        after = ", ".join(dict.fromkeys(found.after for found in stuck))
        return replace(
            failed(f"Plain text is not accepted any more after {after}", stuck[0].reply), lines=stuck[0].lines
        )
    return passed("After every bad prompt plain text was accepted in the same session")
