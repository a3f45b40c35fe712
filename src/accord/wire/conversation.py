"""Messages of a conversation: the history of a session (CAP) and what a backend is given (ABP)."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Literal, overload

from pydantic import Field, TypeAdapter

from accord.wire.message import (
    FreeObject,
    FreeValue,
    Message,
    SparseMessage,
    Tagged,
    UtcTime,
    WrittenAsText,
    close_union,
)


class Role(StrEnum):
    """The author of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class ChatMessage(Message, frozen=True):
    """One message of a history (CAP). If the timestamp is absent, it is set when the message is read."""

    role: Role = Field(description="Its author.")
    content: str = Field(description="Its text.")
    name: str | None = Field(default=None, description="The name of the author.")
    tool_call_id: str | None = Field(default=None, description="The tool call that it answers.")
    timestamp: UtcTime = Field(default_factory=lambda: datetime.now(UTC), description="When it was written.")


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


class MessagePart(Tagged, SparseMessage, frozen=True):
    """A part of a message, by `type`; each backend translates it to its API.

    `cache_control` asks the backend to cache the conversation up to this part.
    """

    type: str
    cache_control: FreeObject | None = Field(
        default=None,
        description="Asks the backend to cache the conversation up to this part.",
    )


class TextPart(MessagePart, frozen=True):
    """Text."""

    type: Literal["text"] = "text"
    text: str = Field(description="The text.")


class ImagePart(MessagePart, frozen=True):
    """An image in base64, and the address it was read from if the sender named one.

    With an address and no `data`, the backend itself has to fetch it. `detail` is the resolution to look at it with.
    """

    type: Literal["image"] = "image"
    media_type: str = Field(description="Such as `image/png`.")
    data: str = Field(description="The image in base64; empty if the backend has to fetch it.")
    uri: str | None = Field(default=None, description="Where it was read from, or is.")
    detail: str | None = Field(default=None, description="The resolution to look at it with.")


class AudioPart(MessagePart, frozen=True):
    """Audio, in base64."""

    type: Literal["audio"] = "audio"
    media_type: str = Field(description="Such as `audio/wav`.")
    data: str = Field(description="The audio in base64.")


class ToolUsePart(MessagePart, frozen=True):
    """The assistant calls a tool."""

    sparse = ("custom",)

    type: Literal["tool_use"] = "tool_use"
    id: str = Field(description="The id of the call.")
    name: str = Field(description="The tool.")
    input: FreeValue = Field(description="Its arguments.")
    custom: bool = Field(
        default=False,
        description="The tool takes text, which is the `input` in its arguments.",
    )
    signature: str | None = Field(default=None, description="The model's own; sent back unchanged.")


class ToolResultPart(MessagePart, frozen=True):
    """The result of a tool call."""

    type: Literal["tool_result"] = "tool_result"
    tool_use_id: str = Field(description="The id of the call.")
    content: list[MessagePart] = Field(default_factory=list[MessagePart], description="What the tool gave.")
    is_error: bool = Field(default=False, description="Whether the tool failed.")


class ThinkingPart(MessagePart, frozen=True):
    """The assistant's reasoning, not part of its answer.

    `signature` is the model's own, and is sent back unchanged; of reasoning that is `redacted` there is nothing else.
    """

    sparse = ("redacted",)

    type: Literal["thinking"] = "thinking"
    text: str = Field(description="The reasoning.")
    signature: str | None = Field(default=None, description="The model's own; sent back unchanged.")
    redacted: bool = Field(default=False, description="Only the signature is known.")


class ResourcePart(MessagePart, frozen=True):
    """A document with its contents: `text`, or `data` in base64.

    With empty `data`, the backend itself has to fetch it from its address, or has it as `file_id`.
    """

    type: Literal["resource"] = "resource"
    uri: str = Field(description="Its address.")
    media_type: str | None = Field(default=None, description="Such as `text/csv`.")
    text: str | None = Field(default=None, description="Its contents, if it is text.")
    data: str | None = Field(default=None, description="Its contents in base64, if it is not.")
    file_id: str | None = Field(default=None, description="Its id, if it was uploaded to the endpoint.")


class ResourceLinkPart(MessagePart, frozen=True):
    """A document by its URI."""

    type: Literal["resource_link"] = "resource_link"
    uri: str = Field(description="Its address.")
    name: str = Field(description="Its name.")
    media_type: str | None = Field(default=None, description="Such as `text/csv`.")
    description: str | None = Field(default=None, description="What it is.")


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

    role: Annotated[Role, WrittenAsText()] = Field(description="Its author.")
    content: list[MessagePart] = Field(description="Its parts.")
    metadata: FreeObject | None = Field(default=None, description="Anything else; no backend gets it.")


class Conversation(Message, frozen=True):
    """Messages in order. The list itself may be changed: emulation injects into the conversation it is given."""

    messages: list[ConversationMessage] = Field(
        default_factory=list[ConversationMessage], description="The messages, the oldest first."
    )


def text_message(role: Role, text: str) -> dict[str, Any]:
    """A message with one text, as most are, for `Conversation.model_validate`: a third of the cost of making models."""
    return {"role": role, "content": [{"type": "text", "text": text}]}
