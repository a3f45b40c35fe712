"""A repeated run continues what was sent: never a word twice, never one missing, and a different run is noticed."""

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from accord.core.output.replay import ReplayFilter
from accord.wire.packet import DeltaPacket, EventPacket, StreamPacket

Item = str | int


def packets_of(items: list[Item], salt: str = "") -> list[StreamPacket]:
    return [
        DeltaPacket(p=item)
        if isinstance(item, str)
        else EventPacket(p={"id": f"{item}{salt}", "timestamp": salt, "type": "thought_trace", "data": {"text": item}})
        for item in items
    ]


def content_of(packets: list[StreamPacket]) -> list[Any]:
    """The stream as texts and events, wherever the texts were cut."""
    content: list[Any] = []
    for packet in packets:
        if isinstance(packet, DeltaPacket):
            if content and isinstance(content[-1], str):
                content[-1] += packet.p
            elif packet.p:
                content.append(packet.p)
        elif isinstance(packet, EventPacket):
            content.append(packet.p["data"])
    return content


def cut(text: str, places: list[int]) -> list[str]:
    bounds = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in pairwise(bounds)]


ITEMS = st.lists(st.text(max_size=6) | st.integers(0, 3), max_size=8)


@given(items=ITEMS, sent=st.integers(0, 8), places=st.lists(st.integers(0, 99), max_size=3))
def test_what_was_sent_and_what_the_repeated_run_adds_are_the_whole_run(
    items: list[Item], sent: int, places: list[int]
):
    first = packets_of(items)[:sent]
    recut: list[Item] = [part for item in items for part in (cut(item, places) if isinstance(item, str) else [item])]
    repeated = ReplayFilter(first)
    added = [part for packet in packets_of(recut, salt="again") for part in repeated.feed(packet)]
    assert content_of(first + added) == content_of(packets_of(items))
    assert not repeated.differs
    assert not repeated.is_behind


@given(items=ITEMS, sent=st.integers(1, 8), other=ITEMS)
def test_a_run_that_differs_from_what_was_sent_adds_nothing(items: list[Item], sent: int, other: list[Item]):
    first = packets_of(items)[:sent]
    start = content_of(first)
    repeated = ReplayFilter(first)
    added = [part for packet in packets_of(other) for part in repeated.feed(packet)]
    if repeated.differs or repeated.is_behind:
        assert added == []
    else:
        assert content_of(first + added) == content_of(packets_of(other))
        assert content_of(packets_of(other))[: max(0, len(start) - 1)] == start[: max(0, len(start) - 1)]


def test_a_run_that_ends_earlier_than_before_is_behind():
    repeated = ReplayFilter(packets_of(["one ", "two"]))
    assert list(repeated.feed(DeltaPacket(p="one "))) == []
    assert repeated.is_behind
