"""Events, clients and streams that the tests of adaptation share."""

from typing import Any

from hypothesis import strategies as st

from accord.core.output import ClientAdapter
from accord.wire.event import PresentationEventType
from accord.wire.packet import DeltaPacket, EventPacket, StreamPacket
from accord.wire.request import ClientCapabilities, TextProfile

CLI = ClientCapabilities(supported_events=["PROGRESS_INDICATOR"])
PLAIN = ClientCapabilities(supported_events=["PROGRESS_INDICATOR"], prefers_markdown=False)
VOICE = ClientCapabilities(supported_events=[], prefers_markdown=False)
NOTHING = ClientCapabilities(supported_events=[])

SOURCES = {"items": [{"source_id": "a", "uri": "https://a.example/x", "title": "A paper", "snippet": "words"}]}
PICTURE = {"items": [{"url": "https://a.example/i.png", "mime_type": "image/png", "alt_text": "A chart"}]}


def delta(text: str) -> DeltaPacket:
    """Return a delta packet."""
    return DeltaPacket(p=text)


def event(kind: str, data: Any, **others: Any) -> EventPacket:
    """Return an event packet."""
    return EventPacket(p={"type": kind, "data": data, **others})


def run(
    client: ClientCapabilities | None, *packets: StreamPacket | dict[str, Any], **options: Any
) -> tuple[list[StreamPacket], ClientAdapter]:
    """Return everything that is sent for these packets, and the closed adapter."""
    adapter = ClientAdapter(client, **options)
    out = [sent for packet in packets for sent in adapter.feed(packet)]
    return out + adapter.close(), adapter


def text_of(packets: list[StreamPacket]) -> str:
    """Return the text of all deltas."""
    return "".join(packet.p for packet in packets if isinstance(packet, DeltaPacket))


def events_of(packets: list[StreamPacket]) -> list[dict[str, Any]]:
    """Return all events."""
    return [packet.p for packet in packets if isinstance(packet, EventPacket)]


def description_of(client: ClientCapabilities | None, kind: str, data: Any, **others: Any) -> str:
    """Return the text that is sent instead of one event."""
    return text_of(run(client, event(kind, data, **others))[0])


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
WORDS = st.sampled_from(["A", "a chart", "Zwei Wörter", "see it", "x y z"])
ADDRESSES = st.sampled_from(["https://a.example", "https://b.example/x?y=1", "javascript:alert(1)", "", "doi:10.1/2"])
MEDIA_TYPES = st.sampled_from(["image/png", "video/mp4", "text/csv", "image/svg+xml", "nonsense"])
ITEMS: st.SearchStrategy[Any] = st.one_of(
    st.fixed_dictionaries({"source_id": WORDS, "uri": ADDRESSES, "title": WORDS}),
    st.fixed_dictionaries({"url": ADDRESSES, "mime_type": MEDIA_TYPES}, optional={"alt_text": WORDS}),
    JSON,
)
PAYLOADS: st.SearchStrategy[Any] = st.one_of(
    st.fixed_dictionaries({"items": st.lists(ITEMS, max_size=5)}),
    st.fixed_dictionaries(
        {"label": WORDS, "status": st.sampled_from(["running", "complete", "failed", "odd"])},
        optional={"progress_percent": st.floats(0, 2)},
    ),
    st.fixed_dictionaries({"content": WORDS}),
    st.fixed_dictionaries({"message": WORDS}, optional={"code": st.integers(), "retryable": st.booleans()}),
    JSON,
)
TYPES = st.sampled_from([*map(str, PresentationEventType), "CITATION_BLOCK", "poll", "Poll", "chart", ""])
STAMPS = st.sampled_from([f"2026-01-01T00:00:0{second}.{tenth}Z" for second in range(3) for tenth in (0, 1, 2, 5)])


def _with_hooks(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"type": TYPES | JSON, "data": PAYLOADS},
        optional={
            "id": st.sampled_from(["one", "two"]) | JSON,
            "timestamp": STAMPS,
            "fallback": inner | JSON,
            "fallback_text": WORDS | JSON,
            "spoken": WORDS | JSON,
            "priority": st.sampled_from(["low", "normal", "high"]) | JSON,
        },
    )


PLAIN_EVENTS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"type": TYPES, "data": PAYLOADS}, optional={"timestamp": STAMPS}
)
EVENTS: st.SearchStrategy[dict[str, Any]] = st.one_of(
    PLAIN_EVENTS, _with_hooks(_with_hooks(PLAIN_EVENTS)), st.dictionaries(st.text(max_size=6), JSON, max_size=4)
)
MARKDOWN = st.lists(
    st.sampled_from(
        f"{'long ' * 52}|[the note] |[the note]: /u\n|"
        "word |Word. |**bold** |*it|`code` |\n|\n\n|# Head\n|- item\n|1. one\n|```py\n|```\n|~~~\n|    x\n|> q\n|"
        "[a](https://b.example) |a: |$$\n|<!-- |--> |\r\n|| a | b |\n||---|---|\n|end.\n\n".split("|")
    ),
    max_size=12,
).map("".join)
PROSE = st.lists(st.sampled_from(["Some words. ", "more, ", "ends.\n\n", "A line\n", "Zwei Wörter "]), max_size=8).map(
    "".join
)
CLIENTS = st.builds(
    ClientCapabilities,
    supported_events=st.lists(st.sampled_from([*map(str, PresentationEventType), "POLL"]), unique=True),
    prefers_markdown=st.booleans(),
    image_resolution=st.sampled_from([None, "low", "auto", "high"]),
    text_profile=st.none() | st.sampled_from(TextProfile),
)
