"""`accord acp`: serve an agent to an editor over standard input and output."""

import getpass

from accord.assembly.loop import run_async
from accord.assembly.parts import build_engine, session_rules
from accord.assembly.signing import make_signer
from accord.assembly.store import open_store_and_backends
from accord.cli.configuration import load
from accord.cli.options import AgentArgument, ConfigOption, LogJsonOption, LogLevelOption, StoreOption, TrustOption
from accord.config import LoadedConfig
from accord.ports import SystemClock
from accord.run import Engine, Sessions
from accord.run.budgets import Budgets
from accord.servers.acp import ReplayLimits, serve_acp
from accord.servers.observability import Log, Observers, set_up_logging
from accord.terminal import unfiltered_streams
from accord.version import package_version


def acp_command(  # noqa: PLR0913 - one flag each
    agent: AgentArgument = None,
    *,
    log_json: LogJsonOption = False,
    log_level: LogLevelOption = "warning",
    config: ConfigOption = None,
    trust: TrustOption = False,
    store: StoreOption = None,
) -> None:
    """Serve an agent to an editor over ACP (stdio).

    ACP is the Agent Client Protocol; the editor starts this command.

    Example:
      accord acp my_agent.py
    """
    loaded = load(config, trusted=trust, store=store)
    set_up_logging(log_level, as_json=log_json)
    with unfiltered_streams():
        run_async(_serve(loaded, build_engine(loaded, agent=agent)))


async def _serve(loaded: LoadedConfig, engine: Engine) -> None:
    try:
        owner = getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container without user names
        owner = "local"
    async with open_store_and_backends(loaded, engine) as store:
        # Without its editor a turn has no reader, so it stops at once.
        rules = session_rules(
            loaded.config, concurrent_turns=loaded.config.limits.concurrent_turns, stop_unread_after_s=0
        )
        observers, budgets = Observers(Log()), Budgets(store, SystemClock())
        sessions = Sessions(
            engine, store, rules, on_turn_ended=observers.turn_ended, sign=make_signer(loaded), budgets=budgets
        )
        limits = ReplayLimits(loaded.config.limits.max_replay_turns, loaded.config.limits.max_replay_bytes)
        try:
            await serve_acp(sessions, owner=owner, version=package_version(), replay=limits)
        finally:
            await budgets.close()
