"""Budgets: what is reserved, settled, released and written, over a store in memory and a clock that tests set."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.errors import ErrorCode, RefusedError, StoreError
from accord.ports import BudgetClaim, BudgetState
from accord.run.budgets import REFUSED_FOR_S, BackendUse, Budgets
from accord.stores.memory import MemoryStore
from accord.wire.keys import MICRO, BudgetPeriod, Payer, UsageGroup, UsageRecord, UsageTotal
from tests.laws import examples
from tests.servers.clock import ManualClock, run
from tests.stores.passing import let_pass

USD = MICRO
DAY_S = 86_400


class WatchedStore(MemoryStore):
    """A store that counts reservations, can fail, refuses some rows, and can hold calls back until the test says so."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        """How far its clock was set forward."""
        super().__init__()
        self.claims = 0
        self.fails = False
        self.refuses = ""
        """The model whose rows it refuses."""
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.was_called = asyncio.Event()

    async def add_usage(
        self, rows: Sequence[UsageRecord], claims: Sequence[BudgetClaim] = (), *, holder: str = "", lease_s: float = 0
    ) -> list[BudgetState]:
        self.claims += len(claims)
        self.was_called.set()
        await self.may_go_on.wait()
        await self.probe()
        if any(row.model == self.refuses for row in rows):
            raise OverflowError(self.refuses)
        return await super().add_usage(rows, claims, holder=holder, lease_s=lease_s)

    async def probe(self) -> None:
        if self.fails:
            raise StoreError("out of order")

    async def clock_s(self) -> float:
        return await super().clock_s() + self.ahead_s


def a_payer(budget: float = 1.0, period: BudgetPeriod = BudgetPeriod.DAY, name: str = "k1") -> Payer:
    return Payer(name, "ada", round(budget * MICRO), period)


def use(cost: int | None = 0, **fields: Any) -> BackendUse:
    return BackendUse("b", "m", cost=cost, **fields)


async def opened() -> tuple[Budgets, WatchedStore, ManualClock]:
    store, clock = WatchedStore(), ManualClock()
    await store.open()
    return Budgets(store, clock), store, clock


async def spend(budgets: Budgets, payer: Payer, reserved: int, *uses: BackendUse) -> None:
    await budgets.reserve(payer, reserved)
    end(budgets, payer, reserved, *uses)


def end(budgets: Budgets, payer: Payer, reserved: int, *uses: BackendUse) -> None:
    for each in uses:
        budgets.count(payer.key_id, payer.user, each)
    budgets.free(payer.key_id, reserved)


async def refusal(budgets: Budgets, payer: Payer, estimate: int) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        await budgets.reserve(payer, estimate)
    return caught.value


async def totals(store: MemoryStore, by: UsageGroup = UsageGroup.KEY) -> list[UsageTotal]:
    return await store.usage(by=by)


@pytest.mark.parametrize(
    ("period", "words", "renews_at"),
    [
        (BudgetPeriod.DAY, "per day; it starts again at 2026-02-01 00:00 UTC, and", "2026-02-01T00:00:00+00:00"),
        (BudgetPeriod.MONTH, "per month; it starts again at 2026-02-01 00:00 UTC, and", "2026-02-01T00:00:00+00:00"),
        (BudgetPeriod.TOTAL, "in all;", None),
    ],
)
def test_a_request_that_the_budget_does_not_have_is_refused(period: BudgetPeriod, words: str, renews_at: str | None):
    async def check() -> None:
        budgets, _, _ = await opened()
        key = a_payer(1.0, period)
        await spend(budgets, key, USD // 2, use(USD // 4))
        await budgets.reserve(key, USD // 2)
        error = await refusal(budgets, key, USD // 2)
        assert (error.code, error.facts.http) == (ErrorCode.BUDGET_EXCEEDED, 403)
        assert error.message == (
            "This request may cost 0.500000 USD, and this key has 0.250000 USD left of its budget of 1 USD "
            f"{words} the operator can raise it"
        )
        assert error.details == {
            "budget_usd": 1.0,
            "budget_period": period.value,
            "spent_usd": 0.25,
            "reserved_usd": 0.5,
            "estimate_usd": 0.5,
            "renews_at": renews_at,
        }
        await budgets.reserve(key, USD // 4)  # exactly what is left

    run(check())


def test_what_is_freed_can_be_reserved_again_and_what_is_counted_is_spent():
    async def check() -> None:
        budgets, store, _ = await opened()
        await spend(budgets, a_payer(), USD // 2)
        usage = {"input_tokens": 10, "output_tokens": 5, "cached_input_tokens": 4}
        await spend(budgets, a_payer(), USD // 2, use(3, usage=usage))
        await budgets.flush()
        (total,) = await totals(store)
        assert (total.name, total.requests, total.cost_usd, total.priced_requests) == ("k1", 1, 3 / MICRO, 1)
        assert (total.input_tokens, total.output_tokens, total.cached_input_tokens) == (10, 5, 4)
        await budgets.reserve(a_payer(), USD - 3)

    run(check())


def test_a_request_that_costs_more_than_its_estimate_counts_in_full():
    async def check() -> None:
        budgets, _, _ = await opened()
        await spend(budgets, a_payer(), 1, use(2 * USD))
        assert (await refusal(budgets, a_payer(), 0)).details["spent_usd"] == 2.0

    run(check())


def test_requests_that_come_together_are_reserved_together_and_kept_when_one_of_them_is_cancelled():
    async def check() -> None:
        budgets, store, _ = await opened()
        store.may_go_on.clear()
        first = asyncio.create_task(budgets.reserve(a_payer(), 1))
        await store.was_called.wait()
        cancelled, *others = [asyncio.create_task(budgets.reserve(a_payer(), 1)) for _ in range(10)]
        await asyncio.sleep(0)
        first.cancel()
        cancelled.cancel()
        store.may_go_on.set()
        await asyncio.gather(*others)
        assert store.claims == 2
        budgets.free("k1", len(others))
        await budgets.flush()
        await budgets.reserve(a_payer(), USD)  # nothing is reserved for those that were cancelled

    run(check())


def test_a_request_that_is_cancelled_as_it_is_granted_leaves_nothing_reserved():
    async def check() -> None:
        budgets, store, _ = await opened()
        store.may_go_on.clear()
        task = asyncio.create_task(budgets.reserve(a_payer(), USD))
        await store.was_called.wait()
        store.may_go_on.set()
        writing = asyncio.create_task(budgets.flush())
        writing.add_done_callback(lambda _: task.cancel())
        await asyncio.wait([task])
        with suppress(asyncio.CancelledError):
            task.result()
            budgets.free("k1", USD)
        await budgets.flush()
        await budgets.reserve(a_payer(), USD)

    run(check())


def test_a_store_that_fails_refuses_requests_and_loses_no_usage():
    async def check() -> None:
        budgets, store, _ = await opened()
        await budgets.reserve(a_payer(), USD // 2)
        store.fails = True
        for name in ("k1", "k2"):
            with pytest.raises(StoreError):
                await budgets.reserve(a_payer(name=name), 1)
        end(budgets, a_payer(), USD // 2, use(USD // 2))
        for _ in range(2):
            with pytest.raises(StoreError):
                await budgets.flush()
        store.fails = False
        assert (await refusal(budgets, a_payer(), USD)).details["spent_usd"] == 0.5
        await budgets.flush()
        assert await store.spent("k1", None) == USD // 2
        await budgets.reserve(a_payer(), USD // 2)

    run(check())


def test_a_row_that_the_store_refuses_takes_no_others_with_it_and_is_tried_again():
    async def check() -> None:
        budgets, store, clock = await opened()
        store.refuses = "odd"
        for model in ("m", "odd", "n"):
            budgets.count("", "", BackendUse("b", model, cost=1))
        await budgets.flush()
        assert [total.name for total in await totals(store, UsageGroup.MODEL)] == ["m", "n"]
        store.refuses = ""
        for model in ("m", "odd"):
            budgets.count("", "", BackendUse("b", model, cost=1))
        await budgets.flush()
        assert [total.name for total in await totals(store, UsageGroup.MODEL)] == ["m", "n"]
        clock.elapsed_s += REFUSED_FOR_S
        await budgets.flush()
        assert {each.name: each.requests for each in await totals(store, UsageGroup.MODEL)} == {
            "m": 2,
            "n": 1,
            "odd": 2,
        }

    run(check())


def test_what_is_settled_during_a_write_is_counted_once():
    async def check() -> None:
        budgets, store, _ = await opened()
        for cost in (1, 2):
            await budgets.reserve(a_payer(), 20)
            end(budgets, a_payer(), 10, use(cost))
            store.was_called.clear()
            store.may_go_on.clear()
            writing = asyncio.create_task(budgets.flush())
            await store.was_called.wait()
            end(budgets, a_payer(), 10, use(10 * cost))
            store.may_go_on.set()
            await writing
        assert (await refusal(budgets, a_payer(), USD)).details["spent_usd"] == 33 / MICRO
        await budgets.flush()
        assert await store.spent("k1", None) == 33

    run(check())


def test_several_processes_never_reserve_more_than_the_budget_together():
    async def check() -> None:
        first, store, clock = await opened()
        both = (first, Budgets(store, clock))
        found = await asyncio.gather(
            *(budgets.reserve(a_payer(), USD // 10) for budgets in both * 10), return_exceptions=True
        )
        assert found.count(None) == 10
        for budgets, result in zip(both * 10, found, strict=True):
            if result is None:
                end(budgets, a_payer(), USD // 10, use(USD // 20))
        for budgets in both:
            await budgets.flush()
            assert (await refusal(budgets, a_payer(), USD)).details["spent_usd"] == 0.5

    run(check())


def test_a_clock_of_the_store_that_is_set_forward_frees_nothing_that_others_have_reserved():
    async def check() -> None:
        first, store, clock = await opened()
        second = Budgets(store, clock)
        await spend(second, a_payer(), USD // 10)  # it has seen the clock before
        await second.flush()
        await first.reserve(a_payer(), USD)
        store.ahead_s = 1_000
        await let_pass(store, store.ahead_s)
        assert (await refusal(second, a_payer(), USD // 10)).details["reserved_usd"] == 1
        first.free("k1", USD)
        await first.flush()
        await second.reserve(a_payer(), USD // 10)

    run(check())


@pytest.mark.parametrize(
    ("period", "renewed"), [(BudgetPeriod.DAY, True), (BudgetPeriod.MONTH, True), (BudgetPeriod.TOTAL, False)]
)
def test_a_budget_starts_again_with_its_period_and_running_requests_count_in_the_new_one(
    period: BudgetPeriod, renewed: bool
):
    async def check() -> None:
        budgets, store, clock = await opened()
        key = a_payer(1.0, period)
        await spend(budgets, key, 1, use(USD // 2))
        await budgets.reserve(key, USD // 2)
        await refusal(budgets, key, 1)
        clock.elapsed_s = DAY_S / 2  # midnight, and the end of the month
        if renewed:
            await spend(budgets, key, USD // 2)
            await refusal(budgets, key, USD // 2 + 1)  # the running one is still reserved
            end(budgets, key, USD // 2, use(USD // 4))
            assert (await refusal(budgets, key, USD)).details["spent_usd"] == 0.25
        else:
            await refusal(budgets, key, 1)
            end(budgets, key, USD // 2, use(USD // 4))
        await budgets.flush()
        days = {total.name: total.cost_usd for total in await totals(store, UsageGroup.DAY)}
        assert days == {"2026-01-31": 0.5, "2026-02-01": 0.25}

    run(check())


def test_a_changed_budget_counts_at_once():
    async def check() -> None:
        budgets, _, _ = await opened()
        await spend(budgets, a_payer(1.0), 1, use(USD))
        await refusal(budgets, a_payer(1.0), 1)
        await budgets.reserve(a_payer(2.0), USD)
        await refusal(budgets, a_payer(1.0, BudgetPeriod.MONTH), 1)  # spent before it was written

    run(check())


@pytest.mark.parametrize("wrong", [-5, 1.5, "7", None])
def test_counts_that_an_endpoint_makes_up_do_no_harm(wrong: Any):
    async def check() -> None:
        budgets, store, _ = await opened()
        usage = {"input_tokens": wrong, "output_tokens": 1}
        budgets.count("", "", BackendUse("b\0", "m\0\ud800" * 999, usage, 0))
        await budgets.flush()
        (total,) = await totals(store, UsageGroup.MODEL)
        assert (total.input_tokens, total.output_tokens) == (0, 1)
        assert "\0" not in total.name

    run(check())


def test_usage_is_written_soon_and_again_after_a_failure():
    async def check() -> None:
        budgets, store, _ = await opened()
        store.fails = True
        budgets.count("", "", use(1))
        await store.was_called.wait()
        store.fails = False
        async with asyncio.timeout(10):
            while not await totals(store):
                store.was_called.clear()
                await store.was_called.wait()
                await asyncio.sleep(0)
        assert [total.requests for total in await totals(store)] == [1]

    run(check())


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["reserve", "settle", "release", "flush"]),
        st.integers(0, 400),
        st.sampled_from(["k1", "k2"]),
    ),
    max_size=40,
)


@dataclass
class Model:
    """What the budget of one key should say."""

    payer: Payer
    running: list[int] = field(default_factory=list[int])
    counted: int = 0

    async def reserve(self, budgets: Budgets, amount: int) -> None:
        fits = self.counted + sum(self.running) + amount <= 1000
        try:
            await budgets.reserve(self.payer, amount)
            was_admitted = True
        except RefusedError:
            was_admitted = False
        assert was_admitted is fits
        self.running += [amount] * was_admitted

    def finish(self, budgets: Budgets, step: str, amount: int) -> None:
        reserved = self.running.pop()
        cost = min(amount, reserved) if step == "settle" else 0
        end(budgets, self.payer, reserved, *([use(cost)] if cost else []))
        self.counted += cost


@given(STEPS)
@settings(max_examples=examples(50), deadline=None)
def test_a_budget_is_never_exceeded_by_requests_that_cost_at_most_their_estimate(steps: list[tuple[str, int, str]]):
    async def check() -> None:
        budgets, store, _ = await opened()
        models = {name: Model(a_payer(1000 / MICRO, name=name)) for name in ("k1", "k2")}
        for step, amount, name in steps:
            if step == "reserve":
                await models[name].reserve(budgets, amount)
            elif step == "flush":
                await budgets.flush()
            elif models[name].running:
                models[name].finish(budgets, step, amount)
        await budgets.flush()
        for name, model in models.items():
            assert await store.spent(name, None) == model.counted <= 1000

    run(check())
