"""Fields of the model APIs: the rows of `field_table.py`, a request in the common form, and what becomes of its fields.

Pure. A request of any of the APIs is read once, by its codec (`apis/`), into a `ModelRequest`: a work order, and the
names of the rows that it uses. Everything after that is the same for all of them.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, cast

from accord.core.work.field_table import CHAT, MESSAGES, RESPONSES, TRANSLATED
from accord.wire.disposition import Api, Disposition, FieldClass
from accord.wire.work import WorkOrder

NO_EXTENSION: Final[Mapping[str, Any]] = MappingProxyType({})
ANY_OTHER: Final = "*"
"""The row of every field that is not listed."""
CONVERSATION: Final = "conversation"
"""What a choice is about that is about no capability: the conversation of a work order."""
CONVERSATIONS: Final = frozenset({"messages", "input"})
"""The fields of requests that have the conversation."""

LETTERS: Final[Mapping[str, Disposition]] = MappingProxyType(
    {each.value[0].upper(): each for each in Disposition if each is not Disposition.ASSUMED}
)
REASON_BELOW: Final = "\n    !"
_DECODER: Final = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One row: a field of an API, and its disposition at each kind of backend.

    `only_unchanged` are the kinds for which no work order has the field: see `place_of`.
    """

    api: Api
    name: str
    kind: FieldClass
    cells: Mapping[Api, Disposition]
    only_unchanged: frozenset[Api] = frozenset()
    capability: str | None = None
    neutral: tuple[Any, ...] = ()
    note: str = ""
    reason: str = ""
    """Why it is dropped or refused, where it is not that the API has no field for it."""

    @property
    def is_read(self) -> bool:
        """Whether work orders hold the field, so that requests of other APIs can carry it."""
        others = (cell for api, cell in self.cells.items() if api is not self.api)
        return self.api not in self.only_unchanged or any(cell is not Disposition.DROPPED for cell in others)

    def asks(self, value: Any) -> bool:
        """Whether this value asks for anything."""
        # To Python, False is 0 and True is 1; to JSON they are not, while 0.0 is 0.
        is_flag = isinstance(value, bool)
        return value is not None and not any(
            value == each and is_flag is isinstance(each, bool) for each in self.neutral
        )


NEUTRAL_MEMBERS: Final[tuple[Any, ...]] = (None, False, [], {}, {"type": "direct"}, ["direct"])
"""Values that ask for nothing; SDKs send them when they repeat an answer. Most calls come directly from the model."""


def asks_for_more(members: Mapping[str, Any], listed: frozenset[str]) -> bool:
    """Whether an object of a request has members that are not listed and ask for something."""
    if listed.issuperset(members):
        return False
    return any(members[name] not in NEUTRAL_MEMBERS for name in members.keys() - listed)


def read_rows(api: Api, text: str) -> Mapping[str, FieldRow]:
    """The rows of one API's table, by the names of their fields."""
    return MappingProxyType(
        {
            row.name: row
            for line in text.strip().replace(REASON_BELOW, "!").splitlines()
            for row in (_read_row(api, line),)
        }
    )


def _read_row(api: Api, line: str) -> FieldRow:
    line, _, reason = line.partition("!")
    rest, _, note = line.partition("#")
    rest, _, neutral = rest.partition("=")
    name, kind, *letters = rest.split()
    columns = tuple(Api)
    cells = {column: LETTERS[letter.upper()] for column, letter in zip(columns, letters, strict=False)}
    return FieldRow(
        api,
        name,
        FieldClass.TUNING if kind == "t" else FieldClass.CONTRACT,
        MappingProxyType(cells),
        frozenset(column for column, letter in zip(columns, letters, strict=False) if letter.islower()),
        letters[len(columns)] if len(letters) > len(columns) else None,
        tuple(read_values(neutral)),
        note.strip(),
        reason.strip(),
    )


def read_values(text: str) -> Iterator[Any]:
    """The JSON values in the cell of a table, with spaces between them."""
    while text := text.strip():
        value, length = _DECODER.raw_decode(text)
        yield value
        text = text[length:]


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


def row_name(api: Api, name: str, value: Any) -> str:
    """The name of the row for a member with this value: some values have a row of their own."""
    own = f"{name}.{value}"
    return own if isinstance(value, str) and own in TABLE[api] else name


def _read_places(text: str) -> Mapping[tuple[Api, str, Api], str]:
    lines = (line.split() for line in text.strip().splitlines())
    return MappingProxyType(
        {
            (Api(api), name, target): place
            for api, name, *places in lines
            for target, place in zip((Api.CHAT, Api.RESPONSES, Api.MESSAGES), places, strict=True)
            if place != "-"
        }
    )


PLACES: Final = _read_places(TRANSLATED)
OPENAI: Final = frozenset({Api.CHAT, Api.RESPONSES})
"""The APIs in which what has one name has one meaning."""


def place_of(api: Api, name: str, kind: Api) -> str | None:
    """Where a request to this kind of backend has a field that no work order has; None if it has no place for it."""
    row = row_of(api, name)
    if api not in row.only_unchanged or row.cells[kind] not in (Disposition.NATIVE, Disposition.EMULATED):
        return None
    if place := PLACES.get((api, name, kind)):
        return place
    is_same = kind is api or OPENAI.issuperset((kind, api))
    return name if is_same and "." not in name and "[" not in name else None


@dataclass(frozen=True, slots=True, eq=False)  # a key of caches in every request: an identity is hashed in no time
class FieldColumn:
    """A column of the table: what a kind of backend makes of each field.

    A dialect of an API has no fields of its own, but `lacks` some of the API's: their names in its own table. `title`
    is its name in reasons.
    """

    api: Api
    title: str = ""
    lacks: frozenset[str] = frozenset()

    def cell(self, row: FieldRow) -> Disposition:
        """What becomes of this field."""
        cell = row.cells[self.api]
        if not self.lacks_row(row) or cell in (Disposition.DROPPED, Disposition.REFUSED):
            return cell
        if {each for api, each in row.cells.items() if api is not self.api} == {Disposition.EMULATED}:
            return Disposition.EMULATED  # as for every other API
        return Disposition.DROPPED if row.kind is FieldClass.TUNING else Disposition.REFUSED

    def lacks_row(self, row: FieldRow) -> bool:
        """Whether this is a field, or becomes one, that the dialect lacks."""
        if not self.lacks:
            return False
        place = row.name if row.api is self.api else place_of(row.api, row.name, self.api)
        return place in self.lacks


COLUMNS: Final[Mapping[Api, FieldColumn]] = {api: FieldColumn(api) for api in Api}
"""The columns without dialects."""

LIMITS: Final = frozenset(
    {"content_filter", "guardrails", "max_tool_calls", "moderation", "safety_settings", "stop", "stop_sequences"}
)
"""Fields that limit what a caller gets or pays, by their first member, besides those of the capability `max_tokens`."""


def protects_caller(api: Api, name: str) -> bool:
    """Whether this field is never left out because an endpoint refuses it."""
    return row_of(api, name).capability == "max_tokens" or name.partition(".")[0] in LIMITS


MARKED: Final = ("system[]", "tools[]", "messages[].content[]", "messages[].content[].content[]")
"""Where `*` may be in a request of the Messages API."""


def values_at(body: Mapping[str, Any], name: str) -> list[Any]:
    """The values of a field of a request; `[]` in its name may make several, of one role with `[assistant]`."""
    if name.startswith("*."):
        return [value for place in MARKED for value in values_at(body, f"{place}{name[1:]}")]
    values: list[Any] = [body]
    for part in name.split("."):
        key, _, role = part.removesuffix("]").partition("[")
        values = [cast("Mapping[str, Any]", value)[key] for value in values if isinstance(value, dict) and key in value]
        if key != part:
            values = [item for value in values if isinstance(value, list) for item in cast("list[Any]", value)]
        if role:
            values = [value for value in values if isinstance(value, dict) and cast("Any", value).get("role") == role]
    return values


class ModelRequest:
    """A request of a model API, translated.

    `fields` are the names of the rows that it uses, in the order of the request, a field that is not listed by its own
    name; neutral values use nothing. `body` is what was sent, without Accord's own member. `answers` is how many
    answers are wanted. `accord` is the request's `accord` member.
    """

    __slots__ = ("_body", "_order", "_read", "accord", "answers", "api", "fields", "is_streamed", "model")

    def __init__(  # noqa: PLR0913, PLR0917 - what a codec has read
        self,
        api: Api,
        model: str,
        order: WorkOrder,
        fields: tuple[str, ...],
        body: dict[str, Any],
        answers: int = 1,
        accord: Mapping[str, Any] = NO_EXTENSION,
    ) -> None:
        self.api = api
        self.model = model
        self.fields = fields
        self.answers = answers
        self.accord = accord
        self.is_streamed = order.stream
        self._order: WorkOrder | None = order
        self._body: dict[str, Any] | None = body
        self._read: Callable[[], ModelRequest] | None = None

    @property
    def order(self) -> WorkOrder:
        """The work order."""
        return self._order or self._load()[0]

    @property
    def body(self) -> dict[str, Any]:
        """What was sent."""
        return self._load()[1] if self._body is None else self._body

    def with_words(self, read: "Callable[[], ModelRequest] | None") -> "ModelRequest":
        """Another request of this shape, which `read` reads if its order or its body is needed."""
        other = ModelRequest.__new__(ModelRequest)
        other.api, other.model, other.fields, other.answers = self.api, self.model, self.fields, self.answers
        other.accord, other.is_streamed = self.accord, self.is_streamed
        other._order, other._body, other._read = None, None, read  # noqa: SLF001 - of its own class
        return other

    def _load(self) -> tuple[WorkOrder, dict[str, Any]]:
        assert self._read is not None  # noqa: S101 - only a request without words has nothing to read
        request = self._read()
        self._order, self._body = request.order, request.body
        return self._order, self._body


def order_of(work: WorkOrder | ModelRequest) -> WorkOrder:
    """The work order, read now if it was not yet."""
    return work.order if isinstance(work, ModelRequest) else work
