"""Keeps what has to wait for a boundary in the text, and what cannot be shown at all, within limits.

Urgent lines go first, the rest in the order of their coming. What may wait and where the boundaries are is not decided
here; what does not fit is handed back to the caller, never lost in here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, cast

from accord.core.adapt.boundary import Boundary
from accord.wire.packet import EventPacket

WEIGHT_OF_A_VALUE: Final = 8
RESERVE_FOR_FAILURES: Final = 2


@dataclass(frozen=True, slots=True)
class AdaptLimits:
    """How much one adapter may keep, in items and in characters."""

    max_waiting: int = 64
    max_waiting_chars: int = 256 * 1024
    max_deferred: int = 256
    max_deferred_chars: int = 1024 * 1024
    max_entries: int = 10_000


@dataclass(frozen=True, slots=True)
class Waiter:
    """A text to be told, or an event to be sent, once the text before it is out."""

    text: str = ""
    packet: EventPacket | None = None
    urgent: bool = False
    weight: int = 0


class WaitingRoom:
    """What waits for the next boundary."""

    __slots__ = ("_limits", "_urgent", "_waiters", "_weight")

    def __init__(self, limits: AdaptLimits) -> None:
        self._limits = limits
        self._waiters: list[Waiter] = []
        self._weight = 0
        self._urgent = 0

    def __bool__(self) -> bool:
        return bool(self._waiters)

    @property
    def has_text(self) -> bool:
        """Whether anything that waits is going to be told."""
        return any(waiter.text for waiter in self._waiters)

    def has_room(self, weight: int, *, failure: bool = False) -> bool:
        """Whether one more of this weight may wait; failures find room for a while when others do not."""
        reserve = RESERVE_FOR_FAILURES if failure else 1
        few = len(self._waiters) < self._limits.max_waiting * reserve
        return few and self._weight + weight <= self._limits.max_waiting_chars * reserve

    def is_due(self, boundary: Boundary) -> bool:
        """Whether anyone may leave here."""
        return bool(self._waiters) if boundary is Boundary.BLOCK else bool(boundary) and self._urgent > 0

    def add(self, waiter: Waiter) -> None:
        """Let it wait."""
        self._waiters.append(waiter)
        self._weight += waiter.weight
        self._urgent += waiter.urgent

    def leave(self, boundary: Boundary) -> list[Waiter]:
        """Those whose time has come, urgent ones first."""
        if not self.is_due(boundary):
            return []
        urgent_only = boundary is Boundary.LINE
        urgent = [waiter for waiter in self._waiters if waiter.urgent]
        others = [waiter for waiter in self._waiters if not waiter.urgent]
        self._waiters = others if urgent_only else []
        leaving = urgent if urgent_only else urgent + others
        self._weight -= sum(waiter.weight for waiter in leaving)
        self._urgent = 0
        return leaving


class Deferred:
    """What could not be shown, kept to be fetched by its id."""

    __slots__ = ("_events", "_limits", "_weight")

    def __init__(self, limits: AdaptLimits) -> None:
        self._limits = limits
        self._events: dict[str, dict[str, Any]] = {}
        self._weight = 0

    @property
    def events(self) -> Mapping[str, dict[str, Any]]:
        """Everything kept, by id."""
        return MappingProxyType(self._events)

    def keep(self, name: str, ordinal: int, event: dict[str, Any]) -> str | None:
        """The id under which the event is kept; nothing if there is no room for it."""
        weight = weigh(event, self._limits.max_deferred_chars)
        full = len(self._events) >= self._limits.max_deferred
        if full or self._weight + weight > self._limits.max_deferred_chars:
            return None
        key = f"{name}-{ordinal}" if name in self._events else name
        self._events[key] = event
        self._weight += weight
        return key


def weigh(value: Any, enough: int) -> int:
    """Roughly how many characters a JSON value has; stops counting once there are more than enough."""
    weight = 0
    stack: list[Any] = [value]
    while stack and weight <= enough:
        one = stack.pop()
        weight += WEIGHT_OF_A_VALUE
        if isinstance(one, str):
            weight += len(one)
        elif isinstance(one, dict):
            inside = cast("dict[Any, Any]", one)
            weight += sum(len(key) for key in inside if isinstance(key, str))
            stack.extend(inside.values())
        elif isinstance(one, list | tuple):
            stack.extend(cast("list[Any]", one))
    return weight
