"""`accord serve`: the flags. What is served is put together in `service.py`, which only this command has to load."""

from typing import Annotated

import typer

from accord.cli.loading import ConfigOption, StoreOption, TrustOption, load
from accord.cli.terminal import unfiltered_streams


def serve_command(  # noqa: PLR0913 - one flag each
    agent: Annotated[
        str | None, typer.Argument(help="module:name, file.py:name, or an agent of the configuration.")
    ] = None,
    *,
    host: Annotated[str | None, typer.Option(help="Where to listen.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="0 takes any free one.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Allow access without authentication.")] = False,
    reload: Annotated[
        bool, typer.Option("--reload", help="Restart when a Python file or the configuration changes; for development.")
    ] = False,
    log_json: Annotated[bool, typer.Option("--log-json", help="Write logs for a program.")] = False,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    config: ConfigOption = None,
    trust: TrustOption = False,
    store: StoreOption = None,
) -> None:
    """Serve an agent over HTTP. Without anything it is the demo agent, at http://127.0.0.1:8000."""
    # A server takes a second to load, which no other command should wait for.
    from accord.cli.service import run_service  # noqa: PLC0415
    from accord.servers.watch import set_up_logging  # noqa: PLC0415

    loaded = load(config, trusts=trust, store=store)
    given = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    settings = loaded.config.server.model_copy(update=given)
    if reload:
        from accord.cli.reload import run_reloading  # noqa: PLC0415 - needed by nobody else

        raise typer.Exit(run_reloading(loaded, settings, agent))
    set_up_logging(log_level, as_json=log_json)
    with unfiltered_streams():
        run_service(loaded, settings, agent, insecure=insecure)
