"""Build the HTTP service of a configuration (engine, store, authenticator, observers, routes) and run it."""

import json
import logging
import sys
from collections.abc import Callable, Mapping
from functools import partial
from ipaddress import ip_address
from typing import Final

from accord.assembly.links import open_links
from accord.assembly.loop import run_async
from accord.assembly.parts import build_engine, build_other_engines, session_rules
from accord.assembly.processes import ProcessSockets
from accord.assembly.reload import Reloader, make_model_calls
from accord.assembly.signing import make_own_signature_check, make_signer
from accord.assembly.store import open_store_and_backends
from accord.config import LoadedConfig, ServerConfig, UnreadPolicy
from accord.errors import UsageError
from accord.ports import Channel, Store, SystemClock
from accord.run import Engine, Links, Sessions
from accord.run.budgets import Budgets
from accord.run.call_log import CALL_RETENTION_DAYS, CallLog
from accord.run.model_calls import ModelCallsRef
from accord.servers.http.app import Application, RequireAuthentication
from accord.servers.http.authentication import TokenAuthenticator
from accord.servers.http.exchange import App
from accord.servers.http.information import information_routes
from accord.servers.http.model_calls import model_endpoints
from accord.servers.http.serve import ExitDeadline, serve
from accord.servers.observability import Log, Observers, Traces, Watchdog
from accord.servers.observability.metrics import STORED_CACHED_S, Metrics, StoreReading
from accord.servers.page.files import page_routes
from accord.servers.service import Authenticator, Service
from accord.version import package_version
from accord.wire.routes import ASSIST_PATH, CAPABILITIES_PATH, METRICS_PATH, PAGE_PATH

LOG: Final = logging.getLogger("accord.servers")
NOT_OPEN: Final = (
    "Without authentication, anyone who can reach {host} could use this service. Add a key with "
    "`accord keys add USER`, configure [server.oidc], or allow this with --insecure"
)
NO_KEYS: Final = (
    "Every request will be refused: this service requires keys, and there are none. Add one with "
    "`accord keys add USER`, or allow access without keys with `accord keys open`"
)
NEW_ID: Final = "$(uuidgen 2>/dev/null || cat /proc/sys/kernel/random/uuid)"
"""Makes a request id in a POSIX shell: macOS and BSD have the program, Linux at least the file."""


def run_service(  # noqa: PLR0913 - the parts that are handed in
    loaded: LoadedConfig,
    settings: ServerConfig,
    agent: str | None,
    *,
    insecure: bool,
    reread: Callable[[], LoadedConfig] | None = None,
    sockets: ProcessSockets | None = None,
) -> None:
    """Serve until a signal stops it. On SIGHUP, what `reread` returns replaces the configuration.

    `sockets` are given if this process is one of several that serve the same address.
    """
    engine = build_engine(loaded, agent=agent)
    others = build_other_engines(loaded, engine)
    with ExitDeadline() as deadline:
        run_async(_serve(loaded, settings, engine, others, deadline, sockets, insecure=insecure, reread=reread))


async def _serve(  # noqa: PLR0913, PLR0917 - the parts that are handed in
    loaded: LoadedConfig,
    settings: ServerConfig,
    engine: Engine,
    others: Mapping[str, Engine],
    deadline: ExitDeadline,
    sockets: ProcessSockets | None,
    *,
    insecure: bool,
    reread: Callable[[], LoadedConfig] | None,
) -> None:
    async with (
        open_store_and_backends(loaded, engine) as store,
        open_links(loaded, store, name="accord serve") as links,
    ):
        is_open = insecure or not (settings.oidc is not None or await store.requires_tokens())
        if is_open and not insecure and not is_loopback(settings.host):
            raise UsageError(NOT_OPEN.format(host=settings.host))
        if not is_open and settings.oidc is None and not await store.tokens():
            LOG.warning(NO_KEYS)
        if links.channel is not None:
            engine.dispatcher.slots.connect(links.channel)
            engine.dispatcher.refusals.connect(links.channel)
        authenticator = make_authenticator(settings, None if insecure else store, links.channel)
        service, metrics = make_service(loaded, settings, engine, store, authenticator, others, links=links)
        calls = ModelCallsRef(make_model_calls(loaded, engine.dispatcher, engine.clock))
        application = make_application(loaded, service, metrics, calls, loopback_only=is_open and not insecure)
        report = (
            partial(print_start, has_page=settings.page, retention_days=loaded.config.retention_days)
            if sockets is None
            else sockets.report_start
        )
        started = partial(report, engine.agent.name, is_open=is_open)
        watchdog = Watchdog(engine.agent, stall_s=settings.stall_s, lagged=metrics.loop_lagged)
        reloader = Reloader(loaded, reread, service, calls)
        with watchdog.watching():
            try:
                await serve(
                    application,
                    started=started,
                    deadline=deadline,
                    on_hangup=reloader.reload_soon,
                    listener=None if sockets is None else sockets.listener,
                )
            finally:
                await reloader.close()


def make_authenticator(settings: ServerConfig, tokens: Store | None, channel: Channel | None = None) -> Authenticator:
    """Make the authenticator for the tokens of this store and the configured issuer; it needs none without a store.

    The channel connects the rates of several processes.
    """
    clock = SystemClock()
    oidc = None
    if tokens is not None and settings.oidc is not None:
        from accord.servers.http.oidc import OidcVerifier  # noqa: PLC0415 - an extra

        oidc = OidcVerifier(settings.oidc, clock)
    return TokenAuthenticator(tokens, oidc, settings.rates, clock, recheck_s=settings.recheck_s, channel=channel)


def make_service(  # noqa: PLR0913, PLR0917 - the parts that are handed in
    loaded: LoadedConfig,
    settings: ServerConfig,
    engine: Engine,
    store: Store,
    authenticator: Authenticator,
    others: Mapping[str, Engine] | None = None,
    *,
    links: Links | None = None,
) -> tuple[Service, Metrics]:
    """Make what the transports share, with its observers. `others` are the engines of further agents by name."""
    metrics = Metrics(version=package_version())
    observers = Observers(metrics, Log(), Traces())
    turns = loaded.config.limits.concurrent_turns
    unread_s = settings.unread_grace_s if settings.unread is UnreadPolicy.STOP else None
    rules = session_rules(
        loaded.config,
        concurrent_turns=turns,
        stop_unread_after_s=unread_s,
        lease_s=settings.lease_s,
        turns_per_user=settings.turns_per_caller,
    )
    budgets = Budgets(store, SystemClock(), lease_s=settings.lease_s)
    sessions = Sessions(
        engine,
        store,
        rules,
        others=others,
        on_turn_ended=observers.turn_ended,
        sign=make_signer(loaded),
        links=links,
        budgets=budgets,
    )
    is_queued = links is not None and links.queue is not None  # then workers run the turns
    metrics.count_running(lambda: sessions.running, 0 if is_queued else turns)
    metrics.report_backends(lambda: backends_down(sessions))
    metrics.report_stored(StoreReading(store.stored, cached_s=STORED_CACHED_S))
    if links is not None:
        report_links(metrics, links, store)
    call_log = CallLog(sessions)
    service = Service(
        sessions,
        settings,
        authenticator,
        observers,
        package_version(),
        keys=store,
        budgets=budgets,
        call_log=call_log,
        verify_signature=make_own_signature_check(loaded),
    )
    return service, metrics


def report_links(metrics: Metrics, links: Links, store: Store) -> None:
    """Report the connection to other processes and the queue, if there are any."""
    if links.channel is not None:
        metrics.report_links(links.channel, links.counts, StoreReading(store.waiting))


def backends_down(sessions: Sessions) -> dict[str, bool]:
    """The backends of the current configuration, and whether the circuit of each is open."""
    dispatcher = sessions.engine.dispatcher
    return {name: dispatcher.circuits.down_since(name) is not None for name in dispatcher.backends}


def make_application(
    loaded: LoadedConfig, service: Service, metrics: Metrics, calls: ModelCallsRef, *, loopback_only: bool
) -> Application:
    """Make the ASGI application of the service."""
    service.models = calls
    routes = information_routes(service, metrics, calls)
    # The health and the contract of the service are public.
    endpoints: dict[str, App] = {
        **routes,
        CAPABILITIES_PATH: RequireAuthentication(service, routes[CAPABILITIES_PATH]),
        METRICS_PATH: RequireAuthentication(service, routes[METRICS_PATH], operator_only=True),
    }
    endpoints |= model_endpoints(service, calls)
    if service.settings.page:
        endpoints |= page_routes()
    # The command has opened the store already, with the backends.
    return Application(
        service, endpoints, retention_days=loaded.config.retention_days, loopback_only=loopback_only, opens_store=False
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach this host."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def print_start(agent: str, address: str, *, is_open: bool, has_page: bool, retention_days: int | None = None) -> None:
    """Print the addresses of the page and the service, and a command that sends a request, a new one each time.

    Only the command is written to standard output.
    """
    user = "me" if is_open else "USER"
    request = {
        "request_id": "NEW_ID",
        # A session belongs to one user: with tokens, the session of "me" may exist already and belong to another.
        "context": {"session_id": f"first-{user}", "user": {"id": user, "name": "Me"}},
        "payload": {"query": "Hello"},
    }
    token = "" if is_open else ' -H "authorization: Bearer $TOKEN"'
    hint = "" if is_open else " (replace USER by the user of the token in $TOKEN)"
    if has_page:
        needs = "" if is_open else " (it asks for a token)"
        print(f"Open {address}{PAGE_PATH} in a browser{needs}.", file=sys.stderr)
    print(f"Serving {agent} at {address} (documentation: {address}/docs; stop with Ctrl-C).", file=sys.stderr)
    both = f"conversations and receipts of model API calls for {retention_days} days"
    apart = f"conversations until they are deleted, receipts of model API calls for {CALL_RETENTION_DAYS} days"
    print(f"Keeping {apart if retention_days is None else both} (retention_days).", file=sys.stderr)
    print(f"Send a request{hint}:\n", file=sys.stderr)
    # In the shell, the id is between double quotes, outside of the single quotes around the body.
    body = json.dumps(request).replace("NEW_ID", f"'\"{NEW_ID}\"'")
    print(
        f"curl -N {address}{ASSIST_PATH} -H 'content-type: application/json' -H 'accept: text/event-stream'{token}"
        f" -d '{body}'",
        flush=True,
    )
