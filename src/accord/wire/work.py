"""A work order for a backend (ABP), and the pieces of its answer."""

from typing import Any, Literal

from pydantic import Field

from accord.wire.conversation import Conversation
from accord.wire.manifest import CapabilityRequirements
from accord.wire.message import FreeObject, FreeValue, Message, Tagged, close_union

# A piece of work for a backend (ABP's work order): what is asked, and with what. Who does it is decided in `core`.


class ToolSpec(Message, frozen=True):
    """A tool that the model may call."""

    name: str
    description: str = ""
    input_schema: FreeObject = Field(default_factory=dict[str, Any])


class WorkOrder(Message, frozen=True):
    """One question to a model, with everything that it needs."""

    conversation: Conversation = Field(default_factory=Conversation)
    requirements: CapabilityRequirements = Field(default_factory=CapabilityRequirements)
    tools: list[ToolSpec] = Field(default_factory=list[ToolSpec])
    response_schema: FreeObject | None = None
    json_mode: bool = False
    stop_sequences: list[str] = Field(default_factory=list[str])
    stream: bool = False
    thinking: bool = False
    parameters: FreeObject = Field(default_factory=dict[str, Any])


# What a backend answers, piece by piece, told apart by `type`: neutral between model APIs.

EndReason = Literal["end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal"]
"""Why an answer ends."""


class AnswerPiece(Tagged, frozen=True):
    """One piece of an answer."""

    type: str


class TextPiece(AnswerPiece, frozen=True):
    """Some text of the answer."""

    type: Literal["text"] = "text"
    text: str


class ThinkingPiece(AnswerPiece, frozen=True):
    """Some of the reasoning, not part of the answer."""

    type: Literal["thinking"] = "thinking"
    text: str
    signature: str | None = Field(
        default=None, description="The model's signature of the reasoning so far; to be given back as it came."
    )
    redacted: bool = Field(default=False, description="Only the signature is available.")


class ToolCallPiece(AnswerPiece, frozen=True):
    """A whole call of a tool."""

    type: Literal["tool_call"] = "tool_call"
    id: str
    name: str
    input: FreeValue
    signature: str | None = Field(default=None, description="The model's signature; to be given back as it came.")


class WorkPiece(AnswerPiece, frozen=True):
    """A backend's own work, to be shown: its plan, or a tool that it uses itself. Nobody is to answer it."""

    type: Literal["work"] = "work"
    event: FreeObject = Field(description="The event that shows it: its type, data and fallbacks.")


class EndPiece(AnswerPiece, frozen=True):
    """The answer is complete; the last piece, always."""

    type: Literal["end"] = "end"
    reason: EndReason = "end_turn"
    usage: FreeObject | None = None
    logprobs: list[FreeObject] | None = Field(
        default=None,
        description="If asked for: each token with its log probability, and the likeliest others as `top`.",
    )


AnyPiece = TextPiece | ThinkingPiece | ToolCallPiece | WorkPiece | EndPiece
"""For a `match` that the type checker can prove complete."""

close_union(
    AnswerPiece,
    "type",
    {"text": TextPiece, "thinking": ThinkingPiece, "tool_call": ToolCallPiece, "work": WorkPiece, "end": EndPiece},
)
