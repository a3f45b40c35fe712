"""The prompts that agents are tried with: one good block of each type, and blocks that are wrong in one way each.

Small, harmless, and without a question in them that would make a model work long. Whom they are sent to is not known.
"""

import base64
import struct
import zlib
from collections.abc import Mapping
from typing import Any, Final

from accord.wire.acp.content import ContentType

Block = Mapping[str, Any]


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


_HEADER: Final = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
PNG: Final = (
    b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", _HEADER) + _chunk(b"IDAT", zlib.compress(b"\0\xff")) + _chunk(b"IEND", b"")
)
"""One white dot."""
WAV: Final = b"RIFF\x28\0\0\0WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16000, 2, 16) + b"data\4\0\0\0\0\0\0\0"
"""Two samples of silence."""


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


TEXT: Final[Block] = {"type": "text", "text": "Reply with the word ok."}
LONG_WORK: Final[Block] = {
    "type": "text",
    "text": "Count slowly from 1 to 1000, one number a line, and do nothing else.",
}
GOOD: Final[Mapping[ContentType, Block]] = {
    ContentType.TEXT: TEXT,
    ContentType.RESOURCE_LINK: {
        "type": "resource_link",
        "uri": "https://example.com/note.txt",
        "name": "note.txt",
        "mimeType": "text/plain",
    },
    ContentType.IMAGE: {"type": "image", "data": _base64(PNG), "mimeType": "image/png"},
    ContentType.AUDIO: {"type": "audio", "data": _base64(WAV), "mimeType": "audio/wav"},
    ContentType.RESOURCE: {
        "type": "resource",
        "resource": {"uri": "https://example.com/note.txt", "mimeType": "text/plain", "text": "A note."},
    },
}
MALFORMED: Final[Mapping[str, tuple[str, Block]]] = {
    "image-without-data": ("an image without data", {"type": "image", "mimeType": "image/png"}),
    "image-without-mime-type": ("an image without mimeType", {"type": "image", "data": _base64(PNG)}),
    "unknown-type": ("a block of an unknown type", {"type": "accord_hologram", "text": "ok"}),
    "text-not-text": ("a text block whose text is a number", {"type": "text", "text": 42}),
    "link-without-uri": ("a resource link without uri", {"type": "resource_link", "name": "note.txt"}),
}
BAD_BASE64: Final[Mapping[ContentType, Block]] = {
    ContentType.IMAGE: {"type": "image", "data": "this is !! not base64", "mimeType": "image/png"},
    ContentType.AUDIO: {"type": "audio", "data": "this is !! not base64", "mimeType": "audio/wav"},
    ContentType.RESOURCE: {
        "type": "resource",
        "resource": {"uri": "https://example.com/a.bin", "blob": "this is !! not base64"},
    },
}
