"""Waits double from half a second to half a minute; `Retry-After` makes them longer, jitter shorter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core.backoff import FIRST_S, LONGEST_S, delay_s


def test_the_waits_double_from_half_a_second_to_half_a_minute():
    assert [delay_s(failures) for failures in range(1, 10)] == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


@pytest.mark.parametrize(
    ("failures", "retry_after_s", "waited"), [(1, 7, 7), (5, 7, 8), (1, 0, 0.5), (1, None, 0.5), (99, 100, 100)]
)
def test_retry_after_wins_if_it_is_longer(failures: int, retry_after_s: float | None, waited: float):
    assert delay_s(failures, retry_after_s=retry_after_s) == waited


@pytest.mark.parametrize(("random", "retry_after_s", "waited"), [(0.0, None, 0.0), (0.25, None, 1.0), (0.25, 3, 3)])
def test_jitter_shortens_the_wait_but_never_below_retry_after(
    random: float, retry_after_s: float | None, waited: float
):
    assert delay_s(4, retry_after_s=retry_after_s, jitter=lambda: random) == waited


@given(st.integers(1, 10**9))
def test_more_failures_never_wait_less(failures: int):
    assert FIRST_S <= delay_s(failures) <= delay_s(failures + 1) <= LONGEST_S
