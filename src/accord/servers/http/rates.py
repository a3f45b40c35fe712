"""Rate limits: how many requests a caller may send, by several rates at once, each a moving window.

Counts are exact within a process. With a channel, processes send each other what they have counted, every `SHARE_S` and
never for a single request: what one has accepted counts in the others after that time and that of the message. In
between, each may accept what it has room for. Without a channel, each process counts by itself, and so does one that
has just started for what was counted before.

The windows take bounded memory, whatever the rates and however many callers there are. It authenticates nothing and
knows no HTTP.
"""

import asyncio
import math
import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from typing import Annotated, Final
from uuid import uuid4

import msgspec

from accord.errors import ErrorCode, RefusedError, UsageError
from accord.ports import Channel, Clock
from accord.servers.service import caller_key
from accord.wire.keys import RATE
from accord.wire.session import TokenRecord

DEFAULT_RATES: Final = ("50/second", "1500/minute")
"""Far above what the page, the voice client and the editor of one person send together."""
MAX_KEYS: Final = 10_000
"""How many windows are kept; beyond that the least recently used one is dropped."""
MAX_MARKS: Final = 100
"""How many moments of a window are kept. A rate of more requests than that is counted in steps of 1 % of its window."""
TOPIC: Final = "rates"
"""Messages of this topic are `SharedCounts`."""
SHARE_S: Final = 0.2
"""How often a process sends what it has counted, if there is anything."""
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

    def add(self, at: float, step_s: float, count: int = 1) -> None:
        """Count requests; those that are closer together than `step_s` have one mark."""
        self.count += count
        newest = self.marks[-1] if self.marks else None
        if newest is not None and at - newest.first < step_s:
            newest.last, newest.count = at, newest.count + count
        else:
            self.marks.append(_Mark(at, at, count))

    def has_room_at(self, requests: int, expiry_s: float) -> float:
        """When a window that is full has room again; several processes together may have exceeded it."""
        left = self.count
        for mark in self.marks:
            left -= mark.count
            if left < requests:
                return mark.last + expiry_s
        raise AssertionError("a rate allows at least one request")


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
        return 0.0 if window.count < rate.requests else window.has_room_at(rate.requests, rate.seconds) - now

    def add(self, name: str, rate: _Rate, now: float, *, shared: int = 0) -> None:
        """Count a request in this window, or so many that another process has counted."""
        window = self._windows.get((name, rate))
        if window is None:
            window = self._windows[name, rate] = _Window()
            if len(self._windows) > self._max_keys:
                self._windows.popitem(last=False)
        if shared:
            # In steps of 1 %, whatever the rate: messages of many processes must not add a mark each.
            self._windows.move_to_end((name, rate))
            window.move(now, rate.seconds)
            window.add(now, rate.seconds / MAX_MARKS, shared)
        else:
            window.add(now, rate.step_s)


_Positive = Annotated[int, msgspec.Meta(ge=1, le=2**53)]


class SharedCounts(msgspec.Struct, array_like=True):
    """A message: what one process has counted since its last one. The name, requests and seconds are of a window."""

    sender: str
    counts: list[tuple[str, _Positive, _Positive, _Positive]]


_decode: Final = msgspec.json.Decoder(SharedCounts).decode
_encode: Final = msgspec.json.Encoder().encode


class CountSharing:
    """Sends what this process has counted to the others, and adds what they have counted to its windows."""

    def __init__(self, windows: RateWindows, clock: Clock, channel: Channel, *, max_keys: int) -> None:
        self._windows: Final = windows
        self._clock: Final = clock
        self._channel: Final = channel
        self._max_keys: Final = max_keys
        self._sender: Final = uuid4().hex
        self._unsent: dict[tuple[str, _Rate], int] = {}
        self._timer: asyncio.TimerHandle | None = None
        channel.subscribe(TOPIC, self._receive)

    def count(self, name: str, rate: _Rate) -> None:
        """Note a request that was counted in this window."""
        self._unsent[name, rate] = self._unsent.get((name, rate), 0) + 1
        if len(self._unsent) >= self._max_keys:
            self._send()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SHARE_S, self._send)

    def _send(self) -> None:
        """Send all counts, in as many messages as their size needs."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        unsent, self._unsent = self._unsent, {}
        begin, end = _encode([self._sender, []])[:-2], b"]]"
        room = self._channel.max_bytes - len(begin) - len(end)
        batch: list[bytes] = []
        size = 0
        for (name, rate), count in unsent.items():
            entry = _encode((name, rate.requests, rate.seconds, count))
            if len(entry) > room:
                continue
            if size + len(entry) > room:
                self._channel.publish(TOPIC, begin + b",".join(batch) + end)
                batch, size = [], 0
            batch.append(entry)
            size += len(entry) + 1
        if batch:
            self._channel.publish(TOPIC, begin + b",".join(batch) + end)

    def _receive(self, message: bytes) -> None:
        try:
            shared = _decode(message)
        except msgspec.MsgspecError:
            return  # of another version, or of another program
        if shared.sender == self._sender:
            return
        now = self._clock.monotonic()
        for name, requests, seconds, count in shared.counts:
            rate = _Rate(requests, seconds, f"{requests}/{seconds}seconds")
            self._windows.add(name, rate, now, shared=count)


class RateLimits:
    """Counts requests and refuses those above any of the rates. Refused requests are not counted.

    With `rates=None` the default rates apply, except to anonymous callers on this machine, which are programs of the
    user who runs the service. With a channel, the requests of other processes count as well.
    """

    def __init__(
        self,
        rates: Sequence[str] | None,
        clock: Clock,
        *,
        max_keys: int = MAX_KEYS,
        channel: Channel | None = None,
    ) -> None:
        self._clock: Final = clock
        self._exempts_loopback: Final = rates is None
        self._rates: Final = _parse_rates(DEFAULT_RATES if rates is None else tuple(rates))
        self.windows: Final = RateWindows(max_keys)
        self._sharing: Final = (
            None if channel is None else CountSharing(self.windows, clock, channel, max_keys=max_keys)
        )

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
            if self._sharing is not None:
                self._sharing.count(name, rate)


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
