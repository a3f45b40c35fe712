"""Turns a work order into the prompt that puts it to an agent.

Pure. Does not know processes, sessions or JSON-RPC. Every answer has a session of its own, so a conversation is told
from its beginning: instructions and earlier messages are written out as labelled text before the newest message.
Whatever a prompt cannot carry is refused by the name of the capability that is missing; nothing is left out silently.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, assert_never, cast

from accord.backends.acp.manifest import EMBEDDED_CONTEXT, carries
from accord.errors import BackendError
from accord.wire.acp.content import (
    AudioBlock,
    BlobResource,
    ContentBlock,
    ImageBlock,
    ResourceBlock,
    ResourceLinkBlock,
    TextBlock,
    TextResource,
)
from accord.wire.capability import Capability
from accord.wire.chat import Role
from accord.wire.conversation import (
    AnyPart,
    AudioPart,
    ConversationMessage,
    ImagePart,
    MessagePart,
    ResourceLinkPart,
    ResourcePart,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
)
from accord.wire.manifest import CapabilityManifest
from accord.wire.work import WorkOrder

LABELS: Final[Mapping[Role, str]] = MappingProxyType(
    {
        Role.SYSTEM: "[Instructions]",
        Role.USER: "[Earlier, the user said]",
        Role.ASSISTANT: "[Earlier, you answered]",
        Role.TOOL: "[Earlier, a tool answered]",
    }
)
"""What stands before a message that is written out."""
NOW: Final = "[Now the user says]"
ANSWERED: Final = {False: "[the tool answered] ", True: "[the tool failed] "}

PDF: Final = "application/pdf"


def prompt_blocks(order: WorkOrder, manifest: CapabilityManifest) -> list[ContentBlock]:
    """The prompt that puts this order to an agent; raises `BackendError` for what it cannot carry."""
    _refuse_what_cannot_be_asked(order)
    messages = order.conversation.messages
    if not messages:
        raise BackendError("There is nothing to ask: the conversation is empty", retryable=False)
    if len(messages) == 1 and messages[0].role is Role.USER:
        return list(_parts(messages[0].content, manifest))
    return _joined([block for index in range(len(messages)) for block in _told(messages, index, manifest)])


def _told(messages: Sequence[ConversationMessage], index: int, manifest: CapabilityManifest) -> Iterator[ContentBlock]:
    message = messages[index]
    is_newest = index == len(messages) - 1 and message.role is Role.USER
    yield TextBlock(text=f"{NOW if is_newest else LABELS[message.role]}\n")
    yield from _parts(message.content, manifest)
    if not is_newest:
        yield TextBlock(text="\n\n")


def _joined(blocks: Sequence[ContentBlock]) -> list[ContentBlock]:
    """The same blocks, with texts that follow each other made one."""
    joined: list[ContentBlock] = []
    for block in blocks:
        last = joined[-1] if joined else None
        if isinstance(block, TextBlock) and isinstance(last, TextBlock):
            joined[-1] = TextBlock(text=last.text + block.text)
        else:
            joined.append(block)
    return joined


def _parts(parts: Sequence[MessagePart], manifest: CapabilityManifest) -> Iterator[ContentBlock]:
    for part in cast("Sequence[AnyPart]", parts):
        yield from _part(part, manifest)


def _part(part: AnyPart, manifest: CapabilityManifest) -> Iterator[ContentBlock]:
    match part:
        case TextPart():
            yield TextBlock(text=part.text)
        case ThinkingPart():
            yield TextBlock(text=f"[thought: {part.text}]")
        case ImagePart():
            _need(Capability.IMAGE_INPUT, manifest)
            yield ImageBlock(data=part.data, mime_type=part.media_type)
        case AudioPart():
            _need(Capability.AUDIO, manifest)
            yield AudioBlock(data=part.data, mime_type=part.media_type)
        case ResourceLinkPart() | ResourcePart():
            yield _document(part, manifest)
        case ToolUsePart():
            yield TextBlock(text=f"[called the tool {part.name} with {json.dumps(part.input, ensure_ascii=False)}]")
        case ToolResultPart():
            yield TextBlock(text=ANSWERED[part.is_error])
            yield from _parts(part.content, manifest)
        case _:
            assert_never(part)


def _document(part: ResourceLinkPart | ResourcePart, manifest: CapabilityManifest) -> ContentBlock:
    if isinstance(part, ResourceLinkPart):
        return ResourceLinkBlock(uri=part.uri, name=part.name, description=part.description, mime_type=part.media_type)
    if carries(manifest, EMBEDDED_CONTEXT):
        if part.data is None:
            text = TextResource(uri=part.uri, text=part.text or "", mime_type=part.media_type)
            return ResourceBlock(resource=text)
        return ResourceBlock(resource=BlobResource(uri=part.uri, blob=part.data, mime_type=part.media_type))
    if part.data is not None:
        raise _refusal(Capability.PDF_INPUT if part.media_type == PDF else EMBEDDED_CONTEXT)
    # Text loses nothing by being written out, with the address that it came from.
    return TextBlock(text=f"[Document {part.uri}]\n{part.text or ''}\n[End of document]\n")


def _need(capability: str, manifest: CapabilityManifest) -> None:
    if not carries(manifest, capability):
        raise _refusal(capability)


def _refusal(capability: str) -> BackendError:
    return BackendError(
        f"A prompt to this agent cannot carry what was asked for: {capability}", retryable=False, refused=capability
    )


def _refuse_what_cannot_be_asked(order: WorkOrder) -> None:
    asked = (
        (Capability.TOOL_USE, bool(order.tools)),
        (Capability.STRUCTURED_OUTPUT_JSON_SCHEMA, order.response_schema is not None),
        (Capability.JSON_MODE, order.json_mode),
        (Capability.STOP_SEQUENCES, bool(order.stop_sequences)),
        (Capability.EXTENDED_THINKING, order.thinking),
        *((name, True) for name in order.parameters),
    )
    for capability, is_asked in asked:
        if is_asked:
            raise _refusal(capability)
