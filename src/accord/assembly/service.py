"""Puts a served agent together: engine, store, authenticator, observers, addresses; and runs it."""

import json
import logging
import sys
from datetime import timedelta
from functools import partial
from ipaddress import ip_address
from typing import Final

from accord.assembly.loop import run_async
from accord.assembly.opening import open_store_and_backends
from accord.assembly.parts import build_engine, plan_config, session_rules
from accord.assembly.signing import signer
from accord.config import LoadedConfig, ServerConfig, UnreadPolicy
from accord.engine import Engine, Sessions
from accord.errors import UsageError
from accord.ports import Store, SystemClock
from accord.servers.http.app import Application, RequireAuthentication
from accord.servers.http.authentication import TokenAuthenticator
from accord.servers.http.information import information_routes
from accord.servers.http.serve import ExitDeadline, serve
from accord.servers.observability import Log, Metrics, Observers, Traces, Watchdog
from accord.servers.service import Authenticator, Service
from accord.version import package_version
from accord.wire.routes import ASSIST_PATH, CAPABILITIES_PATH, METRICS_PATH

LOG: Final = logging.getLogger("accord.servers")
NOT_OPEN: Final = (
    "Anybody who can reach {host} could use this service. Add a token with `accord tokens add USER`, configure "
    "[server.oidc], or allow access without authentication with --insecure"
)
NO_TOKENS: Final = (
    "Every request will be refused: this service requires tokens, and none is left. Add one with "
    "`accord tokens add USER`, or allow access without tokens with `accord tokens open`"
)
NEW_ID: Final = "$(uuidgen 2>/dev/null || cat /proc/sys/kernel/random/uuid)"
"""Makes a request id in a POSIX shell: macOS and BSD have the program, Linux has at least the file."""
FOR_CALLERS: Final = (CAPABILITIES_PATH, METRICS_PATH)
"""What only callers who are let in are told; whether the service is well, and its contract, anybody may know."""


def run_service(loaded: LoadedConfig, settings: ServerConfig, agent: str | None, *, insecure: bool) -> None:
    """Serve until a signal comes."""
    engine = build_engine(loaded, agent=agent)
    with ExitDeadline() as deadline:
        run_async(_serve(loaded, settings, engine, deadline, insecure=insecure))


async def _serve(
    loaded: LoadedConfig, settings: ServerConfig, engine: Engine, deadline: ExitDeadline, *, insecure: bool
) -> None:
    async with open_store_and_backends(loaded, engine) as store:
        is_open = insecure or not (settings.oidc is not None or await store.requires_tokens())
        if is_open and not insecure and not is_loopback(settings.host):
            raise UsageError(NOT_OPEN.format(host=settings.host))
        if not is_open and settings.oidc is None and not await store.tokens():
            LOG.warning(NO_TOKENS)
        authenticator = make_authenticator(settings, None if insecure else store)
        service, metrics = make_service(loaded, settings, engine, store, authenticator)
        application = make_application(loaded, service, metrics, loopback_only=is_open and not insecure)
        started = partial(announce, engine.agent.name, is_open=is_open)
        watchdog = Watchdog(engine.agent, stall_s=settings.stall_s, lagged=metrics.loop_lagged)
        with watchdog.watching():
            await serve(application, started=started, deadline=deadline)


def make_authenticator(settings: ServerConfig, tokens: Store | None) -> Authenticator:
    """Authentication by the tokens of this store and the configured issuer; none at all without a store."""
    clock = SystemClock()
    oidc = None
    if tokens is not None and settings.oidc is not None:
        from accord.servers.http.oidc import OidcVerifier  # noqa: PLC0415 - an extra

        oidc = OidcVerifier(settings.oidc, clock)
    return TokenAuthenticator(tokens, oidc, settings.rates, clock, recheck_s=settings.recheck_s)


def make_service(
    loaded: LoadedConfig, settings: ServerConfig, engine: Engine, store: Store, authenticator: Authenticator
) -> tuple[Service, Metrics]:
    """What the transports share, with the observers."""
    metrics = Metrics(version=package_version())
    watch = Observers(metrics, Log(), Traces())
    turns = loaded.config.limits.concurrent_turns
    unread_s = settings.unread_grace_s if settings.unread is UnreadPolicy.STOP else None
    rules = session_rules(loaded.config, concurrent_turns=turns, stop_unread_after_s=unread_s, lease_s=settings.lease_s)
    sessions = Sessions(engine, store, rules, on_turn_ended=watch.turn_ended, sign=signer(loaded))
    metrics.count_running(lambda: sessions.running)
    return Service(sessions, settings, authenticator, watch, package_version()), metrics


def make_application(loaded: LoadedConfig, service: Service, metrics: Metrics, *, loopback_only: bool) -> Application:
    """The service as an ASGI application, with everything that can be asked about it."""
    routes = information_routes(service, metrics, emulation=plan_config(loaded.config).emulation)
    endpoints = {
        path: RequireAuthentication(service, app) if path in FOR_CALLERS else app for path, app in routes.items()
    }
    days = loaded.config.retention_days
    retention = None if days is None else timedelta(days=days)
    # The command has opened the store already, with the backends.
    return Application(service, endpoints, retention=retention, loopback_only=loopback_only, opens_store=False)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it there."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def announce(agent: str, address: str, *, is_open: bool) -> None:
    """Print where the service is, and a command that sends a request; run again, it sends a new one."""
    user = "me" if is_open else "USER"
    asked = {
        "request_id": "NEW_ID",
        # A session belongs to one user: the line must not name one that was begun before there were tokens.
        "context": {"session_id": f"first-{user}", "user": {"id": user, "name": "Me"}},
        "payload": {"query": "Hello"},
    }
    token = "" if is_open else ' -H "authorization: Bearer $TOKEN"'
    known = "" if is_open else ", with a token in TOKEN and its user for USER"
    print(
        f"Accord serves {agent} at {address} (Ctrl-C stops it, {address}/docs tells more). Try{known}:\n",
        file=sys.stderr,
    )
    # The id stands between double quotes of the shell inside of the single quotes around the body.
    body = json.dumps(asked).replace("NEW_ID", f"'\"{NEW_ID}\"'")
    print(
        f"curl -N {address}{ASSIST_PATH} -H 'content-type: application/json' -H 'accept: text/event-stream'{token}"
        f" -d '{body}'",
        flush=True,
    )
