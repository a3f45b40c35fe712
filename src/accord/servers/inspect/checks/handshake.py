"""Checks of how an agent introduces itself, which versions it settles on, and whether it opens a session."""

from dataclasses import replace
from typing import Final

from accord.core.inspect.contents import TEXT
from accord.core.inspect.judge import (
    NO_RESULT,
    Outcome,
    failed,
    judge_error,
    judge_session,
    judge_version,
    passed,
    skipped,
)
from accord.core.inspect.reply import Answered
from accord.servers.inspect.check import MUST, SHOULD, CheckTable, Needs
from accord.servers.inspect.probe import NO_SESSIONS, Probe

HANDSHAKE: Final = CheckTable()
NEGOTIATION: Final = "ACP: Initialization – version negotiation"


@HANDSHAKE.check("handshake", "initialize is answered", "ACP: Initialization", MUST, Needs.NOTHING)
async def _handshake(probe: Probe) -> Outcome:
    if not isinstance(probe.handshake, Answered):
        outcome = failed(NO_RESULT, probe.handshake)
        words = probe.last_words()
        return replace(outcome, observed=f"{outcome.observed}; on stderr: {words}") if words else outcome
    if probe.introduction.agent.protocol_version is None:
        return failed("The answer has no protocolVersion that is a whole number", probe.handshake)
    return passed(f"The agent speaks version {probe.introduction.version}", probe.handshake)


@HANDSHAKE.check("capabilities", "every declared flag is well formed", "ACP schema: AgentCapabilities", SHOULD)
async def _capabilities(probe: Probe) -> Outcome:
    odd = [row for row in probe.introduction.capabilities if (row.remark or "").startswith("malformed")]
    if odd:
        return failed(f"Malformed, and so unsupported: {', '.join(row.flag for row in odd)}")
    return passed("Every flag is of the type that the schema gives it")


@HANDSHAKE.check("agent-info", "the agent says its name and version", "ACP schema: InitializeResponse", SHOULD)
async def _agent_info(probe: Probe) -> Outcome:
    agent = probe.introduction.agent
    if agent.name is None or agent.version is None:
        return failed("There is no name and version of the agent in its answer")
    return passed(f"It is {agent.name} {agent.version}")


def _version(asked: int) -> None:
    @HANDSHAKE.check(f"version-{asked}", f"asked for version {asked}, it answers with one", NEGOTIATION, MUST)
    async def _ask(probe: Probe) -> Outcome:
        reply = await probe.initialize(await probe.fresh(), asked)
        return judge_version(reply, asked, supported=probe.introduction.version)


for _asked in (1, 2, 65535):
    _version(_asked)


@HANDSHAKE.check("prompt-first", "a prompt before initialize gets an error", "ACP: Initialization", SHOULD)
async def _prompt_first(probe: Probe) -> Outcome:
    reply = await probe.prompt(
        TEXT, session="accord-no-session", talk=await probe.fresh(), wait_s=probe.settings.startup_s
    )
    return judge_error(reply, None, "A prompt before initialize")


@HANDSHAKE.check("session-new", "session/new gives a session", "ACP: Session Setup", MUST)
async def _session_new(probe: Probe) -> Outcome:
    if probe.lacks_sessions:
        return skipped(NO_SESSIONS)
    return judge_session(probe.opened)
