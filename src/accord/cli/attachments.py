"""Read files that a user attaches to a prompt, as content blocks, for `accord ask` and `accord chat`."""

import base64
import mimetypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

from accord.acp.schema_parts import (
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    TextResourceContents,
)
from accord.errors import UsageError

IMAGE_STARTS: Final[Mapping[str, tuple[bytes, ...]]] = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
}
"""The first bytes of each image type; the name of a file may be wrong."""
BINARY: Final = "application/octet-stream"


def read_attachments(images: Sequence[str], files: Sequence[str], max_bytes: int) -> list[ContentBlock]:
    """Read these images and files as content blocks; an error names the file and what was expected."""
    blocks: list[ContentBlock] = []
    for name in images:
        data = _read_bytes(name, max_bytes)
        kind = image_type(data)
        if kind is None:
            raise UsageError(f"{name}: expected an image (PNG, JPEG, GIF or WebP); use --file for other files")
        blocks.append(ImageContent(data=_base64(data), mime_type=kind))
    return [*blocks, *(_file_block(name, _read_bytes(name, max_bytes)) for name in files)]


def read_attachment(name: str, max_bytes: int) -> ContentBlock:
    """Read a file of any kind as a content block; what it is shows in its content."""
    data = _read_bytes(name, max_bytes)
    kind = image_type(data)
    return _file_block(name, data) if kind is None else ImageContent(data=_base64(data), mime_type=kind)


def image_type(data: bytes) -> str | None:
    """Return the media type of an image that models read, or None."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for kind, starts in IMAGE_STARTS.items() if data.startswith(starts)), None)


def _file_block(name: str, data: bytes) -> ContentBlock:
    kind = mimetypes.guess_type(name)[0]
    if kind is not None and kind.startswith("audio/"):
        return AudioContent(data=_base64(data), mime_type=kind)
    # Without its folder: the model needs no path of this machine.
    uri = f"file:///{quote(Path(name).name)}"
    try:
        if data.startswith(b"%PDF-"):
            return EmbeddedResource(
                resource=BlobResourceContents(uri=uri, blob=_base64(data), mime_type="application/pdf")
            )
        return EmbeddedResource(
            resource=TextResourceContents(uri=uri, text=data.decode(), mime_type=kind or "text/plain")
        )
    except UnicodeDecodeError:
        return EmbeddedResource(resource=BlobResourceContents(uri=uri, blob=_base64(data), mime_type=kind or BINARY))


def _read_bytes(name: str, max_bytes: int) -> bytes:
    path = Path(name)
    try:
        if path.is_file() and path.stat().st_size * 4 // 3 > max_bytes:
            raise UsageError(f"{name}: is too large; limits.max_block_bytes allows {max_bytes} bytes of base64")
        data = path.read_bytes()
    except IsADirectoryError:
        raise UsageError(f"{name}: is a directory; give a file") from None
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from error
    if not data:
        raise UsageError(f"{name}: is empty; give a file with content")
    return data


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
