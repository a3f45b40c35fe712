"""A work order for a backend (ABP), and the pieces of its answer."""

from typing import Any, Literal

from pydantic import Field

from accord.wire.conversation import Conversation
from accord.wire.manifest import CapabilityRequirements
from accord.wire.message import FreeObject, FreeValue, Message, Tagged, close_union


class ToolSpec(Message, frozen=True):
    """A tool that the model may call."""

    name: str = Field(description="Its name.")
    description: str = Field(default="", description="What it does, for the model.")
    input_schema: FreeObject = Field(default_factory=dict[str, Any], description="The JSON Schema of its arguments.")
    strict: bool | None = Field(default=None, description="Whether the input has to match the schema exactly.")
    cache_control: FreeObject | None = Field(
        default=None, description="Asks the backend to cache the tools up to this one."
    )


class ToolChoice(Message, frozen=True):
    """Whether the model may, must or must not call a tool, and which one it must call."""

    mode: Literal["auto", "none", "required", "tool"] = Field(
        default="auto",
        description="Whether a tool may (`auto`), must (`required`, `tool`) or must not (`none`) be called.",
    )
    name: str | None = Field(default=None, description="The tool that must be called, with the mode `tool`.")


class WorkOrder(Message, frozen=True):
    """One question to a model, with everything that it needs."""

    conversation: Conversation = Field(default_factory=Conversation, description="What is sent to the model.")
    requirements: CapabilityRequirements = Field(
        default_factory=CapabilityRequirements, description="What is stated; more follows from the other fields."
    )
    tools: list[ToolSpec] = Field(default_factory=list[ToolSpec], description="Tools that the model may call.")
    tool_choice: ToolChoice | None = Field(default=None, description="Absent: the model decides.")
    parallel_tool_calls: bool | None = Field(default=None, description="Whether one answer may have several calls.")
    response_schema: FreeObject | None = Field(default=None, description="The JSON Schema that the answer must match.")
    schema_name: str | None = Field(default=None, description="The caller's name of the schema.")
    json_mode: bool = Field(default=False, description="Whether the answer must be a JSON object.")
    stop_sequences: list[str] = Field(default_factory=list[str], description="Texts at which the answer ends.")
    stream: bool = Field(default=False, description="Whether the answer is wanted in pieces.")
    thinking: bool = Field(default=False, description="Whether the model should think before it answers.")
    parameters: FreeObject = Field(
        default_factory=dict[str, Any], description="Sampling parameters, such as `temperature`."
    )


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
