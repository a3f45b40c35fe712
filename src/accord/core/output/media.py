"""Chooses pictures of the size a client asked for: among the variants an item offers, or by re-encoding inline ones.

`high`, or nothing said, passes everything. For `auto` and `low` one table gives the limits. Remote pictures are never
fetched, whatever is configured: without a variant they stay what they are, since asking a host for one would tell it
that somebody is looking. How a picture is re-encoded is not known here; a port is handed in.
"""

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Protocol
from urllib.parse import unquote_to_bytes

from accord.core.output.profile import ImageResolution
from accord.core.sizes import MAX_PIXELS_IN
from accord.wire.event import MediaCarousel, MediaItem, MediaVariant, inline_media_type


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """How large a picture may be shown, and how large one may be to be worked on at all."""

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
"""What each resolution means; `high` has no limits."""


@dataclass(frozen=True, slots=True)
class ShrunkImage:
    """A smaller picture."""

    data: bytes
    mime_type: str


@dataclass(frozen=True, slots=True)
class ShrinkRefusal:
    """The picture stays as it is; `needed` tells whether it is larger than the client asked for."""

    reason: str
    needed: bool = True


class ImageShrinker(Protocol):
    """Makes a picture smaller, without asking anyone else."""

    def shrink(self, data: bytes, mime_type: str, limits: ImageLimits, /) -> ShrunkImage | ShrinkRefusal:
        """The picture within the limits, or why it stays as it is."""
        ...


@dataclass(frozen=True, slots=True)
class Fitted:
    """An event with pictures of the right size; the places of those that changed and of those that could not."""

    event: dict[str, Any]
    smaller: tuple[int, ...] = ()
    too_large: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Choice:
    url: str
    mime_type: str
    fits: bool = True


def fit_media(
    event: dict[str, Any], payload: MediaCarousel, resolution: ImageResolution | None, images: ImageShrinker | None
) -> Fitted:
    """The event as this client wants its pictures; the same object if nothing changes."""
    limits = LIMITS.get(resolution) if resolution else None
    if limits is None:
        return Fitted(event)
    chosen = [choose(item, limits, images) for item in payload.items]
    smaller = tuple(
        place for place, (item, choice) in enumerate(zip(payload.items, chosen, strict=True)) if choice.url != item.url
    )
    too_large = tuple(place for place, choice in enumerate(chosen) if not choice.fits)
    return Fitted(_rewritten(event, chosen, smaller) if smaller else event, smaller, too_large)


def choose(item: MediaItem, limits: ImageLimits, images: ImageShrinker | None = None) -> _Choice:
    """The address to show: the largest variant within the limits, else the smallest, else what the item has."""
    if not _is_picture(item.mime_type):
        return _Choice(item.url, item.mime_type)
    shown = _variant(item, limits) or item
    if images is not None and inline_media_type(shown.url):
        return _reencoded(shown, limits, images)
    return _Choice(shown.url, shown.mime_type)


def needs_pixels(payload: MediaCarousel, resolution: ImageResolution | None) -> bool:
    """Whether fitting these pictures would mean decoding one, because what is chosen to be shown is inline."""
    limits = LIMITS.get(resolution) if resolution else None
    if limits is None:
        return False
    shown = [_variant(item, limits) or item for item in payload.items if _is_picture(item.mime_type)]
    return any(inline_media_type(one.url) for one in shown)


def _is_picture(mime_type: str) -> bool:
    return mime_type.strip().lower().startswith("image/")


def _variant(item: MediaItem, limits: ImageLimits) -> MediaVariant | None:
    """The best variant among those whose size is known."""
    measured = [
        (max(one.width or 0, one.height or 0), one.bytes or 0, place, one)
        for place, one in enumerate(item.variants or [])
        if _is_picture(one.mime_type) and (one.width or one.height or one.bytes)
    ]
    if not measured:
        return None
    within = [one for one in measured if one[0] <= limits.max_side and one[1] <= limits.max_bytes]
    return (max(within, key=_size) if within else min(measured, key=_size))[-1]


def _size(measured: tuple[int, int, int, MediaVariant]) -> tuple[int, int, int]:
    side, size, place, _ = measured
    return side, size, -place


def _reencoded(item: MediaItem | MediaVariant, limits: ImageLimits, images: ImageShrinker) -> _Choice:
    as_sent = _Choice(item.url, item.mime_type, fits=False)
    data = _inline_bytes(item.url, limits.max_bytes_in)
    if data is None:
        return as_sent
    mime_type = item.mime_type.partition(";")[0].strip().lower()
    match images.shrink(data, mime_type, limits):
        case ShrunkImage(data=smaller, mime_type=kind) if len(smaller) < len(data):
            return _Choice(f"data:{kind};base64,{b64encode(smaller).decode('ascii')}", kind)
        case ShrinkRefusal(needed=False):
            return _Choice(item.url, item.mime_type)
        case _:
            return as_sent


def _inline_bytes(url: str, max_bytes: int) -> bytes | None:
    """The bytes of a `data:` URL, if they are within the limit and what they say they are."""
    if len(url) > 4 * max_bytes:
        return None
    head, _, body = url.partition(",")
    try:
        coded = head.lower().endswith(";base64")
        data = b64decode(unquote_to_bytes(body), validate=True) if coded else unquote_to_bytes(body)
    except (Base64Error, ValueError):
        return None
    return data if data and len(data) <= max_bytes else None


def _rewritten(event: dict[str, Any], chosen: Sequence[_Choice], smaller: Sequence[int]) -> dict[str, Any]:
    items = list(event["data"]["items"])
    for place in smaller:
        kept = {key: value for key, value in items[place].items() if key != "variants"}
        items[place] = kept | {"url": chosen[place].url, "mime_type": chosen[place].mime_type}
    return event | {"data": event["data"] | {"items": items}}
