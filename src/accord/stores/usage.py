"""Statements on usage: plain functions over a connection, the same on every engine.

As in `statements.py`, none of them begins or ends a transaction.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final

from msgspec.structs import asdict
from sqlalchemy import BigInteger, Column, Connection, bindparam, cast, delete, func, literal, select

from accord.stores.prepared import PreparedStatement, by_engine, values_of
from accord.stores.schema import model_usage
from accord.wire.keys import USAGE_COUNTS, UsageGroup, UsageRecord, UsageTotal, usage_total

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


def add_usage(connection: Connection, rows: Sequence[UsageRecord]) -> None:
    """Add these counts to those stored."""
    # Always in one order: on PostgreSQL, two processes that add to the same rows would otherwise wait for each other.
    ordered = sorted(rows, key=lambda row: (row.key_id, row.user, row.backend, row.model, row.day))
    _ADD.execute_many(connection, [asdict(row) for row in ordered])


def _sum(column: Column[Any]) -> Any:
    # PostgreSQL's sum of large integers is a decimal number; ours fit.
    return cast(func.sum(column), BigInteger)


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


_SPENT: Final = PreparedStatement(
    select(func.coalesce(_sum(model_usage.c.cost_micro), 0)).where(
        model_usage.c.key_id == bindparam("of"),
        model_usage.c.day >= bindparam("since", type_=model_usage.c.day.type),
    )
)


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
