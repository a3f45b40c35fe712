"""How long to wait before the next attempt. Pure: randomness is passed in, and the caller waits."""

import re
from collections.abc import Callable
from typing import Final

FIRST_S: Final = 0.5
LONGEST_S: Final = 30.0
SECONDS: Final = re.compile(r"\d{1,12}(?:\.\d{1,12})?", re.ASCII)
"""A number of seconds; some services send a decimal one. None means more digits, and Python refuses thousands."""

Jitter = Callable[[], float]
"""Returns a number from 0 to 1, as `random.random` does."""


def parse_retry_after(retry_after: str | None) -> float | None:
    """Return the seconds of a `Retry-After` header; None if it is absent or a date."""
    return None if retry_after is None or SECONDS.fullmatch(retry_after) is None else float(retry_after)


def delay_s(failures: int, *, retry_after_s: float | None = None, jitter: Jitter | None = None) -> float:
    """Return the seconds to wait after this many failures in a row: doubling, up to a limit, at least `retry_after_s`.

    With jitter it is a random part of that, so that many clients of one service do not return at once; but never less
    than `retry_after_s`.
    """
    # Past a few doublings only the limit counts, and a huge power of two is not even a float.
    doubled = min(LONGEST_S, FIRST_S * 2 ** min(failures - 1, 16))
    return max(doubled * jitter() if jitter else doubled, retry_after_s or 0.0)
