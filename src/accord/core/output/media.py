"""Fit images to the resolution of a client: by choosing a variant of an item, or by re-encoding an inline image.

With `high`, or without a declared resolution, every image is passed as it is. For `auto` and `low`, `LIMITS` applies.
Remote images are never fetched, whatever is configured: a request would tell the host that the image is viewed. The
codec is not here; it is passed in as an `ImageShrinker`.
"""

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Protocol
from urllib.parse import unquote_to_bytes

from accord.core.output.profile import ImageResolution
from accord.core.sizes import MAX_PIXELS_IN
from accord.wire.event import MediaCarousel, MediaItem, MediaVariant, inline_media_type


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """How large an image may be for the client, and how large one may be to be decoded at all."""

    max_side: int
    max_bytes: int
    keep_animation: bool
    max_bytes_in: int = 20 * 1024 * 1024
    max_pixels_in: int = MAX_PIXELS_IN


LIMITS: Final[Mapping[ImageResolution, ImageLimits]] = MappingProxyType(
    {
        ImageResolution.AUTO: ImageLimits(max_side=1280, max_bytes=1024 * 1024, keep_animation=True),
        ImageResolution.LOW: ImageLimits(max_side=480, max_bytes=100 * 1024, keep_animation=False),
    }
)
"""The limits of each resolution; `high` has none."""


@dataclass(frozen=True, slots=True)
class ShrunkImage:
    """A smaller image."""

    data: bytes
    mime_type: str


@dataclass(frozen=True, slots=True)
class ShrinkRefusal:
    """The image is left as it is; `needed` is false if it is within the limits already."""

    reason: str
    needed: bool = True


class ImageShrinker(Protocol):
    """The port for re-encoding images; it must not use the network."""

    def shrink(self, data: bytes, mime_type: str, limits: ImageLimits, /) -> ShrunkImage | ShrinkRefusal:
        """Return the image within the limits, or the reason why it is left as it is."""
        ...


@dataclass(frozen=True, slots=True)
class FittedMedia:
    """An event with fitted images; the indexes of the items that changed and of those that are still too large."""

    event: dict[str, Any]
    smaller: tuple[int, ...] = ()
    too_large: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _ChosenImage:
    url: str
    mime_type: str
    fits: bool = True


def fit_media(
    event: dict[str, Any], payload: MediaCarousel, resolution: ImageResolution | None, images: ImageShrinker | None
) -> FittedMedia:
    """Return the event with images of this resolution; the same object if nothing changes."""
    limits = LIMITS.get(resolution) if resolution else None
    if limits is None:
        return FittedMedia(event)
    chosen = [choose_image(item, limits, images) for item in payload.items]
    pairs = enumerate(zip(payload.items, chosen, strict=True))
    smaller = tuple(index for index, (item, image) in pairs if image.url != item.url)
    too_large = tuple(index for index, image in enumerate(chosen) if not image.fits)
    if smaller:
        items = list(event["data"]["items"])
        for index in smaller:
            others = {key: value for key, value in items[index].items() if key != "variants"}
            items[index] = others | {"url": chosen[index].url, "mime_type": chosen[index].mime_type}
        event = event | {"data": event["data"] | {"items": items}}
    return FittedMedia(event, smaller, too_large)


def choose_image(item: MediaItem, limits: ImageLimits, images: ImageShrinker | None = None) -> _ChosenImage:
    """Return the largest variant within the limits, else the smallest, else the item's own image."""
    if not _is_image(item.mime_type):
        return _ChosenImage(item.url, item.mime_type)
    best = _best_variant(item, limits) or item
    if images is not None and inline_media_type(best.url):
        return _reencode(best, limits, images)
    return _ChosenImage(best.url, best.mime_type)


def needs_decoding(payload: MediaCarousel, resolution: ImageResolution | None) -> bool:
    """Whether fitting these images decodes one, because the best variant of an item is inline."""
    limits = LIMITS.get(resolution) if resolution else None
    if limits is None:
        return False
    best = [_best_variant(item, limits) or item for item in payload.items if _is_image(item.mime_type)]
    return any(inline_media_type(image.url) for image in best)


def _is_image(mime_type: str) -> bool:
    return mime_type.strip().lower().startswith("image/")


def _best_variant(item: MediaItem, limits: ImageLimits) -> MediaVariant | None:
    """Return the best variant among those whose size is known."""
    variants = [
        variant
        for variant in item.variants or []
        if _is_image(variant.mime_type) and (variant.width or variant.height or variant.bytes)
    ]
    if not variants:
        return None
    sizes = [(max(one.width or 0, one.height or 0), one.bytes or 0, -index) for index, one in enumerate(variants)]
    within = [size for size in sizes if size[0] <= limits.max_side and size[1] <= limits.max_bytes]
    return variants[-(max(within) if within else min(sizes))[-1]]


def _reencode(item: MediaItem | MediaVariant, limits: ImageLimits, images: ImageShrinker) -> _ChosenImage:
    unchanged = _ChosenImage(item.url, item.mime_type, fits=False)
    data = _inline_bytes(item.url, limits.max_bytes_in)
    if data is None:
        return unchanged
    mime_type = item.mime_type.partition(";")[0].strip().lower()
    match images.shrink(data, mime_type, limits):
        case ShrunkImage(data=smaller, mime_type=kind) if len(smaller) < len(data):
            return _ChosenImage(f"data:{kind};base64,{b64encode(smaller).decode('ascii')}", kind)
        case ShrinkRefusal(needed=False):
            return _ChosenImage(item.url, item.mime_type)
        case _:
            return unchanged


def _inline_bytes(url: str, max_bytes: int) -> bytes | None:
    """Return the bytes of a `data:` URL; `None` if they cannot be decoded or are too many."""
    if len(url) > 4 * max_bytes:
        return None
    head, _, body = url.partition(",")
    try:
        coded = head.lower().endswith(";base64")
        data = b64decode(unquote_to_bytes(body), validate=True) if coded else unquote_to_bytes(body)
    except (Base64Error, ValueError):
        return None
    return data if data and len(data) <= max_bytes else None
