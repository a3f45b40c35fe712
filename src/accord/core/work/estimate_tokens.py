"""Estimate how many tokens a work order has, for backends that cannot count them. Pure.

It is an estimate: every model has a tokenizer of its own, and none is included. Text is counted by classes of its UTF-8
bytes, because the first byte of a character tells its script: tokenizers need about a quarter of a token for a letter
of English and about one for a Chinese character. Tools, schemas and arguments are counted as JSON. An image has the
price of a large one, since reading its size would take decoding it. What an endpoint adds by itself, such as its own
instructions for tools, is not counted.

The estimate is a sum over the parts of the order, so that more work is never estimated as less, and nothing is 0.
"""

from collections.abc import Mapping
from math import ceil
from string import ascii_letters
from typing import Any, Final, assert_never, cast
from weakref import ref

import msgspec

from accord.core.sizes import WINDOW_BYTES
from accord.core.work.derive import PDF
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
from accord.wire.work import WorkOrder


def _bytes(first: int, last: int) -> bytes:
    return bytes(range(first, last + 1))


TOKENS_PER_BYTE: Final[tuple[tuple[bytes, float], ...]] = (
    (ascii_letters.encode(), 0.24),
    (b" ", 0.15),  # is mostly part of the word after it
    (b"0123456789", 0.45),
    (bytes(byte for byte in range(0x21, 0x7F) if not chr(byte).isalnum()), 0.8),
    (b"\t\n\r", 0.4),
    (_bytes(0xC2, 0xCC), 0.8),  # Latin letters with accents
    (_bytes(0xCD, 0xD4), 0.45),  # Greek, Cyrillic
    (_bytes(0xD5, 0xDF), 0.6),  # Armenian, Hebrew, Arabic
    (_bytes(0xE0, 0xE1), 0.7),  # the scripts of India and South-East Asia, Georgian, Ethiopic
    (_bytes(0xE2, 0xE2), 1.0),  # punctuation and symbols
    (_bytes(0xE3, 0xE3), 0.8),  # Japanese syllables
    (_bytes(0xE4, 0xE9), 1.0),  # Chinese characters
    (_bytes(0xEA, 0xED), 0.8),  # Korean
    (_bytes(0xEE, 0xEF), 1.0),
    (_bytes(0xF0, 0xF4), 2.5),  # emoji, rare characters
)
"""Classes of first bytes, and the tokens of a character that begins with one. The other bytes of it count nothing."""

_LATER_BYTES: Final = _bytes(0x80, 0xBF)

IMAGE_TOKENS: Final = 1600
"""A large image; a small one costs less, and some models take more for one in full detail."""
PAGE_TOKENS: Final = 2200
"""A page of a PDF, which models read both as text and as an image."""
PAGE_CHARS: Final = 80_000
"""How much of a PDF in base64 counts as a page."""
AUDIO_CHARS: Final = 700
"""How much audio in base64 counts as a token: about 30 tokens a second at 128 kbit/s."""
FILE_CHARS: Final = 4
LONG_TOKENS: Final = 16_000
"""A message of more tokens is not counted twice."""
MESSAGE_TOKENS: Final = 4
"""What marks the beginning, the author and the end of a message, and likewise of a tool, a call and a result."""

_encode: Final = msgspec.json.Encoder(enc_hook=str).encode


def estimate_tokens(order: WorkOrder) -> int:
    """Estimate the input tokens of this order."""
    total = 0.0
    for message in order.conversation.messages:
        total += _message_tokens(message)
    for tool in order.tools:
        total += MESSAGE_TOKENS + text_tokens(tool.name) + text_tokens(tool.description)
        total += json_tokens(tool.input_schema)
    if order.response_schema is not None:
        total += MESSAGE_TOKENS + json_tokens(order.response_schema)
    return ceil(total)


_long_messages: Final[dict[int, tuple[ref[ConversationMessage], float]]] = {}
"""The estimates of long messages by their identity: a request is estimated once, for however many backends."""


def _message_tokens(message: ConversationMessage) -> float:
    known = _long_messages.get(id(message))
    if known is not None and known[0]() is message:
        return known[1]
    tokens = MESSAGE_TOKENS + sum(map(_part_tokens, message.content))
    if tokens > LONG_TOKENS:
        key = id(message)
        _long_messages[key] = ref(message, lambda _: _long_messages.pop(key, None)), tokens
    return tokens


def _part_tokens(part: MessagePart) -> float:
    part = cast("AnyPart", part)
    match part:
        case TextPart():
            return text_tokens(part.text)
        case ThinkingPart():
            # A signature is checked and not read; redacted reasoning is as long as what it hides.
            return _file_tokens(part.signature) if part.redacted else text_tokens(part.text)
        case ToolUsePart():
            return MESSAGE_TOKENS + text_tokens(part.name) + json_tokens(part.input)
        case ToolResultPart():
            return MESSAGE_TOKENS + sum(map(_part_tokens, part.content))
        case ImagePart():
            return IMAGE_TOKENS
        case AudioPart() | ResourcePart() | ResourceLinkPart():
            return _document_tokens(part)
        case _:
            assert_never(part)


def _document_tokens(part: AudioPart | ResourcePart | ResourceLinkPart) -> float:
    if isinstance(part, AudioPart):
        return len(part.data) / AUDIO_CHARS
    if isinstance(part, ResourceLinkPart):
        return sum(map(text_tokens, (part.uri, part.name, part.description or "")))
    if part.data is None:
        return text_tokens(part.uri) + text_tokens(part.text or "")
    if part.media_type == PDF:
        return text_tokens(part.uri) + PAGE_TOKENS * ceil(len(part.data) / PAGE_CHARS)
    return text_tokens(part.uri) + _file_tokens(part.data)


def _file_tokens(data: str | None) -> float:
    return len(data or "") / FILE_CHARS


def json_tokens(value: Any) -> float:
    """Estimate the tokens of a value as JSON."""
    return bytes_tokens(_encode(dict(value) if isinstance(value, Mapping) else value))  # pyright: ignore[reportUnknownArgumentType]


def text_tokens(text: str) -> float:
    """Estimate the tokens of text."""
    return bytes_tokens(text.encode("utf-8", "replace"))


def bytes_tokens(data: bytes) -> float:
    """Estimate the tokens of text in UTF-8."""
    total = 0.0
    # In windows, so that no step holds the interpreter's lock for long.
    for start in range(0, len(data), WINDOW_BYTES):
        rest = data[start : start + WINDOW_BYTES]
        if not rest.isascii():
            rest = rest.translate(None, _LATER_BYTES)
        # Deleting a class and measuring what is left runs in compiled code; a loop over the characters would not.
        for found, tokens in TOKENS_PER_BYTE:
            if not rest:
                break
            before, rest = len(rest), rest.translate(None, found)
            total += tokens * (before - len(rest))
    return total
