"""`accord acp`: the flags, and the parts put together for an editor."""

from typing import Annotated

import typer

from accord.cli.options import ConfigOption, StoreOption, TrustOption, load
from accord.config import LoadedConfig
from accord.terminal import unfiltered_streams
from accord.version import package_version


def acp_command(  # noqa: PLR0913 - one flag each
    agent: Annotated[
        str | None, typer.Argument(help="module:name, file.py:name, or an agent of the configuration.")
    ] = None,
    *,
    log_json: Annotated[bool, typer.Option("--log-json", help="Write logs for a program.")] = False,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "warning",
    config: ConfigOption = None,
    trust: TrustOption = False,
    store: StoreOption = None,
) -> None:
    """Serve an agent to an editor: the Agent Client Protocol on standard input and output."""
    from accord.servers.observability import set_up_logging  # noqa: PLC0415 - as below

    loaded = load(config, trusts=trust, store=store)
    set_up_logging(log_level, as_json=log_json)
    with unfiltered_streams():
        _run(loaded, agent)


def _run(loaded: LoadedConfig, agent: str | None) -> None:
    # An engine takes a while to load, which no other command should wait for.
    from accord.assembly.loop import run_async  # noqa: PLC0415
    from accord.assembly.opening import open_store_and_backends  # noqa: PLC0415
    from accord.assembly.parts import build_engine, session_rules  # noqa: PLC0415
    from accord.assembly.signing import signer  # noqa: PLC0415
    from accord.engine import Sessions  # noqa: PLC0415
    from accord.servers.acp import serve_acp  # noqa: PLC0415
    from accord.servers.observability import Log, Observers  # noqa: PLC0415

    engine = build_engine(loaded, agent=agent)

    async def serve() -> None:
        async with open_store_and_backends(loaded, engine) as store:
            # Nobody reads a turn whose editor is gone, so it stops.
            rules = session_rules(
                loaded.config, concurrent_turns=loaded.config.limits.concurrent_turns, stop_unread_after_s=0
            )
            sessions = Sessions(engine, store, rules, on_turn_ended=Observers(Log()).turn_ended, sign=signer(loaded))
            await serve_acp(sessions, owner=_user(), version=package_version())

    run_async(serve())


def _user() -> str:
    """Whose sessions they are: the user's who started the process."""
    import getpass  # noqa: PLC0415

    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container without names
        return "local"
