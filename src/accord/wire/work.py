"""A work order for a backend (ABP), and the pieces of its answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, Literal, cast

import msgspec
from pydantic import Field, model_validator

from accord.wire.conversation import Conversation
from accord.wire.manifest import CapabilityRequirements
from accord.wire.message import FreeObject, Message, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec(Value):
    """A tool that the model may call."""

    name: Annotated[str, Field(description="Its name.")]
    description: Annotated[str, Field(description="What it does, for the model.")] = ""
    input_schema: Annotated[FreeObject, Field(description="The JSON Schema of its arguments.")] = field(
        default_factory=dict[str, Any]
    )
    strict: Annotated[bool | None, Field(description="Whether the input has to match the schema exactly.")] = None
    cache_control: Annotated[
        FreeObject | None, Field(description="Asks the backend to cache the tools up to this one.")
    ] = None
    custom: Annotated[
        FreeObject | None,
        Field(description="Its own `description` and `format`, if its input is text; other APIs get it as a function."),
    ] = None


ToolMode = Literal["auto", "none", "required", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChoice(Value):
    """Whether the model may, must or must not call a tool, and which one it must call."""

    mode: Annotated[
        ToolMode,
        Field(description="Whether a tool may (`auto`), must (`required`, `tool`) or must not (`none`) be called."),
    ] = "auto"
    name: Annotated[str | None, Field(description="The tool that must be called, with the mode `tool`.")] = None


NO_EFFORT: Final = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasoning(Value):
    """How a model should reason before it answers. What is absent, the model decides."""

    enabled: Annotated[bool | None, Field(description="`true` calls for reasoning, `false` turns it off.")] = None
    effort: Annotated[
        str | None,
        Field(
            description="How much, such as `low` or `high`. Without `enabled`, it is the effort of the whole answer."
        ),
    ] = None
    max_tokens: Annotated[int | None, Field(description="At most so many tokens.")] = None
    summary: Annotated[str | None, Field(description="The form in which the reasoning is shown, such as `auto`.")] = (
        None
    )

    @classmethod
    def from_effort(cls, effort: str | None, summary: str | None = None) -> "Reasoning":
        """What APIs mean that have one word for whether and how much to reason; without it, the model decides."""
        if effort is None:
            return cls(summary=summary)
        is_off = effort == NO_EFFORT
        return cls(enabled=not is_off, effort=None if is_off else effort, summary=summary)

    @classmethod
    def from_parameter(cls, value: Any) -> "Reasoning":
        """What a parameter `reasoning` means, the older form: only there, `enabled: false` is an effort alone."""
        read = cls.model_validate(value)
        if read.enabled is False:
            return replace(read, enabled=None)
        if read.max_tokens is None:
            return cls.from_effort(read.effort, read.summary) if value else cls(enabled=True)
        return replace(read, enabled=True)


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


class AnswerPiece(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """One piece of an answer; the same for every model API.

    A streamed answer has a piece for every word, so this is a `Struct`: making one costs a tenth of making a pydantic
    message. Pieces are never sent to a client.
    """


class TextPiece(AnswerPiece, frozen=True, kw_only=True, tag="text"):
    """Text of the answer; `refusal`: the model declines in this text, where its API marks it as such."""

    text: str
    refusal: bool = False


class ThinkingPiece(AnswerPiece, frozen=True, kw_only=True, tag="thinking"):
    """Reasoning, which is not part of the answer.

    `signature` is the model's, of the reasoning so far, to be sent back unchanged; of `redacted` reasoning there is
    nothing else.
    """

    text: str
    signature: str | None = None
    redacted: bool = False


class ToolCallPiece(AnswerPiece, frozen=True, kw_only=True, tag="tool_call"):
    """A tool call with all its arguments.

    `input` is text if the tool takes text (`custom`), and if the answer was `cut` off in the arguments: then it is what
    arrived of them, and nothing to call with. `signature` is the model's, to be sent back unchanged.
    """

    id: str
    name: str
    input: Any
    signature: str | None = None
    custom: bool = False
    cut: bool = False


class ToolCallDelta(AnswerPiece, frozen=True, kw_only=True, tag="tool_call_delta"):
    """The start of a tool call, or more of its arguments; the complete `ToolCallPiece` follows.

    `text` is JSON text, or the input of a tool that takes text (`custom`).
    """

    id: str
    name: str
    text: str = ""
    custom: bool = False


class CitationPiece(AnswerPiece, frozen=True, kw_only=True, tag="citation"):
    """What the text before it rests on: a source with its words, and the part of the whole answer that it is about.

    `source` is the citation as the API wrote it.
    """

    url: str | None = None
    title: str | None = None
    quote: str | None = None
    start: int | None = None
    end: int | None = None
    source: dict[str, Any] = {}


class MediaPiece(AnswerPiece, frozen=True, kw_only=True, tag="media"):
    """An image, sound or file that the model made, in base64 or by its address; `source` is as the API wrote it."""

    media_type: str
    data: str | None = None
    uri: str | None = None
    transcript: str | None = None
    source: dict[str, Any] = {}


class WorkPiece(AnswerPiece, frozen=True, kw_only=True, tag="work"):
    """Work of the backend itself, its plan or a tool that it runs, as the event that shows it. It needs no reply."""

    event: dict[str, Any]


class EndPiece(AnswerPiece, frozen=True, kw_only=True, tag="end"):
    """The end of the answer; always the last piece.

    `model` and `service_tier` are as the endpoint names them. `logprobs`, if requested: each token with its log
    probability, and the likeliest alternatives as `top`. `parts` is what the answer had, as the backend's table of
    answers names it, but for what every API has.
    """

    reason: EndReason = "end_turn"
    stop_sequence: str | None = None
    model: str | None = None
    usage: dict[str, Any] | None = None
    logprobs: list[dict[str, Any]] | None = None
    service_tier: str | None = None
    parts: list[str] = []


AnyPiece = TextPiece | ThinkingPiece | ToolCallDelta | ToolCallPiece | CitationPiece | MediaPiece | WorkPiece | EndPiece
"""The union of all kinds, for an exhaustive `match`."""
