"""The database's own clock, for what processes on several hosts have to agree on: a host's clock may be wrong."""

from typing import Any

from sqlalchemy import BigInteger
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class database_now(FunctionElement[int]):  # noqa: N801 - used as an SQL function is
    """Microseconds since 1970 when the statement runs."""

    type = BigInteger()
    inherit_cache = True


@compiles(database_now, "sqlite")
def _sqlite(*_: Any, **__: Any) -> str:
    # SQLite runs inside the process that asks, and all of them on one host: this is the host's clock.
    return "CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER)"


@compiles(database_now, "postgresql")
def _postgresql(*_: Any, **__: Any) -> str:
    # `now()` would be when the transaction began, which may have waited for a lock since.
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)"
