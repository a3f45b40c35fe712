"""Statements on the slots of backends: which calls run and which wait, in the order in which they came.

Plain functions over a connection, as in `statements.py`. The first rows of a backend, as many as its limit, hold its
slots; the others wait. A row whose process is silent does not count, by the database's clock.
"""

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import asdict
from sqlalchemy import Connection, Integer, bindparam, delete, func, insert, select

from accord.ports import SlotRecord
from accord.stores.liveness import MICROSECONDS, is_silent, lock_name
from accord.stores.prepared import PreparedStatement, database_now, values_of
from accord.stores.schema import slots

_LOCK: Final = 0x53_4C_4F_54  # "SLOT" in ASCII: with the hash of a backend's name, an advisory lock of PostgreSQL
_BACKEND: Final = bindparam("backend", type_=slots.c.backend.type)
_LIMIT: Final = bindparam("limit", type_=Integer)


def _counted(column: Any) -> Any:
    """The rows of a backend that count: those of processes that are not silent."""
    is_counted = ~is_silent("lease", slots.c.holder, slots.c.taken_at)
    return select(column).select_from(slots).where(slots.c.backend == _BACKEND, is_counted)


def _last(query: Any) -> PreparedStatement:
    """Insert a row behind all others of its backend, with the values of this query."""
    names = [*SlotRecord.__struct_fields__, "number", "taken_at"]
    return PreparedStatement(insert(slots).from_select(names, query))


_NUMBER: Final = (
    select(func.coalesce(func.max(slots.c.number), 0) + 1).where(slots.c.backend == _BACKEND).scalar_subquery()
)
_ROW: Final = select(*values_of(slots, *SlotRecord.__struct_fields__).values(), _NUMBER, database_now())
_TAKE: Final = _last(_ROW.where(_counted(func.count()).scalar_subquery() < _LIMIT))
_QUEUE: Final = _last(_ROW)
_HELD: Final = PreparedStatement(_counted(slots.c.slot_id).order_by(slots.c.number).limit(_LIMIT))
_FREE: Final = PreparedStatement(
    delete(slots).where(
        slots.c.backend == _BACKEND, slots.c.slot_id == bindparam("slot_id", type_=slots.c.slot_id.type)
    )
)


def take_slot(connection: Connection, slot: SlotRecord, limit: int, lease_s: float) -> bool:
    """Add a call if fewer than `limit` run or wait."""
    lock_name(connection, _LOCK, slot.backend)
    values = {**asdict(slot), "limit": limit, "lease": int(lease_s * MICROSECONDS)}
    return bool(_TAKE.rowcount(connection, values))


def queue_slot(connection: Connection, slot: SlotRecord) -> None:
    """Add a call behind those that run and wait."""
    lock_name(connection, _LOCK, slot.backend)
    _QUEUE.rowcount(connection, asdict(slot))


def held_slots(connection: Connection, backend: str, limit: int, lease_s: float) -> list[str]:
    """The ids of the calls that hold a slot, the oldest first."""
    values = {"backend": backend, "limit": limit, "lease": int(lease_s * MICROSECONDS)}
    return [slot_id for (slot_id,) in _HELD.rows(connection, values)]


def free_slots(connection: Connection, freed: Sequence[SlotRecord]) -> None:
    """Remove calls that have ended."""
    _FREE.execute_many(connection, [{"backend": slot.backend, "slot_id": slot.slot_id} for slot in freed])
