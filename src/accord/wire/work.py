"""A work order for a backend (ABP), and the pieces of its answer."""

from typing import Any, Literal

from pydantic import Field

from accord.wire.conversation import Conversation
from accord.wire.manifest import CapabilityRequirements
from accord.wire.message import FreeObject, FreeValue, Message, Tagged, close_union


class ToolSpec(Message, frozen=True):
    """A tool that the model may call."""

    name: str
    description: str = ""
    input_schema: FreeObject = Field(default_factory=dict[str, Any])
    strict: bool | None = Field(default=None, description="Whether the input has to match the schema exactly.")
    cache_control: FreeObject | None = None


class ToolChoice(Message, frozen=True):
    """Whether the model may, must or must not call a tool, and which one it must call."""

    mode: Literal["auto", "none", "required", "tool"] = "auto"
    name: str | None = Field(default=None, description="The tool that must be called, with the mode `tool`.")


class WorkOrder(Message, frozen=True):
    """One question to a model, with everything that it needs."""

    conversation: Conversation = Field(default_factory=Conversation)
    requirements: CapabilityRequirements = Field(default_factory=CapabilityRequirements)
    tools: list[ToolSpec] = Field(default_factory=list[ToolSpec])
    tool_choice: ToolChoice | None = Field(default=None, description="Absent: the model decides.")
    parallel_tool_calls: bool | None = Field(default=None, description="Whether one answer may have several calls.")
    response_schema: FreeObject | None = None
    schema_name: str | None = Field(default=None, description="The caller's name of the schema.")
    json_mode: bool = False
    stop_sequences: list[str] = Field(default_factory=list[str])
    stream: bool = False
    thinking: bool = False
    parameters: FreeObject = Field(default_factory=dict[str, Any])


EndReason = Literal["end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal"]
"""Why an answer ends."""


class AnswerPiece(Tagged, frozen=True):
    """One piece of an answer, by `type`; the same for every model API."""

    type: str


class TextPiece(AnswerPiece, frozen=True):
    """Text of the answer."""

    type: Literal["text"] = "text"
    text: str


class ThinkingPiece(AnswerPiece, frozen=True):
    """Reasoning, which is not part of the answer."""

    type: Literal["thinking"] = "thinking"
    text: str
    signature: str | None = Field(
        default=None, description="The model's signature of the reasoning so far; to be sent back unchanged."
    )
    redacted: bool = Field(default=False, description="Only the signature is available.")


class ToolCallPiece(AnswerPiece, frozen=True):
    """A complete tool call."""

    type: Literal["tool_call"] = "tool_call"
    id: str
    name: str
    input: FreeValue
    signature: str | None = Field(default=None, description="The model's signature; to be sent back unchanged.")


class WorkPiece(AnswerPiece, frozen=True):
    """Work of the backend itself, to be shown: its plan, or a tool that it runs. It needs no reply."""

    type: Literal["work"] = "work"
    event: FreeObject = Field(description="The event that shows it: its type, data and fallbacks.")


class EndPiece(AnswerPiece, frozen=True):
    """The end of the answer; always the last piece."""

    type: Literal["end"] = "end"
    reason: EndReason = "end_turn"
    stop_sequence: str | None = Field(default=None, description="The stop sequence that ended it, if that is known.")
    model: str | None = Field(default=None, description="The model that answered, as the endpoint names it.")
    usage: FreeObject | None = None
    logprobs: list[FreeObject] | None = Field(
        default=None,
        description="If requested: each token with its log probability, and the likeliest alternatives as `top`.",
    )


AnyPiece = TextPiece | ThinkingPiece | ToolCallPiece | WorkPiece | EndPiece
"""The union of all kinds, for an exhaustive `match`."""

close_union(
    AnswerPiece,
    "type",
    {"text": TextPiece, "thinking": ThinkingPiece, "tool_call": ToolCallPiece, "work": WorkPiece, "end": EndPiece},
)
