"""Run the checks one after the other and make the report. Nothing that an agent does can stop it."""

from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Final

from accord.acp_tools.inspect.content_checks import CONTENT
from accord.acp_tools.inspect.line_checks import LINES
from accord.acp_tools.inspect.probe import AgentProbe, Check, InspectSettings, Needs
from accord.acp_tools.inspect.replies import Answered, CheckOutcome, shorten, skipped, tell
from accord.acp_tools.inspect.session_checks import HANDSHAKE, LIFE
from accord.errors import UsageError
from accord.stdio import PeerStartError
from accord.wire.inspection import InspectionFinding, InspectionReport, Level

# Every check, in the order in which they run; each file holds those of one kind.

CHECKS: Final[tuple[Check, ...]] = (*HANDSHAKE, *CONTENT, *LINES, *LIFE)


# Runs the checks one after the other and makes the report. Nothing that an agent does can stop it.

OnProgress = Callable[[Check, InspectionFinding | None], None]
"""Told a check before it runs, and again with what it found."""
NO_HANDSHAKE: Final = "there was no handshake"


def select_checks(only: Sequence[str]) -> Sequence[Check]:
    """The checks with these ids, in the order in which they run; all checks if no id is given."""
    known = [check.id for check in CHECKS]
    if unknown := [name for name in only if name not in known]:
        raise UsageError(f"There is no check {unknown[0]}; there are {', '.join(known)}")
    return [check for check in CHECKS if not only or check.id in only]


def _quietly(_: Check, __: InspectionFinding | None) -> None:
    return


async def inspect_agent(
    settings: InspectSettings, checks: Sequence[Check] = CHECKS, *, on_progress: OnProgress = _quietly
) -> InspectionReport:
    """What these checks find in the agent; raises `PeerStartError` if it cannot be started at all."""
    probe = AgentProbe(settings)
    try:
        await probe.open()
        findings = await _unasked(probe, checks)
        for check in checks:
            on_progress(check, None)
            findings.append(_finding(check, await _outcome(probe, check), settings.secrets))
            on_progress(check, findings[-1])
        return InspectionReport.about(
            program=PurePath(settings.command[0]).name,
            agent=probe.introduction.agent,
            capabilities=probe.introduction.capabilities,
            findings=findings,
        )
    finally:
        await probe.close()


async def _unasked(probe: AgentProbe, checks: Sequence[Check]) -> list[InspectionFinding]:
    """That there was no handshake, whichever checks were chosen: nothing but skips would look like a pass."""
    if isinstance(probe.handshake, Answered) or any(check.id == HANDSHAKE[0].id for check in checks):
        return []
    return [_finding(HANDSHAKE[0], await _outcome(probe, HANDSHAKE[0]), probe.settings.secrets)]


async def _outcome(probe: AgentProbe, check: Check) -> CheckOutcome:
    if why := _why_not(probe, check):
        return skipped(why)
    try:
        return await check.ask(probe)
    except PeerStartError as error:  # it could be started before: the machine's fault, not the agent's
        return skipped(str(error))
    finally:
        await probe.settle(check.id, is_grave=check.level is not Level.MAY)


def _why_not(probe: AgentProbe, check: Check) -> str | None:
    if check.needs is Needs.NOTHING:
        return None
    if not isinstance(probe.handshake, Answered):
        return f"{NO_HANDSHAKE}: {tell(probe.handshake)}"
    return probe.why_no_session if check.needs is Needs.SESSION else None


def _finding(check: Check, outcome: CheckOutcome, secrets: Sequence[str]) -> InspectionFinding:
    return InspectionFinding(
        check=check.id,
        title=check.title,
        clause=check.clause,
        level=check.level,
        result=outcome.result,
        sentence=shorten(outcome.sentence, secrets),
        observed=None if outcome.observed is None else shorten(outcome.observed, secrets),
    )
