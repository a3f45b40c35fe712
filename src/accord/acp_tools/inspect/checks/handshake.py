"""The handshake: `initialize`, what it declares, and the negotiation of the version."""

from dataclasses import replace
from typing import Final

from accord.acp_tools.inspect.blocks import TEXT
from accord.acp_tools.inspect.checks.table import MAY, MUST, SHOULD, CheckTable, Needs
from accord.acp_tools.inspect.probe import AgentProbe
from accord.acp_tools.inspect.replies import (
    NO_RESULT,
    Answered,
    CheckOutcome,
    failed,
    judge_error,
    judge_version,
    passed,
)
from accord.wire.inspection import CheckGroup

NEGOTIATION: Final = "ACP: Initialization – version negotiation"

HANDSHAKE: Final = CheckTable(CheckGroup.HANDSHAKE)


@HANDSHAKE.check("handshake", "initialize is answered", "ACP: Initialization", MUST, Needs.NOTHING)
async def _handshake(probe: AgentProbe) -> CheckOutcome:
    inspection = probe.inspection
    if not isinstance(inspection.handshake, Answered):
        outcome = replace(failed(NO_RESULT, inspection.handshake), lines=inspection.handshake_lines)
        line = inspection.last_stderr_line
        return replace(outcome, observed=f"{outcome.observed}; on stderr: {line}") if line else outcome
    if probe.declared.agent.protocol_version is None:
        outcome = failed("The result has no protocolVersion that is a whole number", inspection.handshake)
        return replace(outcome, lines=inspection.handshake_lines)
    return passed(f"The agent chose version {probe.declared.version}", inspection.handshake)


@HANDSHAKE.check("capabilities", "every declared flag is well formed", "ACP schema: AgentCapabilities", SHOULD)
async def _capabilities(probe: AgentProbe) -> CheckOutcome:
    malformed = [row for row in probe.declared.capabilities if (row.remark or "").startswith("malformed")]
    if malformed:
        outcome = failed(f"Malformed, and so unsupported: {', '.join(row.flag for row in malformed)}")
        return replace(outcome, lines=probe.inspection.handshake_lines)
    return passed("Every flag has the type that the schema gives it")


@HANDSHAKE.check("stable-capabilities", "every declared flag is in the schema", "ACP schema: AgentCapabilities", MAY)
async def _stable_capabilities(probe: AgentProbe) -> CheckOutcome:
    rows = [row for row in probe.declared.capabilities if (row.remark or "").startswith(("unknown", "unstable"))]
    if rows:
        named = ", ".join(f"{row.flag} ({(row.remark or '').partition(':')[0]})" for row in rows)
        return replace(failed(f"Not in the schema of this version: {named}"), lines=probe.inspection.handshake_lines)
    return passed("Every flag is in the schema of this version")


@HANDSHAKE.check("agent-info", "the agent gives its name and version", "ACP schema: InitializeResponse", SHOULD)
async def _agent_info(probe: AgentProbe) -> CheckOutcome:
    agent = probe.declared.agent
    if agent.name is None or agent.version is None:
        outcome = failed("The result of initialize lacks the name or the version of the agent")
        return replace(outcome, lines=probe.inspection.handshake_lines)
    return passed(f"The agent is {agent.name} {agent.version}")


def _add_version_check(version: int, *, quick: bool) -> None:
    title = f"an offer of version {version} is answered with a version"

    @HANDSHAKE.check(f"version-{version}", title, NEGOTIATION, MUST, quick=quick)
    async def _version(probe: AgentProbe) -> CheckOutcome:
        reply = await probe.inspection.initialize(await probe.fresh(), version)
        return judge_version(reply, version, supported=probe.declared.version)


# Two numbers that no version has: an agent may know one of them by accident, or repeat only small ones.
for _version, _is_quick in ((1, False), (2, False), (99, False), (65535, True)):
    _add_version_check(_version, quick=_is_quick)


@HANDSHAKE.check("prompt-first", "a prompt before initialize gets an error", "ACP: Initialization", SHOULD, quick=False)
async def _prompt_first(probe: AgentProbe) -> CheckOutcome:
    connection = await probe.fresh()
    reply = await probe.prompt(
        TEXT, session="accord-no-session", connection=connection, wait_s=probe.settings.startup_s
    )
    return judge_error(reply, None, "A prompt before initialize")
