"""What can be said of an image without a model: its format, its size, and the colour that most of it has.

Sizes come from the headers of PNG, GIF and JPEG. Colours, and WebP, need Pillow. Nothing is guessed.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from struct import unpack
from typing import Final, cast

from accord.core.sizes import MAX_PIXELS_IN
from accord.images import has_pillow

SAMPLE: Final = (256, 256)
"""The size of the sample in which pixels are counted."""

PNG_START: Final = b"\x89PNG\r\n\x1a\n"
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
