"""Turns what a user sent into the conversation that a backend is given: history, content blocks, prompt, system."""

from collections.abc import Mapping, Sequence
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
from accord.wire.requirement import CapabilityRequirements
from accord.wire.work import ToolSpec, WorkOrder

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


def converse(  # noqa: PLR0913 - the fields of an order, each by its name
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
    parts: list[MessagePart] = [*asked, *(part_of(block) for block in content)]
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


def _message(role: Role, part: TextPart) -> ConversationMessage:
    return ConversationMessage.trusted(role=role, content=[part])
