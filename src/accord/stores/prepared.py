"""Prepared statements, and the clock of the database.

On SQLite a statement is compiled once, to its text and the order of its values, and goes straight to the driver:
SQLAlchemy's own execution costs more than SQLite itself. On PostgreSQL, where a round trip outweighs both, it goes
through SQLAlchemy. This module knows no tables and begins no transactions.
"""

import sqlite3
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from functools import cache, cached_property
from importlib import import_module
from typing import Any, Final, cast

import msgspec
from sqlalchemy import BigInteger, Connection, Executable, LargeBinary, Table, bindparam, insert
from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class database_now(FunctionElement[int]):  # noqa: N801 - used as an SQL function is
    """Microseconds since 1970 by the database's clock, which all processes share; a host's clock may be wrong."""

    type = BigInteger()
    inherit_cache = True


@compiles(database_now, "sqlite")
def _sqlite(*_: Any, **__: Any) -> str:
    # SQLite runs inside the process, and all processes on one host: this is the host's clock.
    return "CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER)"


@compiles(database_now, "postgresql")
def _postgresql(*_: Any, **__: Any) -> str:
    # `now()` would be when the transaction began, which may have waited for a lock since.
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)"


Values = Mapping[str, Any]
Row = Sequence[Any]
Convert = Callable[[Any], Any]

_encode: Final = msgspec.json.Encoder().encode
_DIALECT: Final = sqlite.dialect(paramstyle="qmark")


class PreparedStatement:
    """A statement; its values are given by the names of its `bindparam`s."""

    def __init__(self, statement: Executable | Callable[[str], Executable]) -> None:
        self._statement: Final = statement

    def rows(self, connection: Connection, values: Values) -> Sequence[Row]:
        """Execute and return all rows."""
        if connection.dialect.name != _DIALECT.name:
            return connection.execute(self._for(connection.dialect.name), values).fetchall()
        compiled = self._compiled
        return compiled.out(driver_of(connection).execute(compiled.text, compiled.ordered(values)).fetchall())

    def iterate(self, connection: Connection, values: Values) -> Generator[Row]:
        """Execute and read the rows one by one, only as far as they are asked for."""
        if connection.dialect.name != _DIALECT.name:
            with connection.execute(self._for(connection.dialect.name), values) as found:
                yield from found
            return
        compiled = self._compiled
        with closing(driver_of(connection).execute(compiled.text, compiled.ordered(values))) as cursor:
            for row in cursor:
                yield from compiled.out([row])

    def first(self, connection: Connection, values: Values) -> Row | None:
        """Execute and return the first row, or None."""
        return next(iter(self.rows(connection, values)), None)

    def rowcount(self, connection: Connection, values: Values) -> int:
        """Execute and return the number of affected rows."""
        if connection.dialect.name != _DIALECT.name:
            return connection.execute(self._for(connection.dialect.name), values).rowcount
        return driver_of(connection).execute(self._compiled.text, self._compiled.ordered(values)).rowcount

    def execute_many(self, connection: Connection, many: Sequence[Values]) -> None:
        """Execute once for each of these values."""
        if not many:
            return
        if connection.dialect.name != _DIALECT.name:
            connection.execute(self._for(connection.dialect.name), many)
        else:
            driver_of(connection).executemany(self._compiled.text, map(self._compiled.ordered, many))

    def _for(self, dialect: str) -> Executable:
        return self._statement if isinstance(self._statement, Executable) else self._statement(dialect)

    @cached_property
    def _compiled(self) -> "_Compiled":
        return _Compiled(self._for("sqlite"))


class BulkInsert:
    """Inserts many rows. On SQLite they are one statement, whose rows are passed as one JSON text.

    JSON has no bytes: those of all rows are passed as one value, and a row has the place and the size of its own.

    The driver takes the interpreter's lock again after every row of `executemany`. While the event loop is busy, each
    time costs the writing thread up to 5 ms: a service under load would store fewer rows than it makes.
    """

    def __init__(self, table: Table, *names: str) -> None:
        values = values_of(table, *names)
        self._insert: Final = PreparedStatement(insert(table).values(values))
        self._names: Final = list(values)
        types = [table.c[name].type for name in self._names]
        self._binary: Final = [place for place, each in enumerate(types) if isinstance(each, LargeBinary)]
        picked = [
            f"substr(:joined, json_extract(value, '$[{place}][0]'), json_extract(value, '$[{place}][1]'))"
            if place in self._binary
            else f"json_extract(value, '$[{place}]')"
            for place in range(len(types))
        ]
        columns = ", ".join(f'"{name}"' for name in self._names)
        self._text: Final = f'INSERT INTO "{table.name}" ({columns}) SELECT {", ".join(picked)} FROM json_each(:rows)'  # noqa: S608 - names of our own
        self._convert: Final = _conversions(each.dialect_impl(_DIALECT).bind_processor(_DIALECT) for each in types)

    def execute(self, connection: Connection, rows: Sequence[Values]) -> None:
        """Insert these rows."""
        if not rows:
            return
        if connection.dialect.name != _DIALECT.name:
            self._insert.execute_many(connection, rows)
            return
        joined = bytearray()

        def join(value: bytes) -> tuple[int, int]:
            joined.extend(value)
            return len(joined) - len(value) + 1, len(value)  # SQLite counts from 1

        conversions = [*self._convert, *((place, join) for place in self._binary)]
        lists = [_convert([row[name] for name in self._names], conversions) for row in rows]
        encoded = _encode(lists).decode()
        driver_of(connection).execute(self._text, {"rows": encoded, "joined": joined})


def by_engine(build: Callable[[Callable[[Any], Any]], Any]) -> PreparedStatement:
    """A statement that is built with the `insert` of the engine: SQLAlchemy has no common "insert ... on conflict".

    It is built at its first use, so that a store on SQLite does not load PostgreSQL's dialect: 2 MB of memory.
    """

    @cache
    def build_for(dialect: str) -> Executable:
        return build(import_module(f"sqlalchemy.dialects.{dialect}").insert)

    return PreparedStatement(build_for)


def overwriting(table: Table) -> PreparedStatement:
    """Insert a row, or overwrite the row with the same key."""

    def build(new: Callable[[Any], Any]) -> Any:
        row = new(table).values(values_of(table))
        other = {column.name: row.excluded[column.name] for column in table.c if not column.primary_key}
        return row.on_conflict_do_update(index_elements=[*table.primary_key], set_=other)

    return by_engine(build)


def values_of(table: Table, *names: str) -> dict[str, Any]:
    """A parameter for each of these columns, or for all columns."""
    return {name: bindparam(name, type_=table.c[name].type) for name in names or table.c.keys()}


def driver_of(connection: Connection) -> sqlite3.Connection:
    """The connection of the SQLite driver."""
    return cast("sqlite3.Connection", connection.connection.dbapi_connection)


class _Compiled:
    """A statement compiled for SQLite: its text, and the conversions of its values and rows."""

    def __init__(self, statement: Any) -> None:
        compiled: SQLCompiler = statement.compile(dialect=_DIALECT)
        self.text: Final = str(compiled)
        self._names: Final = list(compiled.positiontup or ())
        named = [(name, compiled.binds[name]) for name in self._names]
        self._fixed: Final = {name: bind.effective_value for name, bind in named if not bind.required}
        self._ins: Final = _conversions(bind.type.dialect_impl(_DIALECT).bind_processor(_DIALECT) for _, bind in named)
        self._outs: Final = _conversions(
            column.type.dialect_impl(_DIALECT).result_processor(_DIALECT, None) for column in statement.exported_columns
        )

    def ordered(self, values: Values) -> list[Any]:
        """The values in the order of the text."""
        known = {**self._fixed, **values} if self._fixed else values
        return _convert([known[name] for name in self._names], self._ins)

    def out(self, rows: list[Row]) -> Sequence[Row]:
        """The rows with their values converted back."""
        return [_convert([*row], self._outs) for row in rows] if self._outs else rows


def _conversions(by_position: Iterable[Convert | None]) -> list[tuple[int, Convert]]:
    """The positions that need a conversion; most values do not."""
    return [(place, convert) for place, convert in enumerate(by_position) if convert is not None]


def _convert(values: list[Any], conversions: list[tuple[int, Convert]]) -> list[Any]:
    for place, convert in conversions:
        values[place] = convert(values[place])
    return values
