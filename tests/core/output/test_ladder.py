"""The ladder: the rung and the reason of each event for each client."""

from typing import Any

import pytest

from accord.core.output.ladder import MAX_FALLBACKS
from accord.wire.adaptation import AdaptationEntry, Rung
from accord.wire.adaptation import AdaptationReason as Reason
from accord.wire.request import ClientCapabilities
from tests.core.output import NOTHING, PICTURE, SOURCES, event, events_of, run, text_of

EVIL = {"source_id": "b", "uri": "javascript:alert(1)", "title": "Evil"}
TICK = {"label": "x", "status": "running"}
BLOCK = {"type": "markdown_block", "data": {"content": "instead"}}


def entry_of(declared: list[str], kind: Any, data: Any, **others: Any) -> AdaptationEntry:
    _, adapter = run(ClientCapabilities(supported_events=declared), event(kind, data, **others))
    (entry,) = adapter.report.entries
    return entry


@pytest.mark.parametrize(
    ("declared", "kind", "data", "rung", "reason"),
    [
        (["citation_block"], "citation_block", SOURCES, Rung.NATIVE, Reason.SUPPORTED),
        (["CITATION_BLOCK"], "Citation_Block", SOURCES, Rung.NATIVE, Reason.SUPPORTED),
        ([], "citation_block", SOURCES, Rung.DESCRIBED, Reason.NOT_DECLARED),
        ([], "citation_block", {"items": []}, Rung.DROPPED, Reason.EMPTY),
        (["citation_block"], "citation_block", {"items": [EVIL]}, Rung.DESCRIBED, Reason.MALFORMED),
        (["citation_block"], "citation_block", {"items": [EVIL, *SOURCES["items"]]}, Rung.SIMPLIFIED, Reason.MALFORMED),
        (["citation_block"], "citation_block", {}, Rung.DEFERRED, Reason.MALFORMED),
        ([], "media_carousel", PICTURE, Rung.DESCRIBED, Reason.NOT_DECLARED),
        ([], "progress_indicator", TICK, Rung.DROPPED, Reason.TRANSIENT),
        ([], "progress_indicator", TICK | {"status": "complete"}, Rung.DROPPED, Reason.TRANSIENT),
        ([], "progress_indicator", TICK | {"status": "failed"}, Rung.DESCRIBED, Reason.NOT_DECLARED),
        ([], "progress_indicator", {"status": "odd"}, Rung.DEFERRED, Reason.MALFORMED),
        (["progress_indicator"], "progress_indicator", TICK, Rung.NATIVE, Reason.SUPPORTED),
        (["markdown_block"], "markdown_block", {"content": "x"}, Rung.NATIVE, Reason.SUPPORTED),
        ([], "markdown_block", {"content": "x"}, Rung.DESCRIBED, Reason.NOT_DECLARED),
        ([], "markdown_block", {"content": " "}, Rung.DROPPED, Reason.EMPTY),
        ([], "markdown_block", {"content": 7}, Rung.DEFERRED, Reason.MALFORMED),
        ([], "user_error", {"message": "x"}, Rung.DESCRIBED, Reason.NOT_DECLARED),
        (["user_error"], "user_error", {}, Rung.DESCRIBED, Reason.MALFORMED),
        (["thought_trace"], "thought_trace", {"x": 1}, Rung.NATIVE, Reason.SUPPORTED),
        (["thought_trace"], "thought_trace", "x", Rung.DROPPED, Reason.PRIVATE),
        ([], "thought_trace", {"x": 1}, Rung.DROPPED, Reason.PRIVATE),
        (["poll"], "poll", {"x": 1}, Rung.NATIVE, Reason.SUPPORTED),
        ([], "poll", {"x": 1}, Rung.DEFERRED, Reason.UNKNOWN_TYPE),
        ([], "", {}, Rung.DEFERRED, Reason.MALFORMED),
        ([], None, {}, Rung.DEFERRED, Reason.MALFORMED),
        ([], 7, [], Rung.DEFERRED, Reason.MALFORMED),
    ],
)
def test_each_event_has_one_rung_and_one_reason(declared: list[str], kind: Any, data: Any, rung: Rung, reason: Reason):
    entry = entry_of(declared, kind, data)
    assert (entry.rung, entry.reason) == (rung, reason)


@pytest.mark.parametrize(
    ("declared", "others", "rung", "reason"),
    [
        ([], {"fallback_text": "words"}, Rung.DESCRIBED, Reason.AUTHOR_TEXT),
        ([], {"spoken": "words"}, Rung.DESCRIBED, Reason.AUTHOR_TEXT),
        ([], {"fallback": BLOCK}, Rung.DESCRIBED, Reason.AUTHOR_FALLBACK),
        (["markdown_block"], {"fallback": BLOCK}, Rung.SUBSTITUTED, Reason.AUTHOR_FALLBACK),
        (["markdown_block"], {"fallback": BLOCK, "fallback_text": "x"}, Rung.SUBSTITUTED, Reason.AUTHOR_FALLBACK),
        ([], {"fallback": BLOCK, "fallback_text": "x"}, Rung.DESCRIBED, Reason.AUTHOR_TEXT),
        ([], {"fallback": {"type": "chart"}}, Rung.DEFERRED, Reason.UNKNOWN_TYPE),
        ([], {"fallback": {}}, Rung.DEFERRED, Reason.UNKNOWN_TYPE),
        ([], {"priority": "low"}, Rung.DROPPED, Reason.LOW_PRIORITY),
        ([], {"priority": "low", "fallback_text": "x"}, Rung.DROPPED, Reason.LOW_PRIORITY),
        (["markdown_block"], {"priority": "low", "fallback": BLOCK}, Rung.SUBSTITUTED, Reason.AUTHOR_FALLBACK),
        (["poll"], {"priority": "low", "fallback": BLOCK}, Rung.NATIVE, Reason.SUPPORTED),
    ],
)
def test_the_hooks_of_the_author_come_before_a_description(
    declared: list[str], others: dict[str, Any], rung: Rung, reason: Reason
):
    entry = entry_of(declared, "poll", {}, **others)
    assert (entry.rung, entry.reason) == (rung, reason)


@pytest.mark.parametrize(
    ("client", "text"),
    [(NOTHING, "to **read**"), (ClientCapabilities(supported_events=[], prefers_markdown=False), "to hear")],
)
def test_a_voice_gets_the_spoken_text_and_a_screen_the_fallback_text(client: ClientCapabilities, text: str):
    out, _ = run(client, event("poll", {"fallback_text": "to **read**", "spoken": "to *hear*"}))
    assert text_of(out) == text


@pytest.mark.parametrize("kind", ["user_error", "progress_indicator"])
def test_a_failure_is_described_whatever_its_priority(kind: str):
    data = {"message": "x", "label": "x", "status": "failed"}
    assert entry_of([], kind, data, priority="low").rung is Rung.DESCRIBED


@pytest.mark.parametrize("hook", [{"fallback_text": "secret"}, {"spoken": "secret"}, {"fallback": BLOCK}])
def test_a_thought_is_not_sent_because_of_a_hook(hook: dict[str, Any]):
    out, _ = run(ClientCapabilities(supported_events=["markdown_block"]), event("thought_trace", {"x": 1}, **hook))
    assert out == []


def test_progress_is_dropped_even_with_a_fallback_text():
    assert entry_of([], "progress_indicator", TICK, fallback_text="x").rung is Rung.DROPPED


def test_a_fallback_event_has_the_id_and_timestamp_of_the_event():
    client = ClientCapabilities(supported_events=["markdown_block"])
    out, _ = run(client, event("poll", {}, id="p1", timestamp="2026-01-01T00:00:00Z", fallback=BLOCK))
    assert events_of(out) == [BLOCK | {"id": "p1", "timestamp": "2026-01-01T00:00:00Z"}]


@pytest.mark.parametrize(("depth", "found"), [(MAX_FALLBACKS, True), (MAX_FALLBACKS + 1, False)])
def test_fallbacks_nest_only_to_a_limit(depth: int, found: bool):
    inner = BLOCK
    for _ in range(depth - 1):
        inner = {"type": "poll", "fallback": inner}
    entry = entry_of(["markdown_block"], "poll", {}, fallback=inner)
    assert (entry.rung is Rung.SUBSTITUTED) is found


def test_an_item_with_a_bad_url_is_left_out_and_the_others_are_sent():
    client = ClientCapabilities(supported_events=["citation_block"])
    out, adapter = run(client, event("citation_block", {"items": [EVIL, *SOURCES["items"]], "note": 1}))
    assert events_of(out) == [{"type": "citation_block", "data": {"items": SOURCES["items"], "note": 1}}]
    (entry,) = adapter.report.entries
    assert (entry.kept, entry.lost) == (["items.1"], ["items.0"])


def test_a_native_event_is_sent_as_the_same_packet():
    packet = event("citation_block", SOURCES | {"more": None}, extra={"kept": None})
    assert run(None, packet)[0][0] is packet
