"""Draw PNG images in terminals that can do that, with the protocols of Kitty and iTerm2."""

import base64
import binascii
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from accord.wire.event import MediaItem

PNG_START: Final = b"\x89PNG\r\n\x1a\n"
PNG_URL: Final = "data:image/png;base64,"
MAX_BYTES: Final = 1024 * 1024
MAX_SIDE: Final = 4_096
"""The largest image that is drawn, in pixels: a small file can hold a very large image."""
CELL_PIXELS: Final = 10
KITTY_CHUNK: Final = 4_096
ITERM_PROGRAMS: Final = ("iTerm.app", "WezTerm")


class GraphicsProtocol(StrEnum):
    """How a terminal is given an image."""

    KITTY = "kitty"
    ITERM = "iterm"


def find_protocol(environ: Mapping[str, str]) -> GraphicsProtocol | None:
    """Return the protocol that the terminal of this environment understands, as far as it says so."""
    term = environ.get("TERM", "")
    if environ.get("TMUX") or term.startswith(("tmux", "screen")):  # it passes on neither of the two
        return None
    if "kitty" in term or "ghostty" in term:
        return GraphicsProtocol.KITTY
    return GraphicsProtocol.ITERM if environ.get("TERM_PROGRAM") in ITERM_PROGRAMS else None


def read_png(item: MediaItem) -> bytes | None:
    """Return the PNG image in a `data:` URL, if it is one and small enough to be drawn."""
    encoded = item.url.removeprefix(PNG_URL)
    if encoded == item.url or len(encoded) > MAX_BYTES * 4 // 3 + 4:
        return None
    try:
        data = base64.b64decode(encoded, validate=True)
    except (ValueError, binascii.Error):
        return None
    is_drawable = data.startswith(PNG_START) and data[12:16] == b"IHDR" and 0 < min(_size(data)) <= max(_size(data))
    return data if is_drawable and max(_size(data)) <= MAX_SIDE else None


def draw_png(data: bytes, protocol: GraphicsProtocol, columns: int) -> str:
    """Return the control sequence that draws this image at the cursor, at most so many columns wide."""
    # Encoded again from bytes, so that nothing but base64 is inside the sequence.
    encoded = base64.b64encode(data).decode()
    wide = max(1, min(columns, -(-_size(data)[0] // CELL_PIXELS)))
    if protocol is GraphicsProtocol.ITERM:
        return f"\x1b]1337;File=inline=1;size={len(data)};width={wide}:{encoded}\x07"
    chunks = [encoded[start : start + KITTY_CHUNK] for start in range(0, len(encoded), KITTY_CHUNK)]
    last = len(chunks) - 1
    # q=2: the terminal sends no answer, which would be read as input of the user.
    return "".join(
        f"\x1b_G{f'a=T,f=100,q=2,c={wide},' if number == 0 else ''}m={int(number < last)};{chunk}\x1b\\"
        for number, chunk in enumerate(chunks)
    )


def _size(data: bytes) -> tuple[int, int]:
    return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])
