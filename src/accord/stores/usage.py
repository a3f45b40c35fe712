"""Statements on usage and on what is reserved of budgets: plain functions over a connection, the same on every engine.

As in `statements.py`, none of them begins or ends a transaction.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from itertools import compress
from typing import Any, Final

from msgspec.structs import asdict
from sqlalchemy import BigInteger, Column, Connection, bindparam, cast, delete, exists, func, literal, or_, select

from accord.ports import BudgetClaim, BudgetState
from accord.stores.liveness import MICROSECONDS, is_silent, lock_name
from accord.stores.prepared import PreparedStatement, by_engine, database_now, values_of
from accord.stores.rules import granted_amounts
from accord.stores.schema import model_usage, reservations, work
from accord.wire.keys import USAGE_COUNTS, UsageGroup, UsageRecord, UsageTotal, usage_total

_LOCK: Final = 0x42_44_47_54  # "BDGT" in ASCII: with the hash of a key's id, an advisory lock of PostgreSQL
_KEY: Final = [column.name for column in model_usage.primary_key]
GROUPS: Final[Mapping[UsageGroup, Column[Any]]] = {
    UsageGroup.KEY: model_usage.c.key_id,
    UsageGroup.USER: model_usage.c.user,
    UsageGroup.MODEL: model_usage.c.model,
    UsageGroup.BACKEND: model_usage.c.backend,
    UsageGroup.DAY: model_usage.c.day,
}


def _adding(row: Any) -> Any:
    """Add the counts of this row to those of the stored row with the same key."""
    sums = {name: model_usage.c[name] + row.excluded[name] for name in USAGE_COUNTS}
    return row.on_conflict_do_update(index_elements=_KEY, set_=sums)


_ADD: Final = by_engine(lambda new: _adding(new(model_usage).values(values_of(model_usage))))


def _sum(column: Column[Any]) -> Any:
    # PostgreSQL's sum of large integers is a decimal number; ours fit.
    return cast(func.sum(column), BigInteger)


_KEY_ID: Final = bindparam("of", type_=model_usage.c.key_id.type)
_SPENT_SINCE: Final = (
    select(func.coalesce(_sum(model_usage.c.cost_micro), 0))
    .where(model_usage.c.key_id == _KEY_ID, model_usage.c.day >= bindparam("since", type_=model_usage.c.day.type))
    .scalar_subquery()
)
_SPENT: Final = PreparedStatement(select(_SPENT_SINCE))
_OTHERS_RESERVED: Final = (
    select(func.coalesce(_sum(reservations.c.reserved_micro), 0))
    .where(
        reservations.c.key_id == _KEY_ID,
        reservations.c.holder != bindparam("holder", type_=reservations.c.holder.type),
        or_(
            ~is_silent("lease", reservations.c.holder, reservations.c.renewed_at),
            exists().where(work.c.request_id == reservations.c.holder),
        ),
    )
    .scalar_subquery()
)
# In one statement: usage that another process counts at this moment is either spent or still reserved.
_USED: Final = PreparedStatement(select(_SPENT_SINCE, _OTHERS_RESERVED))


def _renewing(new: Any) -> Any:
    row = new(reservations).values({**values_of(reservations), "renewed_at": database_now()})
    other = {name: row.excluded[name] for name in ("reserved_micro", "renewed_at")}
    return row.on_conflict_do_update(index_elements=["key_id", "holder"], set_=other)


_RESERVE: Final = by_engine(_renewing)


def add_usage(
    connection: Connection, rows: Sequence[UsageRecord], claims: Sequence[BudgetClaim], holder: str, lease_s: float
) -> list[BudgetState]:
    """Add these counts to those stored, then reserve what fits into the budgets."""
    # Always in one order: on PostgreSQL, two processes that add to the same rows would otherwise wait for each other.
    ordered = sorted(rows, key=lambda row: (row.key_id, row.user, row.backend, row.model, row.day))
    _ADD.execute_many(connection, [asdict(row) for row in ordered])
    for key_id in sorted(claim.key_id for claim in claims):
        lock_name(connection, _LOCK, key_id)
    return [_reserve(connection, claim, holder, int(lease_s * MICROSECONDS)) for claim in claims]


def _reserve(connection: Connection, claim: BudgetClaim, holder: str, lease: int) -> BudgetState:
    values = {"of": claim.key_id, "since": claim.since or date.min, "holder": holder, "lease": lease}
    spent, others = next(iter(_USED.rows(connection, values)))
    granted = granted_amounts(claim, spent + others + claim.reserved)
    reserved = claim.reserved + sum(compress(claim.wanted, granted))
    _RESERVE.rowcount(connection, {"key_id": claim.key_id, "holder": holder, "reserved_micro": reserved})
    return BudgetState(granted, spent, others + reserved)


def usage_by(
    connection: Connection, by: UsageGroup, key: str | None, since: date | None, until: date | None
) -> list[UsageTotal]:
    """Usage added up by this group, sorted by name."""
    group = GROUPS[by]
    query = select(group, *(_sum(model_usage.c[name]) for name in USAGE_COUNTS)).group_by(group).order_by(group)
    if key is not None:
        query = query.where(model_usage.c.key_id == key)
    if since is not None:
        query = query.where(model_usage.c.day >= since)
    if until is not None:
        query = query.where(model_usage.c.day <= until)
    return [usage_total(str(name), sums) for name, *sums in connection.execute(query)]


def spent_of(connection: Connection, key: str, since: date | None) -> int:
    """What this key has cost from this day on, in micro-dollars."""
    row = _SPENT.first(connection, {"of": key, "since": since or date.min})
    return 0 if row is None else int(row[0])


def _anonymous(new: Any) -> Any:
    grouped = (model_usage.c.backend, model_usage.c.model, model_usage.c.day)
    sums = [_sum(model_usage.c[name]).label(name) for name in USAGE_COUNTS]
    query = select(literal("").label("key_id"), literal("").label("user"), *grouped, *sums)
    query = query.where(model_usage.c.user == bindparam("of")).group_by(*grouped)
    return _adding(new(model_usage).from_select([*_KEY, *USAGE_COUNTS], query))


_MAKE_ANONYMOUS: Final = by_engine(_anonymous)
_REMOVE: Final = PreparedStatement(delete(model_usage).where(model_usage.c.user == bindparam("of")))


def make_usage_anonymous(connection: Connection, user: str) -> None:
    """Move the counts of a user to the rows without key and user."""
    if user:
        _MAKE_ANONYMOUS.rowcount(connection, {"of": user})
        _REMOVE.rowcount(connection, {"of": user})
