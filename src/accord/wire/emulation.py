"""Emulation strategies, their report (ABP), and the record of emulations that were performed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field

from accord.wire.capability import CapabilityName, capability_name
from accord.wire.message import FreeObject, Message, Tagged, Value, WrittenAsText, as_model, close_union


class EmulationStrategy(Tagged, frozen=True):
    """A strategy to emulate a capability, by `type`."""

    type: Literal["system_prompt_injection", "post_processing", "disabled"]

    if TYPE_CHECKING:  # the other fields are those of the kind that `type` names

        def __init__(self, *, type: str, **fields: str) -> None: ...


class SystemPromptInjection(EmulationStrategy, frozen=True):
    """The system prompt instructs the model."""

    type: Literal["system_prompt_injection"] = "system_prompt_injection"
    prompt: str = Field(description="What is added to the system prompt.")


class PostProcessing(EmulationStrategy, frozen=True):
    """The capability is derived from the model's answer."""

    type: Literal["post_processing"] = "post_processing"
    detail: str = Field(description="What is done, in a few words.")


class Disabled(EmulationStrategy, frozen=True):
    """The capability is not emulated."""

    type: Literal["disabled"] = "disabled"
    reason: str = Field(description="Why not.")


AnyStrategy = SystemPromptInjection | PostProcessing | Disabled
"""The union of all kinds, for an exhaustive `match`."""

close_union(
    EmulationStrategy,
    "type",
    {
        "system_prompt_injection": SystemPromptInjection,
        "post_processing": PostProcessing,
        "disabled": Disabled,
    },
)


STRATEGY_EXAMPLE: Final = """{"type": "system_prompt_injection", "prompt": "Think step by step."}"""


class EmulationConfig(Message, frozen=True):
    """The operator's strategies; other capabilities have their default."""

    strategies: dict[CapabilityName, EmulationStrategy] = Field(
        default_factory=dict[CapabilityName, EmulationStrategy], description="The strategy of each capability."
    )

    def set(self, capability: str, strategy: EmulationStrategy | Mapping[str, Any]) -> None:
        """Use this strategy for this capability from now on."""
        checked = as_model(EmulationStrategy, strategy, "strategy", STRATEGY_EXAMPLE)
        self.strategies[capability_name(capability)] = checked


class EmulationEntry(Message, frozen=True):
    """An emulated capability and its strategy."""

    capability: CapabilityName = Field(description="The capability.")
    strategy: EmulationStrategy = Field(description="How it is emulated.")


class EmulationReport(Message, frozen=True):
    """The emulations that were applied, and warnings for capabilities that cannot be emulated."""

    applied: list[EmulationEntry] = Field(default_factory=list[EmulationEntry], description="What is emulated.")
    warnings: list[str] = Field(
        default_factory=list[str], description="A sentence for each capability that cannot be emulated."
    )

    def is_empty(self) -> bool:
        """Whether there was nothing to do."""
        return not self.applied and not self.warnings

    def has_unemulatable(self) -> bool:
        """Whether a capability could not be emulated."""
        return bool(self.warnings)


# The record below is part of a receipt: it holds counts and short findings, never text of a user or a model.


class EffectKind(StrEnum):
    """What an emulation did to the work or to the answer."""

    PROMPT_INJECTED = "prompt_injected"
    SYSTEM_FOLDED = "system_folded"
    TOOLS_DESCRIBED = "tools_described"
    TOOL_HISTORY_WRITTEN_OUT = "tool_history_written_out"
    MARKUP_ESCAPED = "markup_escaped"
    IMAGE_SHOWN = "image_shown"
    DESCRIPTION_FAILED = "description_failed"
    IMAGE_DESCRIBED = "image_described"
    IMAGE_NOT_SEEN = "image_not_seen"
    THOUGHTS_SEPARATED = "thoughts_separated"
    THOUGHTS_NOT_CLOSED = "thoughts_not_closed"
    CALLS_FOUND = "calls_found"
    TEXT_AFTER_STOP = "text_after_stop"
    CALLS_AFTER_STOP = "calls_after_stop"
    TEXT_AROUND_JSON = "text_around_json"
    JSON_NOT_JUDGED = "json_not_judged"
    CUT_IN_PIECES = "cut_in_pieces"


LOSSES: Final = frozenset(
    {
        EffectKind.IMAGE_NOT_SEEN,
        EffectKind.TEXT_AFTER_STOP,
        EffectKind.CALLS_AFTER_STOP,
        EffectKind.TEXT_AROUND_JSON,
    }
)
"""The effects that lost something of the request or the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect(Value):
    """One effect, with a count: characters of text, or the number of items that the kind names.

    Where another backend took part, `by` names it and `usage` is what it used; `why` is the reason of a failure.
    """

    capability: Annotated[CapabilityName, Field(description="The capability that was emulated.")]
    kind: Annotated[EffectKind, WrittenAsText(), Field(description="What was done.")]
    count: Annotated[int, Field(description="Characters of text, or items that the kind names.")] = 1
    by: Annotated[str | None, Field(description="Another backend that took part.")] = None
    why: Annotated[str | None, Field(description="The reason of a failure.")] = None
    usage: Annotated[FreeObject | None, Field(description="What that backend used.")] = None

    @property
    def lost(self) -> bool:
        """Whether something was lost."""
        return self.kind in LOSSES


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(Value):
    """One answer of the backend, and whether it was accepted."""

    number: Annotated[int, Field(description="From 1.")]
    ok: Annotated[bool, Field(description="Whether the answer was accepted.")]
    capability: Annotated[CapabilityName | None, Field(description="The emulation that rejected the answer.")] = None
    problems: Annotated[list[str], Field(description="What was wrong with it.")] = field(default_factory=list[str])
    usage: Annotated[FreeObject | None, Field(description="What the backend used for it.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulationRecord(Value):
    """All emulations of one question, with their attempts and effects."""

    emulated: Annotated[list[EmulationEntry], Field(description="The capabilities and their strategies.")] = field(
        default_factory=list[EmulationEntry]
    )
    attempts: Annotated[list[Attempt], Field(description="Every answer of the backend.")] = field(
        default_factory=list[Attempt]
    )
    effects: Annotated[list[Effect], Field(description="What the emulations did.")] = field(
        default_factory=list[Effect]
    )
