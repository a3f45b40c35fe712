"""Prepared statements on SQLite give what SQLAlchemy's own execution gives."""

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import asdict
from sqlalchemy import Connection, Executable, bindparam, case, create_engine, delete, func, insert, select, update

from accord.stores.prepared import PreparedStatement, by_engine, overwriting, values_of
from accord.stores.schema import IS_RUNNING, runners, turns, whole_schema
from accord.wire.session import RunRecord
from tests.stores.records import a_turn, at

NEW = insert(turns).values(values_of(turns, *RunRecord.__struct_fields__))
AT = bindparam("at", type_=turns.c.created_at.type)
LATER = case((turns.c.created_at < AT, AT), else_=turns.c.created_at)


@pytest.fixture
def connection() -> Iterator[Connection]:
    engine = create_engine("sqlite+pysqlite://")
    with engine.connect() as connection:
        whole_schema().create_all(connection)
        rows = [asdict(a_turn(f"r{number}", seconds=number)) for number in range(3)]
        connection.execute(insert(turns), [{**row, "state": row["state"].value} for row in rows])
        yield connection
    engine.dispose()


@pytest.mark.parametrize(
    ("statement", "values"),
    [
        (select(turns), {}),
        (select(turns.c.created_at, turns.c.ended_at).order_by(turns.c.created_at.desc()), {}),
        (select(turns.c.request_id).where(turns.c.request_id == bindparam("of")), {"of": "r1"}),
        (select(turns.c.request_id).where(turns.c.request_id == "r2", IS_RUNNING), {}),
        (select(turns.c.request_id).where(turns.c.created_at < AT).limit(bindparam("most")), {"most": 1}),
        (select(func.coalesce(turns.c.ended_at, turns.c.created_at)), {}),
        (select(LATER), {}),
        (select(turns).where(turns.c.request_id == bindparam("of")), {"of": "nobody"}),
        (update(turns).where(turns.c.created_at > AT).values(ended_at=LATER).returning(turns), {}),
    ],
    ids=lambda value: None if isinstance(value, dict) else type(value).__name__,
)
def test_both_paths_find_the_same(connection: Connection, statement: Executable, values: dict[str, Any]):
    values = {"at": at(1), **values}
    short = [tuple(row) for row in PreparedStatement(statement).rows(connection, values)]
    assert short == [tuple(row) for row in connection.execute(statement, values)]


def test_the_first_row_is_given_or_none(connection: Connection):
    statement = PreparedStatement(select(turns.c.created_at).where(turns.c.request_id == bindparam("of")))
    assert statement.first(connection, {"of": "r1"}) == [at(1)]
    assert statement.first(connection, {"of": "r9"}) is None


def test_what_a_statement_met_is_counted(connection: Connection):
    statement = PreparedStatement(delete(turns).where(turns.c.created_at < AT))
    assert statement.rowcount(connection, {"at": at(2)}) == 2
    assert statement.rowcount(connection, {"at": at(2)}) == 0


def test_each_of_many_is_written_and_none_of_none(connection: Connection):
    rows = [{**asdict(a_turn(name)), "state": "done", "ended_at": at(9)} for name in ("x", "y")]
    PreparedStatement(NEW).execute_many(connection, [])
    PreparedStatement(NEW).execute_many(connection, rows)
    found = connection.execute(select(turns.c.request_id, turns.c.ended_at).where(~IS_RUNNING)).all()
    assert [tuple(row) for row in found] == [("x", at(9)), ("y", at(9))]


def test_a_statement_in_an_engines_own_words_is_run_in_sqlites(connection: Connection):
    put = by_engine(lambda new: new(runners).values(runner=bindparam("who"), seen_at=at(1)).on_conflict_do_nothing())
    assert [put.rowcount(connection, {"who": "p1"}) for _ in range(2)] == [1, 0]
    assert connection.execute(select(runners.c.seen_at)).scalar() == at(1)


def test_a_row_of_the_same_key_is_overwritten(connection: Connection):
    for seconds in (1, 2):
        overwriting(runners).rowcount(connection, {"runner": "p1", "seen_at": at(seconds)})
    assert connection.execute(select(runners.c.seen_at)).scalars().all() == [at(2)]


def test_a_value_that_is_missing_is_never_taken_for_null(connection: Connection):
    with pytest.raises(KeyError):
        PreparedStatement(NEW).rowcount(connection, {"request_id": "r9"})
