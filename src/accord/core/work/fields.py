"""Fields of the model APIs: the rows of `field_table.py`, a request in the common form, and what becomes of its fields.

Pure. A request of any of the APIs is translated once (`servers/openai/`, `servers/anthropic/`) into a `ModelRequest`: a
work order, and the names of the rows that it uses. Everything after that is the same for all of them.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from accord.core.work.field_table import CHAT, MESSAGES, RESPONSES
from accord.wire.disposition import Api, BackendApi, Disposition, FieldClass
from accord.wire.work import WorkOrder

ANY_OTHER: Final = "*"
"""The row of every field that is not listed."""

LETTERS: Final[Mapping[str, Disposition]] = MappingProxyType({each.value[0].upper(): each for each in Disposition})


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One row: a field of an API, and its disposition at each kind of backend.

    `only_unchanged` are the kinds that can carry the field only in a request that is passed on as it came.
    """

    api: Api
    name: str
    kind: FieldClass
    cells: Mapping[BackendApi, Disposition]
    only_unchanged: frozenset[BackendApi] = frozenset()
    capability: str | None = None
    neutral: tuple[Any, ...] = ()
    note: str = ""

    def asks(self, value: Any) -> bool:
        """Whether this value asks for anything."""
        # To Python, False is 0 and True is 1; to JSON they are not, while 0.0 is 0.
        is_flag = isinstance(value, bool)
        return value is not None and not any(
            value == each and is_flag is isinstance(each, bool) for each in self.neutral
        )


def read_rows(api: Api, text: str) -> Mapping[str, FieldRow]:
    """The rows of one API's table, by the names of their fields."""
    return MappingProxyType({row.name: row for line in text.strip().splitlines() for row in (_read_row(api, line),)})


def _read_row(api: Api, line: str) -> FieldRow:
    rest, _, note = line.partition("#")
    rest, _, neutral = rest.partition("=")
    name, kind, *letters = rest.split()
    columns = tuple(BackendApi)
    cells = {column: LETTERS[letter.upper()] for column, letter in zip(columns, letters, strict=False)}
    return FieldRow(
        api,
        name,
        FieldClass.TUNING if kind == "t" else FieldClass.CONTRACT,
        MappingProxyType(cells),
        frozenset(column for column, letter in zip(columns, letters, strict=False) if letter.islower()),
        letters[len(columns)] if len(letters) > len(columns) else None,
        tuple(_read_values(neutral.strip())),
        note.strip(),
    )


def _read_values(text: str) -> Iterator[Any]:
    decoder, place = json.JSONDecoder(), 0
    while place < len(text):
        value, place = decoder.raw_decode(text, place)
        yield value
        place += len(text[place:]) - len(text[place:].lstrip())


TABLE: Final[Mapping[Api, Mapping[str, FieldRow]]] = MappingProxyType(
    {
        Api.CHAT: read_rows(Api.CHAT, CHAT),
        Api.RESPONSES: read_rows(Api.RESPONSES, RESPONSES),
        Api.MESSAGES: read_rows(Api.MESSAGES, MESSAGES),
    }
)
"""Every row of every API, in the order of the documentation."""


def row_of(api: Api, name: str) -> FieldRow:
    """The row of a field; fields that are not listed share one."""
    rows = TABLE[api]
    return rows.get(name) or rows[ANY_OTHER]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request of a model API, translated.

    `fields` are the names of the rows that it uses, in the order of the request, a field that is not listed by its own
    name; neutral values use nothing. `body` is what was sent, without Accord's own member. `answers` is how many
    answers are wanted. `accord` is the request's `accord` member.
    """

    api: Api
    model: str
    order: WorkOrder
    fields: tuple[str, ...]
    body: dict[str, Any]
    answers: int = 1
    accord: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType(dict[str, Any]()))
