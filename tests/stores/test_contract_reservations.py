"""The contract of every store for what is reserved of budgets: one test body for all of them."""

import asyncio
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from accord.errors import StoreError
from accord.ports import BudgetClaim, BudgetState, Store
from accord.stores.memory import MemoryStore
from tests.stores.passing import let_pass
from tests.stores.test_contract_liveness import LEASE_S, beat
from tests.stores.test_contract_usage import DAY, used


async def claim(
    store: Store, *wanted: int, holder: str = "p1", key: str = "k1", reserved: int = 0, **fields: Any
) -> BudgetState:
    """One claim on a budget of 100, of a process that counts usage with it if it is given."""
    since: date | None = fields.get("since")
    asked = BudgetClaim(key, fields.get("budget", 100), since, reserved, wanted)
    (state,) = await store.add_usage(fields.get("rows", ()), [asked], holder=holder, lease_s=LEASE_S)
    return state


async def test_amounts_are_granted_in_order_as_far_as_they_fit(store: Store):
    assert await claim(store, 60, 50, 40, 1) == BudgetState([True, False, True, False], 0, 100)
    assert await claim(store, 1, reserved=100) == BudgetState([False], 0, 100)
    assert await claim(store, 100, key="k2") == BudgetState([True], 0, 100)


async def test_what_other_processes_have_spent_and_reserved_counts(store: Store):
    assert await claim(store, 60) == BudgetState([True], 0, 60)
    assert await claim(store, 50, 30, holder="p2") == BudgetState([False, True], 0, 90)
    # The first one ends and has cost 70: what it had reserved is free, what it has spent is not.
    assert await claim(store, rows=[used(cost_micro=70)]) == BudgetState([], 70, 30)
    assert await claim(store, 1, holder="p2", reserved=30) == BudgetState([False], 70, 30)
    assert await claim(store, 31, holder="p2") == BudgetState([False], 70, 0)
    assert await claim(store, 30, holder="p2") == BudgetState([True], 70, 30)


async def test_usage_of_an_earlier_period_does_not_count(store: Store):
    await store.add_usage([used(cost_micro=100)])
    assert await claim(store, 1) == BudgetState([False], 100, 0)
    assert await claim(store, 100, since=date(2026, 2, 1)) == BudgetState([True], 0, 100)


async def test_several_budgets_are_claimed_at_once(store: Store):
    rows = [used(cost_micro=5), used("k2", cost_micro=100)]
    claims = [BudgetClaim(key, 100, None, 0, [10]) for key in ("k3", "k2", "k1")]
    states = await store.add_usage(rows, claims, holder="p1", lease_s=LEASE_S)
    assert states == [BudgetState([True], 0, 10), BudgetState([False], 100, 0), BudgetState([True], 5, 10)]


async def test_what_a_process_has_reserved_is_free_when_it_is_silent_for_the_lease_and_not_before(store: Store):
    await claim(store, 40, holder="dead")
    await claim(store, 60, holder="alive")
    await let_pass(store, LEASE_S - 1)
    assert await claim(store, 1) == BudgetState([False], 0, 100)
    await beat(store, "alive")
    await let_pass(store, 2)
    assert await claim(store, 41, 40) == BudgetState([False, True], 0, 100)


async def test_reservations_that_were_left_behind_long_ago_are_deleted_with_a_heartbeat(store: Store):
    if isinstance(store, MemoryStore):
        return  # it ends with its process, which leaves nothing behind
    await claim(store, 40, holder="dead")
    await let_pass(store, 86_400 + 60)
    await beat(store, "p1")
    asked = BudgetClaim("k1", 100, None, 0, [100])
    assert await store.add_usage([], [asked], holder="p1", lease_s=10 * 86_400) == [BudgetState([True], 0, 100)]


async def test_of_many_claims_through_several_stores_no_more_are_granted_than_the_budget_has(
    new_store: Callable[[], Store],
):
    stores = [new_store() for _ in range(3)]
    if isinstance(stores[0], MemoryStore):
        stores = stores[:1] * 3  # there is no other way to share it
    await asyncio.gather(*(store.open() for store in stores))
    states = await asyncio.gather(
        *(
            claim(stores[number % 3], 3, 4, holder=f"h{number}", rows=[used(cost_micro=1, requests=1)])
            for number in range(30)
        )
    )
    reserved = sum(3 * state.granted[0] + 4 * state.granted[1] for state in states)
    spent = await stores[0].spent("k1", DAY)
    # Each claim saw what was spent before it, so that only what was counted later comes on top.
    assert spent == 30
    assert reserved <= 100
    assert (await claim(stores[0], holder="last")).reserved == reserved
    for store in {id(each): each for each in stores}.values():
        await store.close()


async def test_a_store_that_is_not_open_grants_nothing(new_store: Callable[[], Store]):
    with pytest.raises(StoreError):
        await claim(new_store(), 1)
