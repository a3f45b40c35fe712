"""The contract of every store for processes that share it, while time passes: one test body for all of them."""

import asyncio

import pytest

from accord.errors import StoreConflictError
from accord.ports import PacketBatch, SessionStore
from accord.stores.sql import SqlStore
from tests.stores.passing import let_pass
from tests.stores.records import a_session, a_turn, at, begun, ending

LEASE_S = 15.0


async def begin(store: SessionStore, request_id: str, runner: str = "p1", seconds: float = 1) -> None:
    await store.begin_turn(a_session(), a_turn(request_id, runner=runner, seconds=seconds), history=0)


async def beat(store: SessionStore, runner: str) -> None:
    """One heartbeat, from a thread as in a service."""
    assert isinstance(store, SqlStore)
    heartbeat = store.heartbeat()

    def once() -> None:
        heartbeat.beat(runner)
        heartbeat.close()
        heartbeat.close()

    await asyncio.to_thread(once)


async def abandoned(store: SessionStore, lease_s: float = LEASE_S, limit: int = 10) -> list[str]:
    return [turn.request_id for turn in await store.abandoned(lease_s, runner="reader", limit=limit)]


async def test_a_turn_that_has_just_begun_is_alive_however_long_its_process_was_idle(store: SessionStore):
    await begin(store, "before")
    await beat(store, "p1")
    await store.end_turn(ending("before"))
    await let_pass(store, 3_600)
    await begin(store, "after")
    await let_pass(store, LEASE_S - 5)
    assert await abandoned(store) == []
    await beat(store, "p1")
    await let_pass(store, LEASE_S - 5)
    assert await abandoned(store) == []  # its beginning is too long ago, its process's heartbeat is not
    await let_pass(store, 6)
    assert await abandoned(store) == ["after"]


async def test_the_clock_of_the_host_that_begins_a_turn_does_not_matter(store: SessionStore):
    for request_id, seconds in [("from the past", -86_400), ("from the future", 10 * 365 * 86_400)]:
        await begin(store, request_id, seconds=seconds)
    assert await abandoned(store) == []
    await let_pass(store, LEASE_S + 1)
    assert await abandoned(store) == ["from the past", "from the future"]


async def test_only_running_turns_of_other_silent_processes_are_abandoned_the_oldest_first(store: SessionStore):
    for request_id, runner, seconds in [
        ("late", "silent", 5),
        ("early", "silent", 1),
        ("over", "silent", 2),
        ("beats", "alive", 1),
        ("own", "reader", 1),
        ("never beat", "unheard", 3),
    ]:
        await begin(store, request_id, runner, seconds)
    await store.end_turn(ending("over"))
    await beat(store, "silent")
    await let_pass(store, LEASE_S + 1)
    await beat(store, "alive")
    await begin(store, "new", "unheard")
    assert await abandoned(store) == ["early", "never beat", "late"]
    assert await abandoned(store, limit=2) == ["early", "never beat"]
    assert await abandoned(store, lease_s=LEASE_S + 30) == []


async def test_the_running_turns_of_one_process_are_listed(store: SessionStore):
    for request_id, runner in [("b", "p1"), ("a", "p1"), ("over", "p1"), ("other", "p2")]:
        await begin(store, request_id, runner)
    await store.end_turn(ending("over"))
    assert [turn.request_id for turn in await store.running("p1")] == ["a", "b"]
    assert await store.running("nobody") == []


async def test_a_cancellation_reaches_the_process_that_runs_the_turn_and_no_other(store: SessionStore):
    for request_id, runner in [("r1", "p1"), ("r2", "p1"), ("r3", "p2")]:
        await begin(store, request_id, runner)
    assert await store.request_cancel("r1")
    assert await store.request_cancel("r1")
    assert await store.cancel_requests("p1") == ["r1"]
    assert await store.cancel_requests("p2") == []
    await store.end_turn(ending("r1"))
    assert await store.cancel_requests("p1") == []
    assert not await store.request_cancel("r1")
    assert not await store.request_cancel("unknown")


async def test_a_reader_counts_for_as_long_as_it_says_so(store: SessionStore):
    await begin(store, "r1")
    await begin(store, "r2")
    assert not await store.is_read("r1", within_s=5)
    await store.mark_read("r1")
    await store.mark_read("unknown")
    assert await store.is_read("r1", within_s=5)
    assert not await store.is_read("r2", within_s=5)
    await let_pass(store, 6)
    assert not await store.is_read("r1", within_s=5)
    assert await store.is_read("r1", within_s=60)


async def test_what_is_stamped_by_the_storage_does_not_change_what_was_put(store: SessionStore):
    await begin(store, "r1")
    await store.mark_read("r1")
    await store.request_cancel("r1")
    assert await store.turn("r1") == a_turn("r1")
    await store.end_turn(ending("r1", seconds=9))
    assert (await store.turn("r1") or a_turn()).ended_at == at(9)


async def test_a_turn_that_never_was_queued_can_be_taken_over_too(store: SessionStore):
    await begun(store, "r1")
    await let_pass(store, LEASE_S + 1)
    (left,) = await store.abandoned(LEASE_S, runner="p2", limit=9)
    taken = await store.take_over(left, LEASE_S, runner="p2")
    assert taken is not None
    assert (taken.work, taken.turn.epoch) == (None, 1)
    with pytest.raises(StoreConflictError):
        await store.append_packets(PacketBatch("r1", 1, ['"late"']))


async def test_how_far_turns_are_is_told_for_many_at_once(store: SessionStore):
    await begun(store, "r1")
    await begun(store, "r2")
    await store.append_packets(PacketBatch("r1", 1, ['"a"', '"b"']))
    await store.end_turn(ending("r2"))
    assert await store.turn_states(["r1", "r2", "nothing"]) == {"r1": (True, 2), "r2": (False, 0)}
