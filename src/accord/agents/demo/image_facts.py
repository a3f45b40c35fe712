"""What can be said of an image without a model: its format, its size, and the colour that most of it has.

Sizes come from the headers of PNG, GIF and JPEG. Colours are counted in small PNG images of the usual kind; for all
others Pillow is needed, and without it only the size is known. Nothing is guessed.
"""

import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from struct import unpack
from typing import Final, cast

from accord.core.sizes import MAX_PIXELS_IN
from accord.images import has_pillow

MAX_PIXELS: Final = 150_000
"""How many pixels of a PNG are decoded here, which takes up to a third of a second; Pillow reads larger ones."""
SAMPLE: Final = (256, 256)
"""The size of the sample in which Pillow's pixels are counted."""

PNG_START: Final = b"\x89PNG\r\n\x1a\n"
CHANNELS: Final[Mapping[int, int]] = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Bytes for each pixel, by the colour type of a PNG: grey, RGB, palette, grey with alpha, RGB with alpha."""
FRAME_HEADERS: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""The markers of a JPEG that are followed by its size."""

COLOUR_NAMES: Final[Mapping[str, tuple[int, int, int]]] = {
    "black": (0, 0, 0),
    "grey": (128, 128, 128),
    "white": (255, 255, 255),
    "red": (210, 30, 30),
    "orange": (245, 140, 30),
    "yellow": (245, 220, 50),
    "green": (40, 150, 60),
    "blue": (40, 90, 210),
    "purple": (130, 50, 160),
    "pink": (240, 150, 180),
    "brown": (120, 70, 30),
}

Pixel = tuple[int, int, int, int]
"""Red, green, blue and alpha, each from 0 to 255."""
TRANSPARENT: Final = (0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """The format and size of an image; the colour of most of its pixels and their share, if they could be decoded."""

    format: str
    width: int
    height: int
    colour: str | None = None
    share: float = 0.0

    def __str__(self) -> str:
        size = f"{self.format} image of {self.width} × {self.height} pixels"
        return f"{size}; about {self.share:.0%} of it is {self.colour}" if self.colour else size


def read_image(data: bytes) -> ImageFacts | None:
    """Return what can be said of this image; None if it is not one that can be read."""
    facts = measure_image(data)
    if facts is not None and facts.format == "PNG" and (pixels := count_pixels(data)):
        return _with_colour(facts, pixels)
    return _read_with_pillow(data, facts) if has_pillow() else facts


def measure_image(data: bytes) -> ImageFacts | None:
    """The format and size by the header alone."""
    if data.startswith(PNG_START) and len(data) >= 24:
        return ImageFacts("PNG", *unpack(">II", data[16:24]))
    if data.startswith((b"GIF87a", b"GIF89a")) and len(data) >= 10:
        return ImageFacts("GIF", *unpack("<HH", data[6:10]))
    at = 2 if data.startswith(b"\xff\xd8") else len(data)
    while at + 9 <= len(data) and data[at] == 0xFF:
        if data[at + 1] in FRAME_HEADERS:
            height, width = unpack(">HH", data[at + 5 : at + 9])
            return ImageFacts("JPEG", width, height)
        at += 2 + int.from_bytes(data[at + 2 : at + 4])
    return None


def _with_colour(facts: ImageFacts, pixels: Mapping[Pixel, int]) -> ImageFacts:
    """The facts with the commonest colour; colours that differ by less than an eighth of the scale may count as one."""
    similar: dict[Pixel, Counter[Pixel]] = {}
    for pixel, count in pixels.items():
        red, green, blue, alpha = pixel
        key = (red >> 5, green >> 5, blue >> 5, 255) if alpha >= 128 else TRANSPARENT
        similar.setdefault(key, Counter())[pixel] += count
    key, most = max(similar.items(), key=lambda item: item[1].total())
    red, green, blue, _ = most.most_common(1)[0][0]
    colour = (
        "transparent" if key == TRANSPARENT else f"{_nearest_name(red, green, blue)} (#{red:02x}{green:02x}{blue:02x})"
    )
    return replace(facts, colour=colour, share=most.total() / sum(pixels.values()))


def _nearest_name(*colour: int) -> str:
    def distance(name: str) -> int:
        return sum((a - b) ** 2 for a, b in zip(colour, COLOUR_NAMES[name], strict=True))

    return min(COLOUR_NAMES, key=distance)


def _read_with_pillow(data: bytes, facts: ImageFacts | None) -> ImageFacts | None:
    from PIL import Image  # noqa: PLC0415 - an extra, and slow to import

    try:
        with Image.open(BytesIO(data), formats=["PNG", "JPEG", "GIF", "WEBP"]) as image:
            facts = facts or ImageFacts(str(image.format), image.width, image.height)
            image.draft("RGB", SAMPLE)  # a JPEG is decoded at a fraction of its size
            if image.width * image.height > MAX_PIXELS_IN:
                return facts
            sample = image.resize(SAMPLE, Image.Resampling.NEAREST).convert("RGBA")  # pyright: ignore[reportUnknownMemberType]
            counts = cast("list[tuple[int, Pixel]]", sample.getcolors(SAMPLE[0] * SAMPLE[1]))
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError, Image.DecompressionBombWarning):
        return facts
    return _with_colour(facts, {pixel: count for count, pixel in counts})


def count_pixels(data: bytes) -> Mapping[Pixel, int] | None:
    """The pixels of a PNG and how often each occurs; None if it is larger or of another kind than is decoded here."""
    chunks = _png_chunks(data)
    header, palette, alphas = (chunks.get(name, b"") for name in (b"IHDR", b"PLTE", b"tRNS"))
    if len(header) != 13:
        return None
    width, height, depth, kind, _, _, is_interlaced = unpack(">IIBBBBB", header)
    has_colour_key = kind in (0, 2) and alphas  # one colour stands for transparent
    if depth != 8 or is_interlaced or has_colour_key or kind not in CHANNELS or width * height > MAX_PIXELS:
        return None
    step = CHANNELS[kind]
    row_bytes = width * step
    expected = height * (row_bytes + 1)
    try:
        raw = zlib.decompressobj().decompress(chunks.get(b"IDAT", b""), expected)
        if len(raw) < expected:
            return None
        counts, row = Counter[bytes](), bytes(row_bytes)
        for start in range(0, expected, row_bytes + 1):
            row = _unfilter(raw[start], raw[start + 1 : start + 1 + row_bytes], row, step)
            counts.update(row[at : at + step] for at in range(0, row_bytes, step))
        pixels = Counter[Pixel]()
        for sample, count in counts.items():
            pixels[_to_pixel(sample, palette, alphas) if kind == 3 else _spread(sample)] += count
    except (zlib.error, IndexError, ValueError):  # not as the specification says
        return None
    return pixels


def _png_chunks(data: bytes) -> Mapping[bytes, bytes]:
    """The chunks by their names; those of the same name are joined."""
    parts: dict[bytes, list[bytes]] = {}
    at = len(PNG_START)
    while at + 8 <= len(data):
        size = int.from_bytes(data[at : at + 4])
        parts.setdefault(data[at + 4 : at + 8], []).append(data[at + 8 : at + 8 + size])
        at += size + 12
    return {name: b"".join(each) for name, each in parts.items()}


def _unfilter(kind: int, row: bytes, above: bytes, step: int) -> bytes:
    """The bytes of a row; each is stored as its difference from a prediction."""
    if kind == 0:
        return row
    out = bytearray(step) + row  # with a pixel of zeros on the left
    for at, value in enumerate(row):
        corner = above[at - step] if at >= step else 0
        out[at + step] = (value + _predict(kind, out[at], above[at], corner)) & 0xFF
    return bytes(out[step:])


def _predict(kind: int, left: int, up: int, corner: int) -> int:
    """What the filter of this number predicts, from the bytes to the left, above, and above that to the left."""
    match kind:
        case 1:
            return left
        case 2:
            return up
        case 3:
            return (left + up) // 2
        case 4:
            to_left, to_up, to_corner = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
            nearest = left if to_left <= to_up else up
            return corner if to_corner < min(to_left, to_up) else nearest
        case _:
            raise ValueError(kind)


def _to_pixel(sample: bytes, palette: bytes, alphas: bytes) -> Pixel:
    """The pixel of a number in the palette; raises `IndexError` if the palette does not have it."""
    number = sample[0]
    red, green, blue = (palette[number * 3 + place] for place in range(3))
    return red, green, blue, alphas[number] if number < len(alphas) else 255


def _spread(sample: bytes) -> Pixel:
    """The pixel of a sample without a palette."""
    if len(sample) < 3:
        return sample[0], sample[0], sample[0], sample[1] if len(sample) == 2 else 255
    return sample[0], sample[1], sample[2], sample[3] if len(sample) == 4 else 255
