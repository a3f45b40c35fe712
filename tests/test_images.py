"""Shrinking real images: checked by their header first, never larger than before."""

import subprocess
import sys
from base64 import b64encode
from io import BytesIO
from typing import Any

import pytest
from PIL import Image, ImageOps

from accord.core.output.media import LIMITS, ImageLimits, ShrinkRefusal, ShrunkImage
from accord.core.output.profile import ImageResolution
from accord.images import DECODERS, PillowImages, shrink
from accord.wire.adaptation import Rung
from accord.wire.request import ClientCapabilities
from tests.core.output import event, events_of, run

SMALL = ImageLimits(max_side=64, max_bytes=10_000, keep_animation=True)
FIRST_FRAME = ImageLimits(max_side=64, max_bytes=10_000, keep_animation=False)


def make_image(mode: str = "RGB", size: tuple[int, int] = (256, 128)) -> Image.Image:
    return ImageOps.fit(Image.radial_gradient("L"), size).convert(mode)


def encode(image: Image.Image, name: str, **options: Any) -> bytes:
    out = BytesIO()
    image.save(out, name, **options)
    return out.getvalue()


def decode(result: ShrunkImage | ShrinkRefusal) -> Image.Image:
    assert isinstance(result, ShrunkImage), result
    return Image.open(BytesIO(result.data))


@pytest.mark.parametrize(
    ("name", "mime_type", "mode", "becomes"),
    [
        ("PNG", "image/png", "RGB", "image/jpeg"),
        ("PNG", "image/png", "L", "image/jpeg"),
        ("PNG", "image/png", "P", "image/jpeg"),
        ("JPEG", "image/jpeg", "RGB", "image/jpeg"),
        ("JPEG", "image/jpeg", "CMYK", "image/jpeg"),
        ("BMP", "image/bmp", "RGB", "image/jpeg"),
        ("WEBP", "image/webp", "RGB", "image/webp"),
    ],
)
def test_a_large_image_becomes_a_smaller_one_of_the_same_proportions(
    name: str, mime_type: str, mode: str, becomes: str
):
    data = encode(make_image(mode), name)
    result = shrink(data, mime_type, SMALL)
    assert decode(result).size == (64, 32)
    assert isinstance(result, ShrunkImage)
    assert result.mime_type == becomes
    assert len(result.data) < len(data)


@pytest.mark.parametrize(("name", "mime_type"), [("PNG", "image/png"), ("WEBP", "image/webp"), ("GIF", "image/gif")])
def test_transparency_is_kept(name: str, mime_type: str):
    image = make_image("RGBA")
    image.paste((0, 0, 0, 0), (0, 0, 128, 128))
    shown = decode(shrink(encode(image, name), mime_type, SMALL)).convert("RGBA")
    alpha = shown.getchannel("A")
    assert (alpha.getpixel((8, 16)), alpha.getpixel((56, 16))) == (0, 255)


@pytest.mark.parametrize(("name", "mime_type"), [("GIF", "image/gif"), ("WEBP", "image/webp"), ("PNG", "image/png")])
def test_an_animation_is_kept_or_becomes_its_first_frame(name: str, mime_type: str):
    frames = [Image.effect_noise((256, 128), sigma).convert("RGB") for sigma in (10, 50, 90)]
    data = encode(frames[0], name, save_all=True, append_images=frames[1:])
    assert shrink(data, mime_type, SMALL) == ShrinkRefusal("animated")
    still = decode(shrink(data, mime_type, FIRST_FRAME))
    assert (still.size, getattr(still, "is_animated", False)) == ((64, 32), False)


def test_orientation_is_applied_and_other_metadata_removed():
    image = make_image()
    exif = image.getexif()
    exif[0x0112], exif[0x010F] = 6, "A camera"
    shown = decode(shrink(encode(image, "JPEG", exif=exif), "image/jpeg", SMALL))
    assert shown.size == (32, 64)
    assert dict(shown.getexif()) == {}


def test_the_colour_profile_is_kept():
    profile = b"a profile of colours"
    data = encode(Image.effect_noise((256, 256), 90).convert("RGB"), "JPEG", icc_profile=profile, quality=95)
    assert decode(shrink(data, "image/jpeg", SMALL)).info["icc_profile"] == profile


@pytest.mark.parametrize(
    ("data", "mime_type", "limits", "reason"),
    [
        (b"<svg/>", "image/svg+xml", SMALL, "not a raster image"),
        (b"<svg/>", "image/png", SMALL, "cannot be decoded"),
        (b"", "image/png", SMALL, "cannot be decoded"),
        (encode(make_image(), "JPEG"), "image/png", SMALL, "cannot be decoded"),
        (encode(make_image(), "PNG")[:200], "image/png", SMALL, "cannot be decoded"),
        (encode(make_image(), "EPS"), "application/postscript", SMALL, "not a raster image"),
        (encode(Image.new("I;16", (256, 128)), "PNG"), "image/png", SMALL, "unsupported colour mode"),
        (encode(Image.new("1", (256, 128)), "PNG"), "image/png", SMALL, "would not be smaller"),
        (
            encode(make_image(), "PNG"),
            "image/png",
            ImageLimits(64, 1, True, max_bytes_in=99),
            "more bytes than the limit",
        ),
        (
            encode(make_image(), "PNG"),
            "image/png",
            ImageLimits(64, 1, True, max_pixels_in=99),
            "more pixels than the limit",
        ),
    ],
)
def test_an_image_that_is_not_shrunk_has_a_reason(data: bytes, mime_type: str, limits: ImageLimits, reason: str):
    assert shrink(data, mime_type, limits) == ShrinkRefusal(reason)


def test_a_small_image_is_left_as_it_is():
    assert shrink(encode(make_image(size=(64, 64)), "PNG"), "image/png", SMALL) == ShrinkRefusal(
        "small enough", needed=False
    )


def test_a_decompression_bomb_is_rejected_by_its_header():
    bomb = encode(Image.new("1", (30_000, 30_000)), "PNG")
    assert len(bomb) < 200_000
    assert shrink(bomb, "image/png", LIMITS[ImageResolution.AUTO]) == ShrinkRefusal("more pixels than the limit")


def test_shrinking_twice_is_shrinking_once():
    result = shrink(encode(make_image(), "PNG"), "image/png", SMALL)
    assert isinstance(result, ShrunkImage)
    assert shrink(result.data, result.mime_type, SMALL) == ShrinkRefusal("small enough", needed=False)


def test_pillow_has_every_decoder():
    Image.init()
    assert set(DECODERS.values()) <= set(Image.OPEN)


def test_the_adapter_shrinks_inline_images():
    data = encode(make_image(size=(2000, 1000)), "PNG")
    url = "data:image/png;base64," + b64encode(data).decode()
    client = ClientCapabilities(supported_events=["media_carousel"], image_resolution="low")
    packet = event("media_carousel", {"items": [{"url": url, "mime_type": "image/png"}]})
    out, adapter = run(client, packet, images=PillowImages())
    (item,) = events_of(out)[0]["data"]["items"]
    assert item["mime_type"] == "image/jpeg"
    assert len(item["url"]) < len(url)
    assert adapter.report.entries[0].reason == "smaller_image"
    again, second = run(client, *out, images=PillowImages())
    assert again == out
    assert second.report.totals[Rung.NATIVE] == second.report.total()


SHRINK = """
import resource, sys
from PIL import ImageOps, JpegImagePlugin, PngImagePlugin, WebPImagePlugin
from accord.core.output.media import LIMITS
from accord.core.output.profile import ImageResolution
from accord.images import shrink
data = sys.stdin.buffer.read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
result = shrink(data, sys.argv[1], LIMITS[ImageResolution.LOW])
print(getattr(result, "reason", "smaller"), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize(
    ("size", "name", "options", "outcome", "most_mb"),
    [
        ((5000, 5000), "WEBP", {"method": 0}, "more pixels than the limit", 10),
        ((5000, 5000), "PNG", {"compress_level": 1}, "more pixels than the limit", 10),
        ((5000, 5000), "JPEG", {"progressive": True}, "more pixels than the limit", 10),
        ((5000, 5000), "JPEG", {}, "smaller", 60),
        ((2800, 2800), "WEBP", {"method": 0}, "smaller", 180),
    ],
)
def test_the_memory_for_an_image_is_limited(
    size: tuple[int, int], name: str, options: dict[str, Any], outcome: str, most_mb: int
):
    data = encode(Image.new("RGB", size), name, **options)
    command = [sys.executable, "-c", SHRINK, f"image/{name.lower()}"]
    child = subprocess.run(command, input=data, capture_output=True, check=True, timeout=60)
    result, _, grown_mb = child.stdout.decode().strip().rpartition(" ")
    assert result == outcome
    assert int(grown_mb) <= most_mb
