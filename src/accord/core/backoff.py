"""How long to wait before the next attempt. Pure: randomness is passed in, and the caller waits."""

from collections.abc import Callable
from typing import Final

FIRST_S: Final = 0.5
LONGEST_S: Final = 30.0
MAX_DIGITS: Final = 12

Jitter = Callable[[], float]
"""Returns a number from 0 to 1, as `random.random` does."""


def parse_retry_after(retry_after: str | None) -> float | None:
    """Return the seconds of a `Retry-After` header; None if it is absent or a date."""
    # No service means more digits than these, and Python refuses to parse thousands of them.
    if retry_after is None or not retry_after.isascii() or not retry_after.isdigit() or len(retry_after) > MAX_DIGITS:
        return None
    return float(retry_after)


def delay_s(failures: int, *, retry_after_s: float | None = None, jitter: Jitter | None = None) -> float:
    """Return the seconds to wait after this many failures in a row: doubling, up to a limit, at least `retry_after_s`.

    With jitter it is a random part of that, so that many clients of one service do not return at once; but never less
    than `retry_after_s`.
    """
    # Past a few doublings only the limit counts, and a huge power of two is not even a float.
    doubled = min(LONGEST_S, FIRST_S * 2 ** min(failures - 1, 16))
    return max(doubled * jitter() if jitter else doubled, retry_after_s or 0.0)
