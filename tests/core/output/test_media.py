"""Images are fitted to the resolution of the client."""

from base64 import b64encode
from typing import Any

import pytest

from accord.core.output import ClientAdapter
from accord.core.output.media import CALL_MS, LIMITS, MAX_WORK_MS, ImageLimits, ShrinkRefusal, ShrunkImage, choose_image
from accord.core.output.profile import ImageResolution
from accord.wire.adaptation import AdaptationReason, Rung
from accord.wire.event import MediaItem
from accord.wire.packet import DeltaPacket, StreamPacket
from accord.wire.request import ClientCapabilities, TextProfile
from tests.core.output import description_of, event, events_of, run

LOW, AUTO = ImageResolution.LOW, ImageResolution.AUTO
PNG = b"\x89PNG" + b"\0" * 400


def variant(name: str, **size: int) -> dict[str, Any]:
    return {"url": f"https://v.example/{name}", "mime_type": "image/png", **size}


SIZES = [variant("thumb", width=160, height=90), variant("small", width=480), variant("big", width=1200, height=900)]
HUGE = [variant("huge", width=4000), variant("large", width=2000)]
BY_BYTES = [variant("heavy", bytes=900_000), variant("light", bytes=9_000)]


@pytest.mark.parametrize(
    ("variants", "resolution", "chosen"),
    [
        (SIZES, LOW, "small"),
        (SIZES, AUTO, "big"),
        (HUGE, LOW, "large"),
        (HUGE, AUTO, "large"),
        ([*SIZES, *HUGE], AUTO, "big"),
        ([variant("unmeasured")], LOW, None),
        ([variant("film", width=100) | {"mime_type": "video/mp4"}], LOW, None),
        ([variant("first", width=300), variant("second", width=300)], LOW, "first"),
        (BY_BYTES, LOW, "light"),
        (BY_BYTES, AUTO, "heavy"),
        ([], LOW, None),
        (None, LOW, None),
    ],
)
def test_the_largest_variant_within_the_limits_is_chosen_else_the_smallest(
    variants: list[dict[str, Any]] | None, resolution: ImageResolution, chosen: str | None
):
    item = MediaItem.model_validate({"url": "https://v.example/full", "mime_type": "image/png", "variants": variants})
    assert choose_image(item, resolution).url == f"https://v.example/{chosen or 'full'}"


def test_every_resolution_except_high_has_limits():
    assert set(LIMITS) == set(ImageResolution) - {ImageResolution.HIGH}


class ScriptedShrinker:
    """Returns the scripted answer and records the calls."""

    def __init__(self, answer: ShrunkImage | ShrinkRefusal) -> None:
        self.answer = answer
        self.calls: list[tuple[bytes, str]] = []

    def shrink(self, data: bytes, mime_type: str, limits: ImageLimits, /) -> ShrunkImage | ShrinkRefusal:
        assert limits in LIMITS.values()
        self.calls.append((data, mime_type))
        return self.answer


class HalvingShrinker:
    """Cuts an image of more than 300 bytes in half."""

    def shrink(self, data: bytes, mime_type: str, limits: ImageLimits, /) -> ShrunkImage | ShrinkRefusal:
        del limits
        return (
            ShrunkImage(data[: len(data) // 2], mime_type) if len(data) > 300 else ShrinkRefusal("small", needed=False)
        )


def carousel(url: str, **others: Any) -> dict[str, Any]:
    return {"items": [{"url": url, "mime_type": "image/png", "alt_text": "x", "extra": 1, **others}]}


def adapted_item(resolution: str | None, data: dict[str, Any], images: ScriptedShrinker | None = None):
    client = ClientCapabilities(supported_events=["media_carousel"], image_resolution=resolution)
    out, adapter = run(client, event("media_carousel", data), images=images)
    (entry,) = adapter.report.entries
    return events_of(out)[0]["data"]["items"][0], entry


INLINE = "data:image/png;base64," + b64encode(PNG).decode()
SMALLER = ShrunkImage(b"small", "image/jpeg")


@pytest.mark.parametrize("resolution", [None, "high"])
def test_with_high_or_no_resolution_every_image_passes(resolution: str | None):
    images = ScriptedShrinker(SMALLER)
    item, entry = adapted_item(resolution, carousel(INLINE, variants=SIZES), images)
    assert item == carousel(INLINE, variants=SIZES)["items"][0]
    assert (entry.rung, images.calls) == (Rung.NATIVE, [])


def test_a_chosen_variant_replaces_url_and_type_and_keeps_the_other_members():
    item, entry = adapted_item("low", carousel("https://v.example/full", variants=SIZES))
    assert item == {"url": "https://v.example/small", "mime_type": "image/png", "alt_text": "x", "extra": 1}
    assert (entry.rung, entry.reason) == (Rung.SIMPLIFIED, AdaptationReason.SMALLER_IMAGE)
    assert entry.lost == ["items.0.resolution"]


def test_an_inline_image_is_reencoded_by_the_shrinker():
    images = ScriptedShrinker(SMALLER)
    item, entry = adapted_item("low", carousel(INLINE), images)
    assert images.calls == [(PNG, "image/png")]
    assert (item["url"], item["mime_type"]) == ("data:image/jpeg;base64,c21hbGw=", "image/jpeg")
    assert entry.rung is Rung.SIMPLIFIED


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ShrinkRefusal("small enough", needed=False), AdaptationReason.SUPPORTED),
        (ShrinkRefusal("animated"), AdaptationReason.IMAGE_NOT_REDUCED),
        (ShrunkImage(PNG + b"larger", "image/png"), AdaptationReason.IMAGE_NOT_REDUCED),
    ],
)
def test_an_image_that_cannot_be_shrunk_is_sent_as_it_is_and_recorded(
    answer: ShrunkImage | ShrinkRefusal, reason: AdaptationReason
):
    item, entry = adapted_item("low", carousel(INLINE), ScriptedShrinker(answer))
    assert (item["url"], entry.rung, entry.reason) == (INLINE, Rung.NATIVE, reason)


@pytest.mark.parametrize(
    "url", ["data:image/png;base64,%%%", "data:image/png;base64,", "data:image/png,", "https://v.example/full"]
)
def test_the_shrinker_is_not_called_for_invalid_or_remote_images(url: str):
    images = ScriptedShrinker(SMALLER)
    assert adapted_item("low", carousel(url), images)[0]["url"] == url
    assert images.calls == []


def test_percent_encoded_images_are_decoded():
    images = ScriptedShrinker(SMALLER)
    adapted_item("low", carousel("data:image/png,%89PNG%00%00%00"), images)
    assert images.calls == [(b"\x89PNG\0\0\0", "image/png")]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (carousel(INLINE), AdaptationReason.IMAGE_SIZE_UNKNOWN),
        (carousel("https://v.example/full"), AdaptationReason.IMAGE_SIZE_UNKNOWN),
        (carousel("https://v.example/full", variants=[variant("unmeasured")]), AdaptationReason.IMAGE_SIZE_UNKNOWN),
        (
            carousel(INLINE, variants=[variant("large", width=2000) | {"url": INLINE}]),
            AdaptationReason.IMAGE_NOT_REDUCED,
        ),
        (carousel(INLINE, variants=[variant("small", width=200) | {"url": INLINE}]), AdaptationReason.SUPPORTED),
    ],
)
def test_an_image_that_passes_without_being_within_the_resolution_is_recorded(
    data: dict[str, Any], reason: AdaptationReason
):
    item, entry = adapted_item("low", data)
    assert item == data["items"][0]
    assert (entry.rung, entry.reason) == (Rung.NATIVE, reason)
    assert entry.notes == ({} if reason is AdaptationReason.SUPPORTED else {reason: 1})
    assert adapted_item("high", data)[1].reason is AdaptationReason.SUPPORTED


def test_images_that_do_not_fit_are_counted_also_if_others_became_smaller():
    items = [
        *carousel("https://v.example/full", variants=SIZES)["items"],
        *carousel("https://v.example/full", variants=HUGE)["items"],
        *carousel("https://v.example/a")["items"],
        *carousel("https://v.example/b")["items"],
    ]
    for data in ({"items": items}, {"items": [*items, {"url": "javascript:x"}]}):
        _, entry = adapted_item("low", data)
        assert entry.rung is Rung.SIMPLIFIED
        assert entry.notes == {"image_not_reduced": 1, "image_size_unknown": 2}


def test_a_described_image_names_the_variant_for_the_clients_resolution():
    inline = [variant("inline", width=480) | {"url": INLINE}]
    data = {
        "items": [
            *carousel("https://v.example/full", variants=[one | {"mime_type": "image/webp"} for one in SIZES])["items"],
            *carousel("https://v.example/full", variants=inline)["items"],
            *carousel(INLINE, variants=SIZES)["items"],
        ]
    }
    described = {
        resolution: description_of(
            ClientCapabilities(supported_events=[], text_profile=TextProfile.PLAIN, image_resolution=resolution),
            "media_carousel",
            data,
        )
        for resolution in ("low", "auto", "high")
    }
    lines = "Image 1/3: x ({}) https://v.example/{}\nImage 2/3: x (PNG) https://v.example/full\nImage 3/3: x (PNG){}"
    assert described["low"] == lines.format("WEBP", "small", " https://v.example/small")
    assert described["auto"] == lines.format("WEBP", "big", " https://v.example/big")
    assert described["high"] == lines.format("PNG", "full", "")


class Estimating:
    """Reports a tenth of a stream's share for an image of nine bytes, half of it for two, and nothing for one."""

    def __init__(self) -> None:
        self.calls = 0

    def shrink(self, data: bytes, mime_type: str, limits: ImageLimits, /) -> ShrunkImage | ShrinkRefusal:
        del mime_type, limits
        self.calls += 1
        if len(data) == 1:
            return ShrinkRefusal("small enough", needed=False)
        if len(data) == 2:
            return ShrinkRefusal("would not be smaller", work_ms=MAX_WORK_MS / 2)
        return ShrunkImage(b"s", "image/png", work_ms=MAX_WORK_MS / 10)


def picture(size: int) -> dict[str, Any]:
    return {"url": "data:image/png;base64," + b64encode(b"x" * size).decode(), "mime_type": "image/png"}


@pytest.mark.parametrize(
    ("sizes", "calls", "smaller"),
    [([9] * 10, 10, 10), ([9] * 14, 10, 10), ([2] * 5, 2, 0), ([2, 9, 2, 9], 3, 1), ([1] * 100, 100, 0)],
)
@pytest.mark.parametrize("in_one_event", [True, False])
def test_a_stream_has_its_share_of_reencoding_and_no_more(
    sizes: list[int], calls: int, smaller: int, in_one_event: bool
):
    pictures = [picture(size) for size in sizes]
    carousels = [pictures] if in_one_event else [[one] for one in pictures]
    images, client = Estimating(), ClientCapabilities(supported_events=CAROUSEL, image_resolution="low")
    out, adapter = run(client, *(event("media_carousel", {"items": items}) for items in carousels), images=images)
    sent = [item["url"] for one in events_of(out) for item in one["data"]["items"]]
    assert (images.calls, sent.count("data:image/png;base64,cw==")) == (calls, smaller)
    over = sum(entry.notes.get("limit_reached", 0) for entry in adapter.report.entries)
    assert over == len(sizes) - calls
    if over and not smaller:
        assert adapter.report.entries[-1].reason is AdaptationReason.LIMIT_REACHED


def test_even_images_that_need_no_reencoding_are_not_read_without_end():
    count = int(MAX_WORK_MS / CALL_MS) + 100
    images = Estimating()
    client = ClientCapabilities(supported_events=CAROUSEL, image_resolution="low")
    adapter = ClientAdapter(client, images=images)
    for _ in range(10):
        adapter.feed(event("media_carousel", {"items": [picture(1)] * (count // 10)}))
    assert count - 100 <= images.calls <= count - 99


def test_video_and_audio_pass():
    data = {"items": [{"url": "data:audio/ogg;base64,AAAA", "mime_type": "audio/ogg"}]}
    images = ScriptedShrinker(SMALLER)
    assert adapted_item("low", data, images)[1].rung is Rung.NATIVE
    assert images.calls == []


CAROUSEL = ["media_carousel"]
INLINE_VARIANT = [{"url": INLINE, "mime_type": "image/png", "width": 2000}]


@pytest.mark.parametrize(
    ("shows", "resolution", "packet", "expected"),
    [
        (CAROUSEL, "low", event("media_carousel", carousel(INLINE)), True),
        (CAROUSEL, "auto", event("MEDIA_CAROUSEL", carousel(INLINE)), True),
        (CAROUSEL, "high", event("media_carousel", carousel(INLINE)), False),
        (CAROUSEL, None, event("media_carousel", carousel(INLINE)), False),
        ([], "low", event("media_carousel", carousel(INLINE)), False),
        (CAROUSEL, "low", event("media_carousel", carousel("https://v.example/full")), False),
        (CAROUSEL, "low", event("media_carousel", carousel(INLINE, variants=SIZES)), False),
        (
            CAROUSEL,
            "low",
            event("media_carousel", carousel("data:audio/ogg;base64,AAAA", mime_type="audio/ogg")),
            False,
        ),
        (CAROUSEL, "low", event("media_carousel", carousel("https://v.example", variants=INLINE_VARIANT)), True),
        (CAROUSEL, "low", event("media_carousel", {"items": [{}, *carousel(INLINE)["items"]]}), True),
        (CAROUSEL, "low", event("poll", {}, fallback=event("media_carousel", carousel(INLINE)).p), True),
        (CAROUSEL, "low", event("poll", {}, fallback={"type": "poll", "data": {}}), False),
        (CAROUSEL, "low", DeltaPacket(p=INLINE), False),
    ],
)
def test_may_reencode_images_is_true_exactly_if_the_shrinker_is_called(
    shows: list[str], resolution: str | None, packet: StreamPacket, expected: bool
):
    images = ScriptedShrinker(SMALLER)
    adapter = ClientAdapter(ClientCapabilities(supported_events=shows, image_resolution=resolution), images=images)
    assert adapter.may_reencode_images(packet) == expected
    adapter.feed(packet)
    assert bool(images.calls) == expected


@pytest.mark.parametrize(
    "data",
    [
        carousel("https://v.example/full", variants=INLINE_VARIANT),
        {"items": [{"url": "javascript:x"}, *carousel("https://v.example/full", variants=SIZES)["items"]]},
        {"items": [{"url": "javascript:x"}, *carousel(INLINE)["items"]]},
    ],
)
def test_fitting_fitted_images_changes_nothing(data: dict[str, Any]):
    client = ClientCapabilities(supported_events=CAROUSEL, image_resolution="low")
    once, first = run(client, event("media_carousel", data), images=HalvingShrinker())
    assert first.report.entries[0].rung is Rung.SIMPLIFIED
    assert run(client, *once, images=HalvingShrinker())[0] == once


def test_the_report_on_an_invalid_list_names_lost_items_and_smaller_images():
    data = {"items": [{"url": "javascript:x"}, *carousel("https://v.example/full", variants=SIZES)["items"]]}
    item, entry = adapted_item("low", data)
    assert item["url"] == "https://v.example/small"
    assert (entry.reason, entry.lost) == (AdaptationReason.MALFORMED, ["items.0", "items.1.resolution"])


def test_without_a_shrinker_nothing_is_reencoded():
    client = ClientCapabilities(supported_events=CAROUSEL, image_resolution="low")
    assert not ClientAdapter(client).may_reencode_images(event("media_carousel", carousel(INLINE)))
