"""Map strategies, which are labels, to the emulations that perform them.

The opt-in preset has a strategy for everything that Accord can emulate. A strategy that no emulation
performs, such as `post_processing` for `logprobs`, becomes a warning and never an emulation.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, assert_never, cast

from accord.core.work.derive import TOOL_HISTORY
from accord.core.work.emulation.base import DEFAULT_RETRIES, Emulation
from accord.core.work.emulation.engine import EmulationEngine, not_emulated
from accord.core.work.emulation.image_input import ImageDescription, ImageInput
from accord.core.work.emulation.injection import ExtendedThinking, PromptInjection, SystemMessage
from accord.core.work.emulation.streaming import StopSequences, Streaming
from accord.core.work.emulation.structured_output import JsonMode, StructuredOutput
from accord.core.work.emulation.tool_use import ToolUse
from accord.wire.capability import Capability, canonical_name
from accord.wire.emulation import (
    AnyStrategy,
    Disabled,
    Effect,
    EmulationConfig,
    EmulationEntry,
    EmulationReport,
    EmulationStrategy,
    PostProcessing,
    SystemPromptInjection,
)

NOT_PERFORMED: Final = "Nothing performs this post-processing"


@dataclass(frozen=True, slots=True)
class EmulationSettings:
    """What an operator can configure, and what the caller of one turn adds.

    `describe_images_with` names the backend that may describe images; `describe_images.py` fills `image_descriptions`
    and `image_effects` from its answers. `marker` distinguishes what Accord writes into a prompt from what others
    wrote; the caller makes a random one for every order.
    """

    max_retries: int = DEFAULT_RETRIES
    marker: str = ""
    describe_images_with: str | None = None
    image_descriptions: Mapping[int, ImageDescription] = field(
        default_factory=lambda: MappingProxyType(dict[int, ImageDescription]())
    )
    image_effects: tuple[Effect, ...] = ()


DEFAULT_SETTINGS: Final = EmulationSettings()

EMULATIONS: Final[Mapping[str, Callable[[EmulationSettings], Emulation]]] = MappingProxyType(
    {
        Capability.STRUCTURED_OUTPUT_JSON_SCHEMA: lambda settings: StructuredOutput(settings.max_retries),
        Capability.JSON_MODE: lambda settings: JsonMode(settings.max_retries),
        Capability.TOOL_USE: lambda settings: ToolUse(settings.max_retries, settings.marker),
        Capability.STOP_SEQUENCES: lambda _: StopSequences(),
        Capability.SYSTEM_MESSAGE: lambda _: SystemMessage(),
        Capability.STREAMING: lambda _: Streaming(),
        Capability.IMAGE_INPUT: lambda settings: ImageInput(settings.image_descriptions, settings.image_effects),
        Capability.EXTENDED_THINKING: lambda _: ExtendedThinking(),
    }
)
"""The emulation of each capability, by canonical name."""

PRESET: Final[Mapping[str, EmulationStrategy]] = MappingProxyType(
    {name: label for name, build in EMULATIONS.items() if (label := build(DEFAULT_SETTINGS).strategy)}
)
"""The strategy of every emulation that Accord has; an operator opts in."""

INJECTED_PROMPT: Final = "injected_prompt"
"""Another emulation puts a prompt into the system message."""


@dataclass(frozen=True, slots=True)
class EmulatedWork:
    """What an order must contain, any one of it, so that an emulation has something to perform.

    Without it a requirement is refused for the reason `refusal`, because the answer would not be what was required.
    With no `refusal` it is about work that this order does not have, and nothing is lost.
    """

    contents: frozenset[str]
    injects_prompt: bool = False
    refusal: str = ""
    remedy: str = ""


EMULATED_WORK: Final[Mapping[str, EmulatedWork]] = MappingProxyType(
    {
        Capability.STRUCTURED_OUTPUT_JSON_SCHEMA: EmulatedWork(
            frozenset({Capability.STRUCTURED_OUTPUT_JSON_SCHEMA, Capability.JSON_MODE}),
            injects_prompt=True,
            refusal="cannot be emulated: no schema is given",
            remedy="give the schema that the answer must match: schema of turn.ask, response_schema of a work order",
        ),
        Capability.JSON_MODE: EmulatedWork(
            frozenset({Capability.JSON_MODE, Capability.STRUCTURED_OUTPUT_JSON_SCHEMA}),
            injects_prompt=True,
            refusal="cannot be emulated: JSON is not requested",
            remedy="request JSON: schema of turn.ask, json_mode or response_schema of a work order",
        ),
        Capability.TOOL_USE: EmulatedWork(frozenset({Capability.TOOL_USE, TOOL_HISTORY}), injects_prompt=True),
        Capability.STOP_SEQUENCES: EmulatedWork(frozenset({Capability.STOP_SEQUENCES})),
        Capability.STREAMING: EmulatedWork(frozenset({Capability.STREAMING})),
        Capability.IMAGE_INPUT: EmulatedWork(frozenset({Capability.IMAGE_INPUT})),
        Capability.SYSTEM_MESSAGE: EmulatedWork(frozenset({Capability.SYSTEM_MESSAGE, INJECTED_PROMPT})),
    }
)
"""What each emulation needs to work on, by canonical name (contents: `derive.work_contents`).

Whatever is not listed is a prompt, which can always be injected. An emulation that `injects_prompt` does so only for
its own contents: tools are described, an earlier call is only written out.
"""


def emulated_work(capability: str, strategy: EmulationStrategy) -> EmulatedWork | None:
    """What the emulation of this capability needs to work on; None if it can always be performed."""
    return None if isinstance(strategy, SystemPromptInjection) else EMULATED_WORK.get(canonical_name(capability))


def injects_prompt(capability: str, strategy: EmulationStrategy, contents: frozenset[str]) -> bool:
    """Whether emulating this capability puts a prompt into the system message of an order with these contents."""
    work = emulated_work(capability, strategy)
    return work is None or (work.injects_prompt and canonical_name(capability) in contents)


@dataclass(frozen=True, slots=True)
class ChosenEmulations:
    """The emulations to perform, and the report that lists them."""

    emulations: tuple[Emulation, ...]
    report: EmulationReport


def preset_config(names: Iterable[str] = tuple(PRESET)) -> EmulationConfig:
    """A configuration with the preset strategies of these capabilities, by default of all."""
    return EmulationConfig(strategies={str(name): PRESET[canonical_name(name)] for name in names})


def choose_emulations(
    config: EmulationConfig | Mapping[str, Any],
    capabilities: Iterable[str],
    settings: EmulationSettings | None = None,
) -> ChosenEmulations:
    """Choose an emulation for each of these capabilities, and warn about those that cannot be emulated."""
    engine, settings = EmulationEngine(config), settings or DEFAULT_SETTINGS
    chosen: dict[str, Emulation] = {}
    report = EmulationReport()
    for name in map(str, capabilities):
        strategy = cast("AnyStrategy", engine.resolve(name))
        if emulation := build_emulation(name, strategy, settings):
            chosen.setdefault(canonical_name(name), emulation)
            report.applied.append(EmulationEntry(capability=name, strategy=strategy))
        else:
            reason = strategy.reason if isinstance(strategy, Disabled) else NOT_PERFORMED
            report.warnings.append(not_emulated(name, reason))
    return ChosenEmulations(tuple(chosen.values()), report)


def build_emulation(capability: str, strategy: EmulationStrategy, settings: EmulationSettings) -> Emulation | None:
    """The emulation that performs this strategy for this capability, if there is one."""
    name = canonical_name(capability)
    strategy = cast("AnyStrategy", strategy)
    match strategy:
        case SystemPromptInjection():
            if name == Capability.EXTENDED_THINKING:
                return ExtendedThinking(strategy)
            return PromptInjection(name, strategy)
        case PostProcessing():
            return EMULATIONS[name](settings) if name in EMULATIONS else None
        case Disabled():
            return None
        case _:
            assert_never(strategy)
