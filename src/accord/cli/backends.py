"""`accord backends`: the flags. Showing and asking backends takes parts that no other command should wait for.

Exit status 1 when one of them cannot be reached, or when a probe finds that a requirement is not met.
"""

from typing import Annotated, Final

import typer

from accord.cli.loading import ConfigOption, TrustOption, load
from accord.cli.reading import read_requirements

LOOK_S: Final = 10.0
ANSWER_S: Final = 60.0

backends_app = typer.Typer(help="Show backends, and find out what they can do.", rich_markup_mode=None)


@backends_app.callback(invoke_without_command=True)
def backends_command(
    context: typer.Context,
    *,
    timeout_s: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait for each.")] = LOOK_S,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result for a program.")] = False,
    config: ConfigOption = None,
    trust: TrustOption = False,
) -> None:
    """Show each backend: whether it can be reached, whose word its manifest is, and what nobody knows of it."""
    if context.invoked_subcommand is not None:
        return
    from accord.cli.backend_states import show_backends  # noqa: PLC0415

    if not show_backends(load(config, trusts=trust), timeout_s, as_json=as_json):
        raise typer.Exit(1)


@backends_app.command("probe")
def probe_command(  # noqa: PLR0913 - one flag each
    name: Annotated[str, typer.Argument(help="The backend, as the configuration calls it.")],
    *,
    write: Annotated[bool, typer.Option("--write", help="Keep what was found beside the configuration.")] = False,
    require: Annotated[
        str | None, typer.Option(help="A requirements file, or CAPABILITY=native,…: exit status 1 if one is not met.")
    ] = None,
    timeout_s: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait for each.")] = ANSWER_S,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result for a program.")] = False,
    config: ConfigOption = None,
    trust: TrustOption = False,
) -> None:
    """Ask a backend what it can do with a few small requests, and compare that with what is declared."""
    from accord.cli.probe import show_probe  # noqa: PLC0415

    needs = None if require is None else read_requirements(require)
    if not show_probe(name, load(config, trusts=trust), timeout_s, write=write, as_json=as_json, needs=needs):
        raise typer.Exit(1)
