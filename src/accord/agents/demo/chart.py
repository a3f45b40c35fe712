"""Draw a bar chart as a PNG image, with nothing but zlib."""

import zlib
from collections.abc import Mapping, Sequence
from struct import pack
from typing import Final

WIDTH: Final = 480
HEIGHT: Final = 240
PAPER, LINE, INK, BAR = range(4)
PALETTE: Final = bytes.fromhex("fafbfc d0d7de 1f2328 2f6fdb")
"""The red, green and blue of the four colours above."""

LEFT: Final = 24
BASE: Final = 196
"""The row of the axis, counted from the top."""
TOP: Final = 44
"""The row that the highest bar reaches."""
SCALE: Final = 3
"""Pixels for each dot of a letter."""

# Letters of 3 by 5 dots. Each digit is a row from the top down; its bits are 4 left, 2 middle, 1 right.
GLYPHS: Final[Mapping[str, str]] = {
    **dict(zip("0123456789", "75557 26227 71747 71717 55711 74717 74757 71122 75757 75717".split(), strict=True)),
    **dict(zip("ABCDEFGHI", "25755 65656 34443 65556 74647 74644 34553 55755 72227".split(), strict=True)),
    **dict(zip("JKLMNOPQR", "11152 55655 44447 57755 65555 75557 65644 25573 65655".split(), strict=True)),
    **dict(zip("STUVWXYZ", "34216 72222 55557 55552 55775 55255 55222 71247".split(), strict=True)),
}


def draw_chart(figures: Mapping[str, int]) -> bytes:
    """Draw a bar for each figure, with its number above and its name below; letters outside A to Z are left out."""
    rows = [bytearray([PAPER]) * WIDTH for _ in range(HEIGHT)]
    step = (WIDTH - 2 * LEFT) // len(figures)
    highest = max(*figures.values(), 1)
    for quarter in range(5):
        _fill(rows, (LEFT, BASE - quarter * (BASE - TOP) // 4, WIDTH - 2 * LEFT, 1), LINE)
    for place, (name, value) in enumerate(figures.items()):
        middle = LEFT + place * step + step // 2
        height = value * (BASE - TOP) // highest
        _fill(rows, (middle - step // 4, BASE - height, step // 2, height), BAR)
        _write(rows, str(value), middle, BASE - height - 7 * SCALE)
        _write(rows, name.upper(), middle, BASE + 3 * SCALE)
    _fill(rows, (LEFT, BASE, WIDTH - 2 * LEFT, 2), INK)
    return encode_png(rows, PALETTE)


def encode_png(rows: Sequence[bytes | bytearray], palette: bytes) -> bytes:
    """Encode rows of one byte for each pixel, which is the number of its colour in the palette."""
    header = pack(">IIBBBBB", len(rows[0]), len(rows), 8, 3, 0, 0, 0)  # 8 bits, a palette, not interlaced
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows), 9)  # each row begins with its filter: none
    chunks = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", pixels), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        pack(">I", len(data)) + name + data + pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )


def _fill(rows: Sequence[bytearray], box: tuple[int, int, int, int], colour: int) -> None:
    left, top, width, height = box
    for row in rows[top : top + height]:
        row[left : left + width] = bytes([colour]) * width


def _write(rows: Sequence[bytearray], text: str, middle: int, top: int) -> None:
    left = middle - (len(text) * 4 - 1) * SCALE // 2
    for place, letter in enumerate(text):
        for down, bits in enumerate(GLYPHS.get(letter, "")):
            for across in range(3):
                if int(bits) & (4 >> across):
                    _fill(rows, (left + (place * 4 + across) * SCALE, top + down * SCALE, SCALE, SCALE), INK)
