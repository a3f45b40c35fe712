"""Rate limits: how many requests a caller may send, by several rates at once, each a moving window, in this process.

The arithmetic is that of the `limits` library; the counts are kept here, because the library's memory storage has no
bound and walks over all callers in a thread while requests come in. It authenticates nothing and knows no HTTP.
"""

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from typing import Final

from limits import RateLimitItem, parse
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import MovingWindowRateLimiter

from accord.errors import ErrorCode, RefusedError, UsageError
from accord.ports import Clock
from accord.servers.service import caller_key
from accord.wire.session import TokenRecord

DEFAULT_RATES: Final = ("50/second", "1500/minute")
"""Far above what the page, the voice client and the editor of one person send together."""
MAX_KEYS: Final = 10_000
"""How many windows are kept; beyond that the least recently used one is dropped."""
MAX_MARKS: Final = 100
"""How many moments of a window are kept. A rate of more requests than that is counted in steps of 1 % of its window."""


@dataclass(slots=True)
class _Mark:
    """Requests at about the same time, counted as if all came with the last of them."""

    first: float
    last: float
    count: int


@dataclass(slots=True)
class _Window:
    """The requests of one caller under one rate, the oldest first."""

    marks: list[_Mark] = field(default_factory=list[_Mark])
    count: int = 0

    def move(self, now: float, expiry_s: float) -> None:
        """Drop requests that have left the window.

        The sum is the one that `limits` computes for the end of a window. `last > now - expiry_s` can round
        differently: then a window was full and yet over, and requests passed without being counted.
        """
        gone = next((place for place, mark in enumerate(self.marks) if mark.last + expiry_s > now), len(self.marks))
        self.count -= sum(mark.count for mark in self.marks[:gone])
        del self.marks[:gone]

    def add(self, at: float, step_s: float) -> None:
        """Count one more request."""
        self.count += 1
        newest = self.marks[-1] if self.marks else None
        if newest is not None and at - newest.first < step_s:
            newest.last, newest.count = at, newest.count + 1
        else:
            self.marks.append(_Mark(at, at, 1))


class BoundedStorage(MemoryStorage):
    """Moving windows in bounded memory, on the given clock. None of its methods ever waits."""

    def __init__(self, clock: Clock, *, max_keys: int = MAX_KEYS) -> None:
        super().__init__()
        self._clock: Final = clock
        self._max_keys: Final = max_keys
        self._windows: Final[OrderedDict[str, _Window]] = OrderedDict()

    @property
    def size(self) -> int:
        """The number of windows that are kept."""
        return len(self._windows)

    async def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """Count a request if the window has room for it; returns whether it had."""
        now = self._clock.monotonic()
        window = self._moved_window(key, now, expiry)
        if window.count + amount > limit:
            return False
        self._windows[key] = window
        if len(self._windows) > self._max_keys:
            self._windows.popitem(last=False)
        for _ in range(amount):
            window.add(now, expiry / MAX_MARKS if limit > MAX_MARKS else 0.0)
        return True

    async def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:  # noqa: ARG002
        """The time of the oldest requests in the window, and the number of all."""
        now = self._clock.monotonic()
        window = self._moved_window(key, now, expiry)
        return (window.marks[0].last, window.count) if window.marks else (now, 0)

    def _moved_window(self, key: str, now: float, expiry_s: float) -> _Window:
        window = self._windows.get(key)
        if window is None:
            return _Window()
        # Refused requests count as use, too: otherwise others could have the window of a refused caller dropped.
        self._windows.move_to_end(key)
        window.move(now, expiry_s)
        return window


class RateLimits:
    """Counts requests and refuses those above any of the rates. Refused requests are not counted.

    With `rates=None` the default rates apply, except to anonymous callers on this machine, which are programs of the
    user who runs the service.
    """

    def __init__(self, rates: Sequence[str] | None, clock: Clock, *, max_keys: int = MAX_KEYS) -> None:
        self._clock: Final = clock
        self._exempts_loopback: Final = rates is None
        self._rates: Final = _parse_rates(DEFAULT_RATES if rates is None else tuple(rates))
        self.storage: Final = BoundedStorage(clock, max_keys=max_keys)
        self._limiter: Final = MovingWindowRateLimiter(self.storage)

    async def count_request(self, user: str | None, address: str, key: TokenRecord | None = None) -> None:
        """Count a request of this user, or of this address if anonymous, and one of the key by the key's own rates."""
        windows: list[tuple[RateLimitItem, str, str]] = []
        if user is not None or not self._exempts_loopback or not _is_loopback(address):
            name = caller_key(user, address)
            windows = [(item, rate, name) for item, rate in self._rates.items()]
        await self._count(windows + _key_windows(key))

    async def count_key_request(self, key: TokenRecord) -> None:
        """Count a request of this key by its own rates alone."""
        await self._count(_key_windows(key))

    async def _count(self, windows: Sequence[tuple[RateLimitItem, str, str]]) -> None:
        """Count a request in each of these windows, or in none if one has no room for it."""
        waits = [(await self._wait_s(item, name), rate) for item, rate, name in windows]
        if waits and (longest := max(waits, key=lambda wait: wait[0]))[0] > 0:
            wait_s, rate = math.ceil(longest[0]), longest[1]
            message = f"Too many requests: the limit is {rate}; try again in {wait_s} s"
            raise RefusedError(message, ErrorCode.RATE_LIMIT_EXCEEDED, {"retry_after": wait_s, "limit": rate})
        for item, _, name in windows:
            await self._limiter.hit(item, name)

    async def _wait_s(self, item: RateLimitItem, key: str) -> float:
        """How long until this rate has room again."""
        stats = await self._limiter.get_window_stats(item, key)
        return 0.0 if stats.remaining > 0 else stats.reset_time - self._clock.monotonic()


def _key_windows(key: TokenRecord | None) -> list[tuple[RateLimitItem, str, str]]:
    """The windows of a key's own rates."""
    rates = None if key is None or key.rules is None else key.rules.rates
    if key is None or not rates:
        return []
    return [(item, rate, f"key:{key.token_id}") for item, rate in _parse_rates(tuple(rates)).items()]


@lru_cache(maxsize=1024)
def _parse_rates(rates: tuple[str, ...]) -> dict[RateLimitItem, str]:
    """The rates with their texts. One that is listed twice has one window, which must not count a request twice."""
    parsed: dict[RateLimitItem, str] = {}
    for rate in rates:
        try:
            parsed[parse(rate)] = rate
        except ValueError:
            raise UsageError(f"{rate}: expected a rate such as 60/minute") from None
    return parsed


@lru_cache(maxsize=1024)
def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False
