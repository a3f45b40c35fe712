"""Small values that satisfy a JSON Schema, for structured answers and for the arguments of tools. Pure."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from accord.acp_tools.json_values import Json, as_list, as_object

MAX_DEPTH: Final = 12
MAX_VALUES: Final = 5_000
"""Schemas may contain themselves: beyond these limits, nothing is required of a value any more."""
WORD: Final = "ok"
FORMATS: Final[Mapping[str, str]] = {
    "date-time": "2026-01-01T00:00:00Z",
    "date": "2026-01-01",
    "time": "00:00:00Z",
    "email": "ok@example.com",
    "hostname": "example.com",
    "ipv4": "127.0.0.1",
    "uri": "https://example.com/",
    "url": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
Choice = Callable[[str, Json], Any]
"""The value for a property of this name and schema; None to leave it to the schema."""


def schema_value(schema: object, choose: Choice = lambda _name, _schema: None, *, prefers_null: bool = False) -> Any:
    """A value that satisfies the schema, with the properties that `choose` has a value for and the required ones.

    `prefers_null` takes null where the schema allows it: strict tools list every property as required.
    """
    return _SchemaValues(as_object(schema), choose, prefers_null).value(as_object(schema))


class _SchemaValues:
    """Walks one schema; `root` has the definitions that its references name."""

    def __init__(self, root: Json, choose: Choice, prefers_null: bool) -> None:
        self._root: Final = root
        self._choose: Final = choose
        self._prefers_null: Final = prefers_null
        self._left = MAX_VALUES

    def value(self, schema: Json, depth: int = 0) -> Any:
        """The value for one schema in the tree."""
        self._left -= 1
        schema = self._resolve(schema, prefers_null=self._prefers_null)
        for fixed in ("const", "default"):
            if fixed in schema:
                return schema[fixed]
        if choices := as_list(schema.get("enum")):
            return None if self._prefers_null and None in choices else choices[0]
        match self._type(schema):
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, depth)
            case "integer" | "number":
                return _number(schema)
            case "boolean" | "null" as kind:
                return False if kind == "boolean" else None
            case _:
                return _text(schema)

    def _array(self, schema: Json, depth: int) -> list[Any]:
        least = str(schema.get("minItems"))
        count = min(int(least), MAX_DEPTH) if least.isdecimal() and self._may_go_on(depth) else 0
        return [self.value(as_object(schema.get("items")), depth + 1) for _ in range(count)]

    def _may_go_on(self, depth: int) -> bool:
        return depth < MAX_DEPTH and self._left > 0

    def _resolve(self, schema: Json, *, prefers_null: bool = False, depth: int = 0) -> Json:
        """The schema without references, and with one of its alternatives merged in."""
        for _ in range(MAX_DEPTH):
            if isinstance(reference := schema.get("$ref"), str):
                found: object = self._root
                for step in reference.removeprefix("#").strip("/").split("/"):
                    found = as_object(found).get(step) if step else found
                schema = {**as_object(found), **{key: value for key, value in schema.items() if key != "$ref"}}
            elif alternatives := as_list(schema.get("anyOf")) or as_list(schema.get("oneOf")):
                nulls = [each for each in alternatives if as_object(each).get("type") == "null"]
                others = [each for each in alternatives if each not in nulls]
                chosen = nulls if (prefers_null and nulls) or not others else others
                schema = {
                    **{key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")},
                    **as_object(chosen[0]),
                }
            elif parts := as_list(schema.get("allOf")):
                schema = {key: value for key, value in schema.items() if key != "allOf"}
                for part in parts if depth < MAX_DEPTH else ():
                    schema = _both(schema, self._resolve(as_object(part), prefers_null=prefers_null, depth=depth + 1))
            else:
                break
        return schema

    def _type(self, schema: Json) -> str:
        kinds = [str(kind).lower() for kind in as_list(schema.get("type")) or [schema.get("type") or ""]]
        if "null" in kinds and self._prefers_null:
            return "null"
        kind = next((kind for kind in kinds if kind != "null"), "null")
        return kind or ("object" if "properties" in schema else "array" if "items" in schema else "string")

    def _object(self, schema: Json, depth: int) -> Json:
        made: Json = {}
        required = as_list(schema.get("required")) if self._may_go_on(depth) else []
        for name, child in as_object(schema.get("properties")).items():
            resolved = self._resolve(as_object(child))
            chosen = self._choose(name, resolved)
            if chosen is not None:
                made[name] = self._fit(chosen, resolved, depth)
            elif name in required:
                made[name] = self.value(as_object(child), depth + 1)
        return made

    def _fit(self, chosen: Any, schema: Json, depth: int) -> Any:
        """The chosen value in the type of the property; in a list of objects, the object that has the value."""
        items = self._resolve(as_object(schema.get("items")))
        if "properties" in items and isinstance(chosen, str) and self._may_go_on(depth):
            return [self.value(items, depth + 1)]
        return chosen


def _both(first: Json, second: Json) -> Json:
    """One schema with what both of these require."""
    properties = {**as_object(first.get("properties")), **as_object(second.get("properties"))}
    required = [*as_list(first.get("required")), *as_list(second.get("required"))]
    return {**first, **second, **({"properties": properties, "required": required} if properties else {})}


def _number(schema: Json) -> int | float:
    for name, step in (("minimum", 0), ("exclusiveMinimum", 1)):
        if isinstance(least := schema.get(name), int | float) and not isinstance(least, bool):
            return least + step
    most = schema.get("maximum")
    return min(1, most) if isinstance(most, int | float) else 1


def _text(schema: Json) -> str:
    text = FORMATS.get(str(schema.get("format")), WORD)
    least, most = schema.get("minLength"), schema.get("maxLength")
    if isinstance(least, int) and least > len(text):
        text = text.ljust(min(least, 100_000), ".")
    return text[:most] if isinstance(most, int) and most >= 0 else text
