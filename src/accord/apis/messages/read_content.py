"""Messages of the Messages API as messages of a work order: content blocks become parts. Pure.

What a part cannot hold is left out of it and reported as a field; `read_request.py` reads the rest of the request.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from accord.core.work.derive import PDF
from accord.core.work.fields import asks_for_more
from accord.wire.conversation import (
    ConversationMessage,
    ImagePart,
    MessagePart,
    ResourcePart,
    Role,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
    text_message,
)

Json = dict[str, Any]

ROLES: Final[Mapping[str, Role]] = MappingProxyType(
    {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM}
)

MESSAGE_MEMBERS: Final = frozenset({"role", "content"})
TEXT_MEMBERS: Final = frozenset({"type", "text", "cache_control"})
IMAGE_MEMBERS: Final = frozenset({"type", "source", "cache_control"})
DOCUMENT_MEMBERS: Final = frozenset({"type", "source", "title", "context", "citations", "cache_control"})
TOOL_USE_MEMBERS: Final = frozenset({"type", "id", "name", "input", "signature", "cache_control"})
TOOL_RESULT_MEMBERS: Final = frozenset({"type", "tool_use_id", "content", "is_error", "cache_control"})


class MessagesFieldError(Exception):
    """A member has another shape than expected; its path grows on the way out, so that a good request builds none."""

    def __init__(self, path: str, expected: str) -> None:
        super().__init__(path)
        self.path: Final = path
        self.expected: Final = expected

    def inside(self, outer: str) -> "MessagesFieldError":
        """The same error, seen from the member that holds this one."""
        is_joined = not self.path or self.path.startswith("[")
        return MessagesFieldError(f"{outer}{self.path}" if is_joined else f"{outer}.{self.path}", self.expected)


class MessagesContentReader:
    """Reads messages and the system prompt; adds the rows that they use to `fields`."""

    __slots__ = ("_fields", "_has_begun", "messages", "system")

    def __init__(self, fields: dict[str, None]) -> None:
        self._fields: Final = fields
        self.messages: Final[list[ConversationMessage | Json]] = []
        self._has_begun = False
        self.system: Final[list[MessagePart]] = []

    def read_system(self, value: Any) -> None:
        """Read the system prompt."""
        if not value:
            return
        self._fields["system"] = None
        self._read_content("system", value, BLOCKS_OF[Role.SYSTEM], self.system)

    def read_messages(self, value: Any) -> None:
        """Read the list of messages."""
        for place, item in enumerate(as_list(value, "messages")):
            try:
                self._read_message(as_object(item))
            except MessagesFieldError as error:
                raise error.inside(f"messages[{place}]") from None

    def _read_message(self, message: Json) -> None:
        role = ROLES.get(name) if isinstance(name := message.get("role"), str) else None
        if role is None:
            raise MessagesFieldError("role", "one of user, assistant and system")
        self._check_members(message, MESSAGE_MEMBERS)
        content = message.get("content")
        self._has_begun |= role is not Role.SYSTEM
        if isinstance(content, str) and role is not Role.SYSTEM:
            self.messages.append(text_message(role, content))
            return
        parts: list[MessagePart] = []
        if content is not None or role is not Role.SYSTEM:  # a system message may only set an effort
            self._read_content("content", content, BLOCKS_OF[role], parts)
        if role is Role.SYSTEM and parts and self._has_begun:
            self._fields["messages[].system"] = None
        if role is Role.ASSISTANT and any(map(_is_medium, parts)):
            self._fields["messages[].content[].media"] = None
        self._add_messages(role, parts)

    def _add_messages(self, role: Role, parts: list[MessagePart]) -> None:
        """Add the parts as messages: results of tools are messages of their own, in their place."""
        if role is Role.USER and any(part.__class__ is ToolResultPart for part in parts):
            runs: list[tuple[Role, list[MessagePart]]] = []
            for part in parts:
                side = Role.TOOL if part.__class__ is ToolResultPart else role
                if not runs or runs[-1][0] is not side:
                    runs.append((side, []))
                runs[-1][1].append(part)
        else:
            runs = [(role, parts)]
        self.messages.extend(ConversationMessage(role=side, content=run) for side, run in runs)

    def _read_content(
        self, path: str, content: Any, kinds: Mapping[str, "BlockReader"], parts: list[MessagePart]
    ) -> None:
        """Add the parts of a text, or of a list of blocks of these kinds."""
        if isinstance(content, str):
            parts.append(TextPart(text=content))
            return
        if not isinstance(content, list):
            raise MessagesFieldError(path, "a string or a list of content blocks")
        for place, item in enumerate(cast("list[Any]", content)):
            try:
                block = as_object(item)
                kind = block.get("type")
                if not isinstance(kind, str):
                    raise MessagesFieldError("type", "the kind of the block")
                reader = kinds.get(kind)
                if reader is None:
                    self._read_unlisted(kind)
                else:
                    reader(self, block, parts)
            except MessagesFieldError as error:
                raise error.inside(f"{path}[{place}]") from None

    def _read_unlisted(self, kind: str) -> None:
        if (side := SIDE_OF.get(kind)) is not None:
            raise MessagesFieldError(
                "type", f"a block that is not of the kind {kind}, which is only for messages of the {side}"
            )
        self._fields["messages[].content[].other"] = None

    # Blocks. Each reader adds its parts to those of the message.

    def read_text(self, block: Json, parts: list[MessagePart]) -> None:
        """Add a text."""
        text = block.get("text")
        if not isinstance(text, str):
            raise MessagesFieldError("text", "a string")
        if len(block) == 2:  # most text blocks by far have only a type and a text
            parts.append(TextPart(text=text))
            return
        self._check_members(block, TEXT_MEMBERS)
        parts.append(TextPart(text=text, cache_control=self.cache_control(block)))

    def read_image(self, block: Json, parts: list[MessagePart]) -> None:
        """Add an image; one by a file's id is only reported."""
        self._check_members(block, IMAGE_MEMBERS)
        self._fields["messages[].content[].image"] = None
        source = as_object(block.get("source"), "source")
        match source.get("type"):
            case "base64":
                media_type = text_member(source, "media_type", path="source.media_type")
                fields: Json = {"media_type": media_type, "data": text_member(source, "data", path="source.data")}
            case "url":
                self._fields["messages[].content[].image.address"] = None
                fields = {"media_type": "", "data": "", "uri": text_member(source, "url", path="source.url")}
            case "file":
                self._fields["messages[].content[].image.file_id"] = None
                return
            case _:
                raise MessagesFieldError("source.type", "one of base64, url and file")
        parts.append(ImagePart(**fields, cache_control=self.cache_control(block)))

    def read_document(self, block: Json, parts: list[MessagePart]) -> None:
        """Add a document, after its context as text; one by a file's id is only reported."""
        self._check_members(block, DOCUMENT_MEMBERS)
        citations = block.get("citations")
        if isinstance(citations, dict) and cast("Json", citations).get("enabled"):
            self._fields["messages[].content[].document.citations"] = None
        title = text_member(block, "title", "")
        document = self._read_source(as_object(block.get("source"), "source"), title)
        if context := text_member(block, "context", ""):
            self._fields["messages[].content[].document.context"] = None
            document.insert(0, TextPart(text=context))
        if document and (mark := self.cache_control(block)) is not None:
            document[-1] = document[-1].model_copy(update={"cache_control": mark})
        parts += document

    def _read_source(self, source: Json, title: str) -> list[MessagePart]:
        document: list[MessagePart] = []
        match source.get("type"):
            case "base64":
                self._fields["messages[].content[].document"] = None
                media_type = text_member(source, "media_type", path="source.media_type")
                data = text_member(source, "data", path="source.data")
                document.append(ResourcePart(uri=title, media_type=media_type, data=data))
            case "text":
                self._fields["messages[].content[].document.text"] = None
                document.append(ResourcePart(uri=title, text=text_member(source, "data", path="source.data")))
            case "content":
                self._read_content_document(source.get("content"), title, document)
            case "url":
                self._fields["messages[].content[].document"] = None
                self._fields["messages[].content[].document.address"] = None
                if title:
                    self._fields["messages[].other"] = None
                url = text_member(source, "url", path="source.url")
                document.append(ResourcePart(uri=url, media_type=PDF, data=""))
            case "file":
                self._fields["messages[].content[].document"] = None
                self._fields["messages[].content[].document.file_id"] = None
            case _:
                raise MessagesFieldError("source.type", "one of base64, text, content, url and file")
        return document

    def _read_content_document(self, content: Any, title: str, document: list[MessagePart]) -> None:
        """Each text of the document is a document of its own, so that images stay where they are."""
        inner: list[MessagePart] = []
        self._read_content("source.content", content, DOCUMENT_BLOCKS, inner)
        for part in inner:
            if isinstance(part, TextPart):
                self._fields["messages[].content[].document.text"] = None
                document.append(ResourcePart(uri=title, text=part.text, cache_control=part.cache_control))
            else:
                document.append(part)

    def read_tool_use(self, block: Json, parts: list[MessagePart]) -> None:
        """Add a call of a tool."""
        self._check_members(block, TOOL_USE_MEMBERS)
        self._fields["messages[].content[].tool_use"] = None
        signature = block.get("signature")
        if signature is not None:
            self._fields["messages[].content[].tool_use.signature"] = None
        parts.append(
            ToolUsePart(
                id=text_member(block, "id"),
                name=text_member(block, "name"),
                input=as_object(block.get("input"), "input"),
                signature=text_member(block, "signature") if signature is not None else None,
                cache_control=self.cache_control(block),
            )
        )

    def read_tool_result(self, block: Json, parts: list[MessagePart]) -> None:
        """Add the result of a call."""
        self._check_members(block, TOOL_RESULT_MEMBERS)
        self._fields["messages[].content[].tool_result"] = None
        inner: list[MessagePart] = []
        if (content := block.get("content")) is not None:
            self._read_content("content", content, RESULT_BLOCKS, inner)
            if any(map(_is_medium, inner)):
                self._fields["messages[].content[].tool_result.media"] = None
            elif len(inner) > 1:
                self._fields["messages[].content[].tool_result.texts"] = None
        parts.append(
            ToolResultPart(
                tool_use_id=text_member(block, "tool_use_id"),
                content=inner,
                is_error=bool(block.get("is_error")),
                cache_control=self.cache_control(block),
            )
        )

    def read_thought(self, block: Json, parts: list[MessagePart]) -> None:
        """Add reasoning with its signature."""
        self._fields["messages[].content[].thinking"] = None
        # Accord's answers have an empty signature where the model gave none.
        signature = text_member(block, "signature", "") or None
        if signature is None:
            self._fields["messages[].content[].thinking.unsigned"] = None
        parts.append(ThinkingPart(text=text_member(block, "thinking"), signature=signature))

    def read_redacted_thought(self, block: Json, parts: list[MessagePart]) -> None:
        """Add reasoning of which there is only the signature."""
        self._fields["messages[].content[].thinking"] = None
        parts.append(ThinkingPart(text="", signature=text_member(block, "data"), redacted=True))

    def read_tool_reference(self, block: Json, parts: list[MessagePart]) -> None:
        """A tool that a search found. Every tool of an order is there from the start, so that its name is enough."""
        self._fields["messages[].content[].tool_reference"] = None
        mark = self.cache_control(block)
        parts.append(TextPart(text=text_member(block, "tool_name"), cache_control=mark))

    def read_tool_addition(self, block: Json, parts: list[MessagePart]) -> None:  # noqa: ARG002 - it has no parts
        """A tool that is available from here on: one of the listed tools, which an order has from the start."""
        tool = as_object(block.get("tool"), "tool")
        is_listed = tool.get("type") == "tool_reference"
        self.cache_control(block)
        self._fields[f"messages[].content[].{'tool_reference' if is_listed else 'other'}"] = None

    def cache_control(self, block: Json) -> Json | None:
        """The mark of a block or a tool to cache the request up to it."""
        if (mark := block.get("cache_control")) is None:
            return None
        self._fields["*.cache_control"] = None
        return as_object(mark, "cache_control")

    def _check_members(self, block: Json, listed: frozenset[str]) -> None:
        if asks_for_more(block, listed):
            self._fields["messages[].other"] = None


def _is_medium(part: MessagePart) -> bool:
    return isinstance(part, ImagePart) or (isinstance(part, ResourcePart) and part.data is not None)


def as_object(value: Any, path: str = "") -> Json:
    """The value, which has to be an object."""
    if not isinstance(value, dict):
        raise MessagesFieldError(path, "an object")
    return cast("Json", value)


def as_list(value: Any, path: str = "") -> list[Any]:
    """The value, which has to be a list."""
    if not isinstance(value, list):
        raise MessagesFieldError(path, "a list")
    return cast("list[Any]", value)


def text_member(given: Json, name: str, otherwise: str | None = None, path: str | None = None) -> str:
    """The text of this name; `otherwise` if it is absent or null."""
    value = given.get(name)
    if isinstance(value, str):
        return value
    if value is None and otherwise is not None:
        return otherwise
    raise MessagesFieldError(path or name, "a string")


BlockReader = Callable[[MessagesContentReader, Json, list[MessagePart]], None]

_TEXT: Final[Mapping[str, BlockReader]] = {"text": MessagesContentReader.read_text}
_IMAGE: Final[Mapping[str, BlockReader]] = {"image": MessagesContentReader.read_image}
_DOCUMENT: Final[Mapping[str, BlockReader]] = {"document": MessagesContentReader.read_document}

DOCUMENT_BLOCKS: Final = MappingProxyType({**_TEXT, **_IMAGE})
RESULT_BLOCKS: Final = MappingProxyType(
    {**_TEXT, **_IMAGE, **_DOCUMENT, "tool_reference": MessagesContentReader.read_tool_reference}
)
BLOCKS_OF: Final[Mapping[Role, Mapping[str, BlockReader]]] = MappingProxyType(
    {
        Role.SYSTEM: {**_TEXT, "tool_addition": MessagesContentReader.read_tool_addition},
        Role.USER: {**_TEXT, **_IMAGE, **_DOCUMENT, "tool_result": MessagesContentReader.read_tool_result},
        Role.ASSISTANT: {
            **_TEXT,
            **_IMAGE,
            **_DOCUMENT,
            "tool_use": MessagesContentReader.read_tool_use,
            "thinking": MessagesContentReader.read_thought,
            "redacted_thinking": MessagesContentReader.read_redacted_thought,
        },
    }
)
"""The kinds of blocks that a work order can hold, by the role of the message; any other is only reported."""

SIDE_OF: Final[Mapping[str, str]] = MappingProxyType(
    {"tool_result": "user", "tool_use": "assistant", "thinking": "assistant", "redacted_thinking": "assistant"}
)
"""Kinds of blocks that mean something in messages of one role only."""
