"""Validate a value against a JSON Schema within a bounded time. The only user of the JSON Schema validator.

The validator (jsonschema-rs) holds the interpreter's lock while it works, so neither a thread nor a time limit can
interrupt it: what would take too long must not be started. `SchemaCost` estimates that from above, before the validator
runs. Two costs can explode:

- References that fan out (`d0` refers to `d1` twice, `d1` to `d2` twice, …) make every validation exponential in the
  size of the schema.
- Collecting the errors of `anyOf` and `oneOf` visits every branch at every level, which is exponential in the depth of
  the value if the schema is recursive.

Draft 2020-12 unless the schema names another. Nothing is fetched: a reference leads inside the schema, or the schema is
refused.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NoReturn, Protocol, cast

import msgspec

from accord.errors import InvalidMessageError, Problem

MAX_SCHEMA_DEPTH: Final = 150
MAX_SCHEMA_BYTES: Final = 64 * 1024
MAX_PATTERNS: Final = 500
MAX_EXPANDED: Final = 50_000
"""How many subschemas there may be once every reference that does not lead back to itself is written out."""
MAX_CHECKS: Final = 5_000_000
"""How many subschemas times values one validation may take; about 0.05 s."""
MAX_DETAIL_COST: Final = 20_000
"""The highest cost of collecting the errors of one value; 1 to 5 µs a unit by measurement, so about 0.1 s at most."""
BRANCH_FACTOR: Final = 10
"""An error inside a branch is copied into every error around it, and costs about this much more than one outside."""

_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
_MAPS: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})
_SINGLE: Final = frozenset(
    {"not", "if", "then", "else", "items", "additionalItems", "additionalProperties", "contains", "propertyNames"}
    | {"unevaluatedItems", "unevaluatedProperties"}
)
_REFERENCES: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_BRANCHES: Final = frozenset({"anyOf", "oneOf"})
_SAME_VALUE: Final = frozenset({"allOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"})
"""Keywords whose subschemas apply to the value itself, as references and branches do; others apply to its parts."""

_TOO_DEEP: Final = f"should be nested at most {MAX_SCHEMA_DEPTH} deep"
_NAMES: Final = ("required", "dependentRequired")

Node = Mapping[str, Any]


class _TooExpensiveError(Exception):
    pass


class SchemaCost:
    """The cost of validating by one schema; raises `ValueError` with the reason if it has no bound."""

    def __init__(self, schema: Node) -> None:
        self.root: Final = schema
        self._anchors: Final = {"#": schema}
        self._patterns = 0
        self._index(schema, 0)
        self._expanded: Final = self._expand(schema, {}, set())

    def can_validate(self, value: Any) -> bool:
        """Whether the value is small enough to be validated."""
        return _size(value, MAX_CHECKS // self._expanded) is not None

    def can_explain(self, value: Any) -> bool:
        """Whether collecting all errors of the value is affordable."""
        try:
            return _DetailCost(self).of(self.root, value, 1, ()) <= MAX_DETAIL_COST
        except _TooExpensiveError:
            return False

    def subschemas(self, schema: Node) -> Iterator[tuple[str, Any, Node]]:
        """Every subschema with its keyword and its name or index there; references are followed."""
        for keyword, inner in schema.items():
            if keyword in _REFERENCES:
                yield keyword, None, self._follow(inner)
            else:
                found: Iterable[tuple[Any, Any]] = ()
                if keyword in _LISTS and isinstance(inner, list):
                    found = enumerate(cast("list[Any]", inner))
                elif keyword in _MAPS and isinstance(inner, Mapping):
                    found = cast("Node", inner).items()
                elif keyword in _SINGLE:
                    found = ((None, inner),)
                # True and false are subschemas that cost nothing.
                yield from ((keyword, place, cast("Node", each)) for place, each in found if isinstance(each, Mapping))

    def _follow(self, reference: Any) -> Node:
        found: Any = self._anchors.get(reference)
        if found is None and isinstance(reference, str) and reference.startswith("#/"):
            found = self.root
            for step in reference[2:].split("/"):
                name = step.replace("~1", "/").replace("~0", "~")
                if isinstance(found, list):
                    found = dict(enumerate(cast("list[Any]", found))).get(int(name) if name.isdigit() else -1)
                else:
                    found = cast("Node", found).get(name) if isinstance(found, Mapping) else None
        if isinstance(found, bool):
            return {}
        if not isinstance(found, Mapping):
            raise ValueError(
                'should refer to its own parts as "#/…" or by an anchor; other references are not followed'
            )
        return cast("Node", found)

    def _index(self, schema: Any, depth: int) -> None:
        """Collect the anchors, also below unknown keywords."""
        if depth > MAX_SCHEMA_DEPTH:
            raise ValueError(_TOO_DEEP)
        if isinstance(schema, Mapping):
            node = cast("Node", schema)
            if depth and isinstance(node.get("$id"), str) and "$ref" in str(node):
                # Inside a part that has an "$id", "#" refers to that part.
                raise ValueError('should have an "$id" at its top only')
            named = node.get("patternProperties")
            self._patterns += ("pattern" in node) + (len(cast("Node", named)) if isinstance(named, Mapping) else 0)
            if self._patterns > MAX_PATTERNS:
                raise ValueError(f"should have at most {MAX_PATTERNS} patterns")
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(name := node.get(keyword), str):
                    self._anchors.setdefault(f"#{name}", node)
        for inner in _children(schema):
            self._index(inner, depth + 1)

    def _expand(self, schema: Node, known: dict[int, int], above: set[int]) -> int:
        if id(schema) in above:
            return 1  # the validator caches its results for recursive references
        if id(schema) not in known:
            above.add(id(schema))
            listed = schema.get("enum")
            cost = 1 + (len(cast("list[Any]", listed)) if isinstance(listed, list) else 0)
            for _, _, inner in self.subschemas(schema):
                cost += self._expand(inner, known, above)
                if cost > MAX_EXPANDED or len(above) > MAX_SCHEMA_DEPTH:
                    raise ValueError(
                        f"should have at most {MAX_EXPANDED} parts, nested at most {MAX_SCHEMA_DEPTH} deep, "
                        "with its references written out"
                    )
            above.discard(id(schema))
            known[id(schema)] = cost
        return known[id(schema)]


class _DetailCost:
    """Counts what collecting errors visits: every subschema that applies, weighted by the size of its value."""

    def __init__(self, schema: SchemaCost) -> None:
        self._schema: Final = schema
        self._known: Final[dict[tuple[int, int, int], int]] = {}
        self._sizes: Final[dict[int, int]] = {}

    def of(self, schema: Node, value: Any, factor: int, above: tuple[tuple[int, int], ...]) -> int:
        key, here = (id(schema), id(value), factor), (id(schema), id(value))
        if key in self._known:
            return self._known[key]
        if len(self._known) > MAX_DETAIL_COST or len(above) > MAX_SCHEMA_DEPTH or here in above:
            raise _TooExpensiveError
        above = (*above, here)
        # Every name that may be missing is an error, with a copy of the value.
        given = (schema[each] for each in _NAMES if each in schema)
        names = 1 + sum(_size(each, MAX_DETAIL_COST) or MAX_DETAIL_COST for each in given)
        total = factor * self._weight(value) * names
        for keyword, place, inner in self._schema.subschemas(schema):
            if keyword in _BRANCHES:
                total += self.of(inner, value, BRANCH_FACTOR, above)
            elif keyword in _SAME_VALUE or keyword in _REFERENCES:
                total += self.of(inner, value, factor, above)
            else:
                total += sum(self.of(inner, each, factor, above) for each in _values_for(keyword, place, value))
            if total > MAX_DETAIL_COST:
                raise _TooExpensiveError
        self._known[key] = total
        return total

    def _weight(self, value: Any) -> int:
        if (size := self._sizes.get(id(value))) is None:
            size = _size(value, MAX_DETAIL_COST)
            if size is None:
                raise _TooExpensiveError
            self._sizes[id(value)] = size
        return size


def _values_for(keyword: str, place: Any, value: Any) -> Iterable[Any]:
    """The parts of the value that a subschema of this keyword can apply to."""
    if keyword == "properties":
        inside = cast("Node", value) if isinstance(value, dict) else dict[str, Any]()
        return (inside[place],) if place in inside else ()
    return _children(value)


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return cast("Node", value).values()
    return cast("list[Any]", value) if isinstance(value, list) else ()


def _size(value: Any, most: int) -> int | None:
    """The number of values in this one; None if it is more than `most`."""
    count, left = 1, [iter(_children(value))]
    while left:
        for inner in left[-1]:
            count += 1
            if count > most:
                return None
            if isinstance(inner, dict | list):
                left.append(iter(_children(inner)))
                break
        else:
            left.pop()
    return count


WHOLE: Final = "(the whole value)"
MAX_PROBLEMS: Final = 8
MAX_PROBLEM_CHARS: Final = 240
BACKTRACK_LIMIT: Final = 10_000
"""How many steps a `pattern` with look-around may take on one text."""
MAX_PATTERN_BYTES: Final = 512 * 1024
"""The size of one compiled `pattern`; the time for a text grows with it."""

NOT_COMPILED: Final = f"should be a regular expression of at most {MAX_PATTERN_BYTES} bytes when it is compiled"
MAX_COMPILED: Final = 16
"""How many schemas are kept compiled; one of 90 kB takes 2 MB."""

_MASK: Final = "this value"
_encode: Final = msgspec.json.Encoder(enc_hook=dict).encode
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(frozen=True, slots=True)
class AnswerProblem:
    """What is wrong with an answer: `message` for the model that wrote it, `record` for receipts.

    The message may repeat member names of the value. The record repeats nothing of the answer.
    """

    message: str
    record: str


TOO_LARGE: Final = AnswerProblem(
    f"{WHOLE}: is too large to be checked against the schema; make it shorter",
    "the value is too large to be checked against the schema",
)
NO_DETAILS: Final = AnswerProblem(
    f"{WHOLE}: is not valid against the schema, which has too many alternatives to name them all",
    "the value is not valid against the schema; it has too many alternatives to list the errors",
)


class _ValidationError(Protocol):
    @property
    def message(self) -> str: ...
    @property
    def instance_path(self) -> Sequence[str | int]: ...
    @property
    def schema_path(self) -> Sequence[str | int]: ...
    @property
    def kind(self) -> object: ...


class SchemaChecker:
    """Validates values by one schema; raises `InvalidMessageError` if that is invalid or too complex."""

    def __init__(self, schema: Mapping[str, Any], *, name: str) -> None:
        import jsonschema_rs  # noqa: PLC0415 - importing Accord stays light

        try:
            self._cost, self._validator = _compile(_encode(schema))
        except jsonschema_rs.ValidationError as error:
            message = NOT_COMPILED if '"regex"' in error.message else _short(error.message)
            raise InvalidMessageError(name, [Problem(_pointer(error.instance_path), message)]) from None
        except RecursionError:
            raise InvalidMessageError(name, [Problem(WHOLE, _TOO_DEEP)]) from None
        except UnicodeError:
            raise InvalidMessageError(name, [Problem(WHOLE, "should be text that UTF-8 can carry")]) from None
        except ValueError as error:
            raise InvalidMessageError(name, [Problem(WHOLE, str(error))]) from None

    def is_valid(self, value: Any) -> bool:
        """Whether the value is valid; one that is too large to be validated is not."""
        return self._cost.can_validate(value) and self._validator.is_valid(value)

    def problems(self, value: Any) -> list[AnswerProblem]:
        """What is wrong with the value; empty if it is valid."""
        if not self._cost.can_validate(value):
            return [TOO_LARGE]
        if self._validator.is_valid(value):
            return []
        if not self._cost.can_explain(value):
            return [NO_DETAILS]
        problems: list[AnswerProblem] = []
        errors: Sequence[_ValidationError] = [*self._validator.iter_errors(value)]
        for error in errors[:MAX_PROBLEMS]:
            keyword = error.schema_path[-1] if error.schema_path else "schema"
            record = f"does not meet {_pointer(error.schema_path)} of the schema ({keyword})"
            problems.append(AnswerProblem(_message(error), _short(record)))
        return problems or [NO_DETAILS]


@lru_cache(maxsize=MAX_COMPILED)
def _compile(schema: bytes) -> tuple[SchemaCost, Any]:
    """The cost of this schema and its validator: a request needs them several times, and clients repeat schemas."""
    import jsonschema_rs  # noqa: PLC0415 - importing Accord stays light

    if len(schema) > MAX_SCHEMA_BYTES:
        raise ValueError(f"should have at most {MAX_SCHEMA_BYTES} bytes")
    members = _decode(schema)
    cost = SchemaCost(members)
    patterns = jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACK_LIMIT, size_limit=MAX_PATTERN_BYTES)
    options: dict[str, Any] = {"mask": _MASK, "retriever": _refuse_fetch, "pattern_options": patterns}
    return cost, jsonschema_rs.validator_for(members, **options)


def _refuse_fetch(uri: str) -> NoReturn:  # noqa: ARG001 - the validator passes the address
    raise ValueError("schemas are not fetched")


def _message(error: _ValidationError) -> str:
    # "Valid under none of these" helps a model only with what each alternative expects.
    branches: Sequence[Sequence[_ValidationError]] = getattr(error.kind, "context", ())
    expected = "; or ".join(_message(branch[0]) for branch in branches if branch)
    return _short(f"{_pointer(error.instance_path)}: {error.message}" + (f" ({expected})" if expected else ""))


def _pointer(path: Sequence[str | int]) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path) or WHOLE


def _short(text: str) -> str:
    return text if len(text) <= MAX_PROBLEM_CHARS else text[: MAX_PROBLEM_CHARS - 1] + "…"
