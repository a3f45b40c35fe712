"""Values are validated by schemas in bounded time; problems name the place and the expectation, not the value."""

import json
import subprocess
import sys
from typing import Any

import pytest

from accord.core.work.emulation.schema import MAX_PROBLEM_CHARS, MAX_PROBLEMS, NO_DETAILS, TOO_LARGE, SchemaChecker
from accord.errors import ErrorCode, InvalidMessageError

PERSON = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "age": {"minimum": 0}, "a/b": {"const": 1}},
    "additionalProperties": False,
}


def messages(schema: dict[str, Any], value: Any) -> list[str]:
    return [problem.message for problem in SchemaChecker(schema, name="s").problems(value)]


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
    assert messages(schema, value) == problems


def test_a_problem_with_alternatives_lists_what_each_expects():
    (problem,) = messages({"anyOf": [{"type": "string"}, {"required": ["k"]}]}, {})
    assert 'is not of type "string"; or' in problem
    assert '"k" is a required property' in problem


def test_problems_are_few_short_and_never_repeat_the_value():
    schema = {"items": {"enum": ["x" * 500]}}
    problems = messages(schema, ["hunter2"] * 100)
    assert len(problems) == MAX_PROBLEMS
    assert all(len(problem) <= MAX_PROBLEM_CHARS for problem in problems)
    assert "hunter2" not in "".join(problems)


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ({"properties": {"a": {"type": "strnig"}}}, "/properties/a/type"),
        ({"pattern": "("}, "/pattern"),
        ({"$ref": "#/nowhere"}, "should refer to its own parts"),
        ({"$ref": "https://schemas.example/x.json"}, "other references are not followed"),
        ({"$ref": "file:///etc/hostname"}, "other references are not followed"),
        ({"$defs": {"a": {"$id": "a", "$ref": "#/$defs/b"}}}, '"$id" at its top only'),
        ({"title": "\ud800"}, "UTF-8"),
    ],
)
def test_an_invalid_schema_is_refused_by_name_and_nothing_is_fetched(schema: dict[str, Any], sentence: str):
    with pytest.raises(InvalidMessageError, match="Not a valid response_schema") as raised:
        SchemaChecker(schema, name="response_schema")
    assert sentence in raised.value.message
    assert raised.value.code is ErrorCode.INVALID_MESSAGE


def test_an_older_draft_applies_if_the_schema_names_it():
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "integer"}]}
    assert messages(schema, ["x"])


def test_the_validator_is_loaded_with_the_first_schema():
    script = "import accord.core.work.emulation.choose, sys; sys.exit('jsonschema_rs' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=60).returncode == 0


def test_the_record_repeats_nothing_of_the_value():
    problems = SchemaChecker(PERSON, name="s").problems({"hunter2": 1, "age": -1})
    assert "hunter2" in " ".join(problem.message for problem in problems)
    assert [problem.record for problem in problems] == [
        "does not meet /properties/age/minimum of the schema (minimum)",
        "does not meet /additionalProperties of the schema (additionalProperties)",
        "does not meet /required of the schema (required)",
    ]


def fan_out(levels: int) -> dict[str, Any]:
    """A schema of this many definitions, each referring to the next one twice."""
    definitions = {f"d{at}": {"anyOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 2} for at in range(levels)}
    return {"$defs": definitions | {f"d{levels}": {"type": "null"}}, "$ref": "#/$defs/d0"}


def test_a_schema_whose_references_fan_out_is_refused():
    assert SchemaChecker(fan_out(5), name="s").is_valid(None)
    with pytest.raises(InvalidMessageError, match="at most 50000 parts"):
        SchemaChecker(fan_out(40), name="s")


def test_a_value_too_large_for_a_complex_schema_is_not_validated():
    schema = {"items": {"enum": [*range(10_000)]}}
    assert SchemaChecker(schema, name="s").problems([1] * 400) == []
    assert SchemaChecker(schema, name="s").problems([1] * 1_100) == [TOO_LARGE]


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


BRANCH: dict[str, Any] = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}
RECURSIVE: dict[str, dict[str, Any]] = {
    "anyOf": {"anyOf": [BRANCH, {**BRANCH, "title": "again"}, {"type": "null"}]},
    "oneOf": {"oneOf": [BRANCH, {**BRANCH, "title": "again"}]},
    "by anchor": {
        "$dynamicAnchor": "n",
        "anyOf": [{"properties": {"a": {"$dynamicRef": "#n"}}}, {"additionalProperties": {"$dynamicRef": "#n"}}, False],
        "type": "object",
    },
}

JUDGE = """
import json, resource, sys, time
from accord.core.work.emulation.schema import SchemaChecker
schema, value = json.load(sys.stdin)
SchemaChecker({}, name="s").is_valid(1)
memory, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
problems = SchemaChecker(schema, name="s").problems(value)
used = time.process_time() - began, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024
print(json.dumps([[problem.message for problem in problems], *used]))
"""


@pytest.mark.parametrize("levels", [3, 15, 150])
@pytest.mark.parametrize("schema", RECURSIVE.values(), ids=RECURSIVE)
def test_a_recursive_schema_with_alternatives_validates_a_nested_value_cheaply(schema: dict[str, Any], levels: int):
    sent = json.dumps([schema, nested(levels)])
    child = subprocess.run(
        [sys.executable, "-c", JUDGE], input=sent, capture_output=True, text=True, check=True, timeout=30
    )
    found, cpu_s, grown_mb = json.loads(child.stdout)
    assert found
    assert (NO_DETAILS.message in found) is (levels > 3)
    assert cpu_s < 0.2
    assert grown_mb < 20


LONG_TO_COMPILE: list[tuple[dict[str, Any], str]] = [
    ({"enum": ["x" * 1_000] * 200}, "should have at most 65536 bytes"),
    ({"properties": {f"p{each}": {"pattern": "^a"} for each in range(501)}}, "should have at most 500 patterns"),
    ({"patternProperties": {f"^{each}": {} for each in range(501)}}, "should have at most 500 patterns"),
    ({"pattern": "(a{1,200}b{1,200}){1,100}"}, "at most 524288 bytes when it is compiled"),
]


@pytest.mark.parametrize(("schema", "message"), LONG_TO_COMPILE)
def test_a_schema_that_takes_long_to_compile_is_refused(schema: dict[str, Any], message: str):
    with pytest.raises(InvalidMessageError, match=message):
        SchemaChecker(schema, name="s")


def test_very_many_missing_names_are_not_listed():
    schema = {"type": "object", "required": [f"p{each}" for each in range(4_000)], "additionalProperties": False}
    assert SchemaChecker(schema, name="s").problems({f"q{each}": 1 for each in range(2_000)}) == [NO_DETAILS]
