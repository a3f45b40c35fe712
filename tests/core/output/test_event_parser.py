"""Parsing events: any JSON object, with the hooks of its author."""

from typing import Any

import pytest

from accord.core.output.event_parser import (
    PAYLOADS,
    AuthorHooks,
    Priority,
    find_item_texts,
    find_valid_items,
    make_label,
    parse_event,
)
from accord.wire.event import CitationBlock, PresentationEventType
from tests.core.output import SOURCES

BAD_SOURCE = {"source_id": "b", "uri": "javascript:alert(1)", "title": "Evil"}


def test_every_event_type_of_the_protocol_has_a_payload():
    assert set(PAYLOADS) == set(PresentationEventType)


@pytest.mark.parametrize(
    ("event", "known_type", "malformed"),
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
def test_a_known_type_with_an_invalid_payload_is_malformed(
    event: dict[str, Any], known_type: str | None, malformed: bool
):
    parsed = parse_event(event, 3)
    assert (parsed.known_type, parsed.is_malformed) == (known_type, malformed)


@pytest.mark.parametrize(
    ("sent", "event_id"),
    [("abc", "abc"), (None, "event-3"), ("", "event-3"), (7, "event-3"), ("a\x00b", "a?b"), ("x" * 99, "x" * 64)],
)
def test_an_event_without_an_id_gets_its_number(sent: Any, event_id: str):
    assert parse_event({"type": "poll", "id": sent}, 3).id == event_id


@pytest.mark.parametrize(
    ("event", "hooks"),
    [
        ({"fallback_text": "t", "spoken": "s"}, AuthorHooks(fallback_text="t", spoken="s")),
        ({"data": {"fallback_text": "t", "priority": "LOW"}}, AuthorHooks(fallback_text="t", priority=Priority.LOW)),
        ({"fallback_text": "top", "data": {"fallback_text": "inside"}}, AuthorHooks(fallback_text="top")),
        ({"fallback_text": " ", "data": {"fallback_text": "inside"}}, AuthorHooks(fallback_text="inside")),
        ({"fallback": {"type": "x"}}, AuthorHooks(fallback={"type": "x"})),
        ({"fallback": "x", "fallback_text": 7, "spoken": [], "priority": "urgent"}, AuthorHooks()),
        ({"data": [1], "priority": "high"}, AuthorHooks(priority=Priority.HIGH)),
    ],
)
def test_hooks_may_be_at_the_top_or_in_data_and_the_top_wins(event: dict[str, Any], hooks: AuthorHooks):
    assert parse_event(event, 0).hooks == hooks


def test_the_valid_items_of_an_invalid_list_are_found():
    item = parse_event({"type": "citation_block", "data": {"items": [BAD_SOURCE, *SOURCES["items"], 7]}}, 0)
    indexes, payload = find_valid_items(item)
    assert indexes == [1]
    assert isinstance(payload, CitationBlock)
    assert find_item_texts(item, "title") == ["Evil", "A paper"]


OTHER_DATA: list[Any] = [None, {}, {"items": 7}, {"items": {}}, {"items": [[]]}]


@pytest.mark.parametrize("data", OTHER_DATA)
def test_other_data_has_no_valid_items(data: Any):
    item = parse_event({"type": "media_carousel", "data": data}, 0)
    assert find_valid_items(item) == ([], None)
    assert find_item_texts(item, "alt_text") == []


def test_a_label_is_short_and_printable():
    assert make_label("a\n" * 99) == "a?" * 32
