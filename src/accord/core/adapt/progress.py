"""Thins out progress for clients that show it: at most four ticks a second of each label, by the events' own time.

`complete` and `failed` always pass, and so does the last tick of every label, at the latest when the stream ends. An
event without a time passes: there is nothing to measure. No clock is read here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
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

    __slots__ = ("_held", "_shown_at")

    def __init__(self) -> None:
        self._shown_at: dict[str, float] = {}
        self._held: dict[str, Held] = {}

    def passes(self, update: ProgressUpdate, event: Mapping[str, Any]) -> bool:
        """Whether this tick is shown now; what was held of its label is then out of date."""
        at = event_time(event.get("timestamp"))
        label = update.label
        before = self._shown_at.get(label)
        too_soon = at is not None and before is not None and abs(at - before) < MIN_GAP_S
        self._held.pop(label, None)
        if update.status == "running" and too_soon:
            return False
        if at is not None and (label in self._shown_at or len(self._shown_at) < MAX_LABELS):
            self._shown_at[label] = at
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
            return float(sent)
        read = datetime.fromisoformat(sent)
        return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
