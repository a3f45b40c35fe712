"""`accord inspect`: test whether an ACP agent honours its contract; `acp_tools/inspect` has the checks."""

import os
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import typer
from pydantic import ValidationError

from accord.acp_tools.inspect import InspectSettings, select_checks
from accord.acp_tools.inspect.report import (
    InspectionVerdict,
    ReportOutput,
    VerdictRules,
    run_with_progress,
    write_list,
    write_report,
)
from accord.errors import UsageError
from accord.files import read_json
from accord.wire.inspection import CheckGroup, InspectionReport

ALL_GROUPS: Final = "all"
TRUE_VALUES: Final = ("true", "1")


def inspect_command(  # noqa: PLR0913 - one flag each
    command: Annotated[
        list[str] | None, typer.Argument(help="Command that starts the agent, after --.", show_default=False)
    ] = None,
    *,
    only: Annotated[list[str] | None, typer.Option(metavar="CHECK", help="Run only this check; repeatable.")] = None,
    list_checks: Annotated[bool, typer.Option("--list", help="List the checks; no agent is started.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer checks, in less than 15 seconds.")] = False,
    mock_llm: Annotated[
        bool,
        typer.Option("--mock-llm", help="Give the agent a built-in fake model on loopback, and judge what reaches it."),
    ] = False,
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GROUPS",
            help="Fail if a mandatory check of these groups is not judged: session,content or all; repeatable.",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Earlier report of --json; what failed there is known and does not count."),
    ] = None,
    allow_unjudged: Annotated[
        bool, typer.Option("--allow-unjudged", help="In CI, do not fail because mandatory checks were not judged.")
    ] = False,
    failures_only: Annotated[
        bool, typer.Option("--failures-only", help="Print only failures and the summary.")
    ] = False,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON; - prints it.")
    ] = None,
    junit: Annotated[str | None, typer.Option(metavar="FILE", help="Write the report as JUnit XML.")] = None,
    annotations: Annotated[
        bool | None,
        typer.Option("--annotations/--no-annotations", help="Annotate for GitHub; by default in GitHub Actions."),
    ] = None,
    protocol: Annotated[int, typer.Option(min=1, max=2, help="Protocol version to offer; 2 is the draft.")] = 1,
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="Agents that run at the same time.")] = 4,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for an answer.")] = 10.0,
    startup: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for the handshake or a session.")] = 30.0,
    authenticate: Annotated[
        str | None, typer.Option(metavar="METHOD", help="Authentication method to call after every handshake.")
    ] = None,
    cwd: Annotated[str | None, typer.Option(help="Folder of the agent; by default an empty one.")] = None,
    env: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Variable for the agent; never printed. Repeatable.")
    ] = None,
) -> None:
    """Test whether an ACP agent honours its contract.

    Exit status 1 if it breaks a rule that the protocol makes mandatory, 3 in CI (CI=true) if nothing failed but
    mandatory checks could not be judged.

    Examples:
      accord inspect -- some-agent --acp
      accord inspect --mock-llm --require session,content -- some-agent --acp
      accord inspect --baseline known.json --junit report.xml -- some-agent --acp
    """
    checks = select_checks(only or [], quick=quick)
    if list_checks:
        write_list(checks, protocol, json_file)
        return
    if not command:
        raise UsageError(
            "The command of the agent is missing; give it after --, as in: accord inspect -- some-agent --acp"
        )
    rules = VerdictRules(
        required=_parse_groups(require or [], {check.group for check in checks}),
        baseline=None if baseline is None else _read_baseline(baseline, protocol),
        unjudged_fails=_is_true("CI") and not allow_unjudged,
    )
    given = _parse_environ(env or [])
    with _session_folder(cwd) as session_cwd:
        settings = InspectSettings(
            command=command,
            variables=given,
            cwd=cwd,
            session_cwd=session_cwd,
            protocol=protocol,
            timeout_s=timeout,
            startup_s=startup,
            secrets=tuple(given.values()),
            mock_llm=mock_llm,
            quick=quick,
            jobs=jobs,
            authenticate=authenticate,
        )
        verdict = InspectionVerdict.of(run_with_progress(settings, checks), rules)
    output = ReportOutput(
        json_file=json_file,
        junit=junit,
        failures_only=failures_only,
        annotations=_is_true("GITHUB_ACTIONS") if annotations is None else annotations,
        step_summary=os.environ.get("GITHUB_STEP_SUMMARY"),
    )
    write_report(verdict, output)
    if verdict.status:
        raise typer.Exit(verdict.status)


def _is_true(variable: str) -> bool:
    return os.environ.get(variable, "").lower() in TRUE_VALUES


def _parse_groups(require: Sequence[str], chosen: Collection[CheckGroup]) -> Collection[CheckGroup]:
    """The groups of `--require`; each must have a check among those that will run."""
    groups: set[CheckGroup] = set()
    for name in (name.strip() for value in require for name in value.split(",")):
        if name == ALL_GROUPS:
            groups.update(chosen)
        elif name not in list(CheckGroup):
            known = ", ".join((*CheckGroup, ALL_GROUPS))
            raise UsageError(f'--require: unknown group "{name}"; use {known}')
        elif name not in chosen:
            raise UsageError(f"--require {name}: no check of this group would run; change --only or --quick")
        else:
            groups.add(CheckGroup(name))
    return groups


def _read_baseline(file: str, protocol: int) -> InspectionReport:
    value = read_json(file)
    try:
        report = InspectionReport.model_validate(value)
    except ValidationError:
        raise UsageError(
            f"--baseline {file}: is not a report of this version of Accord; write one with accord inspect --json {file}"
        ) from None
    if report.protocol != protocol:
        raise UsageError(
            f"--baseline {file}: was made with --protocol {report.protocol}, this is --protocol {protocol}; "
            "write one for this version with --json"
        )
    return report


def _parse_environ(env: Sequence[str]) -> Mapping[str, str]:
    given: dict[str, str] = {}
    for pair in env:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise UsageError(f"--env {name}: expected NAME=VALUE")
        given[name] = value
    return given


@contextmanager
def _session_folder(cwd: str | None) -> Generator[str]:
    """The folder of the agent's sessions: the given one, or an empty one that is deleted afterwards."""
    if cwd is not None:
        if not Path(cwd).is_dir():
            raise UsageError(f"--cwd {cwd}: is not a folder; give an existing one")
        yield str(Path(cwd).resolve())
        return
    with TemporaryDirectory(prefix="accord-inspect-", ignore_cleanup_errors=True) as empty:
        yield empty
