"""Reads the files that go with a question, as content blocks. Errors name the file and what was expected of it."""

import base64
import mimetypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

from accord.errors import UsageError
from accord.wire.acp.content import AudioBlock, BlobResource, ContentBlock, ImageBlock, ResourceBlock, TextResource

PICTURES: Final[Mapping[str, tuple[bytes, ...]]] = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
}
"""How a file of each kind begins: its name may say anything."""
BYTES: Final = "application/octet-stream"


def attached(images: Sequence[str], files: Sequence[str], max_bytes: int) -> list[ContentBlock]:
    """The blocks of these pictures and files."""
    return [*(_picture(name, max_bytes) for name in images), *(_document(name, max_bytes) for name in files)]


def picture_type(data: bytes) -> str | None:
    """Which kind of picture this is, if it is one that models read."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for kind, starts in PICTURES.items() if data.startswith(starts)), None)


def _picture(name: str, max_bytes: int) -> ContentBlock:
    data = _read(name, max_bytes)
    kind = picture_type(data)
    if kind is None:
        raise UsageError(f"{name}: expected a picture: PNG, JPEG, GIF or WebP; other files go with --file")
    return ImageBlock(data=_base64(data), mime_type=kind)


def _document(name: str, max_bytes: int) -> ContentBlock:
    data = _read(name, max_bytes)
    kind = mimetypes.guess_type(name)[0]
    if kind is not None and kind.startswith("audio/"):
        return AudioBlock(data=_base64(data), mime_type=kind)
    # The model has no use for where it lies on this machine.
    uri = f"file:///{quote(Path(name).name)}"
    try:
        if data.startswith(b"%PDF-"):
            return ResourceBlock(resource=BlobResource(uri=uri, blob=_base64(data), mime_type="application/pdf"))
        return ResourceBlock(resource=TextResource(uri=uri, text=data.decode(), mime_type=kind or "text/plain"))
    except UnicodeDecodeError:
        return ResourceBlock(resource=BlobResource(uri=uri, blob=_base64(data), mime_type=kind or BYTES))


def _read(name: str, max_bytes: int) -> bytes:
    path = Path(name)
    try:
        if path.is_file() and path.stat().st_size * 4 // 3 > max_bytes:
            raise UsageError(f"{name}: is too large; limits.max_block_bytes is {max_bytes} bytes, in base64")
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
