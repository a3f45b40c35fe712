"""What the fake model has received, in one form for all model APIs. Pure.

Bodies come from any client: what does not have the expected type is read as empty, and never raises.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, cast

from accord.acp_tools.json_values import Json, as_list, as_object

MediaKind = Literal["image", "audio", "file"]
MessageRole = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ReceivedText:
    """Text of a message."""

    text: str


@dataclass(frozen=True, slots=True)
class ReceivedMedia:
    """An image, a sound or another file. `uri` is its address or name; `data` is empty if only that was sent."""

    kind: MediaKind
    media_type: str
    data: bytes = field(repr=False)
    uri: str = ""

    @property
    def sha256(self) -> str:
        """The hash of the bytes, in hexadecimal."""
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True, slots=True)
class ReceivedCall:
    """A call of a tool, as the client repeats it from an earlier answer."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ReceivedResult:
    """The result of a call."""

    call_id: str
    parts: "Sequence[ReceivedPart]"


ReceivedPart = ReceivedText | ReceivedMedia | ReceivedCall | ReceivedResult


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """One message. Results of tools are messages of the role `tool` in every API."""

    role: MessageRole
    parts: Sequence[ReceivedPart]

    @property
    def text(self) -> str:
        """All its text, that of results included, one part a line."""
        return "\n".join(_texts(self.parts))

    @property
    def media(self) -> "list[ReceivedMedia]":
        """All its media, those in results included."""
        return list(_media(self.parts))


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that the client can run.

    The responses API also has `custom` tools, whose input is text, and the `local_shell`, whose input is a command.
    """

    name: str
    schema: Json = field(default_factory=dict[str, Any])
    description: str = ""
    form: Literal["function", "custom", "local_shell"] = "function"
    namespace: str | None = None


class AnswerState(StrEnum):
    """How far the answer to a request has come."""

    OPEN = "open"
    SENT = "sent"
    DISCONNECTED = "disconnected"
    """The client closed the connection before the answer was complete: this is how cancelling reaches a model."""


@dataclass(slots=True)
class ReceivedRequest:
    """One request for an answer of the model."""

    api: str
    model: str
    streaming: bool
    messages: Sequence[ReceivedMessage]
    tools: Sequence[OfferedTool] = ()
    schema: Json | None = None
    """The JSON Schema that the answer has to satisfy; an empty one if any JSON object does."""
    forced_tool: str | None = None
    """The tool that must be called; an empty text if any of them must."""
    body: Json = field(default_factory=dict[str, Any], repr=False)
    path: str = ""
    number: int = 0
    """The first request that arrives has number 1."""
    state: AnswerState = AnswerState.OPEN

    @property
    def text(self) -> str:
        """All text of all messages."""
        return "\n".join(message.text for message in self.messages)

    @property
    def media(self) -> list[ReceivedMedia]:
        """All media of all messages."""
        return [media for message in self.messages for media in message.media]


def objects(value: object) -> Iterator[Json]:
    """The JSON objects in a list."""
    return (cast("Json", each) for each in as_list(value) if isinstance(each, dict))


def member(value: object, *path: str) -> Any:
    """What stands at this path; None if there is nothing."""
    for name in path:
        value = as_object(value).get(name)
    return value


def media_part(kind: MediaKind, source: str, media_type: str = "", uri: str = "") -> ReceivedMedia:
    """A medium from base64, from a data URL or, without its bytes, from any other URL."""
    if source.startswith("data:"):
        head, _, source = source.partition(",")
        media_type = head[5:].partition(";")[0] or media_type
    elif "://" in source[:16]:
        return ReceivedMedia(kind, media_type, b"", source)
    return ReceivedMedia(kind, media_type, _bytes_of(source), uri)


def kind_of(media_type: str) -> MediaKind:
    """The kind of a medium of this type."""
    match media_type.partition("/")[0]:
        case "image":
            return "image"
        case "audio":
            return "audio"
        case _:
            return "file"


def messages_of(role: MessageRole, parts: Iterable[ReceivedPart]) -> Iterator[ReceivedMessage]:
    """A message of these parts, and before it one with the results of tools among them; none if there are no parts."""
    parts = list(parts)
    results = [part for part in parts if isinstance(part, ReceivedResult)]
    others = [part for part in parts if not isinstance(part, ReceivedResult)]
    if results:
        yield ReceivedMessage("tool", results)
    if others:
        yield ReceivedMessage(role, others)


def words_of(text: str) -> list[str]:
    """The text in the pieces of a stream: words with the blank before them."""
    words = text.split(" ")
    return [words[0], *(f" {word}" for word in words[1:])]


def _bytes_of(text: str) -> bytes:
    text = "".join(text.split()).replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return b""


def _texts(parts: "Iterable[ReceivedPart]") -> Iterator[str]:
    for part in parts:
        match part:
            case ReceivedText():
                yield part.text
            case ReceivedResult():
                yield from _texts(part.parts)
            case _:
                pass


def _media(parts: "Iterable[ReceivedPart]") -> Iterator[ReceivedMedia]:
    for part in parts:
        match part:
            case ReceivedMedia():
                yield part
            case ReceivedResult():
                yield from _media(part.parts)
            case _:
                pass
