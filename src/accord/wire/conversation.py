"""Messages of a conversation: the history of a session (CAP) and what a backend is given (ABP)."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Literal, overload

from pydantic import Field, TypeAdapter

from accord.wire.message import (
    FreeObject,
    FreeValue,
    Message,
    Tagged,
    UtcTime,
    WrittenAsText,
    close_union,
    make_trusted,
)


class Role(StrEnum):
    """The author of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class ChatMessage(Message, frozen=True):
    """One message of a history (CAP). If the timestamp is absent, it is set when the message is read."""

    role: Role
    content: str
    name: str | None = None
    tool_call_id: str | None = None
    timestamp: UtcTime = Field(default_factory=lambda: datetime.now(UTC))


class Transcript(Sequence[ChatMessage]):
    """A history that is parsed on first use: most agents read few of its messages, or none."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def __iter__(self) -> Iterator[ChatMessage]:
        return iter(self._messages)

    @overload
    def __getitem__(self, place: int) -> ChatMessage: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[ChatMessage]: ...
    def __getitem__(self, place: int | slice) -> ChatMessage | Sequence[ChatMessage]:
        return self._messages[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)  # pyright: ignore[reportUnknownArgumentType]

    __hash__ = None  # pyright: ignore[reportAssignmentType] - as of every list

    @cached_property
    def _messages(self) -> list[ChatMessage]:
        # All at once: one call into the parser costs as much as reading several of them.
        return _MESSAGES.validate_json(f"[{','.join(self._texts)}]")


_MESSAGES = TypeAdapter(list[ChatMessage])


class MessagePart(Tagged, frozen=True):
    """A part of a message, by `type`; each backend translates it to its API.

    `cache_control` asks the backend to cache the conversation up to this part.
    """

    type: str
    cache_control: FreeObject | None = Field(default=None, exclude_if=lambda value: value is None)


class TextPart(MessagePart, frozen=True):
    """Text."""

    type: Literal["text"] = "text"
    text: str


class ImagePart(MessagePart, frozen=True):
    """An image in base64, and the address it was read from if the sender named one.

    With an address and no `data`, the backend itself has to fetch it. `detail` is the resolution to look at it with.
    """

    type: Literal["image"] = "image"
    media_type: str
    data: str
    uri: str | None = Field(default=None, exclude_if=lambda value: value is None)
    detail: str | None = Field(default=None, exclude_if=lambda value: value is None)


class AudioPart(MessagePart, frozen=True):
    """Audio, in base64."""

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
    """The result of a tool call."""

    type: Literal["tool_result"] = "tool_result"
    tool_use_id: str
    content: list[MessagePart] = Field(default_factory=list[MessagePart])
    is_error: bool = False


class ThinkingPart(MessagePart, frozen=True):
    """The assistant's reasoning, not part of its answer.

    `signature` is the model's own, and is sent back unchanged; of reasoning that is `redacted` there is nothing else.
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
    """A document by its URI."""

    type: Literal["resource_link"] = "resource_link"
    uri: str
    name: str
    media_type: str | None = Field(default=None, exclude_if=lambda value: value is None)
    description: str | None = Field(default=None, exclude_if=lambda value: value is None)


AnyPart = (
    TextPart | ImagePart | AudioPart | ToolUsePart | ToolResultPart | ThinkingPart | ResourcePart | ResourceLinkPart
)
"""The union of all kinds, for an exhaustive `match`."""

close_union(
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
    """One message, in parts."""

    role: Annotated[Role, WrittenAsText()]
    content: list[MessagePart]
    metadata: FreeObject | None = Field(default=None, exclude_if=lambda value: value is None)


class Conversation(Message, frozen=True):
    """Messages in order. The list itself may be changed: emulation injects into the conversation it is given."""

    messages: list[ConversationMessage] = Field(default_factory=list[ConversationMessage])


def text_part(text: str) -> TextPart:
    """A part of text, made without validation: nearly every part of a model API's request is one.

    It costs a third of `TextPart.trusted`.
    """
    return make_trusted(TextPart, {"type": "text", "cache_control": None, "text": text}, {"text"})


def trusted_message(role: Role, content: list[MessagePart]) -> ConversationMessage:
    """A message, made without validation; it costs a third of `ConversationMessage.trusted`."""
    return make_trusted(ConversationMessage, {"role": role, "content": content, "metadata": None}, {"role", "content"})
