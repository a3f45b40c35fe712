"""Slots of backends in memory, with the heartbeats by which they count. `MemoryStore` adds sessions to this."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Final

from accord.errors import StoreError
from accord.ports import Heartbeat, SlotRecord
from accord.stores.rules import CLOSED


@dataclass(frozen=True, slots=True)
class _MemoryHeartbeat:
    """Writes heartbeats into a dict; setting one item is safe in any thread."""

    beats: dict[str, float]
    clock: Callable[[], float]

    def beat(self, runner: str) -> None:
        self.beats[runner] = self.clock()

    def close(self) -> None:
        pass


class MemorySlots:
    """Slots in this process's memory. Every call runs to its end without yielding, so each is atomic."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock: Final = clock
        self._is_open = True
        self._beats: Final[dict[str, float]] = {}
        self._slots: Final[dict[str, dict[SlotRecord, float]]] = {}
        """By backend, the calls in the order in which they came, and when that was."""

    def heartbeat(self) -> Heartbeat:
        """An object that a thread can write heartbeats with."""
        return _MemoryHeartbeat(self._beats, self._clock)

    async def take_slot(self, slot: SlotRecord, *, limit: int, lease_s: float) -> bool:
        """Add a call of a backend if fewer than `limit` run or wait."""
        if len(self._counted(slot.backend, lease_s)) >= limit:
            return False
        await self.queue_slot(slot)
        return True

    async def queue_slot(self, slot: SlotRecord) -> None:
        """Add a call of a backend behind those that run and wait."""
        self._check_open()
        self._slots.setdefault(slot.backend, {})[slot] = self._clock()

    async def held_slots(self, backend: str, *, limit: int, lease_s: float) -> list[str]:
        """The ids of the calls that hold a slot, the oldest first."""
        return self._counted(backend, lease_s)[:limit]

    async def free_slots(self, freed: Sequence[SlotRecord]) -> None:
        """Remove calls that have ended."""
        self._check_open()
        for slot in freed:
            self._slots.get(slot.backend, {}).pop(slot, None)

    def _counted(self, backend: str, lease_s: float) -> list[str]:
        """The calls of a backend that count: those of processes that are not silent."""
        self._check_open()
        calls = self._slots.get(backend, {}).items()
        return [slot.slot_id for slot, at in calls if self._is_alive(slot.holder, at, lease_s)]

    def _is_alive(self, holder: str, at: float, lease_s: float) -> bool:
        """Whether a process has written something at this time or sent a heartbeat, within `lease_s`."""
        return max(at, self._beats.get(holder, -inf)) >= self._clock() - lease_s

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreError(CLOSED)
