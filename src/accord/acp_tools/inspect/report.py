"""The report of an inspection: progress, tables, JSON and JUnit XML."""

import asyncio
import json
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from accord.acp_tools.inspect import InspectSettings, inspect_agent
from accord.acp_tools.inspect.probe import Check
from accord.acp_tools.inspect.replies import ECHOES, NO_RESULT
from accord.acp_tools.inspect.run import NO_HANDSHAKE, OnProgress
from accord.errors import UsageError
from accord.stdio import PeerStartError
from accord.terminal import Cell, Console, format_count, styled
from accord.wire.inspection import DeclaredCapability, InspectionFinding, InspectionReport, Level, Result

# A report as JUnit XML, for build pipelines; it fails a build exactly when the exit status does.
#
# What an agent should or may do and does not is a skipped case that says so: pipelines know no warnings.

SUITE: Final = "accord inspect"


def as_junit(report: InspectionReport) -> str:
    """The report as XML text."""
    failures = report.count(Result.FAIL, Level.MUST)
    not_judged = report.count(Result.SKIPPED) + report.count(Result.FAIL) - failures
    suite = ET.Element(
        "testsuite",
        name=f"{SUITE} {report.agent.name or report.program}",
        tests=str(len(report.findings)),
        failures=str(failures),
        errors="0",
        skipped=str(not_judged),
    )
    for finding in report.findings:
        _add_case(suite, finding)
    ET.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suite, encoding="unicode") + "\n"


def _add_case(suite: ET.Element, finding: InspectionFinding) -> None:
    case = ET.SubElement(suite, "testcase", classname=f"acp.{finding.level}", name=f"{finding.check}: {finding.title}")
    if finding.result is Result.FAIL and finding.level is Level.MUST:
        failure = ET.SubElement(case, "failure", type=str(finding.level), message=finding.sentence)
        failure.text = f"{finding.clause}\n{finding.observed or ''}".strip()
    elif finding.result is Result.FAIL:
        ET.SubElement(case, "skipped", message=f"fails a {finding.level}: {finding.sentence}")
    elif finding.result is Result.SKIPPED:
        ET.SubElement(case, "skipped", message=finding.sentence)


# Behind `accord inspect`: runs the checks with progress on standard error, and shows or writes what they found.

STDOUT: Final = "-"
COLOURS: Final[Mapping[Result, str]] = {Result.PASS: "green", Result.FAIL: "red", Result.SKIPPED: "bright_black"}
MILD: Final = "yellow"
NARROW: Final = 120


def run_with_progress(settings: InspectSettings, checks: Sequence[Check]) -> InspectionReport:
    """Run the checks with progress on standard error; raises `UsageError` if the agent cannot be started."""
    console = Console(stderr=True)
    try:
        return _run_drawn(settings, checks, console) if console.is_terminal else _run_plain(settings, checks, console)
    except PeerStartError as error:
        raise UsageError(str(error)) from None
    except asyncio.CancelledError:
        raise typer.Exit(128 + signal.SIGTERM) from None


def _run_drawn(settings: InspectSettings, checks: Sequence[Check], console: Console) -> InspectionReport:
    columns = (SpinnerColumn(), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("starting the agent", total=len(checks))

        def show(check: Check, finding: InspectionFinding | None) -> None:
            progress.update(bar, description=check.title, advance=0 if finding is None else 1)

        return asyncio.run(_inspect(settings, checks, show))


def _run_plain(settings: InspectSettings, checks: Sequence[Check], console: Console) -> InspectionReport:
    places = {check.id: place for place, check in enumerate(checks, 1)}

    def show(check: Check, finding: InspectionFinding | None) -> None:
        if finding is not None:
            told = f"[{places[check.id]}/{len(checks)}] {check.id}: {finding.result}"
            console.print(told, soft_wrap=True)

    return asyncio.run(_inspect(settings, checks, show))


async def _inspect(settings: InspectSettings, checks: Sequence[Check], show: OnProgress) -> InspectionReport:
    """The inspection; who ends it with a signal gets it ended with everything that it started."""
    running = asyncio.ensure_future(inspect_agent(settings, checks, on_progress=show))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    return await running


def write_report(report: InspectionReport, json_file: str | None, junit: str | None) -> None:
    """Write the requested files, and print the tables, or the JSON if `json_file` is `-`."""
    written = json.dumps(report.dump(), indent=2, ensure_ascii=False) + "\n"
    if json_file is not None and json_file != STDOUT:
        _write(json_file, written)
    if junit is not None:
        _write(junit, as_junit(report))
    if json_file == STDOUT:
        print(written, end="")
    else:
        _print_tables(report)


def _write(file: str, text: str) -> None:
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from None


def _print_tables(report: InspectionReport) -> None:
    console = Console()
    agent = report.agent
    shown = [found for found in report.findings if not found.sentence.startswith(NO_HANDSHAKE)]
    stranger = next((found for found in report.findings if found.sentence == NO_RESULT), None)
    if stranger is None:
        _print_capabilities(console, report.capabilities)
    _print_findings(console, shown)
    if len(shown) < len(report.findings):
        skipped = format_count(len(report.findings) - len(shown), "other check")
        told = f"Skipped {skipped}: {NO_HANDSHAKE}"
        console.print(told, soft_wrap=True)
    name = " ".join(part for part in (agent.name or report.program, agent.version) if part)
    told = _summary(report) if stranger is None else _stranger(stranger)
    console.print(f"{name}: {told}", soft_wrap=True)


def _print_capabilities(console: Console, declared: Sequence[DeclaredCapability]) -> None:
    rows: list[tuple[Cell, ...]] = []
    for row in declared:
        received = "" if row.remark == "omitted" else json.dumps(row.received)
        read = styled("supported", "green") if row.supported else styled("unsupported", "bright_black")
        odd = row.remark is not None and row.remark != "omitted"
        remark = styled(row.remark or "", MILD if odd else "bright_black")
        rows.append((styled(row.flag), styled(received), read, remark))
    console.print_table(("flag", "received", "read as", "remark"), rows, title="Declared capabilities")


def _print_findings(console: Console, findings: Sequence[InspectionFinding]) -> None:
    is_narrow = console.width < NARROW
    rows: list[tuple[Cell, ...]] = []
    for found in findings:
        is_mild = found.result is Result.FAIL and found.level is not Level.MUST
        result = styled(str(found.result), MILD if is_mild else COLOURS[found.result])
        text, clause = styled(_found(found)), styled(found.clause, "bright_black")
        cells = (text.append("\n").append_text(clause),) if is_narrow else (text, clause)
        rows.append((found.check, str(found.level), result, *cells))
    found_columns = ("what was found, and the clause",) if is_narrow else ("what was found", "clause")
    console.print_table(("check", "level", "result", *found_columns), rows, title="Checks")


def _found(finding: InspectionFinding) -> str:
    if finding.result is Result.PASS or finding.observed is None or finding.observed in finding.sentence:
        return finding.sentence
    return f"{finding.sentence} ({finding.observed})"


def _stranger(handshake: InspectionFinding) -> str:
    """A program that is no agent has no contract to break."""
    if handshake.observed == ECHOES:
        return f"is not an ACP agent: {ECHOES}"
    return f"gave no handshake, so that nothing else can be told: {handshake.observed}"


def _summary(report: InspectionReport) -> str:
    levels = ", ".join(
        f"{level} {report.count(Result.PASS, level)} passed {report.count(Result.FAIL, level)} failed"
        for level in Level
    )
    kept = "keeps its contract" if report.keeps_contract else "breaks its contract"
    return f"{levels}, {report.count(Result.SKIPPED)} skipped — {kept}"
