"""What the fake model has received: a request as its codec read it, and what the inspector looks for in it. Pure."""

import base64
import binascii
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, cast

from accord.apis.client_tools import client_tools
from accord.core.work.fields import ModelRequest
from accord.wire.conversation import (
    AudioPart,
    ConversationMessage,
    ImagePart,
    MessagePart,
    ResourcePart,
    TextPart,
    ToolResultPart,
)
from accord.wire.disposition import Api
from accord.wire.work import ToolSpec

MediaKind = Literal["image", "audio", "file"]


@dataclass(frozen=True, slots=True)
class ReceivedMedia:
    """An image, a sound or another file. `uri` is its address, id or name; `data` is empty if only that was sent."""

    kind: MediaKind
    media_type: str
    data: bytes = field(repr=False)
    uri: str = ""


class AnswerState(StrEnum):
    """How far the answer to a request has come."""

    OPEN = "open"
    SENT = "sent"
    DISCONNECTED = "disconnected"
    """The client closed the connection before the answer was complete: this is how cancelling reaches a model."""


@dataclass(frozen=True, slots=True)
class MalformedRequest:
    """A request for an answer that is not what its API takes, and why; the text is empty if it cannot be read."""

    place: str
    """Its method and path."""
    reason: str
    text: str = field(default="", repr=False)

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


def explain_absence(refused: MalformedRequest | None) -> str:
    """Why the fake model has no request of the agent, of which it refused this one or none."""
    if refused is None:
        return "The agent did not call the fake model"
    return f"The fake model refused the agent's request: {refused}"


@dataclass(slots=True)
class ReceivedRequest:
    """One request for an answer of the model."""

    request: ModelRequest
    path: str = ""
    number: int = 0
    """The first request that arrives has number 1."""
    earlier: Sequence[ConversationMessage] = ()
    """The messages before it, if it continues an earlier answer."""
    state: AnswerState = AnswerState.OPEN

    @property
    def api(self) -> Api:
        """The API that the client speaks."""
        return self.request.api

    @property
    def model(self) -> str:
        """The model that the client names."""
        return self.request.model

    @property
    def messages(self) -> list[ConversationMessage]:
        """All messages, the oldest first. Results of tools are messages of their own."""
        return [*self.earlier, *self.request.order.conversation.messages]

    @property
    def tools(self) -> list[ToolSpec]:
        """The tools that the client runs."""
        return [*self.request.order.tools, *client_tools(self.request)]

    @property
    def schema(self) -> dict[str, Any] | None:
        """The JSON Schema that the answer has to satisfy; an empty one if any JSON object does."""
        order = self.request.order
        return {} if order.json_mode else order.response_schema

    @property
    def forced_tool(self) -> str | None:
        """The tool that must be called; an empty text if any of them must."""
        choice = self.request.order.tool_choice
        return None if choice is None or choice.mode in ("auto", "none") else choice.name or ""

    @property
    def answer_id(self) -> str:
        """The id of its answer, without the prefix of the API."""
        return f"{self.number:032x}"

    @property
    def text(self) -> str:
        """All text of all messages."""
        return "\n".join(map(message_text, self.messages))

    @property
    def media(self) -> list[ReceivedMedia]:
        """All media of all messages."""
        return [media for message in self.messages for media in message_media(message)]

    @property
    def body_texts(self) -> Iterator[str]:
        """Every text in the body as it came, whatever it is: addresses in parts of unknown types, for one."""
        left: list[Any] = [self.request.body]
        while left:
            value = left.pop()
            if isinstance(value, str):
                yield value
            elif isinstance(value, dict | list):
                left += cast("dict[str, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value)


def message_text(message: ConversationMessage) -> str:
    """All text of a message, that of documents and of results included, one part a line."""
    return "\n".join(_texts(message.content))


def message_media(message: ConversationMessage) -> list[ReceivedMedia]:
    """All media of a message, those in results included."""
    return list(_media(message.content))


def kind_of(media_type: str) -> MediaKind:
    """The kind of a medium of this type."""
    match media_type.partition("/")[0]:
        case "image":
            return "image"
        case "audio":
            return "audio"
        case _:
            return "file"


def _texts(parts: Iterable[MessagePart]) -> Iterator[str]:
    for part in parts:
        match part:
            case TextPart() | ResourcePart(text=str()):
                yield part.text or ""
            case ToolResultPart():
                yield from _texts(part.content)
            case _:
                pass


def _media(parts: Iterable[MessagePart]) -> Iterator[ReceivedMedia]:
    for part in parts:
        match part:
            case ImagePart():
                yield ReceivedMedia("image", part.media_type, _decode(part.data), part.uri or "")
            case AudioPart():
                yield ReceivedMedia("audio", part.media_type, _decode(part.data))
            case ResourcePart():
                data = _decode(part.data) if part.text is None else part.text.encode()
                yield ReceivedMedia("file", part.media_type or "", data, part.uri or part.file_id or "")
            case ToolResultPart():
                yield from _media(part.content)
            case _:
                pass


def _decode(data: str | None) -> bytes:
    """The bytes of base64, in either alphabet and with or without padding; none if it is neither."""
    text = "".join((data or "").split()).replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return b""
