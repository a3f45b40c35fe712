"""Canonical JSON: one text for one value, the text of RFC 8785."""

import json
import struct
from math import isfinite
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from accord.core.receipt import (
    LONG_TEXT,
    MAX_CANONICAL_DEPTH,
    MAX_EXACT,
    canonical,
    canonical_object,
    digest,
    digest_in_pieces,
)
from accord.errors import NotSerialisableError

exact = st.integers(-MAX_EXACT, MAX_EXACT)
doubles = st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]))
scalars = st.none() | st.booleans() | exact | doubles | texts
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=20)


@given(values)
def test_the_canonical_form_is_that_of_rfc_8785(value: Any):
    assert canonical(value) == rfc8785.dumps(value)


@given(st.integers(0, 2**64 - 1))
def test_every_double_is_written_as_in_rfc_8785(bits: int):
    (value,) = struct.unpack("<d", struct.pack("<Q", bits))
    if isfinite(value):
        assert canonical(value) == rfc8785.dumps(value)


NUMBERS = [
    (0.0, "0"),
    (-0.0, "0"),
    (1.0, "1"),
    (1e21, "1e+21"),
    (1e20, "100000000000000000000"),
    (123456789012345680000.0, "123456789012345680000"),
    (1e-6, "0.000001"),
    (1e-7, "1e-7"),
    (-1.5e-9, "-1.5e-9"),
    (5e-324, "5e-324"),
    (333333333.33333329, "333333333.3333333"),
    (10**30, "1" + "0" * 30),
]


@pytest.mark.parametrize(("value", "written"), NUMBERS)
def test_numbers_are_written_shortest_and_whole_numbers_in_full(value: float, written: str):
    assert canonical(value).decode() == written


def test_names_are_sorted_by_utf_16_code_units():
    written = canonical({"\ufb33": 1, "\U0001f600": 2, "é": 3, "a": 4}).decode()
    assert list(json.loads(written)) == ["a", "é", "\U0001f600", "\ufb33"]


deep: Any = []
for _ in range(MAX_CANONICAL_DEPTH + 1):
    deep = [deep]

REFUSED = [
    (float("nan"), "NaN and infinities have no canonical JSON"),
    ({"a": [float("-inf")]}, "NaN and infinities have no canonical JSON"),
    ("\ud800", "An unpaired surrogate has no canonical JSON"),
    ({"\ud800": 1}, "An unpaired surrogate has no canonical JSON"),
    ({1: 2}, "The name of a member should be text, not int"),
    (b"x", "A bytes has no canonical JSON"),
    ({1, 2}, "A set has no canonical JSON"),
    (deep, f"Values nested more than {MAX_CANONICAL_DEPTH} deep have no canonical JSON"),
]


@pytest.mark.parametrize(("value", "sentence"), REFUSED, ids=lambda value: str(value)[:20])
def test_values_without_a_canonical_form_are_refused(value: Any, sentence: str):
    with pytest.raises(NotSerialisableError) as raised:
        canonical(value)
    assert str(raised.value) == sentence


@given(st.dictionaries(texts, values), st.randoms(use_true_random=False))
def test_the_canonical_form_does_not_depend_on_the_order_of_keys(value: dict[str, Any], random: Any):
    names = list(value)
    random.shuffle(names)
    assert canonical({name: value[name] for name in names}) == canonical(value)


@given(st.dictionaries(texts, values | st.integers()))
def test_the_fast_path_writes_the_same(value: dict[str, Any]):
    assert canonical_object(value) == canonical(value)


FASTER: list[dict[str, Any]] = [
    {"a": 1.0}, {"a": [0.5, -0.0]}, {"a": 1e-7}, {"a": 1e16}, {"a": {"b": [1e21]}}, {"é": 1, "b": 2}, {"a": None}, {"a": 2**70}, {"a": 0.00001},
]  # fmt: skip


@pytest.mark.parametrize("value", FASTER)
def test_the_fast_path_leaves_odd_values_to_the_slow_one(value: dict[str, Any]):
    assert canonical_object(value) == canonical(value)


@pytest.mark.parametrize("value", [float("nan"), "\ud800"])
def test_the_fast_path_refuses_the_same(value: Any):
    with pytest.raises(NotSerialisableError):
        canonical_object({"a": value})


@given(values)
def test_the_canonical_form_reads_back_to_itself(value: Any):
    assert canonical(json.loads(canonical(value))) == canonical(value)


@given(values, st.lists(texts.map(lambda text: (text or "a") * (LONG_TEXT + 1)), max_size=2))
def test_a_digest_made_in_pieces_is_the_same(value: Any, long: list[str]):
    for whole in (value, {"b": value, "a": long, "c": dict(zip("yx", long, strict=False))}):
        assert digest_in_pieces(whole) == digest(whole)
