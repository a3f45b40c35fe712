"""Build the engine and the backends of a configuration. The only module that has every kind of backend."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from accord.agent import Agent
from accord.agents import demo
from accord.agents.demo.backends import demo_backends
from accord.assembly.agents import find_agent
from accord.backends.evidence import BackendEvidence, configured_evidence, gather
from accord.backends.model_options import APIS, model_backend
from accord.backends.options import BackendOptions
from accord.backends.prices import backend_prices
from accord.backends.scripted import EchoBackend, ScriptedBackend
from accord.config import BackendConfig, Config, LoadedConfig
from accord.core.prompt.rules import ContentLimits
from accord.core.sizes import SizeLimits
from accord.core.work.emulation.choose import EmulationSettings, preset_config
from accord.core.work.evidence import Evidence
from accord.core.work.groups import BackendGroup
from accord.core.work.plan import PlanConfig
from accord.errors import ConfigProblem, UsageError
from accord.images import CachedShrinker, PillowImages, has_pillow
from accord.ports import Backend, BackendDescription, DescribedBackend, SystemClock
from accord.run import Dispatcher, Engine, SessionRules, TimeLimits
from accord.run.circuit import CircuitChange, Circuits, CircuitSettings
from accord.wire.emulation import Disabled, EmulationConfig, EmulationStrategy

TURNED_OFF: Final = "Turned off in the configuration"

LOG: Final = logging.getLogger("accord.backends")


def build_engine(loaded: LoadedConfig, *, agent: Agent | str | None = None) -> Engine:
    """Build the engine of this configuration."""
    config = loaded.config
    found = agent if isinstance(agent, Agent) else find_agent(agent or config.default_agent, config)
    return Engine(
        found,
        build_dispatcher(loaded, found),
        limits=time_limits(config),
        size_limits=size_limits(config),
        content_limits=content_limits(config),
        images=CachedShrinker(PillowImages(config.limits.max_image_pixels)) if has_pillow() else None,
        concurrent_images=config.limits.concurrent_images,
    )


def build_dispatcher(loaded: LoadedConfig, agent: Agent, *, before: Dispatcher | None = None) -> Dispatcher:
    """Build the backends of this configuration and their dispatcher, which goes on with the links of the one before.

    Without any, the demo agent has backends of its own; for any other agent, the built-in echo answers.
    """
    config = loaded.config
    kind, built_in = ("demo", demo_backends) if agent is demo else ("echo", lambda: [EchoBackend()])
    backends = build_backends(loaded) or [
        ConfiguredBackend(BackendConfig(name=each.name, kind=kind), BackendEvidence(), each) for each in built_in()
    ]
    configured = {each.backend.name: each for each in backends}
    return Dispatcher(
        [each.backend for each in backends],
        config=plan_config(config),
        settings=emulation_settings(config),
        limits=time_limits(config),
        size_limits=size_limits(config),
        circuits=build_circuits(config),
        concurrent={each.name: each.concurrent for each in config.backends if each.concurrent is not None},
        slots=before and before.slots,
        refusals=before and before.refusals,
        describe=lambda name: configured[name].describe(),
        prices=backend_prices(config.backends),
    )


def time_limits(config: Config) -> TimeLimits:
    """Return the configured time limits of turns."""
    limits = config.limits
    return TimeLimits(first_packet_s=limits.first_packet_s, gap_s=limits.gap_s, turn_s=limits.turn_s)


def size_limits(config: Config) -> SizeLimits:
    """Return the configured limits of packets, answers and turns."""
    return SizeLimits(config.limits.max_packet_bytes, config.limits.max_answer_bytes, config.limits.max_turn_bytes)


def build_circuits(config: Config) -> Circuits:
    """Build the circuits of this configuration, which log when a backend goes down and when it is back."""
    circuit = config.circuit
    settings = CircuitSettings(circuit.failures, circuit.pause_s, circuit.max_pause_s)
    return Circuits(SystemClock(), settings, on_change=_log_circuit)


def _log_circuit(change: CircuitChange) -> None:
    if change.pause_s is None:
        LOG.warning("backends.%s: answers again", change.backend)
    else:
        LOG.warning("backends.%s: is down; skipped for %.1f s", change.backend, change.pause_s)


def build_other_engines(loaded: LoadedConfig, engine: Engine) -> dict[str, Engine]:
    """Build an engine for every configured agent: requests may name another agent than the served one.

    An agent is found by its name in the configuration, and by its own if no other agent is configured under that.
    """
    others: dict[str, Engine] = {}
    for name in loaded.config.agents:
        agent = find_agent(name, loaded.config)
        others[name] = engine if agent is engine.agent else engine.with_agent(agent)
    return {other.agent.name: other for other in others.values()} | others


def plan_config(config: Config) -> PlanConfig:
    """Return the settings of planning."""
    return PlanConfig(policy=config.policy, unknown=config.unknown, emulation=emulation_config(config))


def backend_groups(config: Config) -> Mapping[str, BackendGroup]:
    """Return the configured groups of backends by name."""
    return {name: BackendGroup(tuple(group.backends), group.weights) for name, group in config.groups.items()}


def emulation_config(config: Config) -> EmulationConfig:
    """Return the strategies: those of the preset, `Disabled` where it is off, and over both the configured ones."""
    preset = config.emulation.preset
    strategies: dict[str, EmulationStrategy] = {
        **preset_config(name for name, is_on in preset.items() if is_on).strategies,
        **{name: Disabled(reason=TURNED_OFF) for name, is_on in preset.items() if not is_on},
        **config.emulation.strategies,
    }
    return EmulationConfig(strategies=strategies)


def emulation_settings(config: Config) -> EmulationSettings:
    """Return the settings of the emulations that Accord performs."""
    emulation = config.emulation
    return EmulationSettings(max_retries=emulation.max_retries, describe_images_with=emulation.describe_images_with)


def content_limits(config: Config) -> ContentLimits:
    """Return the limits on the content of a prompt."""
    limits = config.limits
    return ContentLimits(
        max_block_bytes=limits.max_block_bytes,
        max_prompt_bytes=limits.max_prompt_bytes,
        max_blocks=limits.max_blocks,
    )


def session_rules(config: Config, **more: Any) -> SessionRules:
    """Return the configured rules of sessions, and those that a command adds."""
    limits = config.limits
    return SessionRules(history_bytes=limits.max_history_bytes, quota_bytes=limits.max_user_bytes, **more)


@dataclass(frozen=True, slots=True)
class ConfiguredBackend:
    """A backend, with its configuration and what is known of it before it is called."""

    config: BackendConfig
    known: BackendEvidence
    backend: Backend

    @property
    def evidence(self) -> Mapping[str, Evidence]:
        """What is known of each capability without calling the backend, with its source."""
        gathered = gather(self.known.declared, self.known.probed, self.known.facts)
        sources = self.backend.evidence if isinstance(self.backend, DescribedBackend) else gathered
        return {
            name: Evidence(level, source.source, source.date)
            if (source := sources.get(name))
            else Evidence(level, self.config.kind)
            for name, level in self.backend.manifest.items()
        }

    def describe(self) -> BackendDescription:
        """Its model, and what is known of each capability."""
        model = self.backend.model if isinstance(self.backend, DescribedBackend) else None
        return BackendDescription(model or self.config.model, self.evidence)


def build_backends(loaded: LoadedConfig, *, warns: bool = True) -> list[ConfiguredBackend]:
    """Build the backends of this configuration, and log the warnings about them unless `warns` is False."""
    backends = [_build_backend(config, loaded) for config in loaded.config.backends]
    for each in backends if warns else ():
        for warning in each.known.warnings:
            LOG.warning(warning)
    return backends


def find_backend(name: str, loaded: LoadedConfig) -> ConfiguredBackend:
    """Build the backend of this name; raise `UsageError` with the known names if there is none."""
    config = loaded.config.backend(name)
    if config is None:
        names = [backend.name for backend in loaded.config.backends]
        near = get_close_matches(name, names, n=1)
        advice = f"did you mean {near[0]}?" if near else f"there are: {', '.join(names)}"
        if not names:
            advice = "no backends are configured; `accord backends` shows how to add one"
        raise UsageError(f"There is no backend {name}; {advice}")
    return _build_backend(config, loaded)


def backend_mistakes(loaded: LoadedConfig) -> list[ConfigProblem]:
    """Return what is wrong with the backends of this configuration, without calling any of them."""
    mistakes: list[ConfigProblem] = []
    for config in loaded.config.backends:
        try:
            _build_backend(config, loaded)
        except UsageError as error:
            mistakes.append(ConfigProblem(loaded.file or "", "", error.message))
    return mistakes


def _build_backend(config: BackendConfig, loaded: LoadedConfig) -> ConfiguredBackend:
    build = KINDS.get(config.kind)
    if build is None:
        raise UsageError(f"backends.{config.name}: kind should be one of {', '.join(sorted(KINDS))}")
    known = configured_evidence(config, loaded)
    return ConfiguredBackend(config, known, build(config, known))


def _acp_backend(config: BackendConfig, known: BackendEvidence) -> Backend:
    from accord.backends.acp.options import acp_backend  # noqa: PLC0415 - with 40 models that only ACP needs

    return acp_backend(config, known.manifest)


def _scripted_backend(config: BackendConfig, known: BackendEvidence) -> Backend:
    if known.unknown_model:  # a script declares nothing itself
        raise UsageError(known.unknown_model)
    return ScriptedBackend(config.name, [BackendOptions(config).strings("script")], known.manifest)


KINDS: Final[Mapping[str, Callable[[BackendConfig, BackendEvidence], Backend]]] = {
    "acp": _acp_backend,
    "echo": lambda config, _: EchoBackend(config.name),
    "scripted": _scripted_backend,
    **dict.fromkeys(APIS, model_backend),
}
"""The function that builds a backend of each kind."""
