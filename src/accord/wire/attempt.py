"""The account of emulations that were performed: every attempt, everything changed or lost.

It is what a receipt carries of them. It holds counts and short findings, never what a user or a model said.
"""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from accord.wire.capability import CapabilityName
from accord.wire.emulation import EmulationEntry
from accord.wire.message import FreeObject, Message, WrittenAsText


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
