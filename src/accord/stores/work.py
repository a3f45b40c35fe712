"""Rows of the queue: what a worker needs to run a turn, and the order in which waiting turns are given out.

Users take turns. Each waiting turn has a place: one more than the last place of its user, but not before the first
place that is waiting. A user's thousand turns have a thousand places; the first turn of another user gets the place of
the first of these, and so is next.
"""

from typing import Final

from sqlalchemy import BigInteger, Connection, bindparam, delete, func, insert, select, update

from accord.ports import QueuedWork
from accord.stores.prepared import PreparedStatement, database_now, values_of
from accord.stores.schema import IS_RUNNING, IS_WAITING, reservations, turns, work
from accord.wire.session import RunRecord

_AGENT: Final = work.c.agent == bindparam("agent")
_LAST_PLACE: Final = PreparedStatement(
    select(func.max(work.c.place)).where(_AGENT, work.c.owner == bindparam("owner"), IS_WAITING)
)
_FIRST_PLACE: Final = PreparedStatement(select(func.min(work.c.place)).where(_AGENT, IS_WAITING))
_ADD: Final = PreparedStatement(
    insert(work).values(
        {
            **values_of(work, "request_id", "owner", "agent", "request", "streams", "may_restart", "trace", "place"),
            "queued_at": database_now(),
        }
    )
)
_AGENT_OF: Final = PreparedStatement(select(work.c.agent).where(work.c.request_id == bindparam("of")))
_REMOVE: Final = PreparedStatement(delete(work).where(work.c.request_id == bindparam("of")))
_RESERVE: Final = PreparedStatement(
    insert(reservations).values(
        {**values_of(reservations, "key_id", "holder", "reserved_micro"), "renewed_at": database_now()}
    )
)
_TAKE: Final = PreparedStatement(
    update(reservations)
    .where(reservations.c.key_id == bindparam("of_key"), reservations.c.holder == bindparam("of"))
    .values(reserved_micro=reservations.c.reserved_micro - bindparam("amount", type_=BigInteger))
)
_FREE: Final = PreparedStatement(delete(reservations).where(reservations.c.holder == bindparam("of")))
_COUNT_RUNNING: Final = PreparedStatement(
    select(func.count()).select_from(turns).where(turns.c.owner == bindparam("of"), IS_RUNNING)
)


def add_work(connection: Connection, turn: RunRecord, added: QueuedWork) -> None:
    """Put a turn that was just inserted into the queue; what its process has reserved is the turn's from now on."""
    last = _LAST_PLACE.first(connection, {"agent": added.agent, "owner": turn.owner})
    first = first_place(connection, added.agent)
    own = last[0] + 1 if last is not None and last[0] is not None else 1
    _ADD.rowcount(
        connection,
        {
            "request_id": turn.request_id,
            "owner": turn.owner,
            "agent": added.agent,
            "request": added.request,
            "streams": int(added.streams),
            "may_restart": int(added.may_restart),
            "trace": added.trace,
            "place": own if first is None else max(own, first),
        },
    )
    if added.reserved_micro:
        reserved = {"key_id": added.key_id, "holder": turn.request_id, "reserved_micro": added.reserved_micro}
        _RESERVE.rowcount(connection, reserved)
        taken = {"of_key": added.key_id, "of": added.holder, "amount": added.reserved_micro}
        _TAKE.rowcount(connection, taken)


def first_place(connection: Connection, agent: str) -> int | None:
    """The first place that is waiting; None if nothing is."""
    row = _FIRST_PLACE.first(connection, {"agent": agent})
    return None if row is None else row[0]


def agent_of(connection: Connection, request_id: str) -> str | None:
    """The agent of a queued turn; None if the turn never was in the queue."""
    row = _AGENT_OF.first(connection, {"of": request_id})
    return None if row is None else row[0]


def remove_work(connection: Connection, request_id: str) -> None:
    """Delete the work of a turn that has ended, and free what was reserved for it."""
    if _REMOVE.rowcount(connection, {"of": request_id}):
        _FREE.rowcount(connection, {"of": request_id})


def count_running(connection: Connection, owner: str) -> int:
    """How many turns of this user run or wait."""
    row = _COUNT_RUNNING.first(connection, {"of": owner})
    return 0 if row is None else row[0]
