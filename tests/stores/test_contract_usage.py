"""The contract of every store for the rules of keys and for usage: one test body for all of them."""

import asyncio
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import pytest

from accord.errors import StoreError
from accord.ports import Store
from accord.wire.keys import BudgetPeriod, KeyRules, UsageGroup, UsageRecord, UsageTotal
from tests.stores.test_contract_tokens import a_token

DAY = date(2026, 1, 31)
RULES = KeyRules(
    models=["gpt-*", "auto"], rates=["5/minute"], budget_usd=2.5, budget_period=BudgetPeriod.DAY, policy="strict"
)


def used(key: str = "k1", user: str = "ada", *, day: int = 0, **fields: Any) -> UsageRecord:
    usual: dict[str, Any] = {"backend": "b", "model": "m", "input_tokens": 10, "cost_micro": 7, "priced": 1}
    return UsageRecord(key_id=key, user=user, day=DAY + timedelta(days=day), **{**usual, **fields})


def total(name: str, requests: int, cost_micro: int = 0, **counts: int) -> UsageTotal:
    usual = {"failed": 0, "input_tokens": 10 * requests, "output_tokens": 0, "cached_input_tokens": 0}
    usual |= {"priced_requests": requests, **counts}
    return UsageTotal(name=name, requests=requests, cost_usd=cost_micro / 1e6, **usual)


async def test_the_rules_of_a_token_are_kept_replaced_and_removed(store: Store):
    await store.put_token(a_token("t1", rules=RULES))
    await store.put_token(a_token("t2"))
    assert [token.rules for token in await store.tokens()] == [RULES, None]
    for rules in (KeyRules(is_admin=True), None, RULES):
        assert await store.set_token_rules("t2", rules)
        found = await store.token_by_digest(a_token("t2").digest)
        assert found == a_token("t2", rules=rules)
    assert not await store.set_token_rules("t3", RULES)


async def test_counts_of_one_key_user_backend_model_and_day_are_added_up(store: Store):
    row = used(requests=2, failed=1, output_tokens=3, cached_input_tokens=4, cost_micro=5, priced=1)
    await store.add_usage([row])
    await store.add_usage([row, used(cost_micro=2**40)])
    await store.add_usage([])
    sums = {"failed": 2, "input_tokens": 30, "output_tokens": 6, "cached_input_tokens": 8, "priced_requests": 3}
    assert await store.usage(by=UsageGroup.KEY) == [total("k1", 5, 10 + 2**40, **sums)]


async def test_nothing_is_lost_when_several_add_to_the_same_rows_at_once(store: Store):
    rows = [used(model=name) for name in "abc"]
    await asyncio.gather(*(store.add_usage(rows[::step]) for step in (1, -1) * 10))
    assert [(each.name, each.requests) for each in await store.usage(by=UsageGroup.MODEL)] == [
        ("a", 20),
        ("b", 20),
        ("c", 20),
    ]


@pytest.mark.parametrize(
    ("by", "names"),
    [
        (UsageGroup.KEY, ["", "k1", "k2"]),
        (UsageGroup.USER, ["", "ada", "eve"]),
        (UsageGroup.BACKEND, ["b", "c"]),
        (UsageGroup.MODEL, ["m", "n"]),
        (UsageGroup.DAY, ["2026-01-31", "2026-02-01"]),
    ],
)
async def test_usage_is_added_up_by_each_group_and_sorted_by_name(store: Store, by: UsageGroup, names: list[str]):
    await store.add_usage([used(), used("k2", "eve", backend="c", day=1), used("", "", model="n"), used(backend="c")])
    found = await store.usage(by=by)
    assert [each.name for each in found] == names
    assert sum(each.requests for each in found) == 4
    assert round(sum(each.cost_usd for each in found) * 1e6) == 28


@pytest.mark.parametrize(
    ("key", "since", "until", "requests"),
    [
        (None, None, None, 6),
        (None, 1, None, 4),
        (None, None, 1, 4),
        (None, 1, 1, 2),
        ("k1", 1, 2, 2),
        ("k1", 3, None, 0),
        ("", None, None, 0),
    ],
)
async def test_usage_is_limited_to_a_key_and_to_days(
    store: Store, key: str | None, since: int | None, until: int | None, requests: int
):
    await store.add_usage([used(key, day=day) for key in ("k1", "k2") for day in range(3)])
    days = [None if each is None else DAY + timedelta(days=each) for each in (since, until)]
    found = await store.usage(by=UsageGroup.DAY, key=key, since=days[0], until=days[1])
    assert sum(each.requests for each in found) == requests


@pytest.mark.parametrize(("key", "since", "spent"), [("k1", None, 30), ("k1", 1, 10), ("k1", 2, 0), ("k3", None, 0)])
async def test_what_a_key_has_spent_is_counted_from_a_day_on(store: Store, key: str, since: int | None, spent: int):
    await store.add_usage([used(cost_micro=20), used(day=1, cost_micro=10), used("k2", cost_micro=1000)])
    assert await store.spent(key, None if since is None else DAY + timedelta(days=since)) == spent


async def test_deleting_a_user_keeps_the_counts_without_key_and_user(store: Store):
    await store.add_usage([used(), used("k2"), used("", ""), used("k3", "eve"), used(day=1)])
    before = await store.usage(by=UsageGroup.DAY)
    await store.delete_user("ada")
    assert await store.usage(by=UsageGroup.DAY) == before
    assert await store.usage(by=UsageGroup.USER) == [total("", 4, 28), total("eve", 1, 7)]
    assert await store.usage(by=UsageGroup.KEY) == [total("", 4, 28), total("k3", 1, 7)]
    assert await store.spent("k1", None) == 0


async def test_usage_does_not_expire_with_old_sessions(store: Store):
    await store.add_usage([used()])
    await store.expire(a_token(seconds=1e9).created_at)
    assert await store.usage(by=UsageGroup.KEY) == [total("k1", 1, 7)]


async def test_a_store_that_is_not_open_has_no_usage(new_store: Callable[[], Store]):
    store = new_store()
    for call in (
        store.add_usage([used()]),
        store.usage(by=UsageGroup.KEY),
        store.spent("k1", None),
        store.set_token_rules("t1", None),
    ):
        with pytest.raises(StoreError, match="not open"):
            await call
