"""Slots of backends for an engine without a store: counted in this process alone, and without any library."""

from collections.abc import Callable, Sequence
from typing import Final

from accord.ports import Heartbeats, SlotRecord


class MemorySlots:
    """The calls of each backend that run and wait, in the order in which they came."""

    def __init__(self) -> None:
        self._slots: Final[dict[str, dict[str, None]]] = {}
        self.heartbeats: Final[Heartbeats] = _NoHeartbeats()
        """None: no other process can hold slots here, and those of this one count until they are freed."""

    async def take_slot(self, slot: SlotRecord, *, limit: int, lease_s: float) -> bool:  # noqa: ARG002 - as above
        """Add a call of a backend if fewer than `limit` run or wait."""
        if len(self._slots.get(slot.backend, ())) >= limit:
            return False
        await self.queue_slot(slot)
        return True

    async def queue_slot(self, slot: SlotRecord) -> None:
        """Add a call of a backend behind those that run and wait."""
        self._slots.setdefault(slot.backend, {})[slot.slot_id] = None

    async def held_slots(self, backend: str, *, limit: int, lease_s: float) -> list[str]:  # noqa: ARG002 - as above
        """The ids of the calls that hold a slot, the oldest first."""
        return [*self._slots.get(backend, ())][:limit]

    async def free_slots(self, freed: Sequence[SlotRecord]) -> None:
        """Remove calls that have ended."""
        for slot in freed:
            self._slots.get(slot.backend, {}).pop(slot.slot_id, None)


class _NoHeartbeats:
    def start(self, runner: str, is_needed: Callable[[], bool], *, lease_s: float) -> None:
        pass

    def stop(self, runner: str) -> None:
        pass
