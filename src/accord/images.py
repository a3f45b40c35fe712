"""Shrink inline images with Pillow: the implementation of the `ImageShrinker` port of `core.output`.

The header is checked before anything is decoded: format, pixels, animation. Only the decoder of the declared media type
may read the bytes; SVG and every other format that is not a raster image is left as it is. Transparency is kept,
orientation is applied, metadata except the colour profile is removed. If the result would not be smaller, the original
is kept. Nothing is ever fetched. Calls are synchronous: the engine runs them in worker threads
(`ClientAdapter.may_reencode_images`).
"""

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from io import BytesIO
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from accord.core.output.media import ImageLimits, ShrinkRefusal, ShrunkImage
from accord.core.sizes import MAX_PIXELS_IN
from accord.errors import UsageError

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

QUALITY: Final = 80
TOO_MANY_PIXELS: Final = ShrinkRefusal("more pixels than the limit")
PLAIN_MODES: Final = frozenset({"1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr"})


def has_pillow() -> bool:
    """Whether Pillow is installed."""
    return find_spec("PIL") is not None


class PillowImages:
    """An `ImageShrinker` on Pillow; images of more than `max_pixels` pixels are left as they are."""

    def __init__(self, max_pixels: int = MAX_PIXELS_IN) -> None:
        if not has_pillow():
            raise UsageError("Shrinking images needs Pillow: pip install 'accord-agents[images]'")
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

    try:
        with Image.open(BytesIO(data), formats=[decoder]) as image:
            return _check_header(image, limits) or _reencode(image, len(data), decoder, limits)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        return TOO_MANY_PIXELS
    except (OSError, ValueError, SyntaxError, EOFError):
        return ShrinkRefusal("cannot be decoded")


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


def _reencode(image: "PillowImage", size: int, decoder: str, limits: ImageLimits) -> ShrunkImage | ShrinkRefusal:
    from PIL import Image, ImageOps  # noqa: PLC0415

    image.draft("RGB", (limits.max_side, limits.max_side))
    transparent = image.has_transparency_data  # of an animation: its first frame
    mode = "RGBA" if transparent else "L" if image.mode in ("1", "L") else "RGB"
    # Copies are made of the small image wherever the result is the same: those of the large one are most of the memory.
    converted = image if image.mode == mode else image.convert(mode)
    converted.thumbnail((limits.max_side, limits.max_side), Image.Resampling.LANCZOS)
    upright = ImageOps.exif_transpose(converted)
    name, mime_type = SAVED_AS[decoder if decoder == "WEBP" else "", transparent]
    options: dict[str, Any] = {"quality": QUALITY, "method": 4} if name == "WEBP" else {"optimize": True}
    if name == "JPEG":
        options["quality"] = QUALITY
    # The profile of a CMYK image does not describe the RGB image that is saved.
    if image.mode != "CMYK" and (colour_profile := image.info.get("icc_profile")):
        options["icc_profile"] = colour_profile
    out = BytesIO()
    upright.save(out, name, **options)
    if out.tell() >= size:
        return ShrinkRefusal("would not be smaller")
    return ShrunkImage(out.getvalue(), mime_type)
