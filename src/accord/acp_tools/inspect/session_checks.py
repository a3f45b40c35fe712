"""Checks of the handshake and of the life of an agent: versions, sessions, cancellation, and its end."""

import asyncio
from dataclasses import replace
from typing import Final

from accord.acp_tools.inspect.probe import LONG_WORK, MUST, NO_SESSIONS, SHOULD, TEXT, AgentProbe, CheckTable, Needs
from accord.acp_tools.inspect.replies import (
    NO_RESULT,
    Answered,
    CheckOutcome,
    Refused,
    Silent,
    failed,
    judge_cancelled,
    judge_error,
    judge_noise,
    judge_session,
    judge_version,
    own_error,
    passed,
    skipped,
    tell,
)
from accord.core.rpc import request_line

# Checks of how an agent introduces itself, which versions it settles on, and whether it opens a session.

HANDSHAKE: Final = CheckTable()
NEGOTIATION: Final = "ACP: Initialization – version negotiation"


@HANDSHAKE.check("handshake", "initialize is answered", "ACP: Initialization", MUST, Needs.NOTHING)
async def _handshake(probe: AgentProbe) -> CheckOutcome:
    if not isinstance(probe.handshake, Answered):
        outcome = failed(NO_RESULT, probe.handshake)
        words = probe.last_words()
        return replace(outcome, observed=f"{outcome.observed}; on stderr: {words}") if words else outcome
    if probe.introduction.agent.protocol_version is None:
        return failed("The answer has no protocolVersion that is a whole number", probe.handshake)
    return passed(f"The agent speaks version {probe.introduction.version}", probe.handshake)


@HANDSHAKE.check("capabilities", "every declared flag is well formed", "ACP schema: AgentCapabilities", SHOULD)
async def _capabilities(probe: AgentProbe) -> CheckOutcome:
    odd = [row for row in probe.introduction.capabilities if (row.remark or "").startswith("malformed")]
    if odd:
        return failed(f"Malformed, and so unsupported: {', '.join(row.flag for row in odd)}")
    return passed("Every flag is of the type that the schema gives it")


@HANDSHAKE.check("agent-info", "the agent says its name and version", "ACP schema: InitializeResponse", SHOULD)
async def _agent_info(probe: AgentProbe) -> CheckOutcome:
    agent = probe.introduction.agent
    if agent.name is None or agent.version is None:
        return failed("There is no name and version of the agent in its answer")
    return passed(f"It is {agent.name} {agent.version}")


def _version(asked: int) -> None:
    @HANDSHAKE.check(f"version-{asked}", f"asked for version {asked}, it answers with one", NEGOTIATION, MUST)
    async def _ask(probe: AgentProbe) -> CheckOutcome:
        reply = await probe.initialize(await probe.fresh(), asked)
        return judge_version(reply, asked, supported=probe.introduction.version)


for _asked in (1, 2, 65535):
    _version(_asked)


@HANDSHAKE.check("prompt-first", "a prompt before initialize gets an error", "ACP: Initialization", SHOULD)
async def _prompt_first(probe: AgentProbe) -> CheckOutcome:
    reply = await probe.prompt(
        TEXT, session="accord-no-session", talk=await probe.fresh(), wait_s=probe.settings.startup_s
    )
    return judge_error(reply, None, "A prompt before initialize")


@HANDSHAKE.check("session-new", "session/new gives a session", "ACP: Session Setup", MUST)
async def _session_new(probe: AgentProbe) -> CheckOutcome:
    if probe.lacks_sessions:
        return skipped(NO_SESSIONS)
    return judge_session(probe.opened)


# Checks of how a turn is cancelled and how an agent ends, and of what all checks together showed. They run last.

LIFE: Final = CheckTable()
TOO_QUICK_S: Final = 0.3


@LIFE.check(
    "cancel", "session/cancel ends a turn as cancelled", "ACP: Prompt Turn – cancellation", SHOULD, Needs.SESSION
)
async def _cancel(probe: AgentProbe) -> CheckOutcome:
    baseline = await probe.baseline()
    talk = await probe.agent()
    own, since, is_draft = talk.next_id(), len(talk.states), probe.introduction.version >= 2
    waiting = talk.expect(own)
    await talk.send(request_line(own, "session/prompt", {"sessionId": talk.session, "prompt": [LONG_WORK]}))
    # The same future all along: a reply that comes between two waits is not lost. In the draft it says that the prompt
    # was taken; what is cancelled before that never was a turn.
    await asyncio.wait({waiting}, timeout=talk.timeout_s if is_draft else min(TOO_QUICK_S, talk.timeout_s))
    early = waiting.result() if waiting.done() else Silent(TOO_QUICK_S)
    if isinstance(early, Refused) or (isinstance(early, Answered) and not is_draft):
        why = "answered with an error of its own" if own_error(early) else "ended the turn before it could be cancelled"
        return skipped(f"The agent {why}: {tell(early)}", early)
    clock = asyncio.get_running_loop().time
    cancelled_at = clock()
    await talk.notify("session/cancel", {"sessionId": talk.session})
    wait = talk.state_within(since, talk.timeout_s) if is_draft else talk.reply(waiting, own)
    reply = await wait
    talk.is_tired = talk.is_tired or isinstance(reply, Silent)
    return judge_cancelled(reply, baseline, clock() - cancelled_at)


@LIFE.check("ends", "the agent ends when its input does", "ACP: Transports – stdio", SHOULD)
async def _ends(probe: AgentProbe) -> CheckOutcome:
    talk = await probe.fresh(introduced=True)
    if await talk.ended_within(talk.timeout_s):
        return passed("The agent ended when its input was closed")
    return failed(f"The agent still ran {talk.timeout_s:g} s after its input was closed")


@LIFE.check("stays", "nothing that was sent ended the agent", "JSON-RPC 2.0 §5: a request gets a response", MUST)
async def _stays(probe: AgentProbe) -> CheckOutcome:
    await probe.end_lingering()
    if probe.crashed_in:
        return failed(f"The agent ended during: {', '.join(probe.crashed_in)}")
    return passed("The agent outlived every check")


@LIFE.check("clean-stdout", "nothing but messages on stdout", "ACP: Transports – stdio", MUST, Needs.NOTHING)
async def _clean(probe: AgentProbe) -> CheckOutcome:
    return judge_noise(probe.noise_so_far())
