"""Content blocks to send in prompts: a good one of each type, and some that are wrong in exactly one respect.

The texts are harmless, and short so that no model works on them for long. A marker in the text of a prompt identifies
the requests that the fake model receives because of it.
"""

import base64
import struct
import zlib
from collections.abc import Mapping
from typing import Any, Final

from accord.acp.content import ContentType

Block = Mapping[str, Any]

PIXELS: Final = 64
"""The size of the image: agents drop very small ones."""
SAMPLES: Final = 800


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


_HEADER: Final = struct.pack(">IIBBBBB", PIXELS, PIXELS, 8, 2, 0, 0, 0)
_ROWS: Final = (b"\0" + b"\xd0\x30\x30" * PIXELS) * PIXELS
PNG: Final = (
    b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", _HEADER) + _chunk(b"IDAT", zlib.compress(_ROWS)) + _chunk(b"IEND", b"")
)
"""A red square."""
WAV: Final = (
    struct.pack("<4sI8sIHHIIHH", b"RIFF", 36 + 2 * SAMPLES, b"WAVEfmt ", 16, 1, 1, 8000, 16000, 2, 16)
    + struct.pack("<4sI", b"data", 2 * SAMPLES)
    + b"\0" * (2 * SAMPLES)
)
"""A tenth of a second of silence."""


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


WORDS: Final = "Reply with the word ok."
TEXT: Final[Block] = {"type": "text", "text": WORDS}
LONG_WORK: Final = "Count slowly from 1 to 1000, one number a line, and do nothing else."
NOTE: Final = "https://example.com/accord-note.txt"
EMBEDDED_MARKER: Final = "accord-embedded-note"
GOOD: Final[Mapping[ContentType, Block]] = {
    ContentType.TEXT: TEXT,
    ContentType.RESOURCE_LINK: {
        "type": "resource_link",
        "uri": NOTE,
        "name": "accord-note.txt",
        "mimeType": "text/plain",
    },
    ContentType.IMAGE: {"type": "image", "data": _base64(PNG), "mimeType": "image/png"},
    ContentType.AUDIO: {"type": "audio", "data": _base64(WAV), "mimeType": "audio/wav"},
    ContentType.RESOURCE: {
        "type": "resource",
        "resource": {"uri": NOTE, "mimeType": "text/plain", "text": f"The note says {EMBEDDED_MARKER}."},
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


def text_block(text: str) -> Block:
    """A block with this text."""
    return {"type": "text", "text": text}
