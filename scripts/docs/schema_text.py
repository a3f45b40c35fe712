"""A JSON Schema in words: `integer ≥ 1`, `list of UUID`, a link to the message that is meant."""

import json
from collections.abc import Mapping
from typing import Any, Final

from pydantic import TypeAdapter
from scripts.docs.markdown import anchor

from accord.wire.capability import CapabilityName

Json = Mapping[str, Any]

FORMATS: Final = {"uuid": "UUID", "date-time": "time", "uri": "URL", "date": "date"}
NAMES: Final = {"string": "text", "number": "number", "integer": "integer", "boolean": "true or false", "null": "null"}
BOUNDS: Final = {
    "minimum": "≥ {:,}",
    "exclusiveMinimum": "> {:,}",
    "maximum": "≤ {:,}",
    "exclusiveMaximum": "< {:,}",
    "maxLength": "of at most {:,} characters",
}
CAPABILITY: Final[Json] = TypeAdapter[str](CapabilityName).json_schema()
MAX_VALUES: Final = 6
"""Longer enumerations have a section of their own."""


def type_text(schema: Json, definitions: Json, page: str = "") -> str:  # noqa: C901 - the forms of a schema
    """The type and its limits, with links to `page` for definitions."""

    def inner(part: Json) -> str:
        return type_text(part, definitions, page)

    if schema.items() >= CAPABILITY.items():
        return "[capability](capabilities.md)"
    if name := _defined_name(schema, definitions):
        definition = definitions[name]
        return inner(definition) if is_inline(definition) else f"[{name}]({page}{anchor(name)})"
    if kinds := schema.get("oneOf") or schema.get("anyOf"):
        return " or ".join(dict.fromkeys(inner(each) for each in kinds if each.get("type") != "null"))
    if values := schema.get("enum") or ([schema["const"]] if "const" in schema else []):
        return ", ".join(f"`{json.dumps(each)}`" for each in values)
    match schema.get("type"):
        case "array" if "prefixItems" in schema:
            return f"[{', '.join(map(inner, schema['prefixItems']))}]"
        case "array":
            return f"list of {inner(schema.get('items', {}))}"
        case "object":
            return _object_text(schema, definitions, page)
        case kind:
            return _plain_text(schema, str(kind))


def is_inline(definition: Json) -> bool:
    """Whether a definition is written where it is used: a short enumeration."""
    return "enum" in definition and len(definition["enum"]) <= MAX_VALUES


def _defined_name(schema: Json, definitions: Json) -> str | None:
    """The name of the definition that a schema refers to, or of the union that has the same kinds."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    kinds = schema.get("discriminator")
    return next((name for name, each in definitions.items() if kinds and each.get("discriminator") == kinds), None)


def _object_text(schema: Json, definitions: Json, page: str) -> str:
    if named := schema.get("patternProperties"):
        return f"object: {type_text(next(iter(named.values())), definitions, page)} by capability"
    inner = schema.get("additionalProperties")
    if not isinstance(inner, Mapping) or not inner:
        return "object"
    names = schema.get("propertyNames", {})
    by = f" by {type_text(names, definitions, page)}" if "$ref" in names else ""
    return f"object: {type_text(inner, definitions, page)}{by}"  # pyright: ignore[reportUnknownArgumentType]


def _plain_text(schema: Json, kind: str) -> str:
    text = FORMATS.get(schema.get("format", "")) or NAMES.get(kind, "any JSON")
    if "pattern" in schema:
        text = f"{text} that matches `{schema['pattern']}`"
    if schema.get("minLength") == 1:
        text = f"{text}, not empty"
    bounds = ", ".join(form.format(schema[key]) for key, form in BOUNDS.items() if key in schema)
    return f"{text} {bounds}".strip()
