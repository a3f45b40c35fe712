"""The values made for schemas satisfy them."""

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.acp_tools.inspect.fake_model.schema_values import schema_value

A: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
EXAMPLES: list[tuple[dict[str, Any], Any]] = [
    ({"type": "string"}, "ok"),
    ({"type": "string", "minLength": 4}, "ok.."),
    ({"type": "string", "maxLength": 1}, "o"),
    ({"type": "string", "format": "date"}, "2026-01-01"),
    ({"type": "STRING"}, "ok"),
    ({"type": "integer", "minimum": 7}, 7),
    ({"type": "number", "exclusiveMinimum": 0}, 1),
    ({"type": "integer", "maximum": -3}, -3),
    ({"type": "boolean"}, False),
    ({"enum": ["user", "model"]}, "user"),
    ({"const": 5}, 5),
    ({"type": "integer", "default": 9}, 9),
    ({"type": ["string", "null"]}, "ok"),
    ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, 1),
    ({"oneOf": [{"type": "boolean"}]}, False),
    ({"allOf": [A, {"properties": {"b": {"type": "integer"}}, "required": ["b"]}]}, {"a": "ok", "b": 1}),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [1, 1]),
    ({"type": "array"}, []),
    ({"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]}, {"a": "ok"}),
    ({"$ref": "#/$defs/city", "$defs": {"city": {"type": "string"}}}, "ok"),
    ({}, "ok"),
]


@pytest.mark.parametrize(("schema", "value"), EXAMPLES)
def test_each_schema_has_its_smallest_value(schema: dict[str, Any], value: Any):
    assert schema_value(schema) == value
    if str(schema.get("type")).islower():
        jsonschema.validate(value, schema)


def test_null_is_taken_where_it_is_preferred():
    for schema in (
        {"type": ["integer", "null"]},
        {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        {"enum": [1, None]},
    ):
        assert schema_value(schema, prefers_null=True) is None


NODE: dict[str, Any] = {"type": "object", "required": ["a", "b", "c", "path"]}
NODE["properties"] = {name: {"$ref": "#"} for name in NODE["required"]}
ENDLESS: dict[str, dict[str, Any]] = {
    "an object with four of itself": NODE,
    "a reference to itself": {"$ref": "#"},
    "a part of itself": {"allOf": [{"$ref": "#"}]},
    "a list of itself": {**NODE, "properties": {"path": {"type": "array", "items": {"$ref": "#"}}}},
}


@pytest.mark.timeout(5)
@pytest.mark.parametrize("name", ENDLESS)
def test_a_schema_that_contains_itself_ends(name: str):
    assert schema_value(ENDLESS[name], lambda key, _: "/a" if key == "path" else None) is not None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
KEYWORDS = (
    "type enum items properties required anyOf allOf minItems minimum maximum minLength maxLength $ref format".split()
)


@given(st.dictionaries(st.sampled_from(KEYWORDS), JSON))
def test_no_schema_raises(schema: dict[str, Any]):
    schema_value(schema)
    schema_value({"type": "object", "properties": {"a": schema}, "required": ["a"]}, prefers_null=True)
