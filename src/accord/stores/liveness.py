"""What processes that share a database tell each other: heartbeats, abandoned turns, cancellations, readers, probes."""

from datetime import timedelta
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Integer,
    bindparam,
    delete,
    exists,
    literal_column,
    or_,
    select,
    type_coerce,
    update,
)

from accord.stores.prepared import Prepared, by_engine, database_now
from accord.stores.schema import IS_RUNNING, probes, runners, turns
from accord.stores.statements import TURN_COLUMNS, turn_record
from accord.wire.session import TurnRecord

# Whether a database can be written: a health check writes one row that nobody reads.
#
# Reading would not do: a full disk, a file without permission or a database in standby can all be read.


def _count(new: Any) -> Any:
    row = new(probes).values(probe=literal_column("1"), count=literal_column("1"))
    return row.on_conflict_do_update(index_elements=["probe"], set_={"count": probes.c.count + literal_column("1")})


_PROBE: Final = by_engine(_count)


def probe(connection: Connection) -> None:
    """Write the row."""
    _PROBE.met(connection, {})


# What processes that share a database tell each other: heartbeats, abandoned turns, cancellations, readers.
#
# Plain functions over a connection, like `statements.py`. Every time here is the database's own, so that hosts whose
# clocks differ agree on what is too long ago.

# A process that sent no heartbeat for so long, and left nothing running, is deleted from the table.
FORGOTTEN_AFTER: Final = timedelta(days=1)

_OF: Final = bindparam("of", type_=turns.c.runner.type)
_MICROSECONDS: Final = 1_000_000


def _is_before(column: Column[Any], seconds: str) -> ColumnElement[bool]:
    """Whether a stored time is longer ago than this parameter of the statement says, in microseconds."""
    return type_coerce(column, BigInteger) < database_now() - bindparam(seconds, type_=BigInteger)


# Which turns were left by a process that is gone


def _renew(new: Any) -> Any:
    row = new(runners).values(runner=_OF, seen_at=database_now())
    return row.on_conflict_do_update(index_elements=["runner"], set_={"seen_at": row.excluded.seen_at})


_BEAT: Final = by_engine(_renew)
_FORGET: Final = Prepared(
    delete(runners)
    .where(_is_before(runners.c.seen_at, "age"))
    .where(~exists().where(turns.c.runner == runners.c.runner, IS_RUNNING))
)


def beat(connection: Connection, runner: str) -> None:
    """Write a heartbeat, and delete the rows of processes that have long been gone."""
    _BEAT.met(connection, {"of": runner})
    _FORGET.met(connection, {"age": FORGOTTEN_AFTER // timedelta(microseconds=1)})


# Both signs of life have to be old: an idle process sends no heartbeats, and its next turn is as new as it says.
_ABANDONED: Final = Prepared(
    select(*TURN_COLUMNS)
    .join_from(turns, runners, turns.c.runner == runners.c.runner, isouter=True)
    .where(IS_RUNNING)
    .where(turns.c.runner != _OF)
    .where(_is_before(turns.c.leased_at, "lease"))
    .where(or_(runners.c.seen_at.is_(None), _is_before(runners.c.seen_at, "lease")))
    .order_by(turns.c.created_at, turns.c.request_id)
    .limit(bindparam("limit", type_=Integer))
)


def abandoned(connection: Connection, lease_s: float, runner: str, limit: int) -> list[TurnRecord]:
    """Running turns of other processes than this one, whose process gave no sign of life for so long."""
    values = {"lease": int(lease_s * _MICROSECONDS), "of": runner, "limit": limit}
    return [turn_record(row) for row in _ABANDONED.rows(connection, values)]


_RUNNING: Final = Prepared(
    select(*TURN_COLUMNS).where(IS_RUNNING, turns.c.runner == _OF).order_by(turns.c.created_at, turns.c.request_id)
)


def running(connection: Connection, runner: str) -> list[TurnRecord]:
    """The running turns of one process."""
    return [turn_record(row) for row in _RUNNING.rows(connection, {"of": runner})]


# Cancellations


_REQUEST_CANCEL: Final = Prepared(update(turns).where(turns.c.request_id == _OF, IS_RUNNING).values(cancel_requested=1))
_CANCELLED: Final = Prepared(
    select(turns.c.request_id).where(IS_RUNNING, turns.c.runner == _OF, turns.c.cancel_requested != 0)
)


def request_cancel(connection: Connection, request_id: str) -> bool:
    """Mark a running turn to be cancelled by the process that runs it; False if it does not run."""
    return bool(_REQUEST_CANCEL.met(connection, {"of": request_id}))


def cancel_requests(connection: Connection, runner: str) -> list[str]:
    """The running turns of this process that another one wants cancelled."""
    return [request_id for (request_id,) in _CANCELLED.rows(connection, {"of": runner})]


# Readers


_MARK_READ: Final = Prepared(update(turns).where(turns.c.request_id == _OF, IS_RUNNING).values(read_at=database_now()))
_IS_READ: Final = Prepared(
    select(turns.c.request_id).where(turns.c.request_id == _OF, ~_is_before(turns.c.read_at, "within"))
)


def mark_read(connection: Connection, request_id: str) -> None:
    """Write that a client of another process reads this turn now."""
    _MARK_READ.met(connection, {"of": request_id})


def is_read(connection: Connection, request_id: str, within_s: float) -> bool:
    """Whether a client of another process was reading this turn so short ago."""
    return _IS_READ.row(connection, {"of": request_id, "within": int(within_s * _MICROSECONDS)}) is not None
