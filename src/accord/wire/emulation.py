"""Emulation strategies, their report (ABP, decisions 13 and 15), and the record of emulations that were performed."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field

from accord.wire.capability import CapabilityName
from accord.wire.message import FreeObject, Message, Tagged, WrittenAsText, close_union

# How a missing capability is stood in for, and the account of it (ABP, decisions 13 and 15).


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

close_union(
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


# The account of emulations that were performed: every attempt, everything changed or lost.
#
# It is what a receipt carries of them. It holds counts and short findings, never what a user or a model said.


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
"""The effects by which something that was sent or said did not arrive."""


class Effect(Message, frozen=True):
    """One thing done, and how much of it: characters of text, or the number of whatever the kind names.

    Where another backend had a part in it, `by` names that backend, `usage` is what it took there, and `why` says what
    came in between.
    """

    capability: CapabilityName
    kind: Annotated[EffectKind, WrittenAsText()]
    count: int = 1
    by: str | None = None
    why: str | None = None
    usage: FreeObject | None = None

    @property
    def lost(self) -> bool:
        """Whether something did not arrive."""
        return self.kind in LOSSES


class Attempt(Message, frozen=True):
    """One answer of the backend, and whether it would do."""

    number: int
    ok: bool
    capability: CapabilityName | None = None
    problems: list[str] = Field(default_factory=list[str])
    usage: FreeObject | None = None


class EmulationRecord(Message, frozen=True):
    """Everything that emulation did in one turn."""

    emulated: list[EmulationEntry] = Field(default_factory=list[EmulationEntry])
    attempts: list[Attempt] = Field(default_factory=list[Attempt])
    effects: list[Effect] = Field(default_factory=list[Effect])
