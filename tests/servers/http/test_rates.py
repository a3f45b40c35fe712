"""Rate limits: every rate counts, the window moves with the clock, memory is bounded."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from accord.errors import ErrorCode, RefusedError, UsageError
from accord.servers.http.rates import MAX_MARKS, RateLimits
from tests.servers.clock import ManualClock, run


async def taken(rates: RateLimits, user: str | None = "ada", address: str = "192.0.2.1") -> bool:
    try:
        await rates.count_request(user, address)
    except RefusedError:
        return False
    return True


async def refusal(rates: RateLimits) -> dict[str, object]:
    with pytest.raises(RefusedError) as caught:
        await rates.count_request("ada", "192.0.2.1")
    assert caught.value.code is ErrorCode.RATE_LIMIT_EXCEEDED
    details = dict(caught.value.details)
    expected = f"Too many requests: the limit is {details['limit']}; try again in {details['retry_after']} s"
    assert caught.value.message == expected
    return details


async def passed(rates: RateLimits, clock: ManualClock, moments: Sequence[float]) -> list[bool]:
    expected: list[bool] = []
    for moment in moments:
        clock.elapsed_s = moment
        expected.append(await taken(rates))
    return expected


@pytest.mark.parametrize(
    ("listed", "moments", "expected"),
    [
        ([], [0] * 5, [True] * 5),
        (["2/minute"], [0, 0, 0], [True, True, False]),
        (["2/minute"], [0, 30, 59.9, 60, 60, 90], [True, True, False, True, False, True]),
        (["2/5seconds"], [0, 1, 4.9, 5, 5.9, 6], [True, True, False, True, False, True]),
        (["1/hour"], [0, 3599.9, 3600], [True, False, True]),
        (["1/day"], [0, 86399, 86400], [True, False, True]),
        (["1/second", "3/minute"], [0, 0.5, 1, 2, 3, 60], [True, False, True, True, False, True]),
        (["2/minute", "2/minute"], [0, 0, 0], [True, True, False]),
        (["2/minute", "2/minutes"], [0, 0, 0], [True, True, False]),
        (["2/minute", "2/60seconds"], [0, 0, 0], [True, True, False]),
    ],
)
def test_a_request_passes_if_every_rate_has_room_for_it(listed: list[str], moments: list[float], expected: list[bool]):
    clock = ManualClock()
    assert run(passed(RateLimits(listed, clock), clock, moments)) == expected


@pytest.mark.parametrize(
    ("listed", "at_s", "expected"),
    [
        (["1/minute"], 0, {"retry_after": 60, "limit": "1/minute"}),
        (["1/minute"], 0.5, {"retry_after": 60, "limit": "1/minute"}),
        (["1/minute"], 59.5, {"retry_after": 1, "limit": "1/minute"}),
        (["1/minute", "1/hour"], 10, {"retry_after": 3590, "limit": "1/hour"}),
        (["1/hour", "1/minute"], 10, {"retry_after": 3590, "limit": "1/hour"}),
        (["1/minute", "9/hour"], 10, {"retry_after": 50, "limit": "1/minute"}),
    ],
)
def test_a_refusal_tells_the_rate_that_takes_longest_in_whole_seconds(
    listed: list[str], at_s: float, expected: dict[str, object]
):
    async def ask() -> dict[str, object]:
        clock = ManualClock()
        rates = RateLimits(listed, clock)
        assert await taken(rates)
        clock.elapsed_s = at_s
        return await refusal(rates)

    assert run(ask()) == expected


def test_a_request_after_retry_after_passes():
    async def ask() -> None:
        clock = ManualClock()
        rates = RateLimits(["3/10seconds", "1000/minute"], clock)
        for moment in (0.3, 4.7, 9.9):
            clock.elapsed_s = moment
            assert await taken(rates)
        clock.elapsed_s += float(str((await refusal(rates))["retry_after"]))
        assert await taken(rates)

    run(ask())


def test_refused_requests_are_not_counted():
    async def ask() -> None:
        clock = ManualClock()
        rates = RateLimits(["3/minute", "1/second"], clock)
        assert await taken(rates)
        for _ in range(9):
            assert not await taken(rates)
        clock.elapsed_s = 1
        assert await taken(rates)
        clock.elapsed_s = 2
        assert await taken(rates)

    run(ask())


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        (("ada", "192.0.2.1"), ("ada", "192.0.2.9"), True),
        (("ada", "192.0.2.1"), ("eve", "192.0.2.1"), False),
        ((None, "192.0.2.1"), (None, "192.0.2.1"), True),
        ((None, "192.0.2.1"), (None, "192.0.2.2"), False),
        ((None, "192.0.2.1"), ("192.0.2.1", "192.0.2.1"), False),
        ((None, "192.0.2.1"), (None, "::ffff:192.0.2.1"), True),
        ((None, "2001:db8::1"), (None, "2001:db8:0:0:ffff::2"), True),
        ((None, "2001:db8::1"), (None, "2001:db8:0:1::1"), False),
        ((None, "fe80::1%eth0"), (None, "fe80::2"), True),
        ((None, ""), (None, ""), True),
        ((None, "/run/accord.sock"), (None, "/run/other.sock"), False),
        (("a/1", ""), ("a", ""), False),
    ],
)
def test_callers_are_distinguished_by_user_or_else_by_address(
    first: tuple[str | None, str], second: tuple[str | None, str], shared: bool
):
    async def ask() -> bool:
        rates = RateLimits(["1/minute"], ManualClock())
        assert await taken(rates, *first)
        return not await taken(rates, *second)

    assert run(ask()) is shared


def test_any_number_of_unauthenticated_clients_takes_bounded_memory():
    async def ask() -> None:
        rates = RateLimits(["5/minute"], ManualClock(), max_keys=10)
        for number in range(1000):
            assert await taken(rates, None, f"10.0.{number // 250}.{number % 250}")
        assert rates.windows.size == 10

    run(ask())


def test_a_frequent_caller_keeps_its_window_despite_many_other_clients():
    async def ask() -> None:
        rates = RateLimits(["50/minute"], ManualClock(), max_keys=10)
        expected = [(await taken(rates), await taken(rates, None, f"10.0.0.{number}"))[0] for number in range(100)]
        assert expected == [True] * 50 + [False] * 50

    run(ask())


def test_a_large_rate_is_counted_in_bounded_memory_and_to_the_request():
    async def ask() -> None:
        clock = ManualClock()
        rates = RateLimits(["5000/minute"], clock)
        expected = 0
        for number in range(6000):
            clock.elapsed_s = number / 200
            expected += await taken(rates)
        assert expected == 5000
        (window,) = rates.windows._windows.values()  # pyright: ignore[reportPrivateUsage]
        assert len(window.marks) <= MAX_MARKS + 1

    run(ask())


@pytest.mark.parametrize(
    ("user", "address", "is_limited"),
    [("ada", "127.0.0.1", True), (None, "192.0.2.1", True), (None, "127.0.0.1", False), (None, "::1", False)],
)
def test_without_rates_of_the_operator_all_but_the_programs_of_this_machine_are_limited(
    user: str | None, address: str, is_limited: bool
):
    async def ask() -> list[bool]:
        rates = RateLimits(None, ManualClock())
        return [await taken(rates, user, address) for _ in range(51)]

    assert run(ask()) == [True] * 50 + [not is_limited]


def test_no_rates_are_no_limit():
    async def ask() -> list[bool]:
        rates = RateLimits([], ManualClock())
        return [await taken(rates) for _ in range(2_000)]

    assert all(run(ask()))


@given(st.lists(st.floats(0, 5), max_size=60), st.integers(1, 5))
# Here 16.9… - 10 < 6.9…, but 6.9… + 10 is 16.9… again: full by the one sum and over by the other.
@example([1.9288216828907156, 5.0, 5.0, 5.0, 0.0], 2)
def test_no_window_ever_has_more_than_its_rate(gaps: list[float], amount: int):
    async def ask() -> list[float]:
        clock, kept = ManualClock(), list[float]()
        rates = RateLimits([f"{amount}/10seconds"], clock)
        for gap in gaps:
            clock.elapsed_s += gap
            if await taken(rates):
                kept.append(clock.elapsed_s)
        return kept

    kept = run(ask())
    for earlier, later in zip(kept, kept[amount:], strict=False):
        assert later - earlier >= 10 - 1e-9


@pytest.mark.parametrize("rate", ["", "often", "10", "10/fortnight", "0/minute", "10/0seconds", "10/second;5/minute"])
def test_an_invalid_rate_is_a_usage_error(rate: str):
    with pytest.raises(UsageError, match="expected a rate such as 60/minute"):
        RateLimits([rate], ManualClock())
