"""The contract of every store for the slots of backends: one test body for all of them."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.errors import StoreError
from accord.ports import SlotRecord, Store
from accord.stores.memory import MemoryStore
from tests.stores.passing import let_pass
from tests.stores.test_contract_liveness import LEASE_S, beat


def a_slot(number: int | str, backend: str = "b", holder: str = "p1") -> SlotRecord:
    return SlotRecord(backend, f"c{number}", holder)


async def take(store: Store, *slots: SlotRecord, limit: int = 2) -> list[bool]:
    return [await store.take_slot(slot, limit=limit, lease_s=LEASE_S) for slot in slots]


async def held(store: Store, limit: int = 2, backend: str = "b") -> list[str]:
    return await store.held_slots(backend, limit=limit, lease_s=LEASE_S)


async def test_so_many_slots_can_be_taken_as_the_limit_says_and_again_when_one_is_freed(store: Store):
    assert await take(store, a_slot(1), a_slot(2), a_slot(3)) == [True, True, False]
    assert await held(store) == ["c1", "c2"]
    await store.free_slots([a_slot(1)])
    assert await held(store) == ["c2"]
    assert await take(store, a_slot(3), a_slot(4)) == [True, False]
    assert await held(store) == ["c2", "c3"]


async def test_each_backend_has_slots_of_its_own(store: Store):
    assert await take(store, a_slot(1), a_slot(1, "other"), limit=1) == [True, True]
    assert await take(store, a_slot(2), limit=1) == [False]
    await store.free_slots([a_slot(1, "other")])
    assert await held(store) == ["c1"]
    assert await held(store, backend="unknown") == []


async def test_calls_that_wait_get_slots_in_the_order_in_which_they_came_and_none_overtakes_them(store: Store):
    assert await take(store, a_slot("running"), limit=1) == [True]
    for number in (9, 1, 5):
        await store.queue_slot(a_slot(number, holder=f"p{number}"))
    runs = a_slot("running")
    for number in (9, 1, 5):
        assert await take(store, a_slot("newcomer"), limit=1) == [False]
        await store.free_slots([runs])
        assert await held(store, limit=1) == [f"c{number}"]
        runs = a_slot(number, holder=f"p{number}")
    await store.free_slots([runs])
    assert await take(store, a_slot("newcomer"), limit=1) == [True]


async def test_a_call_that_waits_no_longer_leaves_its_place_to_the_next(store: Store):
    await take(store, a_slot(1), limit=1)
    for number in (2, 3):
        await store.queue_slot(a_slot(number))
    await store.free_slots([a_slot(2)])
    await store.free_slots([a_slot(1)])
    assert await held(store, limit=1) == ["c3"]


async def test_freeing_what_is_not_there_changes_nothing(store: Store):
    await take(store, a_slot(1))
    await store.free_slots([])
    await store.free_slots([a_slot(2), a_slot(1, "other"), a_slot(2)])
    assert await held(store) == ["c1"]


async def test_slots_of_a_process_that_is_silent_for_the_lease_are_free(store: Store):
    assert await take(store, a_slot(1, holder="dead"), a_slot(2, holder="alive")) == [True, True]
    await store.queue_slot(a_slot(3, holder="dead"))
    await store.queue_slot(a_slot(4, holder="alive"))
    await let_pass(store, LEASE_S - 1)
    assert await held(store) == ["c1", "c2"]
    await beat(store, "alive")
    await let_pass(store, 2)
    assert await held(store) == ["c2", "c4"]
    await store.free_slots([a_slot(4, holder="alive")])
    assert await take(store, a_slot(5, holder="new"), a_slot(6, holder="new")) == [True, False]


async def test_a_process_that_was_idle_for_long_can_hold_slots(store: Store):
    await beat(store, "p1")
    await let_pass(store, 3_600)
    assert await take(store, a_slot(1)) == [True]
    assert await held(store) == ["c1"]


async def test_slots_that_were_left_behind_long_ago_are_deleted_with_a_heartbeat(store: Store):
    if isinstance(store, MemoryStore):
        return  # it ends with its process, which leaves nothing behind
    await take(store, a_slot(1, holder="dead"), a_slot(2))
    await let_pass(store, 86_400 + 60)
    await beat(store, "p1")
    assert await store.held_slots("b", limit=9, lease_s=10 * 86_400) == ["c2"]


async def test_of_many_callers_of_several_stores_no_more_get_slots_than_the_limit_says(
    new_store: Callable[[], Store],
):
    stores = [new_store() for _ in range(3)]
    if isinstance(stores[0], MemoryStore):
        stores = stores[:1] * 3  # there is no other way to share it
    await asyncio.gather(*(store.open() for store in stores))
    for round_ in range(5):
        slots = [a_slot(f"{round_}-{number}", holder=f"p{number % 3}") for number in range(24)]
        taken = await asyncio.gather(
            *(stores[number % 3].take_slot(slot, limit=4, lease_s=LEASE_S) for number, slot in enumerate(slots))
        )
        assert sum(taken) == 4
        winners = [slot for slot, is_taken in zip(slots, taken, strict=True) if is_taken]
        assert sorted(await held(stores[0], limit=4)) == sorted(slot.slot_id for slot in winners)
        await asyncio.gather(*(stores[0].free_slots([slot]) for slot in winners))
    for store in stores:
        await store.close()


steps = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.sampled_from("ab")),
        st.tuples(st.just("queue"), st.sampled_from("ab")),
        st.tuples(st.just("free"), st.integers(0, 9)),
        st.tuples(st.just("pass"), st.sampled_from([6.0, LEASE_S + 1])),
        st.tuples(st.just("beat"), st.sampled_from("ab")),
    ),
    max_size=30,
)


@given(steps, st.integers(1, 3))
def test_in_memory_a_queue_of_calls_is_what_its_plain_rule_says(history: list[tuple[str, str | float]], limit: int):
    """The model: a list of (id, holder, last sign of life); the first that live hold the slots."""

    async def run() -> None:
        store, rows, now = MemoryStore(), list[tuple[SlotRecord, float]](), 0.0
        await store.open()
        beats: dict[str, float] = {}

        def living() -> list[SlotRecord]:
            return [slot for slot, at in rows if now - max(at, beats.get(slot.holder, at)) <= LEASE_S]

        for number, (what, of) in enumerate(history):
            match what:
                case "take" | "queue":
                    slot = a_slot(number, holder=str(of))
                    if what == "queue":
                        await store.queue_slot(slot)
                        rows.append((slot, now))
                    else:
                        expected = len(living()) < limit
                        assert await take(store, slot, limit=limit) == [expected]
                        rows.extend([(slot, now)] if expected else [])
                case "free":
                    freed = [slot for slot, _ in rows[int(of) :][:1]]
                    await store.free_slots(freed)
                    rows = [(slot, at) for slot, at in rows if slot not in freed]
                case "pass":
                    await let_pass(store, float(of))
                    now += float(of)
                case _:
                    store.heartbeat().beat(str(of))
                    beats[str(of)] = now
            assert await held(store, limit) == [slot.slot_id for slot in living()][:limit]
        await store.close()

    asyncio.run(run())


@pytest.mark.parametrize("call", ["take", "queue", "held", "free"])
async def test_a_store_that_is_not_open_has_no_slots(new_store: Callable[[], Store], call: str):
    store = new_store()
    with pytest.raises(StoreError, match="not open"):
        await {
            "take": lambda: store.take_slot(a_slot(1), limit=1, lease_s=1),
            "queue": lambda: store.queue_slot(a_slot(1)),
            "held": lambda: store.held_slots("b", limit=1, lease_s=1),
            "free": lambda: store.free_slots([a_slot(1)]),
        }[call]()
