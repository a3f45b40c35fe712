"""Whether media is what it says it is: the family of its type, and the mark at the beginning of its bytes.

Only formats whose first bytes are unmistakable are told apart; what is not recognised is taken at its word.
"""

import re
from binascii import a2b_base64
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

MARK_CHARS: Final = 24  # base64 of the 18 bytes that the longest mark needs

MARKS: Final[tuple[tuple[re.Pattern[bytes], str], ...]] = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
    (re.compile(rb"RIFF....WAVE", re.DOTALL), "audio/wav"),
    (re.compile(rb"fLaC"), "audio/flac"),
    (re.compile(rb"OggS"), "audio/ogg"),
    (re.compile(rb"ID3"), "audio/mpeg"),
)

SAME: Final[Mapping[str, str]] = MappingProxyType(
    {
        "image/jpg": "image/jpeg",
        "image/pjpeg": "image/jpeg",
        "image/x-png": "image/png",
        "audio/x-wav": "audio/wav",
        "audio/wave": "audio/wav",
        "audio/vnd.wave": "audio/wav",
        "audio/mp3": "audio/mpeg",
        "audio/x-flac": "audio/flac",
        "audio/opus": "audio/ogg",
        "audio/vorbis": "audio/ogg",
    }
)
"""Other names for the types above."""

_TYPE = re.compile(r"([a-z]+/)[a-z0-9][a-z0-9.+-]*$")


def media_type_problem(said: str, data: str, family: str) -> str | None:
    """Why this type does not fit its block or its bytes, if it does not. `data` is valid base64."""
    essence = said.partition(";")[0].strip().lower()
    found = _TYPE.match(essence)
    if found is None or found[1] != family:
        return f"mimeType should be {family}*"
    carried = _carried(data)
    if carried is not None and carried != SAME.get(essence, essence):
        return f"mimeType does not fit the data, which is {carried}"
    return None


def _carried(data: str) -> str | None:
    start = a2b_base64(data[:MARK_CHARS])
    return next((media_type for mark, media_type in MARKS if mark.match(start)), None)
