"""Reading events: whatever was sent, with the hooks its author left."""

from typing import Any

import pytest

from accord.core.output.event_parser import PAYLOADS, Hooks, Priority, marker, read_event, sound_items, words_of
from accord.wire.event import CitationBlock, PresentationEventType
from tests.core.output import SOURCES

BAD_SOURCE = {"source_id": "b", "uri": "javascript:alert(1)", "title": "Evil"}


def test_every_type_of_the_protocol_has_its_payload():
    assert set(PAYLOADS) == set(PresentationEventType)


@pytest.mark.parametrize(
    ("event", "known", "malformed"),
    [
        ({"type": "citation_block", "data": SOURCES}, "citation_block", False),
        ({"type": "CITATION_BLOCK", "data": SOURCES}, "citation_block", False),
        ({"type": "citation_block", "data": {}}, "citation_block", True),
        ({"type": "citation_block", "data": None}, "citation_block", True),
        ({"type": "citation_block", "data": {"items": [BAD_SOURCE]}}, "citation_block", True),
        ({"type": "progress_indicator", "data": {"label": "x", "status": "odd"}}, "progress_indicator", True),
        ({"type": "thought_trace", "data": {"anything": 1}}, "thought_trace", False),
        ({"type": "thought_trace", "data": []}, "thought_trace", True),
        ({"type": "poll"}, None, False),
        ({"type": ""}, None, True),
        ({"type": 7}, None, True),
        ({}, None, True),
    ],
)
def test_a_known_type_with_another_payload_is_malformed(event: dict[str, Any], known: str | None, malformed: bool):
    item = read_event(event, 3)
    assert (item.known, item.is_malformed) == (known, malformed)


@pytest.mark.parametrize(
    ("sent", "name"),
    [("abc", "abc"), (None, "event-3"), ("", "event-3"), (7, "event-3"), ("a\x00b", "a?b"), ("x" * 99, "x" * 64)],
)
def test_an_event_without_a_name_is_called_by_its_number(sent: Any, name: str):
    assert read_event({"type": "poll", "id": sent}, 3).id == name


@pytest.mark.parametrize(
    ("event", "hooks"),
    [
        ({"fallback_text": "t", "spoken": "s"}, Hooks(fallback_text="t", spoken="s")),
        ({"data": {"fallback_text": "t", "priority": "LOW"}}, Hooks(fallback_text="t", priority=Priority.LOW)),
        ({"fallback_text": "top", "data": {"fallback_text": "inside"}}, Hooks(fallback_text="top")),
        ({"fallback_text": " ", "data": {"fallback_text": "inside"}}, Hooks(fallback_text="inside")),
        ({"fallback": {"type": "x"}}, Hooks(fallback={"type": "x"})),
        ({"fallback": "x", "fallback_text": 7, "spoken": [], "priority": "urgent"}, Hooks()),
        ({"data": [1], "priority": "high"}, Hooks(priority=Priority.HIGH)),
    ],
)
def test_hooks_stand_at_the_top_or_inside_and_the_top_wins(event: dict[str, Any], hooks: Hooks):
    assert read_event(event, 0).hooks == hooks


def test_the_sound_items_of_a_broken_list_are_saved():
    item = read_event({"type": "citation_block", "data": {"items": [BAD_SOURCE, *SOURCES["items"], 7]}}, 0)
    places, payload = sound_items(item)
    assert places == [1]
    assert isinstance(payload, CitationBlock)
    assert words_of(item, "title") == ["Evil", "A paper"]


SHAPELESS: list[Any] = [None, {}, {"items": 7}, {"items": {}}, {"items": [[]]}]


@pytest.mark.parametrize("data", SHAPELESS)
def test_of_other_shapes_nothing_is_saved(data: Any):
    item = read_event({"type": "media_carousel", "data": data}, 0)
    assert sound_items(item) == ([], None)
    assert words_of(item, "alt_text") == []


def test_a_marker_names_and_does_not_quote():
    assert marker("a\n" * 99) == "a?" * 32
