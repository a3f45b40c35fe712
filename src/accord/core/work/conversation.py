"""Build the conversation that a backend is given: from a request and its history, and from earlier answers.

The order is neutral between model APIs; each backend translates it into its own API's form.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, assert_never, cast
from urllib.parse import unquote, urlsplit

from accord.acp.content import AnyBlock
from accord.acp.schema_parts import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from accord.wire.conversation import (
    AudioPart,
    ChatMessage,
    Conversation,
    ConversationMessage,
    ImagePart,
    MessagePart,
    ResourceLinkPart,
    ResourcePart,
    Role,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
)
from accord.wire.manifest import CapabilityRequirements
from accord.wire.work import (
    AnyPiece,
    CitationPiece,
    EndPiece,
    MediaPiece,
    TextPiece,
    ThinkingPiece,
    ToolCallDelta,
    ToolCallPiece,
    ToolSpec,
    WorkOrder,
    WorkPiece,
    read_reasoning,
)

EMPTY: Final[Mapping[str, Any]] = MappingProxyType({})


def build_order(  # noqa: PLR0913 - the fields of an order, each by its name
    *,
    prompt: str,
    content: Sequence[ContentBlock],
    history: Sequence[ChatMessage],
    system: str | None,
    tools: Sequence[ToolSpec] = (),
    response_schema: Mapping[str, Any] | None = None,
    stop_sequences: Sequence[str] = (),
    thinking: bool = False,
    stream: bool = False,
    parameters: Mapping[str, Any] = EMPTY,
    requirements: CapabilityRequirements | None = None,
    follow: Sequence[ConversationMessage] = (),
) -> WorkOrder:
    """One work order: system message, history, the user's message, and the messages that follow it.

    Only `prompt` and `system`, which an agent wrote, are validated; the rest was validated when it was received.
    """
    messages: list[ConversationMessage] = []
    if system:
        messages.append(ConversationMessage(role=Role.SYSTEM, content=[TextPart(text=system)]))
    messages += [ConversationMessage(role=past.role, content=[TextPart(text=past.content)]) for past in history]
    parts: list[MessagePart] = [TextPart(text=prompt)] if prompt else []
    parts += [part_from_block(block) for block in content]
    messages.append(ConversationMessage(role=Role.USER, content=parts))
    messages += follow
    others, reasoning = read_reasoning(parameters)
    return WorkOrder(
        conversation=Conversation(messages=messages),
        requirements=requirements or CapabilityRequirements(),
        tools=list(tools),
        response_schema=None if response_schema is None else dict(response_schema),
        stop_sequences=list(stop_sequences),
        stream=stream,
        thinking=thinking,
        reasoning=reasoning,
        parameters=others,
    )


def part_from_block(block: ContentBlock) -> MessagePart:
    """The message part for an ACP content block."""
    block = cast("AnyBlock", block)
    match block:
        case TextContent():
            return TextPart(text=block.text)
        case ImageContent():
            return ImagePart(media_type=block.mime_type, data=block.data, uri=block.uri)
        case AudioContent():
            return AudioPart(media_type=block.mime_type, data=block.data)
        case ResourceLink():
            return ResourceLinkPart(
                uri=block.uri, name=block.name, media_type=block.mime_type, description=block.description
            )
        case EmbeddedResource():
            resource = block.resource
            if isinstance(resource, TextResourceContents):
                return ResourcePart(uri=resource.uri, media_type=resource.mime_type, text=resource.text)
            return ResourcePart(uri=resource.uri, media_type=resource.mime_type, data=resource.blob)
        case _:
            assert_never(block)


def links_to_files(files: Iterable[str]) -> list[ResourceLink]:
    """Resource links to these files, each named by the last segment of its path."""
    return [ResourceLink(uri=file, name=_file_name(file)) for file in files if file.strip()]


def _file_name(reference: str) -> str:
    if reference[:5].lower() == "data:":  # its path is the content itself
        return "data"
    try:
        parts = urlsplit(reference)
    except ValueError:  # a reference need not be a URL
        return reference
    return unquote(parts.path.rstrip("/").rpartition("/")[2]) or parts.netloc or reference


def assistant_message(pieces: Iterable[AnyPiece]) -> ConversationMessage:
    """The pieces of an answer as one message, in their order, so that the model can be given it again.

    Signatures stay with the reasoning and the calls that they sign: without them a model refuses its own reasoning.
    """
    builder = _MessageBuilder()
    for piece in pieces:
        builder.add(piece)
    return ConversationMessage(role=Role.ASSISTANT, content=builder.finish())


def tool_result_message(
    call: ToolCallPiece, content: str | Iterable[MessagePart], *, is_error: bool = False
) -> ConversationMessage:
    """The message that answers this call."""
    parts: list[MessagePart] = [TextPart(text=content)] if isinstance(content, str) else list(content)
    result = ToolResultPart(tool_use_id=call.id, content=parts, is_error=is_error)
    return ConversationMessage(role=Role.TOOL, content=[result])


class _MessageBuilder:
    """Joins consecutive pieces of text, and consecutive pieces of reasoning, into one part each."""

    def __init__(self) -> None:
        self._parts: list[MessagePart] = []
        self._text: list[str] = []
        self._thoughts: list[str] = []

    def add(self, piece: AnyPiece) -> None:
        match piece:
            case TextPiece():
                self._end_thought()
                self._text.append(piece.text)
            case ThinkingPiece(redacted=True):
                self.finish()
                self._parts.append(ThinkingPart(text=piece.text, signature=piece.signature, redacted=True))
            case ThinkingPiece():
                self._end_text()
                self._thoughts.append(piece.text)
                if piece.signature is not None:  # it signs everything since the last signature
                    self._end_thought(piece.signature)
            case ToolCallPiece(cut=False):
                self.finish()
                self._parts.append(
                    ToolUsePart(id=piece.id, name=piece.name, input=piece.input, signature=piece.signature)
                )
            case ToolCallPiece() | ToolCallDelta() | CitationPiece() | MediaPiece() | WorkPiece() | EndPiece():
                pass  # no API takes what a model cited or drew back from its client

    def finish(self) -> list[MessagePart]:
        self._end_thought()
        self._end_text()
        return self._parts

    def _end_thought(self, signature: str | None = None) -> None:
        if self._thoughts:
            self._parts.append(ThinkingPart(text="".join(self._thoughts), signature=signature))
            self._thoughts = []

    def _end_text(self) -> None:
        if text := "".join(self._text):
            self._parts.append(TextPart(text=text))
        self._text = []
