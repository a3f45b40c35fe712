"""Turns what a user sent into the conversation that a backend is given: history, content blocks, prompt, system."""

from collections.abc import Sequence
from typing import assert_never, cast

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
from accord.wire.chat import ChatMessage, Role
from accord.wire.conversation import (
    AudioPart,
    Conversation,
    ConversationMessage,
    ImagePart,
    MessagePart,
    ResourceLinkPart,
    ResourcePart,
    TextPart,
)
from accord.wire.work import WorkOrder


def converse(
    *, prompt: str, content: Sequence[ContentBlock], history: Sequence[ChatMessage], system: str | None
) -> WorkOrder:
    """A piece of work that carries all of it."""
    messages = [_text(Role.SYSTEM, system)] if system else []
    messages += [_text(said.role, said.content) for said in history]
    asked = [TextPart(text=prompt)] if prompt else []
    parts: list[MessagePart] = [*asked, *(part_of(block) for block in content)]
    messages.append(ConversationMessage(role=Role.USER, content=parts))
    return WorkOrder(conversation=Conversation(messages=messages))


def part_of(block: ContentBlock) -> MessagePart:
    """The part of a message that this block becomes."""
    block = cast("AnyBlock", block)
    match block:
        case TextBlock():
            return TextPart(text=block.text)
        case ImageBlock():
            return ImagePart(media_type=block.mime_type, data=block.data)
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


def _text(role: Role, text: str) -> ConversationMessage:
    return ConversationMessage(role=role, content=[TextPart(text=text)])
