"""Shrink inline images with Pillow: the implementation of the `ImageShrinker` port of `core.output`.

The header is checked before anything is decoded: format, pixels, animation. Only the decoder of the declared media type
may read the bytes; SVG and every other format that is not a raster image is left as it is. Transparency is kept,
orientation is applied, metadata except the colour profile is removed. If the result would not be smaller, the original
is kept. Nothing is ever fetched. Calls are synchronous: the engine runs them in worker threads
(`ClientAdapter.may_reencode_images`).
"""

from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from accord.core.output.media import ImageLimits, ImageShrinker, ShrinkRefusal, ShrunkImage
from accord.core.sizes import MAX_PIXELS_IN
from accord.errors import MissingExtraError
from accord.extras import has_modules, install_command

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

DECODERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "image/png": "PNG",
        "image/apng": "PNG",
        "image/jpeg": "JPEG",
        "image/jpg": "JPEG",
        "image/gif": "GIF",
        "image/webp": "WEBP",
        "image/bmp": "BMP",
        "image/tiff": "TIFF",
    }
)
"""Media type → the only Pillow decoder that may read it."""

SAVED_AS: Final[Mapping[tuple[str, bool], tuple[str, str]]] = MappingProxyType(
    {
        ("WEBP", False): ("WEBP", "image/webp"),
        ("WEBP", True): ("WEBP", "image/webp"),
        ("", False): ("JPEG", "image/jpeg"),
        ("", True): ("PNG", "image/png"),
    }
)
"""(Source format, has transparency) → (output format, media type)."""

NS_PER_BYTE_IN: Final = 10
NS_PER_PIXEL_IN: Final[Mapping[str, int]] = MappingProxyType({"WEBP": 40})
NS_PER_PIXEL_IN_OTHERWISE: Final = 20
NS_PER_PIXEL_OUT: Final[Mapping[str, int]] = MappingProxyType({"JPEG": 30, "PNG": 180, "WEBP": 320})
"""What re-encoding takes on one core, by source and output format, measured with noise; for `work_ms` of the results.
The longest: 0.65 s for a lossless WebP of 8.3 megapixels with transparency. A photograph of 12 megapixels: 0.1 s."""

QUALITY: Final = 80
TOO_MANY_PIXELS: Final = ShrinkRefusal("more pixels than the limit")
PLAIN_MODES: Final = frozenset({"1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr"})


def has_pillow() -> bool:
    """Whether Pillow is installed."""
    return has_modules(("PIL",))


class PillowImages:
    """An `ImageShrinker` on Pillow; images of more than `max_pixels` pixels are left as they are."""

    def __init__(self, max_pixels: int = MAX_PIXELS_IN) -> None:
        if not has_pillow():
            raise MissingExtraError(f"Shrinking images needs Pillow: {install_command('images')}")
        self._max_pixels: Final = max_pixels

    def shrink(self, data: bytes, mime_type: str, limits: ImageLimits, /) -> ShrunkImage | ShrinkRefusal:
        """Return the image within the limits, or the reason why it is left as it is."""
        return shrink(data, mime_type, replace(limits, max_pixels_in=self._max_pixels))


def shrink(data: bytes, mime_type: str, limits: ImageLimits) -> ShrunkImage | ShrinkRefusal:
    """Return the image within the limits, or the reason why it is left as it is."""
    decoder = DECODERS.get(mime_type)
    if decoder is None:
        return ShrinkRefusal("not a raster image")
    if len(data) > limits.max_bytes_in:
        return ShrinkRefusal("more bytes than the limit")
    from PIL import Image  # noqa: PLC0415 - an extra, and slow to import

    work_ms = 0.0
    try:
        with Image.open(BytesIO(data), formats=[decoder]) as image:
            if refusal := _check_header(image, limits):
                return refusal
            transparent = image.has_transparency_data  # of an animation: its first frame
            output = SAVED_AS[decoder if decoder == "WEBP" else "", transparent]
            work_ms = _estimate_ms(image.size, len(data), decoder, output[0], limits.max_side)
            smaller = _reencode(image, output[0], limits, transparent=transparent)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        return TOO_MANY_PIXELS
    except (OSError, ValueError, SyntaxError, EOFError):
        return ShrinkRefusal("cannot be decoded", work_ms=work_ms)
    if len(smaller) >= len(data):
        return ShrinkRefusal("would not be smaller", work_ms=work_ms)
    return ShrunkImage(smaller, output[1], work_ms=work_ms)


def _estimate_ms(size: tuple[int, int], bytes_in: int, decoder: str, output: str, max_side: int) -> float:
    """Estimate the time of re-encoding from the header alone; `size` is the one that is decoded."""
    pixels_in = size[0] * size[1]
    pixels_out = pixels_in * min(1.0, max_side / max(size)) ** 2
    ns = bytes_in * NS_PER_BYTE_IN + pixels_in * NS_PER_PIXEL_IN.get(decoder, NS_PER_PIXEL_IN_OTHERWISE)
    return round((ns + pixels_out * NS_PER_PIXEL_OUT[output]) / 1e6, 3)


def _check_header(image: "PillowImage", limits: ImageLimits) -> ShrinkRefusal | None:
    """Return the reason to leave the image as it is, if the header gives one; no pixel has been decoded yet."""
    if max(image.size) <= limits.max_side:
        return ShrinkRefusal("small enough", needed=False)
    if "progressive" not in image.info:
        # A JPEG that is not progressive is decoded at a fraction of its size; `image.size` is that size from here on.
        image.draft("RGB", (limits.max_side, limits.max_side))
    if image.width * image.height > limits.max_pixels_in:
        return TOO_MANY_PIXELS
    if image.mode not in PLAIN_MODES:
        return ShrinkRefusal("unsupported colour mode")
    if limits.keep_animation and getattr(image, "is_animated", False):
        return ShrinkRefusal("animated")
    return None


def _reencode(image: "PillowImage", name: str, limits: ImageLimits, *, transparent: bool) -> bytes:
    """Return the image within the limits in this format."""
    from PIL import Image, ImageOps  # noqa: PLC0415

    image.draft("RGB", (limits.max_side, limits.max_side))
    mode = "RGBA" if transparent else "L" if image.mode in ("1", "L") else "RGB"
    # Copies are made of the small image wherever the result is the same: those of the large one are most of the memory.
    converted = image if image.mode == mode else image.convert(mode)
    converted.thumbnail((limits.max_side, limits.max_side), Image.Resampling.LANCZOS)
    upright = ImageOps.exif_transpose(converted)
    options: dict[str, Any] = {"quality": QUALITY, "method": 4} if name == "WEBP" else {"optimize": True}
    if name == "JPEG":
        options["quality"] = QUALITY
    # The profile of a CMYK image does not describe the RGB image that is saved.
    if image.mode != "CMYK" and (colour_profile := image.info.get("icc_profile")):
        options["icc_profile"] = colour_profile
    out = BytesIO()
    upright.save(out, name, **options)
    return out.getvalue()


ENTRY_BYTES: Final = 512
"""What an entry of the cache takes besides its image."""

CacheKey = tuple[bytes, str, ImageLimits]


class CachedShrinker:
    """An `ImageShrinker` that remembers what another one returned, so that several readers share one re-encoding.

    Images are identified by their SHA-256. The entries that were not used for longest are removed beyond `max_bytes`. A
    thread that needs an image which another one is working on waits for it.
    """

    def __init__(self, inner: ImageShrinker, max_bytes: int = 64 * 1024 * 1024) -> None:
        self._inner: Final = inner
        self._max_bytes: Final = max_bytes
        self._lock: Final = Lock()
        self._entries: Final[OrderedDict[CacheKey, ShrunkImage | ShrinkRefusal]] = OrderedDict()
        self._running: Final[dict[CacheKey, Future[ShrunkImage | ShrinkRefusal]]] = {}
        self._size = 0

    @property
    def size(self) -> int:
        """The bytes that the cache takes."""
        return self._size

    def shrink(self, data: bytes, mime_type: str, limits: ImageLimits, /) -> ShrunkImage | ShrinkRefusal:
        """Return what the inner shrinker returns for this image, or returned before."""
        key = (sha256(data).digest(), mime_type, limits)
        with self._lock:
            if (known := self._entries.get(key)) is not None:
                self._entries.move_to_end(key)
                return known
            future = self._running.get(key)
            is_running = future is not None
            if future is None:
                future = self._running[key] = Future[ShrunkImage | ShrinkRefusal]()
        if is_running:
            return future.result()
        try:
            result = self._inner.shrink(data, mime_type, limits)
        except BaseException as error:
            with self._lock:
                del self._running[key]
            future.set_exception(error)
            raise
        with self._lock:
            del self._running[key]
            self._keep(key, result)
        future.set_result(result)
        return result

    def _keep(self, key: CacheKey, result: ShrunkImage | ShrinkRefusal) -> None:
        self._entries[key] = result
        self._size += _entry_bytes(result)
        while self._size > self._max_bytes:
            _, removed = self._entries.popitem(last=False)
            self._size -= _entry_bytes(removed)


def _entry_bytes(result: ShrunkImage | ShrinkRefusal) -> int:
    return ENTRY_BYTES + (len(result.data) if isinstance(result, ShrunkImage) else 0)
