"""Build the engine, the store and the backends that a configuration names. The only place that knows them all."""

import logging
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, cast

from accord.agent import Agent
from accord.assembly.agents import find_agent
from accord.assembly.extras import install_command
from accord.backends.acp.options import acp_backend
from accord.backends.evidence import BackendEvidence, Evidence, configured_evidence, gather
from accord.backends.model_options import APIS
from accord.backends.scripted import EchoBackend, ScriptedBackend
from accord.config import BackendConfig, Config, LoadedConfig, StoreKind
from accord.config.trust import PRIVATE_FILE, make_state_folder, state_folder
from accord.core.prompt.rules import ContentLimits
from accord.core.sizes import SizeLimits
from accord.core.work.emulation.choose import EmulationSettings, preset_config
from accord.core.work.plan import PlanConfig
from accord.engine import Dispatcher, Engine, SessionRules, TimeLimits
from accord.errors import ConfigProblem, UsageError
from accord.images import PillowImages, has_pillow
from accord.ports import Backend, DescribedBackend, Store
from accord.stores.memory import MemoryStore
from accord.stores.sqlite import SqliteStore
from accord.terminal import escape_line
from accord.wire.emulation import Disabled, EmulationConfig, EmulationStrategy

# Turns a configuration into what `core` takes. Pure functions, no defaults of their own.

TURNED_OFF: Final = "Turned off in the configuration"


def plan_config(config: Config) -> PlanConfig:
    """The operator's choices for planning."""
    return PlanConfig(policy=config.policy, unknown=config.unknown, emulation=emulation_config(config))


def emulation_config(config: Config) -> EmulationConfig:
    """The strategies: the preset's where it is on, none where it is off, and over both what is spelled out."""
    chosen = config.emulation.preset
    strategies: dict[str, EmulationStrategy] = {
        **preset_config(name for name, on in chosen.items() if on).strategies,
        **{name: Disabled(reason=TURNED_OFF) for name, on in chosen.items() if not on},
        **config.emulation.strategies,
    }
    return EmulationConfig(strategies=strategies)


def emulation_settings(config: Config) -> EmulationSettings:
    """The settings of the emulations that are performed."""
    chosen = config.emulation
    return EmulationSettings(max_retries=chosen.max_retries, describe_images_with=chosen.describe_images_with)


def content_limits(config: Config) -> ContentLimits:
    """How much may come in."""
    limits = config.limits
    return ContentLimits(
        max_block_bytes=limits.max_block_bytes,
        max_prompt_bytes=limits.max_prompt_bytes,
        max_blocks=limits.max_blocks,
    )


# Where SQLite's file is, and that nobody else can read it: it holds what users and models said, and token hashes.

FILE_NAME: Final = "accord.db"
COMPANIONS: Final = ("", "-wal", "-shm")
"""What SQLite appends to the name of a file for its log and its index; they get the mode of the file itself."""


def store_path(loaded: LoadedConfig) -> Path:
    """Where SQLite's file is: as configured, else in the user's state folder."""
    written = loaded.config.store.path
    return state_folder(os.environ) / FILE_NAME if written is None else loaded.path_of(written)


def prepare_store_file(loaded: LoadedConfig, *, create: bool) -> Path:
    """The path of the store's file, which is made for its owner alone if it is not there and may be."""
    is_ours, path = loaded.config.store.path is None, store_path(loaded)
    if is_ours:
        _tell_of_older(loaded.path_of(FILE_NAME), path)
        if create:
            make_state_folder(os.environ)
    if path.exists():
        _close_to_others(path, is_ours=is_ours)
    elif create and path.parent.is_dir():
        try:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, PRIVATE_FILE))
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from error
    return path


def _tell_of_older(older: Path, path: Path) -> None:
    """Say where sessions are now, if an earlier version kept some beside the configuration or in this folder."""
    if older.is_file():
        told = f"accord: sessions are kept in {path} now, and {older} is not used; --store {older} uses it"
        print(escape_line(told), file=sys.stderr)


def _close_to_others(path: Path, *, is_ours: bool) -> None:
    if os.name != "posix" or not path.is_file() or not path.stat().st_mode & 0o077:
        return
    if not is_ours:  # whoever chose the place may have chosen the readers, too
        told = f"accord: {path} can be read by other users of this machine; `chmod 600 {path}` changes that"
        print(escape_line(told), file=sys.stderr)
        return
    for companion in COMPANIONS:
        file = path.with_name(path.name + companion)
        if file.exists():
            file.chmod(PRIVATE_FILE)


# Puts the concrete parts together as a configuration says. The only place that knows them all by name.

LOG: Final = logging.getLogger("accord.backends")


def _scripted(config: BackendConfig, known: BackendEvidence) -> Backend:
    if known.unknown_model:  # it has nothing but what is said of it
        raise UsageError(known.unknown_model)
    script: Any = config.options.get("script", [])
    steps: list[Any] = cast("list[Any]", script) if isinstance(script, list) else [None]
    if not all(isinstance(step, str) for step in steps):
        raise UsageError(f"backends.{config.name}: options.script should be a list of texts")
    return ScriptedBackend(config.name, [steps], known.manifest)


def _echo(config: BackendConfig, known: BackendEvidence) -> Backend:
    del known
    return EchoBackend(config.name)


def _acp(config: BackendConfig, known: BackendEvidence) -> Backend:
    return acp_backend(config, known.manifest)


def _model(config: BackendConfig, known: BackendEvidence) -> Backend:
    from accord.backends.model_options import model_backend  # noqa: PLC0415 - whoever has no model does not wait for it

    return model_backend(config, known)


KINDS: Final[Mapping[str, Callable[[BackendConfig, BackendEvidence], Backend]]] = {
    "acp": _acp,
    "echo": _echo,
    "scripted": _scripted,
    **dict.fromkeys(APIS, _model),
}
"""Who speaks to a backend of which kind."""


@dataclass(frozen=True, slots=True)
class ConfiguredBackend:
    """A backend, with what is known of it beforehand."""

    config: BackendConfig
    known: BackendEvidence
    backend: Backend

    @property
    def evidence(self) -> Mapping[str, Evidence]:
        """What is known of it without asking it, each with its source."""
        gathered = gather(self.known.declared, self.known.probed, self.known.facts)
        sources = self.backend.evidence if isinstance(self.backend, DescribedBackend) else gathered
        return {
            name: Evidence(level, said.source, said.date)
            if (said := sources.get(name))
            else Evidence(level, self.config.kind)
            for name, level in self.backend.manifest.items()
        }


def build_engine(loaded: LoadedConfig, *, agent: Agent | str | None = None) -> Engine:
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
        concurrent_images=config.limits.concurrent_images,
    )


def session_rules(config: Config, **more: Any) -> SessionRules:
    """The rules of remembered turns that this configuration has, and those that a command adds."""
    limits = config.limits
    return SessionRules(history_bytes=limits.max_history_bytes, quota_bytes=limits.max_user_bytes, **more)


def open_store(loaded: LoadedConfig, *, create: bool = True) -> Store:
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


def build_backends(loaded: LoadedConfig, *, warns: bool = True) -> list[ConfiguredBackend]:
    """The backends that this configuration describes; what should be heard about them is logged, if not told."""
    assembled = [_assembled(config, loaded) for config in loaded.config.backends]
    for each in assembled if warns else ():
        for warning in each.known.warnings:
            LOG.warning(warning)
    return assembled


def find_backend(name: str, loaded: LoadedConfig) -> ConfiguredBackend:
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


def backend_mistakes(loaded: LoadedConfig) -> list[ConfigProblem]:
    """What is wrong with the backends that this configuration describes, found without reaching any of them."""
    mistakes: list[ConfigProblem] = []
    for config in loaded.config.backends:
        try:
            _assembled(config, loaded)
        except UsageError as error:
            mistakes.append(ConfigProblem(loaded.file or "", "", error.message))
    return mistakes


def _assembled(config: BackendConfig, loaded: LoadedConfig) -> ConfiguredBackend:
    kind = KINDS.get(config.kind)
    if kind is None:
        raise UsageError(f"backends.{config.name}: kind should be one of {', '.join(sorted(KINDS))}")
    known = configured_evidence(config, loaded)
    return ConfiguredBackend(config, known, kind(config, known))


def _time_limits(config: Config) -> TimeLimits:
    limits = config.limits
    return TimeLimits(first_packet_s=limits.first_packet_s, gap_s=limits.gap_s, turn_s=limits.turn_s)
