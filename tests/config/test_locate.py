"""The position of keys in a TOML text, compared with what tomllib reads."""

import tomllib
from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.config.locate import KeyPath, locate

PLACES = [
    ("a = 1", ("a",), (1, 1)),
    ("\n  a = 1", ("a",), (2, 3)),
    ("# a = 1\r\na = 1 # b = 2", ("a",), (2, 1)),
    ("[t]\na = 1", ("t",), (1, 1)),
    ("[t]\na = 1", ("t", "a"), (2, 1)),
    ("[ t . u ]\na = 1", ("t", "u", "a"), (2, 1)),
    ("a.b . c = 1", ("a", "b", "c"), (1, 7)),
    ("a.b = 1\na.c = 2", ("a",), (1, 1)),
    ("[[t]]\n[[t]]\na = 1", ("t", 1, "a"), (3, 1)),
    ("[[t]]\n[[t]]\na = 1", ("t", 1), (2, 1)),
    ("[[t]]\n[t.u]\na = 1\n[[t]]\n[t.u]\na = 2", ("t", 1, "u", "a"), (6, 1)),
    ("[[t]]\n[[t.u]]\n[[t.u]]\na = 1", ("t", 0, "u", 1, "a"), (4, 1)),
    ("a = {b = 1, c = {d = 2}}", ("a", "c", "d"), (1, 18)),
    ("a = [\n 1, # ],\n 2\n]", ("a", 1), (3, 2)),
    ('a = [{b = "]"}, {b = 1}]', ("a", 1, "b"), (1, 18)),
    ("\"x.y\" = 1\n'z w' = 2", ("x.y",), (1, 1)),
    ("\"x.y\" = 1\n'z w' = 2", ("z w",), (2, 1)),
    ('"\\u00e9" = 1', ("é",), (1, 1)),
    ('a = """\nb = 1\n"""\nc = 1', ("c",), (4, 1)),
    ("a = '''\nb = 1'''''\nc = 1", ("c",), (3, 1)),
    ('a = """x\\""" y"""\nc = 1', ("c",), (2, 1)),
    ("a = 1979-05-27 07:32:00Z\nc = 1", ("c",), (2, 1)),
    ('a = "\\"#"\nc = 1', ("c",), (2, 1)),
]


@pytest.mark.parametrize(("text", "path", "place"), PLACES)
def test_each_key_has_its_line_and_column(text: str, path: KeyPath, place: tuple[int, int]):
    tomllib.loads(text)
    assert locate(text)[path] == place


def paths(value: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in cast("dict[str, Any]", value).items():
            yield from paths(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(cast("list[Any]", value)):
            yield from paths(inner, (*path, index))


@pytest.mark.parametrize("text", [text for text, _, _ in PLACES])
def test_every_key_that_tomllib_reads_is_found_and_no_other(text: str):
    assert set(locate(text)) == set(paths(tomllib.loads(text)))


bare = st.sampled_from(["a", "b", "c-d", '"e f"', "'g.h'", '"\\t"'])
scalar = st.sampled_from(
    ["1", "1.5", "true", '"x # ] }"', "'y, ]'", '"""\n[z]\n"""', "'''k = 1\n'''", "2020-01-01", '"\\\\"', "inf", '""']
)
value = st.recursive(
    scalar,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[ {' , '.join(items)}\n]")
        | st.lists(st.tuples(bare, inner), max_size=3).map(
            lambda pairs: "{" + ", ".join(f"{key} = {item}" for key, item in pairs) + "}"
        )
    ),
    max_leaves=5,
)
key = st.lists(bare, min_size=1, max_size=3).map(".".join)
line = (
    st.tuples(key, value).map(lambda pair: f"{pair[0]} = {pair[1]} # note")
    | key.map(lambda name: f"[{name}]")
    | key.map(lambda name: f"[[ {name} ]] # ]]")
    | st.sampled_from(["", "# c = 1", "  "])
)


@given(st.lists(line, max_size=8).map("\n".join))
def test_what_is_found_is_what_tomllib_reads(text: str):
    try:
        read = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    assert set(locate(text)) == set(paths(read))
