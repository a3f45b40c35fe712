"""Whether a database can be written: a health check writes one row that nobody reads.

Reading would not do: a full disk, a file without permission or a database in standby can all be read.
"""

from typing import Any, Final

from sqlalchemy import Connection, literal_column

from accord.stores.compiled import by_engine
from accord.stores.schema import probes


def _count(new: Any) -> Any:
    row = new(probes).values(probe=literal_column("1"), count=literal_column("1"))
    return row.on_conflict_do_update(index_elements=["probe"], set_={"count": probes.c.count + literal_column("1")})


_PROBE: Final = by_engine(_count)


def probe(connection: Connection) -> None:
    """Write the row."""
    _PROBE.met(connection, {})
