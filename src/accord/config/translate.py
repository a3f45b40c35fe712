"""Turns a configuration into what `core` takes. Pure functions, no defaults of their own."""

from typing import Final

from accord.config.model import Config
from accord.core.emulate.choose import EmulationSettings, preset_config
from accord.core.plan import PlanConfig
from accord.core.validate.rules import Limits
from accord.wire.emulation import Disabled, EmulationConfig, EmulationStrategy

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


def content_limits(config: Config) -> Limits:
    """How much may come in."""
    limits = config.limits
    return Limits(
        max_block_bytes=limits.max_block_bytes,
        max_prompt_bytes=limits.max_prompt_bytes,
        max_blocks=limits.max_blocks,
    )
