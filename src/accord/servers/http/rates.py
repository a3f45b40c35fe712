"""Rate limits: how many requests a caller may send, by several rates at once, each a moving window, in this process.

The windows take bounded memory, whatever the rates and however many callers there are. It authenticates nothing and
knows no HTTP.
"""

import math
import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from typing import Final

from accord.errors import ErrorCode, RefusedError, UsageError
from accord.ports import Clock
from accord.servers.service import caller_key
from accord.wire.keys import RATE
from accord.wire.session import TokenRecord

DEFAULT_RATES: Final = ("50/second", "1500/minute")
"""Far above what the page, the voice client and the editor of one person send together."""
MAX_KEYS: Final = 10_000
"""How many windows are kept; beyond that the least recently used one is dropped."""
MAX_MARKS: Final = 100
"""How many moments of a window are kept. A rate of more requests than that is counted in steps of 1 % of its window."""
UNITS: Final = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400}
"""The seconds of each unit of time."""

_PARTS: Final = re.compile(f"([0-9]+)/([0-9]*)({'|'.join(UNITS)})s?")


@dataclass(frozen=True, slots=True)
class _Rate:
    """So many requests in so many seconds, and how this was written."""

    requests: int
    seconds: int
    text: str = field(compare=False)

    @property
    def step_s(self) -> float:
        """Requests that are closer together than this are counted as if all came with the last of them."""
        return self.seconds / MAX_MARKS if self.requests > MAX_MARKS else 0.0


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

        The sum is the one that `RateWindows.wait_s` computes for the end of a window. `last > now - expiry_s` can round
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


class RateWindows:
    """The windows of all callers in bounded memory."""

    def __init__(self, max_keys: int) -> None:
        self._max_keys: Final = max_keys
        self._windows: Final[OrderedDict[tuple[str, _Rate], _Window]] = OrderedDict()

    @property
    def size(self) -> int:
        """The number of windows that are kept."""
        return len(self._windows)

    def wait_s(self, name: str, rate: _Rate, now: float) -> float:
        """How long until this window has room for a request; 0 if it has."""
        window = self._windows.get((name, rate))
        if window is None:
            return 0.0
        # Refused requests count as use, too: otherwise others could have the window of a refused caller dropped.
        self._windows.move_to_end((name, rate))
        window.move(now, rate.seconds)
        return 0.0 if window.count < rate.requests else window.marks[0].last + rate.seconds - now

    def add(self, name: str, rate: _Rate, now: float) -> None:
        """Count a request in this window."""
        window = self._windows.get((name, rate))
        if window is None:
            window = self._windows[name, rate] = _Window()
            if len(self._windows) > self._max_keys:
                self._windows.popitem(last=False)
        window.add(now, rate.step_s)


class RateLimits:
    """Counts requests and refuses those above any of the rates. Refused requests are not counted.

    With `rates=None` the default rates apply, except to anonymous callers on this machine, which are programs of the
    user who runs the service.
    """

    def __init__(self, rates: Sequence[str] | None, clock: Clock, *, max_keys: int = MAX_KEYS) -> None:
        self._clock: Final = clock
        self._exempts_loopback: Final = rates is None
        self._rates: Final = _parse_rates(DEFAULT_RATES if rates is None else tuple(rates))
        self.windows: Final = RateWindows(max_keys)

    async def count_request(self, user: str | None, address: str, key: TokenRecord | None = None) -> None:
        """Count a request of this user, or of this address if anonymous, and one of the key by the key's own rates."""
        windows: list[tuple[str, _Rate]] = []
        if user is not None or not self._exempts_loopback or not _is_loopback(address):
            name = caller_key(user, address)
            windows = [(name, rate) for rate in self._rates]
        self._count(windows + _key_windows(key))

    async def count_key_request(self, key: TokenRecord) -> None:
        """Count a request of this key by its own rates alone."""
        self._count(_key_windows(key))

    def _count(self, windows: Sequence[tuple[str, _Rate]]) -> None:
        """Count a request in each of these windows, or in none if one has no room for it."""
        now = self._clock.monotonic()
        waits = [(self.windows.wait_s(name, rate, now), rate) for name, rate in windows]
        if waits and (longest := max(waits, key=lambda wait: wait[0]))[0] > 0:
            wait_s, text = math.ceil(longest[0]), longest[1].text
            message = f"Too many requests: the limit is {text}; try again in {wait_s} s"
            raise RefusedError(message, ErrorCode.RATE_LIMIT_EXCEEDED, {"retry_after": wait_s, "limit": text})
        for name, rate in windows:
            self.windows.add(name, rate, now)


def _key_windows(key: TokenRecord | None) -> list[tuple[str, _Rate]]:
    """The windows of a key's own rates."""
    rates = None if key is None or key.rules is None else key.rules.rates
    if key is None or not rates:
        return []
    return [(f"key:{key.token_id}", rate) for rate in _parse_rates(tuple(rates))]


@lru_cache(maxsize=1024)
def _parse_rates(rates: tuple[str, ...]) -> tuple[_Rate, ...]:
    """The rates. One that is listed twice has one window, which must not count a request twice."""
    parsed: dict[_Rate, None] = {}
    for text in rates:
        parts = _PARTS.fullmatch(text)
        if parts is None or RATE.fullmatch(text) is None:
            raise UsageError(f"{text}: expected a rate such as 60/minute")
        requests, count, unit = parts.groups()
        parsed[_Rate(int(requests), int(count or 1) * UNITS[unit], text)] = None
    return tuple(parsed)


@lru_cache(maxsize=1024)
def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False
