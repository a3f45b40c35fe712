"""JSON is found alone, in fences and in prose, and never made from fragments."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core.work.emulation.structured_output import find_json, read_json

DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"a": 1}', [{"a": 1}]),
        ("[1, 2]", [[1, 2]]),
        ("  42 \n", [42]),
        ('"word"', ["word"]),
        ("null", [None]),
        ('Here you are:\n```json\n{"a": 1}\n```\nEnjoy!', [{"a": 1}]),
        ('```\n{"a": 1}\n```', [{"a": 1}]),
        ('~~~JSON\n{"a": 1}\n~~~', [{"a": 1}]),
        ('````json\n{"a": "```"}\n````', [{"a": "```"}]),
        ('```json\n{"a": 1}', [{"a": 1}]),
        ('Sure! {"a": "}{"} Bye.', [{"a": "}{"}]),
        ('Use {name} and [sic]: {"a": [1]}', [{"a": [1]}]),
        ('{"a": 1} or {"a": 2, "b": 3}', [{"a": 1}, {"a": 2, "b": 3}]),
        ('```json\n{"draft": 1}\n```\n```json\n{"final": 1}\n```', [{"draft": 1}, {"final": 1}]),
        ('```python\n{"a": 1}\n```\n```json\n{"b": 1}\n```', [{"a": 1}, {"b": 1}]),
        ("The answer is\n42\nas you know.", [42]),
        ("The answer is 42.", []),
        ("no JSON", []),
        ("", []),
        # A fragment of a broken value is not an answer.
        ('{"a": {"b": 1}, "c": ', []),
        ('{"a": {"b": 1},}', []),
        ('{"a": {"b": 1},} but {"c": 2}', [{"c": 2}]),
        ("[\n1,\n2\nx", []),
        # JSON has no such things, and no one could be sent them.
        ("NaN", []),
        ('{"a": NaN}', []),
        ('{"a": 1e999}', []),
        ('{"a": "\\ud800"}', []),
        ('{"a": "\ud800"}', []),
        (DEEP, []),
        ("[1 x]" * 10_000, []),
        ("1" * 5000, []),
    ],
    ids=lambda value: str(value)[:40],
)
def test_candidates_come_in_the_order_of_the_text(text: str, values: list[Any]):
    found: list[Any] = []
    for candidate in find_json(text):
        if candidate.value not in found:
            found.append(candidate.value)
    assert found == values


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
PROSE = st.text("abc .,:!\n", max_size=20)


@given(JSON, st.sampled_from(["{}", "```json\n{}\n```", "```\n{}\n```"]), PROSE, PROSE)
def test_any_value_is_found_in_a_fence_and_any_structure_in_prose(value: Any, dress: str, before: str, after: str):
    written = dress.replace("{}", json.dumps(value))
    if not isinstance(value, dict | list):
        assert read_json(json.dumps(value)) == next(find_json(written))
        return
    (found,) = find_json(f"{before}\n{written}\n{after}")
    assert found.value == value
    assert found.is_final is not bool(after.strip())


@given(st.text('{}[]",:1a`\\\n ', max_size=60))
def test_every_candidate_is_json_and_part_of_the_text(text: str):
    for candidate in find_json(text):
        assert candidate.text in text
        assert json.loads(candidate.text) == candidate.value
