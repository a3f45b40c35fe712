"""The waiting room and what is kept for later: both have limits, neither loses anything by itself."""

from typing import Any

import pytest

from accord.core.output.insertion import AdaptLimits, Boundary, Deferred, Waiter, WaitingRoom, estimate_chars

SMALL = AdaptLimits(max_waiting=2, max_waiting_chars=100, max_deferred=2, max_deferred_chars=200)


def test_urgent_ones_leave_first_and_the_others_in_the_order_of_their_coming():
    room = WaitingRoom(SMALL)
    for text, urgent in (("a", False), ("b", True), ("c", False), ("d", True)):
        room.add(Waiter(text, urgent=urgent))
    assert [waiter.text for waiter in room.leave(Boundary.BLOCK)] == ["b", "d", "a", "c"]
    assert not room


def test_at_the_end_of_a_line_only_urgent_ones_leave():
    room = WaitingRoom(SMALL)
    room.add(Waiter("a"))
    assert not room.is_due(Boundary.LINE)
    room.add(Waiter("b", urgent=True))
    assert [waiter.text for waiter in room.leave(Boundary.LINE)] == ["b"]
    assert room.leave(Boundary.NONE) == room.leave(Boundary.LINE) == []
    assert [waiter.text for waiter in room.leave(Boundary.BLOCK)] == ["a"]


def test_there_is_room_by_number_and_by_weight_and_a_reserve_for_failures():
    room = WaitingRoom(SMALL)
    assert (room.has_room(100), room.has_room(101), room.has_room(101, failure=True)) == (True, False, True)
    room.add(Waiter(weight=1))
    room.add(Waiter(weight=1))
    assert (room.has_room(1), room.has_room(1, failure=True)) == (False, True)
    room.leave(Boundary.BLOCK)
    assert room.has_room(100)


def test_what_is_deferred_is_kept_by_name_within_limits():
    deferred = Deferred(SMALL)
    assert deferred.keep("a", 1, {"x": "y" * 500}) is None
    assert deferred.keep("a", 2, {"n": 1}) == "a"
    assert deferred.keep("a", 3, {"n": 2}) == "a-3"
    assert deferred.keep("b", 4, {"n": 3}) is None
    assert deferred.events == {"a": {"n": 1}, "a-3": {"n": 2}}


def nested(depth: int) -> dict[str, Any]:
    inner: dict[str, Any] = {}
    for _ in range(depth):
        inner = {"a": inner}
    return inner


@pytest.mark.parametrize("value", [nested(100_000), {"a": "x" * 5000}, [0] * 1000, {"k" * 2000: 1}])
def test_weighing_stops_when_it_is_enough(value: Any):
    assert 1000 < estimate_chars(value, 1000) < 10_000
