"""Build a worker of a configuration and run it until a signal stops it."""

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from accord.assembly.links import open_links
from accord.assembly.loop import run_async
from accord.assembly.parts import build_engine, build_other_engines, session_rules
from accord.assembly.service import backends_down, make_authenticator, report_links
from accord.assembly.signing import make_signer
from accord.assembly.store import open_store_and_backends
from accord.config import LoadedConfig, QueueKind, UnreadPolicy
from accord.errors import UsageError
from accord.ports import SystemClock
from accord.run import Engine, Sessions
from accord.run.budgets import Budgets
from accord.servers.http.probes import serving_probes
from accord.servers.http.serve import ExitDeadline, listen_at
from accord.servers.observability import Log, Observers, Traces, Watchdog
from accord.servers.observability.metrics import Metrics
from accord.servers.queue.worker import Worker
from accord.servers.service import Service
from accord.version import package_version
from accord.wire.routes import METRICS_PATH, READY_PATH

LOG: Final = logging.getLogger("accord.worker")
NO_QUEUE: Final = (
    "There is no queue to take turns from; use --queue nats://HOST:4222 --store postgresql://…, or --queue "
    "postgresql://… alone"
)
SIGNAL_STATUS: Final = 128


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How many turns to run at once, and where to answer probes; no port means nowhere."""

    turns: int
    host: str = "127.0.0.1"
    port: int | None = None


def run_worker(loaded: LoadedConfig, agent: str | None, settings: WorkerSettings) -> None:
    """Run turns of the queue until a signal comes."""
    if loaded.config.queue.kind is QueueKind.NONE:
        raise UsageError(NO_QUEUE)
    engine = build_engine(loaded, agent=agent)
    others = build_other_engines(loaded, engine)
    listener = None if settings.port is None else listen_at(settings.host, settings.port)
    with ExitDeadline() as deadline:
        run_async(_work(loaded, engine, others, settings.turns, deadline, listener))


async def _work(  # noqa: PLR0913, PLR0917 - the parts that are handed in
    loaded: LoadedConfig,
    engine: Engine,
    others: Mapping[str, Engine],
    turns: int,
    deadline: ExitDeadline,
    listener: socket.socket | None,
) -> None:
    settings = loaded.config.server
    metrics = Metrics(version=package_version())
    observers = Observers(metrics, Log(), Traces())
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store_and_backends(loaded, engine))
        links = await stack.enter_async_context(open_links(loaded, store, name="accord worker"))
        if links.channel is not None:
            engine.dispatcher.slots.connect(links.channel)
            engine.dispatcher.refusals.connect(links.channel)
        unread_s = settings.unread_grace_s if settings.unread is UnreadPolicy.STOP else None
        # Without a limit of turns per user: a server checks that, and requests of other programs wait instead.
        rules = session_rules(loaded.config, stop_unread_after_s=unread_s, lease_s=settings.lease_s)
        sign = make_signer(loaded)
        budgets = Budgets(store, SystemClock(), lease_s=settings.lease_s)
        stack.push_async_callback(budgets.close)
        sessions = Sessions(
            engine,
            store,
            rules,
            others=others,
            on_turn_ended=observers.turn_ended,
            sign=sign,
            links=links,
            budgets=budgets,
        )
        metrics.count_running(lambda: sessions.running, turns)
        metrics.report_backends(lambda: backends_down(sessions))
        report_links(metrics, links, store)
        assert links.queue is not None  # noqa: S101 - checked by `run_worker`
        worker = Worker(sessions, links.queue, settings, turns=turns, waited=metrics.turn_waited)
        # What the probes report on; it serves no client.
        service = Service(sessions, settings, make_authenticator(settings, store), observers, package_version())
        _stop_on_signal(worker, service, deadline)
        print(f"Worker for {engine.agent.name}: at most {turns} turns at once (stop with Ctrl-C).", file=sys.stderr)
        if listener is not None:
            address = await stack.enter_async_context(serving_probes(service, metrics, settings, listener))
            print(f"Probes at {address}{READY_PATH} and {address}{METRICS_PATH}", file=sys.stderr)
        stack.enter_context(Watchdog(engine.agent, stall_s=settings.stall_s, lagged=metrics.loop_lagged).watching())
        await worker.run()
        await worker.drain(settings.drain_s)


def _stop_on_signal(worker: Worker, service: Service, deadline: ExitDeadline) -> None:
    """Have SIGINT and SIGTERM stop the worker: at first when its turns have ended, at the second one at once."""
    signals, settings = 0, service.settings

    def stop(number: int) -> None:
        nonlocal signals
        signals += 1
        seconds = settings.kill_s if signals > 1 else settings.drain_s + settings.kill_s
        deadline.set(seconds, SIGNAL_STATUS + number)
        if signals == 1:
            fields = {"running_turns": worker.running}
            LOG.info("Stopping when the running turns have ended", extra={"fields": fields})
        service.is_draining = True
        worker.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
