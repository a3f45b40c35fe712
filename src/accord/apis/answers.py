"""What becomes of the parts of an answer in another API: the rows of the codecs, and what an answer used of them. Pure.

Each codec has its rows as text, in `answer_rows.py`: a part of its answers, and a letter for each API that is served:

    output[].message.content[].output_text.annotations   C N C  # ...

| letter | meaning |
|---|---|
| `N` | native: the client gets it as its API has it, if only as Accord's own, such as the id |
| `C` | carried in another form, which the note says |
| `L` | lost, and labelled |

The column of the API itself is about answers that were taken apart, for an emulation for example; an answer that is
passed on keeps everything. `=` and JSON values after the letters are values that say nothing. Names are paths: `[]` is
each item of a list, and where items have a `type` that is a part of the path, the codec says so. A value can be a part,
too: `choices[].finish_reason=abort`. What no row knows is lost and labelled; an end that no row knows, of a place that
has a row, counts as cut off.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from accord.core.work.fields import read_values
from accord.wire.disposition import SERVED, AnswerDisposition, Api

LETTERS: Final[Mapping[str, AnswerDisposition]] = {each.value[0].upper(): each for each in AnswerDisposition}
MAX_PARTS: Final = 64
"""How many parts of one answer are named; an endpoint may invent any number."""
MAX_NAME_CHARS: Final = 120
TOO_MANY: Final = "and others"
ITEM: Final = "[]"


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """One row: a part of an API's answers, and what becomes of it in each API that is served."""

    name: str
    cells: Mapping[Api, AnswerDisposition]
    is_native: bool
    """Whether every API has it."""
    neutral: tuple[Any, ...] = ()
    note: str = ""

    def reason(self, target: Api) -> str:
        """The note, unless it says how others carry what this API loses."""
        is_carried = AnswerDisposition.CARRIED in self.cells.values()
        return "" if is_carried and self.cells[target] is AnswerDisposition.LOST else self.note


def read_rows(text: str) -> Mapping[str, AnswerRow]:
    """The rows of one API, by name, in their order."""
    rows: dict[str, AnswerRow] = {}
    for row in map(_read_row, filter(str.strip, text.splitlines())):
        if row.name in rows:
            raise ValueError(f"{row.name} has two rows")
        rows[row.name] = row
    return rows


def _read_row(line: str) -> AnswerRow:
    rest, _, note = line.partition("#")
    rest, _, neutral = rest.partition(" = ")
    name, *letters = rest.split()
    cells = {api: LETTERS[letter] for api, letter in zip(SERVED, letters, strict=True)}
    return AnswerRow(name, cells, set(letters) == {"N"}, tuple(read_values(neutral)), note.strip())


@dataclass(slots=True)
class _Place:
    """A place in the answers of an API: its row, if it has one, and the places below it; `[]` is each item."""

    path: str
    row: AnswerRow | None = None
    below: "dict[str, _Place]" = field(default_factory=dict[str, "_Place"])
    is_typed: bool = False
    """Whether the places below are items by their `type`."""


class PartFinder:
    """Finds the parts of answers of one API. `typed` are the paths of lists whose items' `type` is part of the path."""

    def __init__(self, rows: Mapping[str, AnswerRow], typed: Iterable[str] = ()) -> None:
        self._places: Final = {"": _Place("")}
        for name, row in rows.items():
            if "=" not in name:  # a value is no place
                self._make(name).row = row
        for path in typed:
            self._make(path).is_typed = True

    def _make(self, path: str) -> _Place:
        """The place with this path, and those that lead to it."""
        if path not in self._places:
            parent, name = (path[:-2], ITEM) if path.endswith(ITEM) else path.rpartition(".")[::2]
            self._places[path] = self._make(parent).below[name] = _Place(path)
        return self._places[path]

    def find(self, members: Mapping[str, Any], parts: dict[str, None], at: str = "") -> None:
        """Add the parts that this object at this path uses, but for those that are native everywhere."""
        _find_members(members, self._places.get(at) or _Place(at), parts)

    def find_item(self, item: Any, path: str, parts: dict[str, None]) -> None:
        """Add the parts that an item of a list uses; `path` is the list's, with `[]`."""
        _find_value(item, self._places.get(path) or _Place(path), parts)


def _find_members(members: Mapping[str, Any], place: _Place, parts: dict[str, None]) -> None:
    for name, value in members.items():
        below = place.below.get(name)
        if below is not None:
            _find_value(value, below, parts)
        elif not _says_nothing(value) and not (name == "type" and place.path and isinstance(value, str)):
            add_part(parts, f"{place.path}.{name}" if place.path else name)


def _find_value(value: Any, place: _Place, parts: dict[str, None]) -> None:
    row = place.row
    if _says_nothing(value) or (row is not None and value in row.neutral):
        return
    if row is not None and not row.is_native:
        add_part(parts, row.name)
    if row is None or place.below:
        _find_below(value, place, parts)


def _find_below(value: Any, place: _Place, parts: dict[str, None]) -> None:
    if isinstance(value, list) and (items := place.below.get(ITEM)) is not None:
        for item in cast("list[Any]", value):
            _find_value(item, items, parts)
    elif isinstance(value, list):
        add_part(parts, f"{place.path}{ITEM}")
    elif not isinstance(value, dict):
        if place.row is None:
            add_part(parts, place.path)
    elif not place.is_typed:
        _find_members(cast("dict[str, Any]", value), place, parts)
    elif (below := place.below.get(item_type := str(cast("dict[str, Any]", value).get("type")))) is not None:
        _find_value(cast("dict[str, Any]", value), below, parts)
    else:
        add_part(parts, f"{place.path}.{item_type}")


def _says_nothing(value: Any) -> bool:
    """Whether this is null, or empty; 0 and false say something, unless a row has them as neutral."""
    return not value and not isinstance(value, (int, float))


def add_part(parts: dict[str, None], name: str) -> None:
    """Add a part by its name; of very many, the rest is one."""
    name = name[:MAX_NAME_CHARS]
    parts[name if name in parts or len(parts) < MAX_PARTS else TOO_MANY] = None
