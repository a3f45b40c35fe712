"""Print a report and write its files. What they contain is decided in `text`, `junit` and `github`."""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from accord.acp_tools.inspect.checks import Check
from accord.acp_tools.inspect.report.github import annotation_lines, to_markdown
from accord.acp_tools.inspect.report.junit import to_junit
from accord.acp_tools.inspect.report.text import ReportLine, list_lines, report_lines
from accord.acp_tools.inspect.report.verdict import InspectionVerdict
from accord.console import Console, styled, styled_line
from accord.errors import UsageError
from accord.terminal import escape_controls, warn

STDOUT: Final = "-"
MIN_TEXT: Final = 20
"""The width at which text is folded even if the terminal is narrower."""


@dataclass(frozen=True, slots=True)
class ReportOutput:
    """Where a report goes: files, standard output (`-` for JSON), and the page of a workflow."""

    json_file: str | None = None
    junit: str | None = None
    failures_only: bool = False
    annotations: bool = False
    step_summary: str | None = None


def write_report(verdict: InspectionVerdict, output: ReportOutput) -> None:
    """Print the report, or its JSON if that goes to standard output, and write the requested files."""
    if output.json_file != STDOUT:
        print_lines(report_lines(verdict, failures_only=output.failures_only))
    if output.json_file is not None:
        _write_json(output.json_file, verdict.report.dump())
    if output.junit is not None:
        _write(output.junit, to_junit(verdict))
    if output.annotations:
        # GitHub reads both streams.
        stream = sys.stderr if output.json_file == STDOUT else sys.stdout
        for line in annotation_lines(verdict):
            print(line, file=stream)
        if output.step_summary:
            _append_summary(output.step_summary, to_markdown(verdict))


def write_list(checks: Sequence[Check], protocol: int, json_file: str | None) -> None:
    """Print the list of checks, or write it as JSON."""
    if json_file is None:
        print_lines(list_lines(checks, protocol))
        return
    rows = [
        {
            "check": check.id,
            "group": check.group,
            "level": check.level_in(protocol),
            "title": check.title,
            "clause": check.clause,
        }
        for check in checks
    ]
    _write_json(json_file, rows)


def print_lines(lines: Iterable[ReportLine]) -> None:
    """Print the lines, escaped, folded at the width of the terminal and indented."""
    console = Console()
    for line in lines:
        text, margin = styled_line(line.text, line.style), " " * line.indent
        width = max(console.width - line.indent, MIN_TEXT)
        for part in [text] if line.raw else text.wrap(console, width, overflow="fold"):
            part.rstrip()
            console.print(styled(margin).append_text(part), soft_wrap=True)


def _write_json(file: str, value: Any) -> None:
    # Escaped as in JSON, so that it keeps its meaning: UTF-8 cannot have the half of a surrogate pair.
    text = escape_controls(json.dumps(value, indent=2, ensure_ascii=False)) + "\n"
    if file == STDOUT:
        print(text, end="")
    else:
        _write(file, text)


def _write(file: str, text: str) -> None:
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from None


def _append_summary(file: str, text: str) -> None:
    """Append to the page of the workflow; the inspection is complete without it, so a failure is a warning."""
    try:
        with Path(file).open("a", encoding="utf-8") as page:
            page.write(text)
    except OSError as error:
        warn([f"GITHUB_STEP_SUMMARY {file} cannot be written: {error.strerror}"])
