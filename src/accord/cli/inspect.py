"""`accord inspect`: check whether an ACP agent keeps the contract that it declares. Exit status 1 when it does not.

The flags are here; `accord.acp_tools.inspect` runs the checks and prints the report.
"""

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from accord.errors import UsageError


def inspect_command(  # noqa: PLR0913 - one flag each
    command: Annotated[list[str], typer.Argument(help="The agent's command, after --.")],
    *,
    json_file: Annotated[str | None, typer.Option("--json", help="Write the report to this file; - prints it.")] = None,
    junit: Annotated[str | None, typer.Option(help="Write JUnit XML to this file.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Run only this check; may be repeated.")] = None,
    protocol: Annotated[int, typer.Option(min=1, max=2, help="The version to offer; 2 is the draft.")] = 1,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for an answer.")] = 10.0,
    startup: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for a handshake or a session.")] = 30.0,
    cwd: Annotated[str | None, typer.Option(help="Where the agent works; an empty folder if not given.")] = None,
    env: Annotated[list[str] | None, typer.Option(help="NAME=VALUE for the agent; never shown.")] = None,
) -> None:
    """Start an ACP agent and report whether it keeps its contract: accord inspect -- some-agent --acp."""
    # Imported here: the checks and tables take a moment to load, which no other command should wait for.
    from accord.acp_tools.inspect import InspectSettings, select_checks  # noqa: PLC0415
    from accord.acp_tools.inspect.report import run_with_progress, write_report  # noqa: PLC0415

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
            raise UsageError("--env takes NAME=VALUE")
        given[name] = value
    return given


@contextmanager
def _session_folder(cwd: str | None) -> Generator[str]:
    """The folder that the agent's sessions work in: the one given, or an empty one that is deleted afterwards."""
    if cwd is not None:
        if not Path(cwd).is_dir():
            raise UsageError(f"--cwd {cwd} is no folder")
        yield str(Path(cwd).resolve())
        return
    with TemporaryDirectory(prefix="accord-inspect-", ignore_cleanup_errors=True) as empty:
        yield empty
