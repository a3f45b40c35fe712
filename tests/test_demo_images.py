"""What the demo says of images is what Pillow says of them."""

import zlib
from io import BytesIO
from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from accord.agents.demo.image_facts import (
    CHANNELS,
    MAX_PIXELS,
    PNG_START,
    ImageFacts,
    count_pixels,
    measure_image,
    read_image,
)

SIZE = (31, 23)


def encoded(image: Image.Image, name: str, **options: Any) -> bytes:
    out = BytesIO()
    image.save(out, name, **options)
    return out.getvalue()


def make_png(header: tuple[int, int, int], *pixels: bytes, palette: bytes = b"", alphas: bytes = b"") -> bytes:
    """A PNG of this width, height and colour type, with 8 bits and a chunk for each part of its pixels."""
    chunks = [(b"IHDR", pack(">IIBBBBB", *header[:2], 8, header[2], 0, 0, 0))]
    chunks += [(b"PLTE", palette)] * bool(palette) + [(b"tRNS", alphas)] * bool(alphas)
    chunks += [*((b"IDAT", part) for part in pixels), (b"IEND", b"")]
    return PNG_START + b"".join(
        pack(">I", len(data)) + name + data + pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )


@st.composite
def pngs(draw: st.DrawFn) -> bytes:
    """A PNG of 8 bits: any bytes are pixels, after any filters."""
    kind, width, height = draw(st.sampled_from(sorted(CHANNELS))), draw(st.integers(1, 9)), draw(st.integers(1, 9))
    row = st.binary(min_size=width * CHANNELS[kind], max_size=width * CHANNELS[kind])
    rows = [bytes([draw(st.integers(0, 4))]) + draw(row) for _ in range(height)]
    alphas = draw(st.binary(max_size=256)) if kind == 3 else b""
    pixels = zlib.compress(b"".join(rows))
    cut = draw(st.integers(0, len(pixels)))
    palette = bytes(range(256)) * 3 if kind == 3 else b""
    return make_png((width, height, kind), pixels[:cut], pixels[cut:], palette=palette, alphas=alphas)


@given(pngs())
def test_a_png_of_8_bits_has_the_pixels_that_pillow_finds(data: bytes):
    with Image.open(BytesIO(data)) as image:
        counts = image.convert("RGBA").getcolors() or []
    assert count_pixels(data) == {pixel: count for count, pixel in counts}


UNREADABLE = {
    "cut off inside of a pixel": make_png((1, 1, 2), zlib.compress(b"\0\1\2")),
    "an unknown filter": make_png((1, 1, 2), zlib.compress(b"\5\1\2\3")),
    "a colour that the palette lacks": make_png((1, 1, 3), zlib.compress(b"\0\1"), palette=b"\1\2\3"),
    "not compressed": make_png((1, 1, 2), b"\0\1\2\3"),
    "an unknown colour type": make_png((1, 1, 5), zlib.compress(b"\0\1\2\3")),
    "no pixels": make_png((1, 1, 2)),
    "one colour is transparent": make_png((1, 1, 2), zlib.compress(b"\0\1\2\3"), alphas=b"\0\1\0\2\0\3"),
}


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE)
def test_pixels_that_are_not_certain_are_not_counted(data: bytes):
    assert count_pixels(data) is None


OTHERS: list[tuple[str, bytes]] = [
    ("16 bits", encoded(Image.new("I;16", (4, 3), 65_535), "PNG")),
    ("1 bit", encoded(Image.new("1", (4, 3), 1), "PNG")),
    ("GIF", encoded(Image.new("RGB", (4, 3), "white"), "GIF")),
    ("JPEG", encoded(Image.new("RGB", (4, 3), "white"), "JPEG")),
    ("progressive JPEG", encoded(Image.new("RGB", (4, 3), "white"), "JPEG", progressive=True)),
    ("WebP", encoded(Image.new("RGB", (4, 3), "white"), "WEBP", lossless=True)),
]


@pytest.mark.parametrize(("name", "data"), OTHERS, ids=[name for name, _ in OTHERS])
def test_images_of_other_kinds_are_read_by_pillow(name: str, data: bytes):
    facts = read_image(data)
    assert facts is not None
    assert facts.format in (*name.upper().split(), "PNG")
    assert (facts.width, facts.height, facts.colour, facts.share) == (4, 3, "white (#ffffff)", 1.0)


@pytest.mark.parametrize(
    "data",
    [
        encoded(Image.new("RGB", (4, 3), "white"), "PNG", transparency=(255, 255, 255)),
        encoded(Image.new("RGBA", (4, 3)), "PNG"),
        make_png((4, 3, 3), zlib.compress(bytes(15)), palette=b"\1\2\3", alphas=b"\0"),
    ],
    ids=["one colour", "an alpha channel", "a colour of the palette"],
)
def test_transparent_pixels_have_no_colour(data: bytes):
    assert read_image(data) == ImageFacts("PNG", 4, 3, "transparent", 1.0)


def test_of_an_image_with_too_many_pixels_only_the_size_is_said():
    assert read_image(encoded(Image.new("1", (8_000, 8_000)), "PNG")) == ImageFacts("PNG", 8_000, 8_000)


def test_a_photograph_is_decoded_at_a_fraction_of_its_size():
    photograph = encoded(Image.new("L", (4_000, 3_000)), "JPEG")
    assert read_image(photograph) == ImageFacts("JPEG", 4_000, 3_000, "black (#000000)", 1.0)


def test_a_large_png_is_read_by_pillow_and_its_parts_are_in_proportion():
    image = Image.new("RGB", (800, 400), "blue")
    image.paste("yellow", (0, 0, 200, 400))
    assert MAX_PIXELS < 800 * 400
    assert count_pixels(encoded(image, "PNG")) is None
    facts = read_image(encoded(image, "PNG"))
    assert facts == ImageFacts("PNG", 800, 400, "blue (#0000ff)", 0.75)
    assert str(facts) == "PNG image of 800 × 400 pixels; about 75% of it is blue (#0000ff)"


@pytest.mark.parametrize("name", ["PNG", "GIF", "JPEG"])
def test_the_header_alone_gives_the_size(name: str):
    data = encoded(Image.new("RGB", (300, 200)), name)
    assert measure_image(data) == ImageFacts(name, 300, 200)
    assert str(measure_image(data)) == f"{name} image of 300 × 200 pixels"


GOOD = encoded(Image.effect_noise(SIZE, 50), "PNG")


SIZE_ONLY = ImageFacts("PNG", *SIZE)
BROKEN: list[tuple[bytes, ImageFacts | None]] = [
    (b"", None),
    (b"hi", None),
    (PNG_START, None),
    (b"GIF89a", None),
    (b"\xff\xd8\xff", None),
    (b"\xff\xd8" + b"\xff\xe0\x00\x00" * 9, None),
    (GOOD[: len(GOOD) // 2], SIZE_ONLY),
    (GOOD.replace(b"IDAT", b"IDOT"), SIZE_ONLY),
    (GOOD[:60] + bytes(len(GOOD) - 60), SIZE_ONLY),
]


@pytest.mark.parametrize(("data", "facts"), BROKEN)
def test_of_a_broken_image_only_the_size_is_said(data: bytes, facts: ImageFacts | None):
    assert read_image(data) == facts
