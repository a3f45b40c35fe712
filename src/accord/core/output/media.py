"""Fit images to the resolution of a client: by choosing a variant of an item, or by re-encoding an inline image.

With `high`, or without a declared resolution, every image is passed as it is. For `auto` and `low`, `LIMITS` applies,
and an image that is not certainly within it is recorded. Remote images are never fetched, whatever is configured: a
request would tell the host that the image is viewed. The codec is not here; it is passed in as an `ImageShrinker`.
"""

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Protocol
from urllib.parse import unquote_to_bytes

from accord.core.output.profile import ImageResolution
from accord.core.sizes import MAX_PIXELS_IN
from accord.wire.adaptation import AdaptationReason as Reason
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
    """A smaller image, and an estimate of the time that it takes to make; the same whenever it is made."""

    data: bytes
    mime_type: str
    work_ms: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class ShrinkRefusal:
    """The image is left as it is; `needed` is false if it is within the limits already."""

    reason: str
    needed: bool = True
    work_ms: float = field(default=0.0, compare=False)


class ImageShrinker(Protocol):
    """The port for re-encoding images; it must not use the network."""

    def shrink(self, data: bytes, mime_type: str, limits: ImageLimits, /) -> ShrunkImage | ShrinkRefusal:
        """Return the image within the limits, or the reason why it is left as it is."""
        ...


MAX_WORK_MS: Final = 5_000
"""How much re-encoding one stream may cause, as the shrinker estimates it: some 50 photographs, or 6 of the images that
take longest. It is not measured by a clock, so that the same packets are always adapted in the same way."""

CALL_MS: Final = 0.1
"""What every image costs at least, because its header is read."""

OVER_BUDGET: Final = ShrinkRefusal("the stream has had its share of re-encoding")


class ImageBudget:
    """An `ImageShrinker` for one stream, which stops after `max_work_ms` of estimated work."""

    __slots__ = ("_images", "_left_ms")

    def __init__(self, images: ImageShrinker, max_work_ms: float = MAX_WORK_MS) -> None:
        self._images: Final = images
        self._left_ms = max_work_ms

    def shrink(self, data: bytes, mime_type: str, limits: ImageLimits, /) -> ShrunkImage | ShrinkRefusal:
        """Return what the shrinker returns, or `OVER_BUDGET`."""
        if self._left_ms <= 0:
            return OVER_BUDGET
        result = self._images.shrink(data, mime_type, limits)
        self._left_ms -= max(result.work_ms, CALL_MS)
        return result


@dataclass(frozen=True, slots=True)
class FittedMedia:
    """An event with fitted images, the indexes of the items that changed, and how many images do not fit, by reason."""

    event: dict[str, Any]
    smaller: tuple[int, ...] = ()
    notes: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def reason(self) -> Reason:
        """The reason for all of its images together."""
        if self.smaller:
            return Reason.SMALLER_IMAGE
        return next((reason for reason in NOT_FITTED if reason in self.notes), Reason.SUPPORTED)


NOT_FITTED: Final = (Reason.LIMIT_REACHED, Reason.IMAGE_NOT_REDUCED, Reason.IMAGE_SIZE_UNKNOWN)
"""Why an image may be larger than the client's resolution, the most telling reason first."""


@dataclass(frozen=True, slots=True)
class ChosenImage:
    """The image for one client, and why it may be larger than the client's resolution."""

    url: str
    mime_type: str
    problem: Reason | None = None


def fit_media(
    event: dict[str, Any], payload: MediaCarousel, resolution: ImageResolution | None, images: ImageShrinker | None
) -> FittedMedia:
    """Return the event with images of this resolution; the same object if nothing changes."""
    chosen = [choose_image(item, resolution, images) for item in payload.items]
    pairs = enumerate(zip(payload.items, chosen, strict=True))
    smaller = tuple(index for index, (item, image) in pairs if image.url != item.url)
    counts = {str(reason): sum(image.problem is reason for image in chosen) for reason in NOT_FITTED}
    if smaller:
        items = list(event["data"]["items"])
        for index in smaller:
            others = {key: value for key, value in items[index].items() if key != "variants"}
            items[index] = others | {"url": chosen[index].url, "mime_type": chosen[index].mime_type}
        event = event | {"data": event["data"] | {"items": items}}
    return FittedMedia(event, smaller, {reason: count for reason, count in counts.items() if count})


def choose_image(
    item: MediaItem, resolution: ImageResolution | None, images: ImageShrinker | None = None
) -> ChosenImage:
    """Return the largest variant within the resolution, else the smallest, else the item's own image."""
    limits = LIMITS.get(resolution) if resolution else None
    if limits is None or not _is_image(item.mime_type):
        return ChosenImage(item.url, item.mime_type)
    variant = _best_variant(item, limits)
    best = variant or item
    if images is not None and inline_media_type(best.url):
        return _reencode(best, limits, images)
    if variant is None:
        problem = Reason.IMAGE_SIZE_UNKNOWN
    else:
        problem = None if _is_within(_size_of(variant), limits) else Reason.IMAGE_NOT_REDUCED
    return ChosenImage(best.url, best.mime_type, problem)


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
    sizes = [(_size_of(variant), -index) for index, variant in enumerate(variants)]
    within = [(size, place) for size, place in sizes if _is_within(size, limits)]
    return variants[-(max(within) if within else min(sizes))[-1]]


def _size_of(variant: MediaVariant) -> tuple[int, int]:
    """The longer side and the bytes, as far as they are known."""
    return max(variant.width or 0, variant.height or 0), variant.bytes or 0


def _is_within(size: tuple[int, int], limits: ImageLimits) -> bool:
    return size[0] <= limits.max_side and size[1] <= limits.max_bytes


def _reencode(item: MediaItem | MediaVariant, limits: ImageLimits, images: ImageShrinker) -> ChosenImage:
    data = _inline_bytes(item.url, limits.max_bytes_in)
    if data is None:
        return ChosenImage(item.url, item.mime_type, Reason.IMAGE_NOT_REDUCED)
    result = images.shrink(data, item.mime_type.partition(";")[0].strip().lower(), limits)
    match result:
        case ShrunkImage(data=smaller, mime_type=kind) if len(smaller) < len(data):
            return ChosenImage(f"data:{kind};base64,{b64encode(smaller).decode('ascii')}", kind)
        case ShrinkRefusal(needed=False):
            problem = None
        case _:
            problem = Reason.LIMIT_REACHED if result is OVER_BUDGET else Reason.IMAGE_NOT_REDUCED
    return ChosenImage(item.url, item.mime_type, problem)


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
