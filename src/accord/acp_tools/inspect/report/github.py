"""The report for GitHub Actions: annotations (workflow commands) and a summary in Markdown. Pure."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from accord.acp_tools.inspect.report.text import agent_name, by_reason, conversation, count_words
from accord.acp_tools.inspect.report.verdict import EXIT_UNJUDGED, InspectionVerdict, Standing
from accord.terminal import escape_controls, escape_line
from accord.wire.inspection import InspectionFinding, Level, Result

MAX_ANNOTATIONS: Final = 10
"""GitHub shows ten errors and ten warnings of a step, and drops the others without a word."""
SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>()#+!|~&@$-])")


def annotation_lines(verdict: InspectionVerdict) -> Iterator[str]:
    """Workflow commands: an error for each failure that gives exit status 1, a warning for each failed should."""
    errors = [(found.check, _describe(found)) for found in verdict.with_standing(Standing.BREAKS)]
    for title, standing in (("required, but not judged", Standing.REQUIRED), ("no longer judged", Standing.LOST)):
        for reason, findings in by_reason(verdict.with_standing(standing)).items():
            errors.append((title, f"{reason}\n{_ids(findings)}"))
    warnings = [
        (found.check, _describe(found)) for found in verdict.with_standing(Standing.WARNING, level=Level.SHOULD)
    ]
    for reason, findings in by_reason(verdict.with_standing(Standing.UNJUDGED)).items():
        into = errors if verdict.status == EXIT_UNJUDGED else warnings
        into.append(("not judged", f"{reason}\n{_ids(findings)}"))
    yield from _commands("error", errors)
    yield from _commands("warning", warnings)


def _commands(command: str, annotations: Sequence[tuple[str, str]]) -> Iterator[str]:
    shown = annotations if len(annotations) <= MAX_ANNOTATIONS else annotations[: MAX_ANNOTATIONS - 1]
    for title, message in shown:
        yield f"::{command} title={_escape_property(f'accord inspect: {title}')}::{_escape_data(message)}"
    if rest := annotations[len(shown) :]:
        message = f"{len(rest)} more: {', '.join(title for title, _ in rest)}; the log has them all"
        yield f"::{command} title=accord inspect::{_escape_data(message)}"


def _describe(found: InspectionFinding) -> str:
    return "\n".join(filter(None, (found.sentence, found.observed, f"{found.level}: {found.clause}")))


def _escape_data(text: str) -> str:
    return escape_controls(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")


def to_markdown(verdict: InspectionVerdict) -> str:
    """The report for the summary page of a workflow: the verdict, the failures, and what was not judged."""
    report = verdict.report
    lines = [
        f"### accord inspect: {_plain(agent_name(report))}",
        "",
        f"**{_plain(verdict.sentence)}** ({count_words(verdict)})",
        "",
    ]
    for level in Level:
        failures = verdict.with_standing(Standing.BREAKS, Standing.WARNING, level=level)
        if failures:
            lines += [f"#### Failed {level}s", ""]
        for found in failures:
            lines.append(f"- **{_plain(found.check)}**: {_plain(found.sentence)} ({_plain(found.clause)})")
            if found.lines:
                lines += _block(conversation(found))
        lines.append("")
    for title, findings in (
        ("Required, but not judged", verdict.with_standing(Standing.REQUIRED)),
        ("Judged in the baseline, but not now", verdict.with_standing(Standing.LOST)),
        ("Known failures, in the baseline too", verdict.with_standing(Standing.KNOWN)),
        ("Not judged", [found for found in report.findings if found.result is Result.NOT_JUDGED]),
    ):
        if findings:
            lines += [f"#### {title}", ""]
            lines += [f"- {_plain(reason)}: {_ids(each)}" for reason, each in by_reason(findings).items()]
            lines.append("")
    if verdict.fixed:
        lines += [f"Failed in the baseline, but not now: {', '.join(verdict.fixed)}", ""]
    return "\n".join(lines) + "\n"


def _ids(findings: Sequence[InspectionFinding]) -> str:
    return ", ".join(found.check for found in findings)


def _plain(text: str) -> str:
    """The text of a peer as it is, on one line, without being read as Markdown or HTML."""
    return SPECIAL.sub(r"\\\1", escape_line(text))


def _block(lines: Sequence[str]) -> list[str]:
    """A code block in a list; its fence is longer than any run of backticks in it."""
    runs = (len(run) for line in lines for run in re.findall("`+", line))
    fence = "`" * max(3, 1 + max(runs, default=0))
    return ["", *(f"  {line}" for line in (f"{fence}text", *map(escape_line, lines), fence)), ""]
