"""How long to wait before the next attempt. Pure: the jitter are handed in, and somebody else does the waiting."""

from collections.abc import Callable
from typing import Final

FIRST_S: Final = 0.5
LONGEST_S: Final = 30.0
MAX_DIGITS: Final = 12

Jitter = Callable[[], float]
"""Gives a number from 0 to 1, as `random.random` does."""


def parse_retry_after(retry_after: str | None) -> float | None:
    """The seconds of a `Retry-After` header, if that is what it holds."""
    # No service means more digits than these, and Python refuses to read thousands of them.
    if retry_after is None or not retry_after.isascii() or not retry_after.isdigit() or len(retry_after) > MAX_DIGITS:
        return None
    return float(retry_after)


def delay_s(failures: int, *, retry_after_s: float | None = None, jitter: Jitter | None = None) -> float:
    """The seconds to wait after this many failures in a row: doubling, up to a limit; what the service told if longer.

    With jitter it is any time up to that, so that many clients of one service do not come back at once; but
    never less than the service told.
    """
    # Past a few doublings only the limit counts, and a huge power of two is not even a float.
    doubled = min(LONGEST_S, FIRST_S * 2 ** min(failures - 1, 16))
    return max(doubled * jitter() if jitter else doubled, retry_after_s or 0.0)
