"""`accord worker`: run turns that servers and other programs put into a queue."""

from typing import Annotated

import typer

from accord.assembly.worker import WorkerSettings, run_worker
from accord.cli.configuration import load
from accord.cli.options import (
    AgentArgument,
    ConfigOption,
    LogJsonOption,
    LogLevelOption,
    QueueOption,
    StoreOption,
    TrustOption,
)
from accord.servers.observability import set_up_logging
from accord.terminal import unfiltered_streams


def worker_command(  # noqa: PLR0913 - one flag each
    agent: AgentArgument = None,
    *,
    queue: QueueOption = None,
    store: StoreOption = None,
    turns: Annotated[
        int | None, typer.Option(min=1, help="How many turns to run at once; by default queue.turns, 100.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to answer probes at.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Answer probes and metrics at this port; 0 picks one, by default none."),
    ] = None,
    log_json: LogJsonOption = False,
    log_level: LogLevelOption = "info",
    config: ConfigOption = None,
    trust: TrustOption = False,
) -> None:
    """Run turns of agents that a queue hands out.

    Start any number of workers, and servers with the same --queue and --store.

    Examples:
      accord worker my_agent.py --queue nats://db --store postgresql://db/accord
      accord worker my_agent:agent --queue postgresql://db/accord --port 9100
    """
    loaded = load(config, trusted=trust, store=store, queue=queue)
    set_up_logging(log_level, as_json=log_json)
    with unfiltered_streams():
        run_worker(loaded, agent, WorkerSettings(turns or loaded.config.queue.turns, host, port))
