"""How a missing capability is stood in for, and the account of it (ABP, decisions 13 and 15)."""

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from accord.wire.capability import CapabilityName
from accord.wire.message import Message, Tagged, seal


class EmulationStrategy(Tagged, frozen=True):
    """A way to stand in, told apart by `type`."""

    type: Literal["system_prompt_injection", "post_processing", "disabled"]

    if TYPE_CHECKING:  # the other fields are those of the kind that is named

        def __init__(self, *, type: str, **fields: str) -> None: ...


class SystemPromptInjection(EmulationStrategy, frozen=True):
    """The model is asked for it in the system prompt."""

    type: Literal["system_prompt_injection"] = "system_prompt_injection"
    prompt: str


class PostProcessing(EmulationStrategy, frozen=True):
    """It is made out of the model's answer."""

    type: Literal["post_processing"] = "post_processing"
    detail: str


class Disabled(EmulationStrategy, frozen=True):
    """It cannot be stood in for."""

    type: Literal["disabled"] = "disabled"
    reason: str


AnyStrategy = SystemPromptInjection | PostProcessing | Disabled
"""For a `match` that the type checker can prove complete."""

seal(
    EmulationStrategy,
    "type",
    {
        "system_prompt_injection": SystemPromptInjection,
        "post_processing": PostProcessing,
        "disabled": Disabled,
    },
)


class EmulationConfig(Message, frozen=True):
    """The operator's strategies; what is not named here has its default."""

    strategies: dict[CapabilityName, EmulationStrategy] = Field(default_factory=dict[CapabilityName, EmulationStrategy])

    def set(self, capability: str, strategy: EmulationStrategy) -> None:
        """Use this strategy for this capability from now on."""
        self.strategies[capability] = strategy


class EmulationEntry(Message, frozen=True):
    """One capability and how it was stood in for."""

    capability: CapabilityName
    strategy: EmulationStrategy


class EmulationReport(Message, frozen=True):
    """What was stood in for, and what could not be."""

    applied: list[EmulationEntry] = Field(default_factory=list[EmulationEntry])
    warnings: list[str] = Field(default_factory=list[str])

    def is_empty(self) -> bool:
        """Whether there was nothing to do."""
        return not self.applied and not self.warnings

    def has_unemulatable(self) -> bool:
        """Whether something could not be stood in for."""
        return bool(self.warnings)
