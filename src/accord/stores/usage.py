"""How many bytes are stored of each user: counted when a turn ends, and given back when its session is deleted."""

from typing import Any, Final

from sqlalchemy import Connection, bindparam, select

from accord.stores.compiled import Prepared, by_engine, values_of
from accord.stores.schema import usage


def _add(new: Any) -> Any:
    row = new(usage).values(values_of(usage))
    total = usage.c.stored_bytes + row.excluded.stored_bytes
    return row.on_conflict_do_update(index_elements=["owner"], set_={"stored_bytes": total})


_ADD: Final = by_engine(_add)
_STORED: Final = Prepared(select(usage.c.stored_bytes).where(usage.c.owner == bindparam("of")))


def add_stored_bytes(connection: Connection, owner: str, count: int) -> None:
    """Count so many more bytes of this user, or fewer."""
    _ADD.met(connection, {"owner": owner, "stored_bytes": count})


def stored_bytes_of(connection: Connection, owner: str) -> int:
    """How many bytes are stored of this user."""
    row = _STORED.row(connection, {"of": owner})
    return row[0] if row else 0
