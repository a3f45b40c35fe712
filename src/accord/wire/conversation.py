"""The conversation that a backend is given and that emulation acts on (ABP, decision 15).

Neutral between model APIs: translators in `backends/` turn it into each API's own form.
"""

from typing import Annotated, Literal

from pydantic import Field

from accord.wire.chat import Role
from accord.wire.message import FreeObject, FreeValue, Message, Tagged, WrittenAsText, seal


class MessagePart(Tagged, frozen=True):
    """A piece of a message, told apart by `type`."""

    type: str


class TextPart(MessagePart, frozen=True):
    """Text."""

    type: Literal["text"] = "text"
    text: str


class ImagePart(MessagePart, frozen=True):
    """A picture, in base64."""

    type: Literal["image"] = "image"
    media_type: str
    data: str


class AudioPart(MessagePart, frozen=True):
    """Sound, in base64."""

    type: Literal["audio"] = "audio"
    media_type: str
    data: str


class ToolUsePart(MessagePart, frozen=True):
    """The assistant calls a tool."""

    type: Literal["tool_use"] = "tool_use"
    id: str
    name: str
    input: FreeValue
    signature: str | None = Field(default=None, exclude_if=lambda value: value is None)


class ToolResultPart(MessagePart, frozen=True):
    """What a tool answered."""

    type: Literal["tool_result"] = "tool_result"
    tool_use_id: str
    content: list[MessagePart] = Field(default_factory=list[MessagePart])
    is_error: bool = False


class ThinkingPart(MessagePart, frozen=True):
    """The assistant's reasoning, not part of its answer.

    `signature` is the model's own seal, given back as it came; of reasoning that is `redacted` there is nothing else.
    """

    type: Literal["thinking"] = "thinking"
    text: str
    signature: str | None = Field(default=None, exclude_if=lambda value: value is None)
    redacted: bool = Field(default=False, exclude_if=lambda value: not value)


class ResourcePart(MessagePart, frozen=True):
    """A document with its contents: `text`, or `data` in base64."""

    type: Literal["resource"] = "resource"
    uri: str
    media_type: str | None = Field(default=None, exclude_if=lambda value: value is None)
    text: str | None = Field(default=None, exclude_if=lambda value: value is None)
    data: str | None = Field(default=None, exclude_if=lambda value: value is None)


class ResourceLinkPart(MessagePart, frozen=True):
    """A document by its address."""

    type: Literal["resource_link"] = "resource_link"
    uri: str
    name: str
    media_type: str | None = Field(default=None, exclude_if=lambda value: value is None)
    description: str | None = Field(default=None, exclude_if=lambda value: value is None)


AnyPart = (
    TextPart | ImagePart | AudioPart | ToolUsePart | ToolResultPart | ThinkingPart | ResourcePart | ResourceLinkPart
)
"""For a `match` that the type checker can prove complete."""

seal(
    MessagePart,
    "type",
    {
        "text": TextPart,
        "image": ImagePart,
        "audio": AudioPart,
        "tool_use": ToolUsePart,
        "tool_result": ToolResultPart,
        "thinking": ThinkingPart,
        "resource": ResourcePart,
        "resource_link": ResourceLinkPart,
    },
)


class ConversationMessage(Message, frozen=True):
    """What one speaker said, in parts."""

    role: Annotated[Role, WrittenAsText()]
    content: list[MessagePart]
    metadata: FreeObject | None = Field(default=None, exclude_if=lambda value: value is None)


class Conversation(Message, frozen=True):
    """Messages in order. The list itself may be changed: emulation injects into the conversation it is given."""

    messages: list[ConversationMessage] = Field(default_factory=list[ConversationMessage])
