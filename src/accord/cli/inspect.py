"""`accord inspect`: does this ACP agent keep the contract that it declares? Exit status 1 when it does not.

The flags; what is done with them is in `inspected.py`, which only this command has to load.
"""

from typing import Annotated

import typer


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
    # Tables, pipes and checks take their time to load, which no other command should wait for.
    from accord.acp_tools.inspect import Settings  # noqa: PLC0415
    from accord.acp_tools.inspect import report as inspected  # noqa: PLC0415

    checks, environ, secrets = inspected.chosen(only or []), *inspected.given_environ(env or [])
    with inspected.folder(cwd) as session_cwd:
        settings = Settings(
            command=command,
            environ=environ,
            cwd=cwd,
            session_cwd=session_cwd,
            protocol=protocol,
            timeout_s=timeout,
            startup_s=startup,
            secrets=secrets,
        )
        report = inspected.run(settings, checks)
    inspected.tell(report, json_file, junit)
    if not report.keeps_contract:
        raise typer.Exit(1)
