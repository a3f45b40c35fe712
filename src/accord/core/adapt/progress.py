"""Thins out progress for clients that show it: four ticks a second over all labels, by the events' own time.

Beyond that rate, the first tick of every label passes, and so do `complete`, `failed` and the last one, that at the
latest when the stream ends. An event without a time passes: there is nothing to measure. No clock is read here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf, isfinite
from typing import Any, Final

from accord.wire.event import ProgressUpdate
from accord.wire.packet import EventPacket

MIN_GAP_S: Final = 0.25
MAX_LABELS: Final = 256


@dataclass(frozen=True, slots=True)
class Held:
    """A tick that came too soon, and its place in the ledger."""

    packet: EventPacket
    entry: int


class ProgressGate:
    """Which ticks pass."""

    __slots__ = ("_held", "_latest", "_seen")

    def __init__(self) -> None:
        self._latest = -inf
        self._seen: set[str] = set()
        self._held: dict[str, Held] = {}

    def passes(self, update: ProgressUpdate, event: Mapping[str, Any]) -> bool:
        """Whether this tick is shown now; what was held of its label is then out of date."""
        at = event_time(event.get("timestamp"))
        self._held.pop(update.label, None)
        # A time before the latest one shown is too soon as well. If it were not, what is held until the end could pass
        # at once when the result is adapted again, and the order would change.
        too_soon = at is not None and at < self._latest + MIN_GAP_S
        if update.status == "running" and too_soon and update.label in self._seen:
            return False
        if len(self._seen) < MAX_LABELS:
            self._seen.add(update.label)
        if at is not None:
            self._latest = max(self._latest, at)
        return True

    def hold(self, label: str, packet: EventPacket, entry: int) -> None:
        """Keep a tick that came too soon: it may be the last of its label."""
        self._held[label] = Held(packet, entry)

    def release(self) -> list[Held]:
        """The last tick of every label that is still held, in the order of their coming."""
        held = list(self._held.values())
        self._held.clear()
        return held


def event_time(sent: Any) -> float | None:
    """An event's time in seconds, if it has one that can be read; a time without a zone is UTC."""
    if isinstance(sent, bool) or not isinstance(sent, int | float | str):
        return None
    try:
        if not isinstance(sent, str):
            return float(sent) if isfinite(sent) else None
        read = datetime.fromisoformat(sent)
        return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
