"""`accord serve`: an agent over HTTP, server-sent events and WebSocket, until it is told to stop."""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine
from datetime import timedelta
from importlib.metadata import version
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import uuid4

import typer

from accord.cli.assemble import build_engine, build_gate, open_store
from accord.cli.config import ConfigOption
from accord.config import Loaded, ServerConfig, Unread, load_config, plan_config
from accord.engine import SessionRules, Sessions
from accord.errors import UsageError
from accord.ports import Store
from accord.servers.app import Application
from accord.servers.guarded import Guarded
from accord.servers.information import CAPABILITIES_PATH, METRICS_PATH, information_routes
from accord.servers.serve import serve
from accord.servers.service import Gate, Service
from accord.servers.watch import Log, Metrics, Traces, Watch, set_up_logging

NOT_OPEN: Final = (
    "Anybody who can reach {host} could use this service. Add a token with `accord tokens add USER`, configure "
    "[server.oidc], or say --insecure"
)
FOR_CALLERS: Final = (CAPABILITIES_PATH, METRICS_PATH)
"""What only callers who are let in are told; whether the service is well, and its contract, anybody may know."""


def serve_command(
    agent: Annotated[str | None, typer.Argument(help="module:name, or an agent of the configuration.")] = None,
    *,
    host: Annotated[str | None, typer.Option(help="Where to listen.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="0 takes any free one.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Serve strangers without asking who they are.")] = False,
    log_json: Annotated[bool, typer.Option("--log-json", help="Write logs for a program.")] = False,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    config: ConfigOption = None,
) -> None:
    """Serve an agent over HTTP. Without anything it is the demo agent, at http://127.0.0.1:8000."""
    loaded = load_config(config, environ=os.environ)
    given = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    settings = loaded.config.server.model_copy(update=given)
    sys.path.insert(0, str(Path.cwd()))  # where people keep their agents
    set_up_logging(log_level, as_json=log_json)
    _run()(_serve(loaded, settings, agent, insecure=insecure))


def _run() -> Callable[[Coroutine[Any, Any, None]], None]:
    """The quickest loop that this machine has."""
    try:
        import uvloop  # noqa: PLC0415 - not on every system
    except ImportError:
        return asyncio.run
    return uvloop.run


async def _serve(loaded: Loaded, settings: ServerConfig, agent: str | None, *, insecure: bool) -> None:
    store = open_store(loaded)
    await store.open()
    gate, is_open = await _gate(loaded, settings, store, insecure=insecure)
    application = build_application(loaded, settings, store, gate, agent=agent, loopback_only=is_open and not insecure)
    name = application.service.sessions.engine.agent.name
    await serve(application, started=lambda address: _announce(name, address, is_open=is_open))


async def _gate(loaded: Loaded, settings: ServerConfig, store: Store, *, insecure: bool) -> tuple[Gate, bool]:
    """Who is let in, and whether that is everybody, which only loopback or --insecure allows."""
    knows = settings.oidc is not None or await store.has_tokens()
    if not knows and not insecure and not _is_loopback(settings.host):
        await store.close()
        raise UsageError(NOT_OPEN.format(host=settings.host))
    is_open = insecure or not knows
    return build_gate(settings, None if is_open else store), is_open


def build_application(
    loaded: Loaded, settings: ServerConfig, store: Store, gate: Gate, *, agent: str | None, loopback_only: bool
) -> Application:
    """The service that the configuration describes, as an ASGI application."""
    config = loaded.config
    metrics = Metrics(version=version("accord-agents"))
    watch = Watch(metrics, Log(), Traces())
    rules = SessionRules(at_once=config.limits.concurrent_turns, goes_on_unread=settings.unread is Unread.CONTINUE)
    sessions = Sessions(build_engine(loaded, agent=agent), store, rules, ended=watch.turn_ended)
    service = Service(sessions, settings, gate, watch, version("accord-agents"))
    routes = information_routes(service, metrics, emulation=plan_config(config).emulation)
    doors = [(path, Guarded(service, app) if path in FOR_CALLERS else app) for path, app in routes.items()]
    retention = None if config.retention_days is None else timedelta(days=config.retention_days)
    return Application(service, doors, retention=retention, loopback_only=loopback_only)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _announce(agent: str, address: str, *, is_open: bool) -> None:
    asked = {
        "request_id": str(uuid4()),
        "context": {"session_id": "first", "user": {"id": "me", "name": "Me"}},
        "payload": {"query": "Hello"},
    }
    token = "" if is_open else " -H 'authorization: Bearer '$TOKEN"
    print(f"Accord serves {agent} at {address} (Ctrl-C stops it; {address}/docs tells more). Try:\n", file=sys.stderr)
    print(
        f"curl -N {address}/v1/assist -H 'content-type: application/json' -H 'accept: text/event-stream'{token}"
        f" -d '{json.dumps(asked)}'",
        flush=True,
    )
