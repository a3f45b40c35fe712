"""Puts the concrete parts together as a configuration says. The only place that knows them all by name."""

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, cast

from accord.agent import Agent
from accord.backends.evidence import Evidence, gather
from accord.backends.scripted import EchoBackend, ScriptedBackend
from accord.cli.acp_backend import acp_backend
from accord.cli.extras import install_command
from accord.cli.find_agent import find_agent
from accord.cli.known import Known, known_of
from accord.cli.model_apis import APIS
from accord.cli.store_file import prepare_store_file
from accord.config import (
    BackendConfig,
    Config,
    Loaded,
    StoreKind,
    content_limits,
    emulation_settings,
    plan_config,
)
from accord.core.sizes import SizeLimits
from accord.engine import Dispatcher, Engine, SessionRules, TimeLimits
from accord.errors import Mistake, UsageError
from accord.images import PillowImages, has_pillow
from accord.ports import Backend, KnownBackend, Store
from accord.stores.memory import MemoryStore
from accord.stores.sqlite import SqliteStore

LOG: Final = logging.getLogger("accord.backends")


def _scripted(config: BackendConfig, known: Known) -> Backend:
    if known.unfound:  # it has nothing but what is said of it
        raise UsageError(known.unfound)
    script: Any = config.options.get("script", [])
    steps: list[Any] = cast("list[Any]", script) if isinstance(script, list) else [None]
    if not all(isinstance(step, str) for step in steps):
        raise UsageError(f"backends.{config.name}: options.script should be a list of texts")
    return ScriptedBackend(config.name, [steps], known.manifest)


def _echo(config: BackendConfig, known: Known) -> Backend:
    del known
    return EchoBackend(config.name)


def _acp(config: BackendConfig, known: Known) -> Backend:
    return acp_backend(config, known.manifest)


def _model(config: BackendConfig, known: Known) -> Backend:
    from accord.cli.model_backend import model_backend  # noqa: PLC0415 - whoever has no model does not wait for it

    return model_backend(config, known)


KINDS: Final[Mapping[str, Callable[[BackendConfig, Known], Backend]]] = {
    "acp": _acp,
    "echo": _echo,
    "scripted": _scripted,
    **dict.fromkeys(APIS, _model),
}
"""Who speaks to a backend of which kind."""


@dataclass(frozen=True, slots=True)
class Assembled:
    """A backend, with what is known of it beforehand."""

    config: BackendConfig
    known: Known
    backend: Backend

    @property
    def evidence(self) -> Mapping[str, Evidence]:
        """What is known of it without asking it, each with its source."""
        gathered = gather(self.known.declared, self.known.seen, self.known.facts)
        sources = self.backend.evidence if isinstance(self.backend, KnownBackend) else gathered
        return {
            name: Evidence(level, said.source, said.date)
            if (said := sources.get(name))
            else Evidence(level, self.config.kind)
            for name, level in self.backend.manifest.items()
        }


def build_engine(loaded: Loaded, *, agent: Agent | str | None = None) -> Engine:
    """The engine that this configuration describes; without any backend in it, one that echoes."""
    config = loaded.config
    backends = [assembled.backend for assembled in build_backends(loaded)] or [EchoBackend()]
    images = PillowImages(config.limits.max_image_pixels) if has_pillow() else None
    limits = _time_limits(config)
    sizes = SizeLimits(config.limits.max_packet_bytes, config.limits.max_answer_bytes, config.limits.max_turn_bytes)
    dispatcher = Dispatcher(
        backends,
        config=plan_config(config),
        settings=emulation_settings(config),
        limits=limits,
        size_limits=sizes,
    )
    chosen = agent if isinstance(agent, Agent) else find_agent(agent or config.default_agent, config)
    return Engine(
        chosen,
        dispatcher,
        limits=limits,
        size_limits=sizes,
        content_limits=content_limits(config),
        images=images,
        images_at_once=config.limits.concurrent_images,
    )


def session_rules(config: Config, **more: Any) -> SessionRules:
    """The rules of remembered turns that this configuration has, and those that a command adds."""
    limits = config.limits
    return SessionRules(history_bytes=limits.max_history_bytes, quota_bytes=limits.max_user_bytes, **more)


def open_store(loaded: Loaded, *, create: bool = True) -> Store:
    """The store that this configuration names, not opened yet; a file that is not there is made only if asked."""
    store = loaded.config.store
    if store.kind is StoreKind.MEMORY:
        return MemoryStore()
    if store.kind is StoreKind.SQLITE:
        return SqliteStore(prepare_store_file(loaded, create=create), create=create)
    address = os.environ.get(store.url_env)
    if not address:
        raise UsageError(f"The store is postgres: set {store.url_env} to its address")
    try:
        from accord.stores.postgres import PostgresStore  # noqa: PLC0415 - an extra, needed by nobody else
    except ImportError as error:
        raise UsageError(f"The store is postgres, which needs an extra: {install_command('postgres')}") from error
    return PostgresStore(address)


def build_backends(loaded: Loaded, *, warns: bool = True) -> list[Assembled]:
    """The backends that this configuration describes; what should be heard about them is logged, if not told."""
    assembled = [_assembled(config, loaded) for config in loaded.config.backends]
    for each in assembled if warns else ():
        for warning in each.known.warnings:
            LOG.warning(warning)
    return assembled


def named_backend(name: str, loaded: Loaded) -> Assembled:
    """The backend of this name; raises `UsageError` that says which ones there are."""
    config = loaded.config.backend(name)
    if config is None:
        names = [backend.name for backend in loaded.config.backends]
        near = get_close_matches(name, names, n=1)
        known = f"did you mean {near[0]}?" if near else f"there are: {', '.join(names)}"
        if not names:
            known = "no backends are configured; `accord backends` shows how to add one"
        raise UsageError(f"There is no backend {name}; {known}")
    return _assembled(config, loaded)


def backend_mistakes(loaded: Loaded) -> list[Mistake]:
    """What is wrong with the backends that this configuration describes, found without reaching any of them."""
    mistakes: list[Mistake] = []
    for config in loaded.config.backends:
        try:
            _assembled(config, loaded)
        except UsageError as error:
            mistakes.append(Mistake(loaded.file or "", "", error.message))
    return mistakes


def _assembled(config: BackendConfig, loaded: Loaded) -> Assembled:
    kind = KINDS.get(config.kind)
    if kind is None:
        raise UsageError(f"backends.{config.name}: kind should be one of {', '.join(sorted(KINDS))}")
    known = known_of(config, loaded)
    return Assembled(config, known, kind(config, known))


def _time_limits(config: Config) -> TimeLimits:
    limits = config.limits
    return TimeLimits(first_packet_s=limits.first_packet_s, gap_s=limits.gap_s, turn_s=limits.turn_s)
