"""The output of an inspection: progress, tables, JSON and JUnit XML. Which checks run is decided in `run`."""

import asyncio
import json
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from accord.acp_tools.inspect.checks import Check
from accord.acp_tools.inspect.probe import InspectSettings
from accord.acp_tools.inspect.replies import ECHOES, NO_RESULT
from accord.acp_tools.inspect.run import NO_HANDSHAKE, OnProgress, inspect_agent
from accord.console import Cell, Console, styled
from accord.errors import UsageError
from accord.stdio import PeerStartError
from accord.terminal import format_count
from accord.wire.inspection import DeclaredCapability, InspectionFinding, InspectionReport, Level, Result

STDOUT: Final = "-"
SUITE: Final = "accord inspect"
COLOURS: Final[Mapping[Result, str]] = {Result.PASS: "green", Result.FAIL: "red", Result.SKIPPED: "bright_black"}
WARNING: Final = "yellow"
NARROW: Final = 120


def run_with_progress(settings: InspectSettings, checks: Sequence[Check]) -> InspectionReport:
    """Run the checks with progress on standard error; raises `UsageError` if the agent cannot be started."""
    console = Console(stderr=True)
    try:
        if not console.is_terminal:
            return asyncio.run(_inspect(settings, checks, _progress_lines(console, checks)))
        columns = (SpinnerColumn(), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
        with Progress(*columns, console=console, transient=True) as progress:
            bar = progress.add_task("starting the agent", total=len(checks))

            def show(check: Check, finding: InspectionFinding | None) -> None:
                progress.update(bar, description=check.title, advance=0 if finding is None else 1)

            return asyncio.run(_inspect(settings, checks, show))
    except PeerStartError as error:
        raise UsageError(str(error)) from None
    except asyncio.CancelledError:
        raise typer.Exit(128 + signal.SIGTERM) from None


def _progress_lines(console: Console, checks: Sequence[Check]) -> OnProgress:
    places = {check.id: place for place, check in enumerate(checks, 1)}

    def show(check: Check, finding: InspectionFinding | None) -> None:
        if finding is not None:
            text = f"[{places[check.id]}/{len(checks)}] {check.id}: {finding.result}"
            console.print(text, soft_wrap=True)

    return show


async def _inspect(settings: InspectSettings, checks: Sequence[Check], show: OnProgress) -> InspectionReport:
    """Inspect the agent; SIGTERM cancels it, which ends every process that it started."""
    running = asyncio.ensure_future(inspect_agent(settings, checks, on_progress=show))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    return await running


def write_report(report: InspectionReport, json_file: str | None, junit: str | None) -> None:
    """Write the requested files, and print the tables, or the JSON if `json_file` is `-`."""
    as_json = json.dumps(report.dump(), indent=2, ensure_ascii=False) + "\n"
    if json_file is not None and json_file != STDOUT:
        _write(json_file, as_json)
    if junit is not None:
        _write(junit, to_junit(report))
    if json_file == STDOUT:
        print(as_json, end="")
    else:
        _print_tables(report)


def _write(file: str, text: str) -> None:
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from None


def to_junit(report: InspectionReport) -> str:
    """The report as JUnit XML, in which exactly the failed musts are failures.

    JUnit has no warnings, so a failed should or may is a skipped case whose message says so.
    """
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
        name = f"{finding.check}: {finding.title}"
        case = ET.SubElement(suite, "testcase", classname=f"acp.{finding.level}", name=name)
        if finding.result is Result.FAIL and finding.level is Level.MUST:
            failure = ET.SubElement(case, "failure", type=str(finding.level), message=finding.sentence)
            failure.text = f"{finding.clause}\n{finding.observed or ''}".strip()
        elif finding.result is Result.FAIL:
            ET.SubElement(case, "skipped", message=f"fails a {finding.level}: {finding.sentence}")
        elif finding.result is Result.SKIPPED:
            ET.SubElement(case, "skipped", message=finding.sentence)
    ET.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suite, encoding="unicode") + "\n"


def _print_tables(report: InspectionReport) -> None:
    console = Console()
    agent = report.agent
    listed = [finding for finding in report.findings if not finding.sentence.startswith(NO_HANDSHAKE)]
    handshake = next((finding for finding in report.findings if finding.sentence == NO_RESULT), None)
    if handshake is None:
        _print_capabilities(console, report.capabilities)
    _print_findings(console, listed)
    if len(listed) < len(report.findings):
        others = format_count(len(report.findings) - len(listed), "other check")
        console.print(f"Skipped {others}: {NO_HANDSHAKE}", soft_wrap=True)
    if handshake is None:
        levels = ", ".join(
            f"{level} {report.count(Result.PASS, level)} passed {report.count(Result.FAIL, level)} failed"
            for level in Level
        )
        contract = "keeps its contract" if report.keeps_contract else "breaks its contract"
        summary = f"{levels}, {report.count(Result.SKIPPED)} skipped — {contract}"
    elif handshake.observed == ECHOES:
        summary = f"is not an ACP agent: {ECHOES}"
    else:
        summary = f"did not answer initialize, so nothing else can be checked: {handshake.observed}"
    name = " ".join(part for part in (agent.name or report.program, agent.version) if part)
    console.print(f"{name}: {summary}", soft_wrap=True)


def _print_capabilities(console: Console, declared: Sequence[DeclaredCapability]) -> None:
    rows: list[tuple[Cell, ...]] = []
    for row in declared:
        received = "" if row.remark == "omitted" else json.dumps(row.received)
        read = styled("supported", "green") if row.supported else styled("unsupported", "bright_black")
        needs_attention = row.remark is not None and row.remark != "omitted"
        remark = styled(row.remark or "", WARNING if needs_attention else "bright_black")
        rows.append((styled(row.flag), styled(received), read, remark))
    console.print_table(("flag", "received", "read as", "remark"), rows, title="Declared capabilities")


def _print_findings(console: Console, findings: Sequence[InspectionFinding]) -> None:
    is_narrow = console.width < NARROW
    rows: list[tuple[Cell, ...]] = []
    for finding in findings:
        is_warning = finding.result is Result.FAIL and finding.level is not Level.MUST
        result = styled(str(finding.result), WARNING if is_warning else COLOURS[finding.result])
        text = finding.sentence
        if finding.result is not Result.PASS and finding.observed and finding.observed not in text:
            text = f"{text} ({finding.observed})"
        clause = styled(finding.clause, "bright_black")
        cells = (styled(text).append("\n").append_text(clause),) if is_narrow else (styled(text), clause)
        rows.append((finding.check, str(finding.level), result, *cells))
    found_columns = ("what was found, and the clause",) if is_narrow else ("what was found", "clause")
    console.print_table(("check", "level", "result", *found_columns), rows, title="Checks")
