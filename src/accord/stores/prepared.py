"""Statements that run for every turn, compiled once; and the clock of the database."""

import sqlite3
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from typing import Any, Final, cast

from sqlalchemy import BigInteger, Connection, Executable, Table, bindparam
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

# The database's own clock, for what processes on several hosts have to agree on: a host's clock may be wrong.


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


# Statements that every turn asks, worded once and run by the shortest way that each engine has.
#
# On SQLite a statement is compiled a single time, to its text and the order of its values, and goes straight to the
# driver: SQLAlchemy's own way costs more than SQLite's answer. On PostgreSQL, where a round trip outweighs both, it
# goes through SQLAlchemy. Knows none of the tables and begins no transaction.

Values = Mapping[str, Any]
Row = Sequence[Any]
Convert = Callable[[Any], Any]

_DIALECT: Final = sqlite.dialect(paramstyle="qmark")
# One word apart, and SQLAlchemy has no common one: "insert, unless it is there".
_INSERT: Final[Mapping[str, Callable[[Any], Any]]] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


class Prepared:
    """A statement without values. What it takes by name are its `bindparam`s."""

    def __init__(self, said: Executable | Mapping[str, Executable]) -> None:
        self._said: Final = said

    def rows(self, connection: Connection, values: Values) -> Sequence[Row]:
        """All that it finds."""
        if connection.dialect.name != _DIALECT.name:
            return connection.execute(self._for(connection.dialect.name), values).fetchall()
        compiled = self._compiled
        return compiled.out(driver_of(connection).execute(compiled.text, compiled.ordered(values)).fetchall())

    def iterate(self, connection: Connection, values: Values) -> Generator[Row]:
        """The same, one row after the other: those that nobody asks for are not read."""
        if connection.dialect.name != _DIALECT.name:
            with connection.execute(self._for(connection.dialect.name), values) as found:
                yield from found
            return
        compiled = self._compiled
        with closing(driver_of(connection).execute(compiled.text, compiled.ordered(values))) as cursor:
            for row in cursor:
                yield from compiled.out([row])

    def row(self, connection: Connection, values: Values) -> Row | None:
        """The first thing that it finds, or nothing."""
        return next(iter(self.rows(connection, values)), None)

    def met(self, connection: Connection, values: Values) -> int:
        """Of how many rows it was true."""
        if connection.dialect.name != _DIALECT.name:
            return connection.execute(self._for(connection.dialect.name), values).rowcount
        return driver_of(connection).execute(self._compiled.text, self._compiled.ordered(values)).rowcount

    def each(self, connection: Connection, many: Sequence[Values]) -> None:
        """Run it for each of these, if there are any."""
        if not many:
            return
        if connection.dialect.name != _DIALECT.name:
            connection.execute(self._for(connection.dialect.name), many)
        else:
            driver_of(connection).executemany(self._compiled.text, map(self._compiled.ordered, many))

    def _for(self, dialect: str) -> Executable:
        return self._said[dialect] if isinstance(self._said, Mapping) else self._said

    @cached_property
    def _compiled(self) -> "_Compiled":
        return _Compiled(self._for("sqlite"))


def by_engine(build: Callable[[Callable[[Any], Any]], Any]) -> Prepared:
    """A statement built with an engine's own `insert`."""
    return Prepared({name: build(insert) for name, insert in _INSERT.items()})


def overwriting(table: Table) -> Prepared:
    """Insert a row, or overwrite the one that has its key."""

    def build(new: Callable[[Any], Any]) -> Any:
        row = new(table).values(values_of(table))
        other = {column.name: row.excluded[column.name] for column in table.c if not column.primary_key}
        return row.on_conflict_do_update(index_elements=[*table.primary_key], set_=other)

    return by_engine(build)


def values_of(table: Table, *names: str) -> dict[str, Any]:
    """A value to be handed over for each of these columns, or for all."""
    return {name: bindparam(name, type_=table.c[name].type) for name in names or table.c.keys()}


def driver_of(connection: Connection) -> sqlite3.Connection:
    """SQLite's own connection underneath."""
    return cast("sqlite3.Connection", connection.connection.dbapi_connection)


class _Compiled:
    """SQLite's text of a statement, and how values go in and come out."""

    def __init__(self, said: Any) -> None:
        compiled: SQLCompiler = said.compile(dialect=_DIALECT)
        self.text: Final = str(compiled)
        self._names: Final = list(compiled.positiontup or ())
        named = [(name, compiled.binds[name]) for name in self._names]
        self._fixed: Final = {name: bind.effective_value for name, bind in named if not bind.required}
        self._ins: Final = _conversions(bind.type.dialect_impl(_DIALECT).bind_processor(_DIALECT) for _, bind in named)
        self._outs: Final = _conversions(
            column.type.dialect_impl(_DIALECT).result_processor(_DIALECT, None) for column in said.exported_columns
        )

    def ordered(self, values: Values) -> list[Any]:
        """The values where the text wants them."""
        known = {**self._fixed, **values} if self._fixed else values
        return _each_converted([known[name] for name in self._names], self._ins)

    def out(self, rows: list[Row]) -> Sequence[Row]:
        """The rows as they were put in."""
        return [_each_converted([*row], self._outs) for row in rows] if self._outs else rows


def _conversions(by_place: Iterable[Convert | None]) -> list[tuple[int, Convert]]:
    """Those of the places that need one; most values are kept as they are."""
    return [(place, convert) for place, convert in enumerate(by_place) if convert is not None]


def _each_converted(values: list[Any], conversions: list[tuple[int, Convert]]) -> list[Any]:
    for place, convert in conversions:
        values[place] = convert(values[place])
    return values
