"""`accord inspect`: test whether an ACP agent honours its contract; `acp_tools/inspect` has the checks."""

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from accord.acp_tools.inspect import InspectSettings, select_checks
from accord.acp_tools.inspect.report import run_with_progress, write_report
from accord.errors import UsageError


def inspect_command(  # noqa: PLR0913 - one flag each
    command: Annotated[list[str], typer.Argument(help="Command that starts the agent, after --.")],
    *,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON; - prints it.")
    ] = None,
    junit: Annotated[str | None, typer.Option(metavar="FILE", help="Write the report as JUnit XML.")] = None,
    only: Annotated[list[str] | None, typer.Option(metavar="CHECK", help="Run only this check; repeatable.")] = None,
    protocol: Annotated[int, typer.Option(min=1, max=2, help="Protocol version to offer; 2 is the draft.")] = 1,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for an answer.")] = 10.0,
    startup: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for the handshake or a session.")] = 30.0,
    cwd: Annotated[str | None, typer.Option(help="Folder of the agent; by default an empty one.")] = None,
    env: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Variable for the agent; never printed. Repeatable.")
    ] = None,
) -> None:
    """Test whether an ACP agent honours its contract.

    Exit status 1 if it breaks a rule that the protocol makes mandatory.

    Examples:
      accord inspect -- some-agent --acp
      accord inspect --only handshake --junit report.xml -- some-agent --acp
    """
    checks, given = select_checks(only or []), _parse_environ(env or [])
    with _session_folder(cwd) as session_cwd:
        settings = InspectSettings(
            command=command,
            environ={**os.environ, **given},
            cwd=cwd,
            session_cwd=session_cwd,
            protocol=protocol,
            timeout_s=timeout,
            startup_s=startup,
            secrets=tuple(given.values()),
        )
        report = run_with_progress(settings, checks)
    write_report(report, json_file, junit)
    if not report.keeps_contract:
        raise typer.Exit(1)


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
