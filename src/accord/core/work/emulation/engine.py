"""ABP's emulation engine: the strategy for a capability, and the report on it.

As ABP specifies, it labels and injects prompts, and nothing more. Accord's emulations, which also change answers, are
found by the same strategies in `choose.py`.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Self, assert_never, cast

from accord.core.work.emulation.base import messages_with_prompt
from accord.wire.capability import ALIASES, Capability, capability_name, capability_names, pascal_case
from accord.wire.conversation import Conversation
from accord.wire.emulation import (
    AnyStrategy,
    Disabled,
    EmulationConfig,
    EmulationEntry,
    EmulationReport,
    EmulationStrategy,
    PostProcessing,
    SystemPromptInjection,
)
from accord.wire.message import as_model

DEFAULTS: Final[Mapping[str, EmulationStrategy]] = MappingProxyType(
    {
        Capability.EXTENDED_THINKING: SystemPromptInjection(prompt="Think step by step before answering."),
        Capability.STRUCTURED_OUTPUT_JSON_SCHEMA: PostProcessing(detail="Parse and validate JSON from text response"),
        Capability.CODE_EXECUTION: Disabled(reason="Cannot safely emulate sandboxed code execution"),
    }
)
"""The table of the specification; every other capability is disabled."""

CONFIG_EXAMPLE: Final = """{"strategies": {"extended_thinking": {"type": "disabled", "reason": "too slow"}}}"""
CONVERSATION_EXAMPLE: Final = """{"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]}"""
"""What a dict for each argument looks like, for the message of a wrong call."""


def default_strategy(capability: str) -> EmulationStrategy:
    """The strategy for this capability unless the operator configures another."""
    capability = capability_name(capability)
    return DEFAULTS.get(capability) or Disabled(reason=f"No emulation available for {pascal_case(capability)}")


def can_emulate(capability: str) -> bool:
    """Whether the default strategy does anything."""
    return not isinstance(default_strategy(capability), Disabled)


def not_emulated(capability: str, reason: str) -> str:
    """The warning for a capability that is not emulated."""
    return f"Capability {pascal_case(capability)} not emulated: {reason}"


class EmulationEngine:
    """Applies the operator's strategies."""

    def __init__(self, config: EmulationConfig | Mapping[str, Any]) -> None:
        self.config: Final = as_model(EmulationConfig, config, "config", CONFIG_EXAMPLE)

    @classmethod
    def with_defaults(cls) -> Self:
        """An engine with the default strategies only."""
        return cls(EmulationConfig())

    def resolve(self, capability: str) -> EmulationStrategy:
        """The strategy for this capability: the operator's, under this name or its alias, else the default."""
        capability = capability_name(capability)
        chosen = self.config.strategies
        return chosen.get(capability) or chosen.get(ALIASES.get(capability, "")) or default_strategy(capability)

    def apply(self, capabilities: str | Iterable[str], conversation: Conversation | dict[str, Any]) -> EmulationReport:
        """Apply the strategy of each capability in turn; prompts are injected into `conversation` itself."""
        names = capability_names(capabilities)
        if not isinstance(conversation, Conversation):
            parsed = as_model(Conversation, conversation, "conversation", CONVERSATION_EXAMPLE)
            report = self.apply(names, parsed)
            conversation["messages"] = parsed.dump()["messages"]
            return report
        report = EmulationReport()
        for name in names:
            strategy = cast("AnyStrategy", self.resolve(name))
            match strategy:
                case SystemPromptInjection():
                    conversation.messages[:] = messages_with_prompt(conversation.messages, strategy.prompt)
                    report.applied.append(EmulationEntry(capability=name, strategy=strategy))
                case PostProcessing():
                    report.applied.append(EmulationEntry(capability=name, strategy=strategy))
                case Disabled():
                    report.warnings.append(not_emulated(name, strategy.reason))
                case _:
                    assert_never(strategy)
        return report


def apply_emulation(
    config: EmulationConfig | Mapping[str, Any],
    capabilities: str | Iterable[str],
    conversation: Conversation | dict[str, Any],
) -> EmulationReport:
    """`EmulationEngine(config).apply` in one call."""
    return EmulationEngine(config).apply(capabilities, conversation)
