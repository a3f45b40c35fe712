"""Puts the concrete parts together as a configuration says. The only place that knows them all by name."""

import os
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from accord.agent import Agent, load_agent
from accord.agents import demo, relay
from accord.backends.evidence import from_facts, from_operator, gather, manifest_of
from accord.backends.facts import Unfound, find
from accord.backends.scripted import EchoBackend, ScriptedBackend
from accord.cli.acp_backend import acp_backend
from accord.cli.reading import read_message
from accord.config import (
    BackendConfig,
    Config,
    Loaded,
    StoreKind,
    content_limits,
    emulation_settings,
    plan_config,
)
from accord.engine import Dispatcher, Engine, TimeLimits
from accord.errors import UsageError
from accord.images import PillowImages, has_pillow
from accord.ports import Backend, Store
from accord.stores.memory import MemoryStore
from accord.stores.sqlite import SqliteStore
from accord.wire.manifest import CapabilityManifest

BUILT_IN: Final[Mapping[str, Agent]] = {"demo": demo, "relay": relay}


def _scripted(config: BackendConfig, manifest: CapabilityManifest) -> Backend:
    script: Any = config.options.get("script", [])
    steps: list[Any] = cast("list[Any]", script) if isinstance(script, list) else [None]
    if not all(isinstance(step, str) for step in steps):
        raise UsageError(f"backends.{config.name}: options.script should be a list of texts")
    return ScriptedBackend(config.name, [steps], manifest)


def _echo(config: BackendConfig, manifest: CapabilityManifest) -> Backend:
    del manifest
    return EchoBackend(config.name)


KINDS: Final[Mapping[str, Callable[[BackendConfig, CapabilityManifest], Backend]]] = {
    "acp": acp_backend,
    "echo": _echo,
    "scripted": _scripted,
}
"""Who speaks to a backend of which kind."""


def build_engine(loaded: Loaded, *, agent: str | None = None) -> Engine:
    """The engine that this configuration describes; without any backend in it, one that echoes."""
    config = loaded.config
    backends = [_backend(backend, loaded) for backend in config.backends] or [EchoBackend()]
    limits = _time_limits(config)
    dispatcher = Dispatcher(backends, config=plan_config(config), settings=emulation_settings(config), limits=limits)
    chosen = find_agent(agent or config.default_agent, config)
    images = PillowImages() if has_pillow() else None
    return Engine(chosen, dispatcher, limits=limits, content_limits=content_limits(config), images=images)


def find_agent(name: str, config: Config) -> Agent:
    """The agent of this name: the operator's, a built-in one, or the one at `module:name`."""
    if name in config.agents:
        return load_agent(config.agents[name])
    return BUILT_IN.get(name) or load_agent(name)


def open_store(loaded: Loaded, *, create: bool = True) -> Store:
    """The store that this configuration names, not opened yet; a file that is not there is made only if asked."""
    store = loaded.config.store
    if store.kind is StoreKind.MEMORY:
        return MemoryStore()
    if store.kind is StoreKind.SQLITE:
        return SqliteStore(loaded.path_of(store.path), create=create)
    address = os.environ.get(store.url_env)
    if not address:
        raise UsageError(f"The store is postgres: set {store.url_env} to its address")
    try:
        from accord.stores.postgres import PostgresStore  # noqa: PLC0415 - an extra, needed by nobody else
    except ImportError as error:
        raise UsageError("The store is postgres: install accord-agents[postgres]") from error
    return PostgresStore(address)


def _backend(config: BackendConfig, loaded: Loaded) -> Backend:
    kind = KINDS.get(config.kind)
    if kind is None:
        raise UsageError(f"backends.{config.name}: kind should be one of {', '.join(KINDS)}")
    return kind(config, _manifest(config, loaded))


def _manifest(config: BackendConfig, loaded: Loaded) -> CapabilityManifest:
    said = from_operator(config.overrides)
    if config.manifest_file is not None:
        written = read_message(str(loaded.path_of(config.manifest_file)), CapabilityManifest)
        return manifest_of(gather(said, from_operator(written, source=config.manifest_file)))
    if config.manifest == BackendConfig.DECLARED or config.model is None:
        return manifest_of(said)
    found = find(config.model)
    if isinstance(found, Unfound):
        raise UsageError(f'backends.{config.name}: {found.message}; or declare it: manifest = "declared"')
    return manifest_of(gather(said, from_facts(found)))


def _time_limits(config: Config) -> TimeLimits:
    limits = config.limits
    return TimeLimits(first_packet_s=limits.first_packet_s, gap_s=limits.gap_s, turn_s=limits.turn_s)
