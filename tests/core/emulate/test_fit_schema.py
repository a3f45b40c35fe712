"""Values are held against schemas; findings have a place and an expectation, and never the value."""

import subprocess
import sys
from typing import Any

import pytest

from accord.core.emulate.fit_schema import MAX_PROBLEM_CHARS, MAX_PROBLEMS, SchemaFit
from accord.errors import ErrorCode, InvalidMessageError

PERSON = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "age": {"minimum": 0}, "a/b": {"const": 1}},
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("schema", "value", "problems"),
    [
        (PERSON, {"name": "x"}, []),
        (PERSON, {}, ['(the whole value): "name" is a required property']),
        (PERSON, {"name": 7}, ['/name: this value is not of type "string"']),
        (PERSON, {"name": "x", "a/b": 2}, ["/a~1b: 1 was expected"]),
        ({"items": {"type": "integer"}}, [1, "secret"], ['/1: this value is not of type "integer"']),
        ({"prefixItems": [{"type": "integer"}]}, ["x"], ['/0: this value is not of type "integer"']),
    ],
)
def test_each_value_has_its_problems(schema: dict[str, Any], value: Any, problems: list[str]):
    assert SchemaFit(schema, name="s").problems(value) == problems


def test_of_several_alternatives_each_says_what_it_wanted():
    (problem,) = SchemaFit({"anyOf": [{"type": "string"}, {"required": ["k"]}]}, name="s").problems({})
    assert 'is not of type "string"; or' in problem
    assert '"k" is a required property' in problem


def test_findings_are_few_short_and_never_repeat_the_value():
    schema = {"items": {"enum": ["x" * 500]}}
    problems = SchemaFit(schema, name="s").problems(["hunter2"] * 100)
    assert len(problems) == MAX_PROBLEMS
    assert all(len(problem) <= MAX_PROBLEM_CHARS for problem in problems)
    assert "hunter2" not in "".join(problems)


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"properties": {"a": {"type": "strnig"}}}, "/properties/a/type"),
        ({"pattern": "("}, "/pattern"),
        ({"$ref": "#/nowhere"}, "'/nowhere' does not exist"),
        ({"$ref": "https://schemas.example/x.json"}, "schemas are not fetched"),
        ({"$ref": "file:///etc/hostname"}, "schemas are not fetched"),
        ({"title": "\ud800"}, "UTF-8"),
    ],
)
def test_a_broken_schema_is_refused_by_name_and_nothing_is_fetched(schema: dict[str, Any], told: str):
    with pytest.raises(InvalidMessageError, match="Not a valid response_schema") as raised:
        SchemaFit(schema, name="response_schema")
    assert told in raised.value.message
    assert raised.value.code is ErrorCode.INVALID_MESSAGE


def test_an_older_draft_counts_if_the_schema_names_it():
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "integer"}]}
    assert SchemaFit(schema, name="s").problems(["x"])


def test_the_validator_is_loaded_with_the_first_schema():
    script = "import accord.core.emulate.choose, sys; sys.exit('jsonschema_rs' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=60).returncode == 0
