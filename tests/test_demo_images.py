"""What the demo says of images is what Pillow says of them."""

from io import BytesIO
from typing import Any

import pytest
from PIL import Image

from accord.agents.demo.image_facts import PNG_START, ImageFacts, measure_image, read_image

SIZE = (31, 23)


def encoded(image: Image.Image, name: str, **options: Any) -> bytes:
    out = BytesIO()
    image.save(out, name, **options)
    return out.getvalue()


IMAGES: list[tuple[str, bytes]] = [
    ("palette", encoded(Image.new("RGB", (4, 3), "white").quantize(), "PNG")),
    ("16 bits", encoded(Image.new("I;16", (4, 3), 65_535), "PNG")),
    ("1 bit", encoded(Image.new("1", (4, 3), 1), "PNG")),
    ("GIF", encoded(Image.new("RGB", (4, 3), "white"), "GIF")),
    ("JPEG", encoded(Image.new("RGB", (4, 3), "white"), "JPEG")),
    ("progressive JPEG", encoded(Image.new("RGB", (4, 3), "white"), "JPEG", progressive=True)),
    ("WebP", encoded(Image.new("RGB", (4, 3), "white"), "WEBP", lossless=True)),
]


@pytest.mark.parametrize(("name", "data"), IMAGES, ids=[name for name, _ in IMAGES])
def test_images_of_many_kinds_are_read(name: str, data: bytes):
    facts = read_image(data)
    assert facts is not None
    assert facts.format in (*name.upper().split(), "PNG")
    assert (facts.width, facts.height, facts.colour, facts.share) == (4, 3, "white (#ffffff)", 1.0)


@pytest.mark.parametrize(
    "data",
    [
        encoded(Image.new("RGB", (4, 3), "white"), "PNG", transparency=(255, 255, 255)),
        encoded(Image.new("RGBA", (4, 3)), "PNG"),
        encoded(Image.new("P", (4, 3)), "PNG", transparency=0),
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


def test_the_share_of_a_colour_is_that_of_its_pixels():
    image = Image.new("RGB", (800, 400), "blue")
    image.paste("yellow", (0, 0, 200, 400))
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
