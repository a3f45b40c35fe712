"""The report: every packet once, totals that add up, limited entries, no content of the user."""

from typing import Any

import pytest

from accord.core.output import AdaptLimits
from accord.wire.adaptation import AdaptationReason, Rung
from accord.wire.packet import ClosePacket
from accord.wire.request import ClientCapabilities
from tests.core.output import PICTURE, PLAIN, SOURCES, VOICE, delta, event, run


def test_all_text_is_one_entry_with_a_count_and_notes():
    packets = [
        event("poll", {}),
        delta("**a** "),
        delta("b\n\n"),
        event("poll", {}),
        delta("```py\nx\n```"),
        ClosePacket(),
    ]
    report = run(VOICE, *packets)[1].report
    entry = next(entry for entry in report.entries if entry.type == "delta")
    assert (entry.position, entry.count, entry.id) == (1, 3, "text")
    assert (entry.rung, entry.reason) == (Rung.SIMPLIFIED, AdaptationReason.MARKUP_REMOVED)
    assert entry.notes == {"code_block": 1}
    assert [entry.position for entry in report.entries] == [0, 1, 3, 5]
    assert report.total() == len(packets)


def test_text_without_markup_is_native_also_for_a_client_without_markdown():
    report = run(PLAIN, delta("Only words."), delta(" And more.\n"))[1].report
    assert report.totals[Rung.NATIVE] == 2
    assert report.total() == 2


def test_the_report_has_what_was_declared_and_assumed():
    declared = ClientCapabilities(image_resolution="8k")
    report = run(declared, delta("x"))[1].report
    assert report.declared == declared
    assert report.assumed == ["standard_events", "resolution_auto"]
    assert run(None)[1].report.assumed == ["standard_client"]
    assert run(None)[1].report.declared is None


def test_packets_beyond_the_limit_are_counted_without_an_entry():
    packets = [event("poll", {}) for _ in range(10)]
    report = run(None, *packets, limits=AdaptLimits(max_entries=4))[1].report
    assert (len(report.entries), report.unlisted, report.total()) == (4, 6, 10)


def test_the_report_has_no_content_of_the_user():
    private = "xyzzy"
    source = {"source_id": private, "uri": "https://a.example/" + private, "title": private}
    packets = [
        delta(f"{private} **{private}**"),
        event("citation_block", {"items": [source]}),
        event("user_error", {"message": private}),
        event("poll", {"x": private}, fallback_text=private),
        event("thought_trace", {"x": private}),
        event("markdown_block", {"content": f"`{private}`"}),
    ]
    for client in (None, PLAIN, VOICE):
        assert private not in run(client, *packets)[1].report.to_json()


SOURCE = {"source_id": "a", "uri": "https://a.example/x", "title": "A paper"}
DOT = {"items": [{"url": "data:image/png;base64,AAAA", "mime_type": "image/png", "alt_text": "A dot"}]}


@pytest.mark.parametrize(
    ("client", "kind", "data", "kept", "lost"),
    [
        (VOICE, "citation_block", SOURCES, "items.title", "items.source_id items.snippet items.uri"),
        (PLAIN, "citation_block", SOURCES, "items.title items.uri", "items.source_id items.snippet"),
        (PLAIN, "citation_block", {"items": [SOURCE]}, "items.title items.uri", "items.source_id"),
        (PLAIN, "citation_block", {"items": [SOURCE] * 51}, "items.title items.uri", "items.source_id items.50+"),
        (PLAIN, "citation_block", {"items": [{"title": "A"}]}, "items.title", "items.source_id items.snippet"),
        (PLAIN, "media_carousel", PICTURE, "items.alt_text items.mime_type items.url", ""),
        (PLAIN, "media_carousel", DOT, "items.alt_text items.mime_type items.url", "items.0.url"),
        (VOICE, "media_carousel", PICTURE, "items.alt_text", "items.url items.mime_type"),
        (VOICE, "progress_indicator", {"label": "Search", "status": "failed"}, "label status", ""),
        (PLAIN, "user_error", {"message": "No luck", "code": 5}, "message retryable code", "domain"),
        (VOICE, "user_error", {"message": "No luck", "code": 5}, "message retryable", "domain code"),
        (PLAIN, "user_error", {"message": "No luck"}, "message retryable", "domain"),
        (PLAIN, "user_error", {"message": "No luck", "code": [5]}, "message", ""),
        (PLAIN, "markdown_block", {"content": "**a**"}, "content", "markup"),
        (PLAIN, "markdown_block", {"content": "a"}, "content", ""),
    ],
)
def test_kept_and_lost_fields_are_reported(client: ClientCapabilities, kind: str, data: Any, kept: str, lost: str):
    entry = run(client, event(kind, data))[1].report.entries[0]
    assert (entry.kept, entry.lost) == (kept.split(), lost.split())
