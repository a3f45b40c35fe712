"""The insertion queue and its limits."""

from typing import Any

import pytest

from accord.core.output.insertion import (
    AdaptLimits,
    InsertionPoint,
    InsertionQueue,
    QueuedItem,
    estimate_chars,
)

SMALL = AdaptLimits(max_waiting=2, max_waiting_chars=100)


def test_urgent_items_are_taken_first_and_the_others_in_order():
    queue = InsertionQueue(SMALL)
    for text, urgent in (("a", False), ("b", True), ("c", False), ("d", True)):
        queue.add(QueuedItem(text, urgent=urgent))
    assert [item.text for item in queue.take(InsertionPoint.BLOCK)] == ["b", "d", "a", "c"]
    assert not queue.items


def test_at_the_end_of_a_line_only_urgent_items_are_taken():
    queue = InsertionQueue(SMALL)
    queue.add(QueuedItem("a"))
    assert not queue.is_due(InsertionPoint.LINE)
    queue.add(QueuedItem("b", urgent=True))
    assert [item.text for item in queue.take(InsertionPoint.LINE)] == ["b"]
    assert queue.take(InsertionPoint.NONE) == queue.take(InsertionPoint.LINE) == []
    assert [item.text for item in queue.take(InsertionPoint.BLOCK)] == ["a"]


def test_room_depends_on_number_and_size_with_a_reserve_for_failures():
    queue = InsertionQueue(SMALL)
    assert (queue.has_room(100), queue.has_room(101), queue.has_room(101, failure=True)) == (True, False, True)
    queue.add(QueuedItem(size=1))
    queue.add(QueuedItem(size=1))
    assert (queue.has_room(1), queue.has_room(1, failure=True)) == (False, True)
    queue.take(InsertionPoint.BLOCK)
    assert queue.has_room(100)


def nested(depth: int) -> dict[str, Any]:
    inner: dict[str, Any] = {}
    for _ in range(depth):
        inner = {"a": inner}
    return inner


@pytest.mark.parametrize("value", [nested(100_000), {"a": "x" * 5000}, [0] * 1000, {"k" * 2000: 1}])
def test_the_estimate_stops_when_it_is_enough(value: Any):
    assert 1000 < estimate_chars(value, 1000) < 10_000
