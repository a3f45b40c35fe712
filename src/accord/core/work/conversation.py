"""Build the conversation that a backend is given: from a request and its history, and from earlier answers."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, assert_never, cast

from accord.wire.acp.content import (
    AnyBlock,
    AudioBlock,
    ContentBlock,
    ImageBlock,
    ResourceBlock,
    ResourceLinkBlock,
    TextBlock,
    TextResource,
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
from accord.wire.work import AnyPiece, EndPiece, TextPiece, ThinkingPiece, ToolCallPiece, ToolSpec, WorkOrder, WorkPiece

# Turns what a user sent into the conversation that a backend is given: history, content blocks, prompt, system.

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


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
    parameters: Mapping[str, Any] = NOTHING,
    requirements: CapabilityRequirements | None = None,
    follow: Sequence[ConversationMessage] = (),
) -> WorkOrder:
    """A piece of work that carries all of it. Only the agent's own words are checked; the rest has been already."""
    messages = [_message(Role.SYSTEM, TextPart(text=system))] if system else []
    messages += [_message(said.role, TextPart.trusted(text=said.content)) for said in history]
    asked = [TextPart(text=prompt)] if prompt else []
    parts: list[MessagePart] = [*asked, *(part_from_block(block) for block in content)]
    messages.append(ConversationMessage.trusted(role=Role.USER, content=parts))
    messages += follow
    return WorkOrder.trusted(
        conversation=Conversation.trusted(messages=messages),
        requirements=requirements or CapabilityRequirements.trusted(),
        tools=list(tools),
        response_schema=None if response_schema is None else dict(response_schema),
        stop_sequences=list(stop_sequences),
        stream=stream,
        thinking=thinking,
        parameters=dict(parameters),
    )


def part_from_block(block: ContentBlock) -> MessagePart:
    """The part of a message that this block becomes."""
    block = cast("AnyBlock", block)
    match block:
        case TextBlock():
            return TextPart(text=block.text)
        case ImageBlock():
            return ImagePart(media_type=block.mime_type, data=block.data, uri=block.uri)
        case AudioBlock():
            return AudioPart(media_type=block.mime_type, data=block.data)
        case ResourceLinkBlock():
            return ResourceLinkPart(uri=block.uri, name=block.name, media_type=block.mime_type)
        case ResourceBlock():
            return _resource(block)
        case _:
            assert_never(block)


def _resource(block: ResourceBlock) -> ResourcePart:
    inner = block.resource
    if isinstance(inner, TextResource):
        return ResourcePart(uri=inner.uri, media_type=inner.mime_type, text=inner.text)
    return ResourcePart(uri=inner.uri, media_type=inner.mime_type, data=inner.blob)


def _message(role: Role, part: TextPart) -> ConversationMessage:
    return ConversationMessage.trusted(role=role, content=[part])


# Turns the pieces of an answer into the message that they were, so that the model can be given it again.
#
# Seals on reasoning and on calls stay with what they seal: a model that gets its reasoning back without them refuses
# it.


def assistant_message(pieces: Iterable[AnyPiece]) -> ConversationMessage:
    """What the assistant said, in the order in which it said it."""
    writing = _Writing()
    for piece in pieces:
        writing.take(piece)
    return ConversationMessage(role=Role.ASSISTANT, content=writing.finish())


def tool_result_message(
    call: ToolCallPiece, content: str | Iterable[MessagePart], *, is_error: bool = False
) -> ConversationMessage:
    """What a tool answered to this call."""
    parts: list[MessagePart] = [TextPart(text=content)] if isinstance(content, str) else list(content)
    result = ToolResultPart(tool_use_id=call.id, content=parts, is_error=is_error)
    return ConversationMessage(role=Role.TOOL, content=[result])


class _Writing:
    """A message while it is put together."""

    def __init__(self) -> None:
        self._parts: list[MessagePart] = []
        self._text: list[str] = []
        self._thoughts: list[str] = []

    def take(self, piece: AnyPiece) -> None:
        match piece:
            case TextPiece():
                self._end_thought()
                self._text.append(piece.text)
            case ThinkingPiece():
                self._end_text()
                self._take_thought(piece)
            case ToolCallPiece():
                self.finish()
                self._parts.append(
                    ToolUsePart(id=piece.id, name=piece.name, input=piece.input, signature=piece.signature)
                )
            case WorkPiece() | EndPiece():
                pass

    def finish(self) -> list[MessagePart]:
        self._end_thought()
        self._end_text()
        return self._parts

    def _take_thought(self, piece: ThinkingPiece) -> None:
        if piece.redacted:
            self._end_thought()
            self._parts.append(ThinkingPart(text=piece.text, signature=piece.signature, redacted=True))
            return
        self._thoughts.append(piece.text)
        if piece.signature is not None:
            self._end_thought(piece.signature)

    def _end_thought(self, signature: str | None = None) -> None:
        if self._thoughts:
            self._parts.append(ThinkingPart(text="".join(self._thoughts), signature=signature))
            self._thoughts = []

    def _end_text(self) -> None:
        if text := "".join(self._text):
            self._parts.append(TextPart(text=text))
        self._text = []
