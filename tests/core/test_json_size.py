"""The values of JSON text are counted exactly, before it is parsed."""

import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core import sizes as json_size
from accord.core.sizes import Excess, find_excess

MARKS = st.text(alphabet='{}[],:"\\ax\u00e9 ', max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | MARKS,
    lambda inner: st.lists(inner, min_size=1) | st.dictionaries(MARKS, inner, min_size=1),
    max_leaves=30,
)


def count(value: Any) -> tuple[int, int]:
    """The number of values in this one, and their depth."""
    if not isinstance(value, dict | list):
        return 1, 0
    inner = [count(each) for each in cast("list[Any]", [*value.values()] if isinstance(value, dict) else value)]
    return 1 + sum(values for values, _ in inner), 1 + max((depth for _, depth in inner), default=0)


@given(JSON, st.integers(1, 40), st.booleans())
def test_values_and_depth_are_counted_exactly_wherever_the_windows_end(value: Any, window: int, ascii_only: bool):
    text = json.dumps(value, ensure_ascii=ascii_only).encode()
    values, depth = count(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_size, "WINDOW_BYTES", window)
        assert find_excess(text, max_values=values, max_depth=max(depth, 1)) is None
        if values > 1:
            assert find_excess(text, max_values=values - 1, max_depth=depth) == Excess("values", values - 1)
        if depth > 1:
            assert find_excess(text, max_values=values, max_depth=depth - 1) == Excess("depth", depth - 1)


@given(st.binary())
def test_any_bytes_can_be_counted(text: bytes):
    find_excess(text, max_values=1, max_depth=1)
