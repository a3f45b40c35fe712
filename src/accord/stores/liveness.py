"""Statements for processes that share a database: heartbeats, abandoned turns, cancellations, readers, probes.

Plain functions over a connection, as in `statements.py`. All times are the database's, so that hosts whose clocks
differ agree on what is too old.
"""

from datetime import timedelta
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Integer,
    and_,
    bindparam,
    delete,
    exists,
    literal_column,
    select,
    text,
    type_coerce,
    update,
)

from accord.stores.prepared import PreparedStatement, by_engine, database_now
from accord.stores.schema import IS_RUNNING, probes, reservations, runners, slots, turns
from accord.stores.statements import TURN_COLUMNS, turn_record
from accord.wire.session import RunRecord


def _increment(new: Any) -> Any:
    row = new(probes).values(probe=literal_column("1"), count=literal_column("1"))
    return row.on_conflict_do_update(index_elements=["probe"], set_={"count": probes.c.count + literal_column("1")})


_PROBE: Final = by_engine(_increment)


def probe(connection: Connection) -> None:
    """Write a row for a health check. Reading would not do: a full disk or a standby database can be read."""
    _PROBE.rowcount(connection, {})


def lock_name(connection: Connection, space: int, name: str) -> None:
    """Let one transaction at a time change what has this name; on SQLite only one writes anyway."""
    if connection.dialect.name == "postgresql":
        statement = text("SELECT pg_advisory_xact_lock(:space, hashtext(:name))")
        connection.execute(statement, {"space": space, "name": name})


# A process that sent no heartbeat for so long, and has no running turns, is deleted from the table.
FORGOTTEN_AFTER: Final = timedelta(days=1)

_OF: Final = bindparam("of", type_=turns.c.runner.type)
MICROSECONDS: Final = 1_000_000


def _is_before(column: Column[Any], seconds: str) -> ColumnElement[bool]:
    """Whether a stored time is older than this parameter of the statement, in microseconds."""
    return type_coerce(column, BigInteger) < database_now() - bindparam(seconds, type_=BigInteger)


def _upsert_runner(new: Any) -> Any:
    row = new(runners).values(runner=_OF, seen_at=database_now())
    return row.on_conflict_do_update(index_elements=["runner"], set_={"seen_at": row.excluded.seen_at})


_BEAT: Final = by_engine(_upsert_runner)
_FORGET: Final = PreparedStatement(
    delete(runners)
    .where(_is_before(runners.c.seen_at, "age"))
    .where(~exists().where(turns.c.runner == runners.c.runner, IS_RUNNING))
)
_FORGET_HELD: Final = tuple(
    PreparedStatement(
        delete(table).where(_is_before(since, "age")).where(~exists().where(runners.c.runner == table.c.holder))
    )
    for table, since in ((slots, slots.c.taken_at), (reservations, reservations.c.renewed_at))
)


def beat(connection: Connection, runner: str) -> None:
    """Write a heartbeat, and delete the rows of processes that ended long ago."""
    _BEAT.rowcount(connection, {"of": runner})
    age = FORGOTTEN_AFTER // timedelta(microseconds=1)
    _FORGET.rowcount(connection, {"age": age})
    for forget in _FORGET_HELD:
        forget.rowcount(connection, {"age": age})


def is_silent(
    lease: str, runner: Column[Any] = turns.c.runner, since: Column[Any] = turns.c.leased_at
) -> ColumnElement[bool]:
    """Whether the process of a row sent no heartbeat for this parameter of the statement, in microseconds.

    The beginning of a turn or slot counts as one: an idle process sends no heartbeats.
    """
    has_beaten = exists().where(runners.c.runner == runner, ~_is_before(runners.c.seen_at, lease))
    return and_(_is_before(since, lease), ~has_beaten)


_NOW: Final = PreparedStatement(select(database_now()))


def clock_s(connection: Connection) -> float:
    """The database's time, in seconds."""
    (now,) = _NOW.rows(connection, {})[0]
    return now / MICROSECONDS


# The empty runner is that of turns that wait in the queue.
_ABANDONED: Final = PreparedStatement(
    select(*TURN_COLUMNS)
    .where(IS_RUNNING, turns.c.runner != _OF, turns.c.runner != literal_column("''"), is_silent("lease"))
    .order_by(turns.c.created_at, turns.c.request_id)
    .limit(bindparam("limit", type_=Integer))
)


def abandoned(connection: Connection, lease_s: float, runner: str, limit: int) -> list[RunRecord]:
    """Running turns of other processes that sent no heartbeat for so long."""
    values = {"lease": int(lease_s * MICROSECONDS), "of": runner, "limit": limit}
    return [turn_record(row) for row in _ABANDONED.rows(connection, values)]


_RUNNING: Final = PreparedStatement(
    select(*TURN_COLUMNS).where(IS_RUNNING, turns.c.runner == _OF).order_by(turns.c.created_at, turns.c.request_id)
)


def running(connection: Connection, runner: str) -> list[RunRecord]:
    """The running turns of one process."""
    return [turn_record(row) for row in _RUNNING.rows(connection, {"of": runner})]


_REQUEST_CANCEL: Final = PreparedStatement(
    update(turns).where(turns.c.request_id == _OF, IS_RUNNING).values(cancel_requested=1)
)
_CANCELLED: Final = PreparedStatement(
    select(turns.c.request_id).where(IS_RUNNING, turns.c.runner == _OF, turns.c.cancel_requested != 0)
)


def request_cancel(connection: Connection, request_id: str) -> bool:
    """Mark a running turn to be cancelled by the process that runs it; False if it does not run."""
    return bool(_REQUEST_CANCEL.rowcount(connection, {"of": request_id}))


def cancel_requests(connection: Connection, runner: str) -> list[str]:
    """The running turns of this process whose cancellation was requested."""
    return [request_id for (request_id,) in _CANCELLED.rows(connection, {"of": runner})]


_MARK_READ: Final = PreparedStatement(
    update(turns).where(turns.c.request_id == _OF, IS_RUNNING).values(read_at=database_now())
)
_IS_READ: Final = PreparedStatement(
    select(turns.c.request_id).where(turns.c.request_id == _OF, ~_is_before(turns.c.read_at, "within"))
)


def mark_read(connection: Connection, request_id: str) -> None:
    """Write that a client of another process reads this turn now."""
    _MARK_READ.rowcount(connection, {"of": request_id})


def is_read(connection: Connection, request_id: str, within_s: float) -> bool:
    """Whether a client of another process has read this turn within so many seconds."""
    return _IS_READ.first(connection, {"of": request_id, "within": int(within_s * MICROSECONDS)}) is not None
