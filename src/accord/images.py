"""Makes inline pictures smaller with Pillow: the shell behind the port that `core.adapt` is handed.

The header is read and judged before anything is decoded: kind, pixels, frames. Only the decoder that the media type
names is let near the bytes; SVG and everything else that is not a raster picture stays as it is. Transparency is kept,
orientation is applied, metadata other than the colour profile is left out. The result is smaller, or the original is
kept. It runs where it is called: the engine feeds what `ClientAdapter.is_heavy` names in threads of its own, which are
few. Nothing is ever fetched.
"""

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from io import BytesIO
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from accord.core.output.media import MAX_PIXELS_IN, ImageLimits, ShrinkRefusal, Shrunk
from accord.errors import UsageError

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

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
"""The only decoder that each media type may wake."""

SAVED_AS: Final[Mapping[tuple[str, bool], tuple[str, str]]] = MappingProxyType(
    {
        ("WEBP", False): ("WEBP", "image/webp"),
        ("WEBP", True): ("WEBP", "image/webp"),
        ("", False): ("JPEG", "image/jpeg"),
        ("", True): ("PNG", "image/png"),
    }
)
"""What a picture becomes, by what it was and whether anything shines through it."""

QUALITY: Final = 80
TOO_MANY_PIXELS: Final = ShrinkRefusal("more pixels than the limit")
PLAIN_MODES: Final = frozenset({"1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr"})


def has_pillow() -> bool:
    """Whether pictures can be made smaller here."""
    return find_spec("PIL") is not None


class PillowImages:
    """The port `images=` of `ClientAdapter`, done with Pillow; larger pictures than `max_pixels` stay as they are."""

    def __init__(self, max_pixels: int = MAX_PIXELS_IN) -> None:
        if not has_pillow():
            raise UsageError("Making pictures smaller needs Pillow, which is not installed")
        self._max_pixels: Final = max_pixels

    def shrink(self, data: bytes, mime_type: str, limits: ImageLimits, /) -> Shrunk | ShrinkRefusal:
        """The picture within the limits, or why it stays as it is."""
        return shrink(data, mime_type, replace(limits, max_pixels_in=self._max_pixels))


def shrink(data: bytes, mime_type: str, limits: ImageLimits) -> Shrunk | ShrinkRefusal:
    """The picture within the limits, or why it stays as it is."""
    decoder = DECODERS.get(mime_type)
    if decoder is None:
        return ShrinkRefusal("not a raster picture")
    if len(data) > limits.max_bytes_in:
        return ShrinkRefusal("more bytes than the limit")
    from PIL import Image  # noqa: PLC0415 - an extra, and slow to import

    try:
        with Image.open(BytesIO(data), formats=[decoder]) as picture:
            return _refused(picture, limits) or _smaller(picture, len(data), decoder, limits)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        return TOO_MANY_PIXELS
    except (OSError, ValueError, SyntaxError, EOFError):
        return ShrinkRefusal("cannot be decoded")


def _refused(picture: "Picture", limits: ImageLimits) -> ShrinkRefusal | None:
    """What the header alone says against it; nothing has been decoded yet."""
    if max(picture.size) <= limits.max_side:
        return ShrinkRefusal("small enough", needed=False)
    if "progressive" not in picture.info:
        # A JPEG that is not progressive is decoded at a fraction of its size, which is then the size it says it has.
        picture.draft("RGB", (limits.max_side, limits.max_side))
    if picture.width * picture.height > limits.max_pixels_in:
        return TOO_MANY_PIXELS
    if picture.mode not in PLAIN_MODES:
        return ShrinkRefusal("deeper colours than are kept here")
    if limits.keep_animation and getattr(picture, "is_animated", False):
        return ShrinkRefusal("animated")
    return None


def _smaller(picture: "Picture", size: int, decoder: str, limits: ImageLimits) -> Shrunk | ShrinkRefusal:
    from PIL import Image, ImageOps  # noqa: PLC0415

    picture.draft("RGB", (limits.max_side, limits.max_side))
    clear = picture.has_transparency_data  # of an animation, this is its first frame
    mode = "RGBA" if clear else "L" if picture.mode in ("1", "L") else "RGB"
    # Copies are made of the small picture wherever that looks the same: those of the large one are most of the memory.
    whole = picture if picture.mode == mode else picture.convert(mode)
    whole.thumbnail((limits.max_side, limits.max_side), Image.Resampling.LANCZOS)
    still = ImageOps.exif_transpose(whole)
    name, mime_type = SAVED_AS[decoder if decoder == "WEBP" else "", clear]
    out = BytesIO()
    still.save(out, name, **_options(name, picture.info.get("icc_profile") if picture.mode != "CMYK" else None))
    if out.tell() >= size:
        return ShrinkRefusal("would not be smaller")
    return Shrunk(out.getvalue(), mime_type)


def _options(name: str, colours: bytes | None) -> dict[str, Any]:
    options: dict[str, Any] = {"optimize": True} if name != "WEBP" else {"quality": QUALITY, "method": 4}
    if name == "JPEG":
        options["quality"] = QUALITY
    return options | ({"icc_profile": colours} if colours else {})
