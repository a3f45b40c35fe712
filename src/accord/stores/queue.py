"""Statements that give turns to workers: claim a waiting one, take over an abandoned one, put one back.

Each of them counts the turn's epoch up, so that the process that had the turn before can no longer write to it. All
times are the database's.
"""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Integer,
    and_,
    bindparam,
    func,
    or_,
    select,
    type_coerce,
    update,
)

from accord.ports import ClaimedRun, QueuedWork, RunProgress, RunStart, WaitingRuns
from accord.stores.liveness import is_silent
from accord.stores.prepared import PreparedStatement, Row, database_now
from accord.stores.rules import check_running
from accord.stores.schema import IS_RUNNING, IS_WAITING, turns, work
from accord.stores.statements import TURN_COLUMNS, begin_turn, session_of, turn_record
from accord.stores.transcripts import conversation_of, last_receipt_hash
from accord.stores.work import add_work, agent_of, count_running, first_place
from accord.wire.session import RunRecord, SessionRecord, StoredState

_OF: Final = bindparam("of", type_=turns.c.request_id.type)
_RUNNER: Final = bindparam("new_runner", type_=turns.c.runner.type)
_WORK: Final = (work.c.agent, work.c.request, work.c.streams, work.c.may_restart, work.c.trace)

# Both rows are locked or skipped together: ending a turn locks its row first and its work after that.
_NEXT: Final = PreparedStatement(
    select(turns.c.request_id)
    .join_from(work, turns, work.c.request_id == turns.c.request_id)
    .where(work.c.agent == bindparam("agent"), IS_WAITING, IS_RUNNING)
    .order_by(work.c.place, work.c.queued_at, work.c.request_id)
    .limit(1)
    .with_for_update(skip_locked=True)
)
_GIVE: Final = PreparedStatement(
    update(turns)
    .where(turns.c.request_id == _OF)
    .values(runner=_RUNNER, epoch=turns.c.epoch + 1, leased_at=database_now())
)
_NOT_WAITING: Final = PreparedStatement(update(work).where(work.c.request_id == _OF).values(place=None))
_MICROSECONDS: Final = 1_000_000


def _age(column: Column[Any] | ColumnElement[Any]) -> ColumnElement[int]:
    """How many microseconds ago this was, by the database's clock."""
    return database_now() - type_coerce(column, BigInteger)


_CLAIMED: Final = PreparedStatement(
    select(*TURN_COLUMNS, turns.c.cancel_requested, _age(work.c.queued_at).label("waited"), *_WORK)
    .join_from(turns, work, turns.c.request_id == work.c.request_id, isouter=True)
    .where(turns.c.request_id == _OF)
)


def queue_turn(  # noqa: PLR0913, PLR0917 - the turn, and what limits it
    connection: Connection,
    session: SessionRecord,
    turn: RunRecord,
    added: QueuedWork,
    quota_bytes: int | None,
    max_running: int | None,
) -> RunStart:
    """Begin a turn that waits for a worker, unless a turn of that request id is known."""
    start = begin_turn(connection, session, turn, (0, 0), quota_bytes)
    if start.existing is None:
        if max_running is not None:
            _lock_owner(connection, turn.owner)
            check_running(count_running(connection, turn.owner) - 1, max_running)
        add_work(connection, turn, added)
    return start


def _lock_owner(connection: Connection, owner: str) -> None:
    """Let the user's other new turns wait until this one is counted; SQLite has one writer at a time anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(func.hashtext(owner))))


def claim(connection: Connection, agents: Sequence[str], runner: str, history: tuple[int, int]) -> ClaimedRun | None:
    """Give the next waiting turn of one of these agents to this process."""
    for agent in agents:
        row = _NEXT.first(connection, {"agent": agent})
        if row is not None:
            _GIVE.rowcount(connection, {"of": row[0], "new_runner": runner})
            _NOT_WAITING.rowcount(connection, {"of": row[0]})
            return _claimed(connection, row[0], history)
    return None


_TAKE_OVER: Final = PreparedStatement(
    update(turns)
    .where(turns.c.request_id == _OF, IS_RUNNING, turns.c.epoch == bindparam("old_epoch"), turns.c.runner != "")
    .where(or_(turns.c.runner == _RUNNER, is_silent("lease")))
    .values(runner=_RUNNER, epoch=turns.c.epoch + 1, leased_at=database_now())
)


def take_over(
    connection: Connection, turn: RunRecord, lease_us: int, runner: str, history: tuple[int, int]
) -> ClaimedRun | None:
    """Give a turn of a process that is silent, or of `runner`, to `runner`."""
    values = {"of": turn.request_id, "new_runner": runner, "old_epoch": turn.epoch, "lease": lease_us}
    if not _TAKE_OVER.rowcount(connection, values):
        return None
    return _claimed(connection, turn.request_id, history)


def _claimed(connection: Connection, request_id: str, history: tuple[int, int]) -> ClaimedRun | None:
    row = _CLAIMED.first(connection, {"of": request_id})
    if row is None:
        return None
    turn, (cancel_requested, waited, *work_row) = turn_record(row[: len(TURN_COLUMNS)]), row[len(TURN_COLUMNS) :]
    session = session_of(connection, turn.session_id)
    if session is None:  # it is being deleted
        return None
    return ClaimedRun(
        turn,
        session,
        _work(work_row),
        conversation_of(connection, turn, *history),
        last_receipt_hash(connection, turn.session_id),
        bool(cancel_requested),
        max(0, waited or 0) / _MICROSECONDS,
    )


def _work(row: Row) -> QueuedWork | None:
    agent, request, streams, may_restart, trace = row
    if request is None:
        return None
    return QueuedWork(agent, request, bool(streams), bool(may_restart), trace)


_PUT_BACK: Final = PreparedStatement(
    update(turns)
    .where(turns.c.request_id == _OF, IS_RUNNING, turns.c.epoch == bindparam("old_epoch", type_=Integer))
    .values(runner="")
)
_WAIT_AGAIN: Final = PreparedStatement(update(work).where(work.c.request_id == _OF).values(place=bindparam("at")))


def queue_again(connection: Connection, turn: RunRecord) -> bool:
    """Put a turn back to the front of the queue; False if it has ended or another process has it."""
    agent = agent_of(connection, turn.request_id)
    if agent is None or not _PUT_BACK.rowcount(connection, {"of": turn.request_id, "old_epoch": turn.epoch}):
        return False
    first = first_place(connection, agent)
    return bool(_WAIT_AGAIN.rowcount(connection, {"of": turn.request_id, "at": 1 if first is None else first - 1}))


_WAITING: Final = PreparedStatement(
    select(func.count(), _age(func.min(work.c.queued_at)).label("oldest"))
    .select_from(work)
    .join(turns, and_(turns.c.request_id == work.c.request_id, IS_RUNNING))
    .where(IS_WAITING)
)


def waiting(connection: Connection) -> WaitingRuns:
    """How many turns wait for a worker, and for how long."""
    row = _WAITING.first(connection, {})
    return WaitingRuns(0, 0.0) if row is None else WaitingRuns(row[0], max(0, row[1] or 0) / _MICROSECONDS)


def turn_states(connection: Connection, request_ids: Sequence[str]) -> dict[str, RunProgress]:
    """How far these turns are."""
    found: Any = connection.execute(
        select(turns.c.request_id, turns.c.state, turns.c.last_seq).where(turns.c.request_id.in_(request_ids))
    )
    return {of: RunProgress(state == StoredState.RUNNING.value, last_seq) for of, state, last_seq in found}
