"""Shrinking real images: checked by their header first, never larger than before."""

import subprocess
import sys
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from threading import Barrier
from typing import Any

import pytest
from PIL import Image, ImageOps

from accord.core.output.media import LIMITS, ImageLimits, ShrinkRefusal, ShrunkImage
from accord.core.output.profile import ImageResolution
from accord.images import DECODERS, ENTRY_BYTES, CachedShrinker, PillowImages, shrink
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


class Counting:
    """Real shrinking, counted."""

    def __init__(self) -> None:
        self.calls = 0
        self._inner = PillowImages()

    def shrink(self, data: bytes, mime_type: str, limits: ImageLimits, /) -> ShrunkImage | ShrinkRefusal:
        self.calls += 1
        return self._inner.shrink(data, mime_type, limits)


# --- the estimate of the work ---


@pytest.mark.parametrize(
    ("data", "mime_type", "is_work"),
    [
        (encode(make_image(), "PNG"), "image/png", True),
        (encode(Image.new("1", (256, 128)), "PNG"), "image/png", True),
        (encode(make_image(), "PNG")[:200], "image/png", True),
        (encode(make_image(size=(64, 64)), "PNG"), "image/png", False),
        (b"<svg/>", "image/png", False),
        (b"<svg/>", "image/svg+xml", False),
    ],
)
def test_only_decoding_is_work(data: bytes, mime_type: str, is_work: bool):
    assert (shrink(data, mime_type, SMALL).work_ms > 0) is is_work


def test_the_estimate_depends_on_the_image_alone_and_grows_with_it():
    small, large = (encode(make_image(size=(side, side)), "PNG") for side in (200, 2000))
    assert shrink(small, "image/png", SMALL).work_ms == shrink(small, "image/png", SMALL).work_ms
    assert shrink(large, "image/png", SMALL).work_ms > 10 * shrink(small, "image/png", SMALL).work_ms
    lossless = encode(make_image("RGBA", (1300, 1300)), "WEBP", lossless=True)
    assert shrink(lossless, "image/webp", LIMITS[ImageResolution.AUTO]).work_ms > 500


def test_a_hostile_stream_has_only_some_of_its_images_reencoded():
    # Each would take half a second; a cached result reports the same work.
    images = Counting()
    data = encode(make_image("RGBA", (1300, 1300)), "WEBP", lossless=True)
    url = "data:image/webp;base64," + b64encode(data).decode()
    client = ClientCapabilities(supported_events=["media_carousel"], image_resolution="auto")
    packet = event("media_carousel", {"items": [{"url": url, "mime_type": "image/webp"}] * 100})
    _, adapter = run(client, packet, images=CachedShrinker(images))
    (entry,) = adapter.report.entries
    assert images.calls == 1
    assert 90 <= entry.notes["limit_reached"] <= 95


# --- the cache ---


PICTURES = [
    (encode(Image.effect_noise((300, 200), sigma).convert("RGB"), "PNG"), "image/png") for sigma in range(10, 90, 10)
]
TEXT = (b"not an image", "image/png")


def test_the_cache_returns_what_the_shrinker_returns_and_calls_it_once():
    inner = Counting()
    cached = CachedShrinker(inner)
    for _ in range(3):
        for data, mime_type in (*PICTURES, TEXT):
            assert cached.shrink(data, mime_type, SMALL) == shrink(data, mime_type, SMALL)
    assert inner.calls == len(PICTURES) + 1


def test_another_media_type_or_limit_is_another_entry():
    inner = Counting()
    cached = CachedShrinker(inner)
    data, mime_type = PICTURES[0]
    for given in (mime_type, "image/apng", "image/jpeg"):
        for limits in (SMALL, FIRST_FRAME, LIMITS[ImageResolution.LOW]):
            assert cached.shrink(data, given, limits) == shrink(data, given, limits)
    assert inner.calls == 9


def test_several_threads_share_one_reencoding_of_each_image():
    inner = Counting()
    cached = CachedShrinker(inner)
    began = Barrier(8)

    def read_all() -> list[ShrunkImage | ShrinkRefusal]:
        began.wait(10)
        return [cached.shrink(data, mime_type, SMALL) for data, mime_type in (*PICTURES, TEXT)]

    with ThreadPoolExecutor(8) as threads:
        readers = [threads.submit(read_all) for _ in range(8)]
        results = [reader.result(30) for reader in readers]
    assert inner.calls == len(PICTURES) + 1
    assert all(result == results[0] for result in results)


def test_the_cache_stays_within_its_bound_and_forgets_what_was_not_used_for_longest():
    inner = Counting()
    sizes = [len(decoded.data) + ENTRY_BYTES for data, kind in PICTURES if isinstance(decoded := shrink(data, kind, SMALL), ShrunkImage)]  # fmt: skip
    cached = CachedShrinker(inner, max_bytes=sizes[0] + sizes[1] + max(sizes))
    (first, second), others = PICTURES[:2], PICTURES[2:]
    cached.shrink(*first, SMALL)
    cached.shrink(*second, SMALL)
    for data, mime_type in others:
        cached.shrink(data, mime_type, SMALL)
        cached.shrink(*first, SMALL)
        assert cached.size <= sizes[0] + sizes[1] + max(sizes)
    assert inner.calls == len(PICTURES)
    cached.shrink(*second, SMALL)
    assert inner.calls == len(PICTURES) + 1


def test_the_bound_holds_while_several_threads_use_the_cache():
    cached = CachedShrinker(PillowImages(), max_bytes=6_000)

    def read_all(start: int) -> int:
        most = 0
        for index in range(3 * len(PICTURES)):
            cached.shrink(*PICTURES[(start + index) % len(PICTURES)], SMALL)
            most = max(most, cached.size)
        return most

    with ThreadPoolExecutor(4) as threads:
        assert max(threads.map(read_all, range(4))) <= 6_000


def test_an_image_beyond_the_bound_is_returned_and_not_kept():
    cached = CachedShrinker(PillowImages(), max_bytes=100)
    assert isinstance(cached.shrink(*PICTURES[0], SMALL), ShrunkImage)
    assert cached.size == 0


def test_a_shrinker_that_fails_is_called_again():
    class Failing(Counting):
        def shrink(self, data: bytes, mime_type: str, limits: ImageLimits, /) -> ShrunkImage | ShrinkRefusal:
            if self.calls == 0:
                self.calls += 1
                raise MemoryError
            return super().shrink(data, mime_type, limits)

    cached = CachedShrinker(Failing())
    with pytest.raises(MemoryError):
        cached.shrink(*PICTURES[0], SMALL)
    assert isinstance(cached.shrink(*PICTURES[0], SMALL), ShrunkImage)
