"""The report as text for people: failures first, then what is open, then everything else. Pure.

Nothing is escaped here; `output` does that for every line that it prints.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from accord.acp_tools.inspect.checks import Check
from accord.acp_tools.inspect.replies import ECHOES, NO_RESULT
from accord.acp_tools.inspect.report.verdict import EXIT_FAILED, EXIT_UNJUDGED, InspectionVerdict, Standing
from accord.terminal import format_count
from accord.wire.inspection import (
    CheckGroup,
    ContentFate,
    DeclaredCapability,
    InspectionFinding,
    InspectionReport,
    Level,
    LineSender,
    Result,
)

ARROWS: Final[Mapping[LineSender, str]] = {LineSender.CLIENT: "→", LineSender.AGENT: "←"}
MEANINGS: Final[Mapping[Level, str]] = {
    Level.MUST: "the agent breaks its contract",
    Level.SHOULD: "editors will have problems with it",
    Level.MAY: "worth knowing",
}
COLOURS: Final[Mapping[Level, str]] = {Level.MUST: "red", Level.SHOULD: "yellow", Level.MAY: "cyan"}
DIM: Final = "bright_black"
OMITTED: Final = "omitted"


@dataclass(frozen=True, slots=True)
class ReportLine:
    """One line of the report; a terminal folds it at its width and indents every part, unless it is `raw`."""

    text: str = ""
    style: str = ""
    indent: int = 0
    raw: bool = False
    """Whether to print it in one piece, so that it can be copied."""


def report_lines(verdict: InspectionVerdict, *, failures_only: bool = False) -> Iterator[ReportLine]:
    """The whole report, or only its failures and the summary."""
    for level in Level:
        yield from _failures(verdict.with_standing(Standing.BREAKS, Standing.WARNING, level=level), level)
    yield from _short_list("Required, but not judged", verdict.with_standing(Standing.REQUIRED), "bold red")
    yield from _short_list("Judged in the baseline, but not now", verdict.with_standing(Standing.LOST), "bold red")
    yield from _short_list("Known failures, in the baseline too", verdict.with_standing(Standing.KNOWN), "bold")
    if verdict.fixed:
        yield ReportLine(f"Failed in the baseline, but not now: {', '.join(verdict.fixed)}", "green")
        yield ReportLine()
    if not failures_only:
        yield from _other_results(verdict.report)
        if _failed_handshake(verdict.report) is None:
            yield from _capabilities(verdict.report.capabilities)
    if verdict.status == EXIT_UNJUDGED:
        yield ReportLine(
            "Exit status 3: nothing failed, but mandatory checks were not judged. --allow-unjudged accepts this.",
            "yellow",
        )
    yield summary_line(verdict)


def summary_line(verdict: InspectionVerdict) -> ReportLine:
    """The last line of the report: the agent, the counts and the verdict."""
    report = verdict.report
    breaks = verdict.status == EXIT_FAILED or not report.keeps_contract
    is_green = verdict.sentence == "keeps its contract"
    style = "bold red" if breaks else "bold green" if is_green else "bold yellow"
    if not (handshake := _failed_handshake(report)):
        text = f"{count_words(verdict)} in {report.duration_s:.1f} s — {verdict.sentence}"
    elif handshake.observed == ECHOES:
        text = f"is not an ACP agent: {ECHOES}"
    else:
        text = f"did not answer initialize, so nothing else can be checked: {handshake.observed}"
    return ReportLine(f"{agent_name(report)}: {text}", style)


def count_words(verdict: InspectionVerdict) -> str:
    """The number of checks with each result."""
    counts = verdict.report.counts
    levels = [f"{count} {level}" for level in Level if (count := verdict.report.count(Result.FAIL, level))]
    if known := len(verdict.with_standing(Standing.KNOWN)):
        levels.append(f"{known} known")
    failed = f"{counts[Result.FAIL]} failed" + (f" ({', '.join(levels)})" if levels else "")
    others = (f"{counts[result]} {result_words(result)}" for result in Result if result is not Result.FAIL)
    return ", ".join((failed, *others))


def result_words(result: Result) -> str:
    """The result for people."""
    return {Result.PASS: "passed", Result.FAIL: "failed"}.get(result, str(result).replace("_", " "))


def agent_name(report: InspectionReport) -> str:
    """The name and the version of the agent, as far as it gave them."""
    return " ".join(part for part in (report.agent.name or report.program, report.agent.version) if part)


def conversation(finding: InspectionFinding) -> list[str]:
    """The lines that reproduce the finding: `→` was sent by the inspector, `←` by the agent."""
    return [f"{ARROWS[line.sender]} {line.line}" for line in finding.lines]


def by_reason(findings: Iterable[InspectionFinding]) -> Mapping[str, list[InspectionFinding]]:
    """The findings by their sentence."""
    reasons: dict[str, list[InspectionFinding]] = {}
    for found in findings:
        reasons.setdefault(found.sentence, []).append(found)
    return reasons


def list_lines(checks: Sequence[Check], protocol: int) -> Iterator[ReportLine]:
    """The checks with their clauses, by group; levels are those of this version of the protocol."""
    for group in CheckGroup:
        of_group = [check for check in checks if check.group is group]
        if not of_group:
            continue
        yield ReportLine(f"{group} ({len(of_group)})", "bold")
        for check in of_group:
            yield ReportLine(f"{check.id} ({check.level_in(protocol)}): {check.title}", indent=2)
            yield ReportLine(check.clause, DIM, indent=4)
        yield ReportLine()
    yield ReportLine(format_count(len(checks), "check"))


def _failed_handshake(report: InspectionReport) -> InspectionFinding | None:
    """The finding that the agent did not even answer `initialize`."""
    return next((found for found in report.findings if found.sentence == NO_RESULT), None)


def _failures(findings: Sequence[InspectionFinding], level: Level) -> Iterator[ReportLine]:
    if not findings:
        return
    yield ReportLine(f"Failed {level}s: {len(findings)} ({MEANINGS[level]})", f"bold {COLOURS[level]}")
    for found in findings:
        yield ReportLine()
        yield ReportLine(f"{found.check}: {found.title}", "bold", indent=2)
        yield ReportLine(found.sentence, COLOURS[level], indent=4)
        if found.observed and found.observed not in found.sentence:
            yield ReportLine(f"observed: {found.observed}", indent=4)
        if found.content not in (None, ContentFate.UNKNOWN):
            yield ReportLine(f"content: {found.content}", indent=4)
        yield ReportLine(f"clause: {found.clause}", DIM, indent=4)
        for line in conversation(found):
            yield ReportLine(line, indent=4, raw=True)
    yield ReportLine()


def _short_list(title: str, findings: Sequence[InspectionFinding], style: str) -> Iterator[ReportLine]:
    if findings:
        yield ReportLine(f"{title}: {len(findings)}", style)
        yield from (ReportLine(f"{each.check} ({each.level}): {each.sentence}", indent=2) for each in findings)
        yield ReportLine()


def _other_results(report: InspectionReport) -> Iterator[ReportLine]:
    """What was not judged and why, the fate of content, what passed, and what does not apply and why."""
    if report.count(Result.NOT_JUDGED):
        yield ReportLine(f"Not judged: {report.count(Result.NOT_JUDGED)}", "bold yellow")
        for reason, findings in by_reason(_with_result(report, Result.NOT_JUDGED)).items():
            yield ReportLine(reason, "yellow", indent=2)
            yield from _ids_by_level(findings, indent=4)
        yield ReportLine()
    fates = {
        fate: [found.check for found in report.findings if found.content is fate]
        for fate in ContentFate
        if fate is not ContentFate.UNKNOWN
    }
    if any(fates.values()):
        yield ReportLine("What became of content", "bold")
        yield from (ReportLine(f"{fate}: {', '.join(checks)}", indent=2) for fate, checks in fates.items() if checks)
        yield ReportLine()
    if report.count(Result.PASS):
        yield ReportLine(f"Passed: {report.count(Result.PASS)}", "bold green")
        yield from _ids_by_level(_with_result(report, Result.PASS), indent=2)
        yield ReportLine()
    if report.count(Result.NOT_APPLICABLE):
        yield ReportLine(f"Not applicable: {report.count(Result.NOT_APPLICABLE)}", "bold")
        for reason, findings in by_reason(_with_result(report, Result.NOT_APPLICABLE)).items():
            yield ReportLine(f"{reason}: {', '.join(found.check for found in findings)}", DIM, indent=2)
        yield ReportLine()


def _with_result(report: InspectionReport, result: Result) -> list[InspectionFinding]:
    return [found for found in report.findings if found.result is result]


def _ids_by_level(findings: Sequence[InspectionFinding], indent: int) -> Iterator[ReportLine]:
    for level in Level:
        if names := [found.check for found in findings if found.level is level]:
            yield ReportLine(f"{level}: {', '.join(names)}", indent=indent)


def _capabilities(declared: Sequence[DeclaredCapability]) -> Iterator[ReportLine]:
    """The flags by how they are read, then every remark that needs attention."""
    if not declared:
        return
    yield ReportLine("Declared capabilities", "bold")
    for word, is_supported in (("supported", True), ("unsupported", False)):
        if flags := [row.flag for row in declared if row.supported is is_supported]:
            yield ReportLine(f"{word}: {', '.join(flags)}", indent=2)
    for row in declared:
        if row.remark not in (None, OMITTED):
            received = json.dumps(row.received, ensure_ascii=False)
            yield ReportLine(f"{row.flag} = {received}: {row.remark}", "yellow", indent=2)
    yield ReportLine()
