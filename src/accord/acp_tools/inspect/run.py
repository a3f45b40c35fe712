"""Run the checks, several at a time, and build the report. Nothing that an agent does can stop it."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Final

from accord.acp_tools.inspect.checks import CHECKS, Check, Needs
from accord.acp_tools.inspect.inspection import NO_SESSIONS, Inspection, InspectSettings
from accord.acp_tools.inspect.probe import AgentProbe, CannotJudgeError
from accord.acp_tools.inspect.replies import (
    Answered,
    CheckOutcome,
    describe,
    not_applicable,
    not_judged,
    shorten,
)
from accord.errors import UsageError
from accord.stdio import PeerStartError
from accord.version import package_version
from accord.wire.inspection import InspectionFinding, InspectionReport, Level, Result

NO_HANDSHAKE: Final = "there was no handshake"
QUICK_S: Final = 11.0
"""How long the checks of `--quick` may run; those that report on all, and ending the agents, take a moment more."""
QUICK_REPORT_S: Final = 2.0
OUT_OF_TIME: Final = f"not run: with --quick the checks end after {QUICK_S:g} s"

OnProgress = Callable[[Check, InspectionFinding | None], None]
"""Called with each check when it begins, and again with its finding; several checks run at the same time."""


def select_checks(only: Sequence[str], *, quick: bool = False) -> Sequence[Check]:
    """The checks with these ids, in the order of the report; all checks, or all quick ones, if no id is given."""
    known = [check.id for check in CHECKS]
    if unknown := [name for name in only if name not in known]:
        raise UsageError(f"--only {unknown[0]}: unknown check; use one of {', '.join(known)}")
    return [check for check in CHECKS if (check.id in only if only else check.quick or not quick)]


async def inspect_agent(
    settings: InspectSettings, checks: Sequence[Check] = CHECKS, *, on_progress: OnProgress = lambda _, __: None
) -> InspectionReport:
    """Run these checks on the agent; raises `PeerStartError` if it cannot be started at all."""
    clock = asyncio.get_running_loop().time
    began, date = clock(), datetime.now(UTC)
    async with Inspection(settings) as inspection:
        await inspection.open()
        if not isinstance(inspection.handshake, Answered) and CHECKS[0] not in checks:
            # Reported whichever checks were chosen: a report in which nothing was judged would look like a pass.
            checks = [CHECKS[0], *checks]
        deadline = began + QUICK_S if settings.quick else None
        findings: dict[str, InspectionFinding] = {}
        # The checks that report on everything run when all others have ended.
        for part in ([each for each in checks if not each.reports_all], [each for each in checks if each.reports_all]):
            waiting = list(reversed(part))

            async def run_some(waiting: list[Check] = waiting) -> None:
                while waiting:
                    check = waiting.pop()
                    on_progress(check, None)
                    findings[check.id] = await _run_check(inspection, check, deadline)
                    on_progress(check, findings[check.id])

            if part and part[0].reports_all:
                await inspection.collect_all()
            async with asyncio.TaskGroup() as group:
                for _ in range(max(1, settings.jobs)):
                    group.create_task(run_some())
    return InspectionReport.about(
        [findings[check.id] for check in checks],
        program=PurePath(settings.command[0]).name,
        date=date,
        accord_version=package_version(),
        protocol=settings.protocol,
        mock_llm=settings.mock_llm,
        duration_s=round(clock() - began, 3),
        agent=inspection.declared.agent,
        capabilities=inspection.declared.capabilities,
    )


async def _run_check(inspection: Inspection, check: Check, deadline: float | None) -> InspectionFinding:
    clock = asyncio.get_running_loop().time
    began, probe, lines = clock(), AgentProbe(inspection, check.id), ()
    level = check.level_in(inspection.declared.version)
    outcome: CheckOutcome
    if check.needs is not Needs.NOTHING and not isinstance(inspection.handshake, Answered):
        outcome = not_judged(f"{NO_HANDSHAKE}: {describe(inspection.handshake)}")
    elif check.needs is Needs.SESSION and (why := inspection.why_no_session):
        outcome = not_applicable(why) if why == NO_SESSIONS else not_judged(why)
    elif check.draft_lacks is not None and inspection.declared.version >= 2:
        outcome = not_applicable(check.draft_lacks)
    else:
        try:
            async with asyncio.timeout_at(deadline and deadline + QUICK_REPORT_S * check.reports_all):
                outcome = await check.run(probe)
        except TimeoutError:
            outcome = not_judged(OUT_OF_TIME)
        except CannotJudgeError as error:
            outcome = error.outcome
        except PeerStartError as error:  # the agent could be started before, so this is not its fault
            outcome = not_judged(str(error))
        finally:
            lines = probe.lines()
            await probe.finish(counts_deaths=level is not Level.MAY)
    secrets = inspection.settings.secrets
    return InspectionFinding(
        check=check.id,
        group=check.group,
        title=check.title,
        clause=check.clause,
        level=outcome.level or level,
        result=outcome.result,
        sentence=shorten(outcome.sentence, secrets),
        observed=None if outcome.observed is None else shorten(outcome.observed, secrets),
        content=outcome.content,
        lines=list(outcome.lines or lines) if outcome.result is Result.FAIL else [],
        duration_s=round(clock() - began, 3),
    )
