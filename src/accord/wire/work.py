"""A work order for a backend (ABP), and the pieces of its answer."""

from collections.abc import Mapping
from typing import Any, Final, Literal, cast

from pydantic import Field, model_validator

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
    custom: FreeObject | None = Field(
        default=None,
        description="Its own `description` and `format`, if its input is text; other APIs get it as a function.",
    )


class ToolChoice(Message, frozen=True):
    """Whether the model may, must or must not call a tool, and which one it must call."""

    mode: Literal["auto", "none", "required", "tool"] = Field(
        default="auto",
        description="Whether a tool may (`auto`), must (`required`, `tool`) or must not (`none`) be called.",
    )
    name: str | None = Field(default=None, description="The tool that must be called, with the mode `tool`.")


NO_EFFORT: Final = "none"


class Reasoning(Message, frozen=True):
    """How a model should reason before it answers. What is absent, the model decides."""

    enabled: bool | None = Field(default=None, description="`true` calls for reasoning, `false` turns it off.")
    effort: str | None = Field(
        default=None,
        description="How much, such as `low` or `high`. Without `enabled`, it is the effort of the whole answer.",
    )
    max_tokens: int | None = Field(default=None, description="At most so many tokens.")
    summary: str | None = Field(default=None, description="The form in which the reasoning is shown, such as `auto`.")

    @classmethod
    def from_effort(cls, effort: str | None, summary: str | None = None) -> "Reasoning":
        """What APIs mean that have one word for whether and how much to reason; without it, the model decides."""
        if effort is None:
            return cls.trusted(summary=summary)
        is_off = effort == NO_EFFORT
        return cls.trusted(enabled=not is_off, effort=None if is_off else effort, summary=summary)

    @classmethod
    def from_parameter(cls, value: Any) -> "Reasoning":
        """What a parameter `reasoning` means, the older form: only there, `enabled: false` is an effort alone."""
        read = cls.model_validate(value)
        if read.enabled is False:
            return read.model_copy(update={"enabled": None})
        if read.max_tokens is None:
            return cls.from_effort(read.effort, read.summary) if value else cls.trusted(enabled=True)
        return read.model_copy(update={"enabled": True})


REASONING: Final = "reasoning"


def read_reasoning(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], Reasoning | None]:
    """The parameters without `reasoning`, which once was one of them, and what it means."""
    others = {name: value for name, value in parameters.items() if name != REASONING}
    value = parameters.get(REASONING)
    return others, None if value is None else Reasoning.from_parameter(value)


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
    schema_description: str | None = Field(default=None, description="What answers of this schema are for.")
    json_mode: bool = Field(default=False, description="Whether the answer must be a JSON object.")
    stop_sequences: list[str] = Field(default_factory=list[str], description="Texts at which the answer ends.")
    stream: bool = Field(default=False, description="Whether the answer is wanted in pieces.")
    thinking: bool = Field(default=False, description="Whether the model must think before it answers.")
    reasoning: Reasoning | None = Field(
        default=None, description="How it should reason; unlike `thinking`, work goes on without it."
    )
    parameters: FreeObject = Field(
        default_factory=dict[str, Any], description="Sampling parameters, such as `temperature`."
    )

    @model_validator(mode="before")
    @classmethod
    def _read_older_form(cls, value: Any) -> Any:
        """Earlier orders have `reasoning` as a parameter."""
        if not isinstance(value, Mapping):
            return value
        members = cast("Mapping[str, Any]", value)
        parameters: Any = members.get("parameters")
        if not isinstance(parameters, Mapping) or REASONING not in parameters:
            return members
        others, older = read_reasoning(cast("Mapping[str, Any]", parameters))
        return {**members, "parameters": others, REASONING: members.get(REASONING) or older}


EndReason = Literal["end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal"]
"""Why an answer ends."""


class AnswerPiece(Tagged, frozen=True):
    """One piece of an answer, by `type`; the same for every model API."""

    type: str


class TextPiece(AnswerPiece, frozen=True):
    """Text of the answer."""

    type: Literal["text"] = "text"
    text: str
    refusal: bool = Field(default=False, description="The model declines in this text, where its API marks it as such.")


class ThinkingPiece(AnswerPiece, frozen=True):
    """Reasoning, which is not part of the answer."""

    type: Literal["thinking"] = "thinking"
    text: str
    signature: str | None = Field(
        default=None, description="The model's signature of the reasoning so far; to be sent back unchanged."
    )
    redacted: bool = Field(default=False, description="Only the signature is available.")


class ToolCallPiece(AnswerPiece, frozen=True):
    """A tool call with all its arguments, unless it was cut off."""

    type: Literal["tool_call"] = "tool_call"
    id: str
    name: str
    input: FreeValue
    signature: str | None = Field(default=None, description="The model's signature; to be sent back unchanged.")
    custom: bool = Field(default=False, description="The tool takes text, not JSON: `input` is that text.")
    cut: bool = Field(
        default=False,
        description="The answer was cut off in the arguments: `input` is their text so far, and nothing to call with.",
    )


class ToolCallDelta(AnswerPiece, frozen=True):
    """The start of a tool call, or more of its arguments; the complete `ToolCallPiece` follows."""

    type: Literal["tool_call_delta"] = "tool_call_delta"
    id: str
    name: str
    text: str = Field(default="", description="More of the arguments, as JSON text; of a custom tool, its input.")
    custom: bool = Field(default=False, description="The tool takes text, not JSON.")


class CitationPiece(AnswerPiece, frozen=True):
    """What the text before it rests on."""

    type: Literal["citation"] = "citation"
    url: str | None = None
    title: str | None = None
    quote: str | None = Field(default=None, description="The words of the source.")
    start: int | None = Field(default=None, description="Where the text begins that it is about, in the whole answer.")
    end: int | None = Field(default=None, description="Where that text ends.")
    source: FreeObject = Field(default_factory=dict[str, Any], description="As the API wrote it.")


class MediaPiece(AnswerPiece, frozen=True):
    """An image, sound or file that the model made."""

    type: Literal["media"] = "media"
    media_type: str
    data: str | None = Field(default=None, description="In base64.")
    uri: str | None = None
    transcript: str | None = Field(default=None, description="What is said in it.")
    source: FreeObject = Field(default_factory=dict[str, Any], description="As the API wrote it.")


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
    service_tier: str | None = Field(default=None, description="The tier that served it, as the endpoint names it.")
    parts: list[str] = Field(
        default_factory=list[str],
        description="What the answer had, as the backend's table of answers names it, but for what every API has.",
    )


AnyPiece = TextPiece | ThinkingPiece | ToolCallDelta | ToolCallPiece | CitationPiece | MediaPiece | WorkPiece | EndPiece
"""The union of all kinds, for an exhaustive `match`."""

close_union(
    AnswerPiece,
    "type",
    {
        "text": TextPiece,
        "thinking": ThinkingPiece,
        "tool_call_delta": ToolCallDelta,
        "tool_call": ToolCallPiece,
        "citation": CitationPiece,
        "media": MediaPiece,
        "work": WorkPiece,
        "end": EndPiece,
    },
)
