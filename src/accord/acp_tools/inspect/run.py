"""Run the checks one after the other and build the report. Nothing that an agent does can stop it."""

from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Final

from accord.acp_tools.inspect.checks import CHECKS, Check, Needs
from accord.acp_tools.inspect.probe import AgentProbe, InspectSettings
from accord.acp_tools.inspect.replies import Answered, CheckOutcome, describe, shorten, skipped
from accord.errors import UsageError
from accord.stdio import PeerStartError
from accord.wire.inspection import InspectionFinding, InspectionReport, Level

NO_HANDSHAKE: Final = "there was no handshake"

OnProgress = Callable[[Check, InspectionFinding | None], None]
"""Called with each check before it runs, and again with its finding."""


def select_checks(only: Sequence[str]) -> Sequence[Check]:
    """The checks with these ids, in the order in which they run; all checks if no id is given."""
    known = [check.id for check in CHECKS]
    if unknown := [name for name in only if name not in known]:
        raise UsageError(f"--only {unknown[0]}: unknown check; use one of {', '.join(known)}")
    return [check for check in CHECKS if not only or check.id in only]


async def inspect_agent(
    settings: InspectSettings, checks: Sequence[Check] = CHECKS, *, on_progress: OnProgress = lambda _, __: None
) -> InspectionReport:
    """Run these checks on the agent; raises `PeerStartError` if it cannot be started at all."""
    probe = AgentProbe(settings)
    findings: list[InspectionFinding] = []
    try:
        await probe.open()
        handshake = CHECKS[0]
        if not isinstance(probe.handshake, Answered) and handshake not in checks:
            # Reported whichever checks were chosen: a report of nothing but skipped checks would look like a pass.
            findings.append(await _run_check(probe, handshake))
        for check in checks:
            on_progress(check, None)
            findings.append(await _run_check(probe, check))
            on_progress(check, findings[-1])
        return InspectionReport.about(
            program=PurePath(settings.command[0]).name,
            agent=probe.declared.agent,
            capabilities=probe.declared.capabilities,
            findings=findings,
        )
    finally:
        await probe.close()


async def _run_check(probe: AgentProbe, check: Check) -> InspectionFinding:
    outcome: CheckOutcome
    if check.needs is not Needs.NOTHING and not isinstance(probe.handshake, Answered):
        outcome = skipped(f"{NO_HANDSHAKE}: {describe(probe.handshake)}")
    elif check.needs is Needs.SESSION and (why := probe.why_no_session):
        outcome = skipped(why)
    else:
        try:
            outcome = await check.run(probe)
        except PeerStartError as error:  # the agent could be started before, so this is not its fault
            outcome = skipped(str(error))
        finally:
            await probe.finish_check(check.id, counts_deaths=check.level is not Level.MAY)
    secrets = probe.settings.secrets
    return InspectionFinding(
        check=check.id,
        title=check.title,
        clause=check.clause,
        level=check.level,
        result=outcome.result,
        sentence=shorten(outcome.sentence, secrets),
        observed=None if outcome.observed is None else shorten(outcome.observed, secrets),
    )
