"""Writes the parts of messages as content blocks of the Messages API. Pure; knows nothing of the rest of a request.

Text without a word is left out: the API refuses such blocks. Reasoning goes back as it came if it has its seal; without
one (another backend's, an emulation's) the API takes it as text only. Seals of others on calls have no place and no use
here. Documents are documents where the user or a tool gives them, and text where the API wants text.
"""

from collections.abc import Iterator
from typing import Any, Final, assert_never, cast

from accord.backends.models.api import CannotCarry
from accord.backends.models.words import document_text, link_text
from accord.core.derive import PDF, needed_for
from accord.wire.capability import FILE_INPUT, TOOL_RESULT_MEDIA, Capability
from accord.wire.chat import Role
from accord.wire.conversation import (
    AnyPart,
    AudioPart,
    ConversationMessage,
    ImagePart,
    ResourceLinkPart,
    ResourcePart,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
)

MAX_TITLE_CHARS: Final = 500
PLAIN: Final = "text/plain"
MEDIA_TYPE: Final = "media type: "

GIVING: Final = frozenset({Role.USER, Role.TOOL})

Block = dict[str, Any]


def blocks_of(message: ConversationMessage) -> list[Block]:
    """What a message says; raises `CannotCarry` for what its side cannot say."""
    return [
        block for part in cast("list[AnyPart]", message.content) if (block := _block(part, message.role)) is not None
    ]


def _block(part: AnyPart, role: Role) -> Block | None:
    match part:
        case TextPart():
            return _text(part.text)
        case ThinkingPart():
            return _thinking(part, role)
        case ToolUsePart():
            return _call(part, role)
        case ToolResultPart():
            return _result(part, role)
        case ImagePart() | AudioPart() | ResourcePart() | ResourceLinkPart():
            return _given(part) if role in GIVING else _written(part, role)
        case _:
            assert_never(part)


def _written(part: ImagePart | AudioPart | ResourcePart | ResourceLinkPart, role: Role) -> Block | None:
    """What the system prompt and the assistant can say of it: text."""
    if isinstance(part, ResourceLinkPart):
        return _text(link_text(part))
    if isinstance(part, ResourcePart) and part.data is None:
        return _text(document_text(part))
    raise CannotCarry(needed_for(part) or FILE_INPUT, f"the Messages API takes only text where the {role} speaks")


def _given(part: ImagePart | AudioPart | ResourcePart | ResourceLinkPart) -> Block | None:
    match part:
        case ImagePart():
            return {"type": "image", "source": _base64(part.media_type, part.data)}
        case ResourceLinkPart():
            return _text(link_text(part))
        case ResourcePart():
            return _document(part)
        case AudioPart():
            raise CannotCarry(Capability.AUDIO, "the Messages API takes no sound")
        case _:
            assert_never(part)


def _document(part: ResourcePart) -> Block | None:
    if part.data is not None:
        if part.media_type != PDF:
            raise CannotCarry(FILE_INPUT, "the Messages API takes PDF documents and text, and no other files")
        name = "title" if 0 < len(part.uri) <= MAX_TITLE_CHARS else "context"
        return {"type": "document", "source": _base64(PDF, part.data), name: part.uri}
    if not part.text or part.text.isspace() or not 0 < len(part.uri) <= MAX_TITLE_CHARS:
        return _text(document_text(part))
    source = {"type": "text", "media_type": PLAIN, "data": part.text}
    told = {} if part.media_type is None else {"context": MEDIA_TYPE + part.media_type}
    return {"type": "document", "source": source, "title": part.uri, **told}


def _base64(media_type: str, data: str) -> Block:
    return {"type": "base64", "media_type": media_type, "data": data}


def _text(text: str) -> Block | None:
    return {"type": "text", "text": text} if text and not text.isspace() else None


def _thinking(part: ThinkingPart, role: Role) -> Block | None:
    if role is Role.ASSISTANT and part.signature is not None:
        if part.redacted:
            return {"type": "redacted_thinking", "data": part.signature}
        return {"type": "thinking", "thinking": part.text, "signature": part.signature}
    return _text(f"[thought: {part.text}]") if part.text else None


def _call(part: ToolUsePart, role: Role) -> Block:
    if role is not Role.ASSISTANT:
        raise CannotCarry(Capability.TOOL_USE, "only the assistant calls tools")
    arguments: Any = {} if part.input is None else part.input
    if not isinstance(arguments, dict):
        raise CannotCarry(Capability.TOOL_USE, "arguments of a tool that are not an object")
    return {"type": "tool_use", "id": part.id, "name": part.name, "input": arguments}


def _result(part: ToolResultPart, role: Role) -> Block:
    if role not in GIVING:
        raise CannotCarry(Capability.TOOL_USE, f"a tool's result in a message of the role {role}")
    content = list(_inside(part))
    given = {"content": content} if content else {}
    failed = {"is_error": True} if part.is_error else {}
    return {"type": "tool_result", "tool_use_id": part.tool_use_id, **given, **failed}


def _inside(result: ToolResultPart) -> Iterator[Block]:
    for part in cast("list[AnyPart]", result.content):
        if isinstance(part, ToolUsePart | ToolResultPart):
            raise CannotCarry(TOOL_RESULT_MEDIA, "a tool's result that holds a call or another result")
        if (block := _block(part, Role.TOOL)) is not None:
            yield block
