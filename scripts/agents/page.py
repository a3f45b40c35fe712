"""Write `docs/acp-agents.md` from the reports of the inspections. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from scripts.agents.packages import AgentPackage

from accord.wire.inspection import ContentFate, InspectionFinding, InspectionReport, Level, Result

TYPES: Final = {"image": "image", "audio": "audio", "resource": "embeddedContext"}
"""The content types that are optional, and their flags."""
COLUMNS: Final = "| agent | package | image | audio | embedded resource | musts passed | musts that fail |"
HEAD: Final = """\
# What real ACP agents do

Made on {date} by `make inspect-agents` with Accord {version}: it installs each agent and runs `accord inspect` on it
with the built-in fake model (`--mock-llm`), without any key or login. Do not edit. [inspect.md](inspect.md) explains
the checks; [packages.py](../scripts/agents/packages.py) has the settings that point each agent at the fake model. The
versions are the newest that could be installed from the package registries on that day.

The columns image, audio and embedded resource show what an agent declares in `promptCapabilities`, and what it then did
with such content in a prompt, as seen by its model:

| word | the content |
|---|---|
| accepted | reached the model |
| dropped | did not reach the model, and nothing says so: no error, no text in its place |
| placeholder | was replaced by a text, for example its name |
| rejected | was answered with an error, whose code follows |
| not judged | could not be tried; the reason is below |

Version 1 of the protocol leaves open what an agent does with content that it does not declare; the draft of version 2
requires an error with the code -32602. The first two agents are libraries, run by small programs in `scripts/agents/`.
They call no model, so "accepted" means only that there was no error.

Another run gives the same verdicts about content. Findings that depend on the timing of an agent can differ, such as
`update-late`, `mcp-tool` and what happens after a cancelled turn.
"""
CHANGING: Final = (
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "…"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]*Z?"), "…"),
    (re.compile(r"\b(?=\w*\d)(?=\w*[a-zA-Z])\w{20,}\b"), "…"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,}(?:-\w+)?\b"), "…"),
    (re.compile(r"\bpid \d+"), "pid …"),
    (re.compile(r" \(and \d+ more\)| \(during [^()]* and \d+ other checks?\)"), ""),
)
"""Ids, ports, processes, times and numbers of messages, which are different in each run."""
LONGEST: Final = 240
MAX_NAMES: Final = 5


def write_page(found: Sequence[tuple[AgentPackage, InspectionReport | str]], date: str, version: str) -> str:
    """The page: a table with a row for each agent, then what failed; text in place of a report is why there is none."""
    rows = [COLUMNS, "|---" * 7 + "|"]
    sections: list[str] = []
    for agent, report in found:
        if isinstance(report, str):
            rows.append(f"| {agent.name} | {agent.package} | – | – | – | – | not judged: {report} |")
        elif report.agent.protocol_version is None:
            found_out = stable(f"{report.findings[0].sentence} ({report.findings[0].observed})")
            rows.append(f"| {agent.name} | {agent.package} | – | – | – | – | not judged: {found_out} |")
        else:
            rows.append(_row(agent, report))
            sections.append("\n".join([f"## {agent.name}: {agent.package}", "", *_details(agent, report), ""]))
    return "\n".join([HEAD.format(date=date, version=version), *rows, "", *sections])


def _row(agent: AgentPackage, report: InspectionReport) -> str:
    declared = {row.flag.rpartition(".")[2] for row in report.capabilities if row.supported}
    findings = {finding.check: finding for finding in report.findings}
    fates = [
        f"declared, {_fate(findings, f'declared-{kind}')}"
        if flag in declared
        else f"not declared, {_fate(findings, f'undeclared-{kind}')}"
        for kind, flag in TYPES.items()
    ]
    musts = [f"`{each.check}`" for each in report.findings if each.result is Result.FAIL and each.level is Level.MUST]
    passed = f"{report.count(Result.PASS, Level.MUST)}"
    if agent.login is not None:
        musts.append(f"content and turns are not judged: needs a login at {agent.login}")
    return f"| {' | '.join([agent.name, agent.package, *fates, passed, ', '.join(musts) or 'none'])} |"


def _fate(findings: Mapping[str, InspectionFinding], check: str) -> str:
    finding = findings.get(check)
    if finding is None or finding.result in (Result.NOT_JUDGED, Result.NOT_APPLICABLE):
        return "not judged"
    code = re.search(r"-32\d{3}", finding.observed or "")
    if finding.content is ContentFate.REJECTED or code is not None:
        return f"rejected {code[0]}" if code else "rejected"
    if finding.content in (None, ContentFate.UNKNOWN):
        return "accepted" if finding.result is Result.PASS else "accepted or dropped"
    return finding.content


def _details(agent: AgentPackage, report: InspectionReport) -> Iterator[str]:
    for finding in report.findings:
        if finding.result is Result.FAIL:
            observed = finding.observed or ""
            addition = "" if observed in finding.sentence else f" ({observed})"
            yield f"- **{finding.level}** `{finding.check}`: {stable(finding.sentence + addition)}"
    skipped: dict[str, list[str]] = {}
    for finding in report.findings:
        if finding.result is Result.NOT_JUDGED:
            skipped.setdefault(stable(finding.sentence), []).append(f"`{finding.check}`")
    for reason, checks in sorted(skipped.items()):
        others = f" and {len(checks) - MAX_NAMES} others" if len(checks) > MAX_NAMES else ""
        yield f"- not judged: {', '.join(checks[:MAX_NAMES])}{others}: {reason}"
    if agent.login is not None:
        yield f"- needs a login at {agent.login}, so no session could be opened"


def stable(text: str) -> str:
    """The text on one line, not too long, without what is different in each run."""
    for pattern, replacement in CHANGING:
        text = pattern.sub(replacement, text)
    text = "".join(letter for letter in " ".join(text.split()) if letter.isprintable()).replace("|", "\\|")
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
