"""Lines with half of a surrogate pair can be read, and so can the beginning of a line that is too long."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.acp_tools.proxy.long_lines import BEGINNING_BYTES, CUT, read_beginning
from accord.core.rpc_repair import replace_half_pairs

HALVES = [
    (rb'"\ud83d"', rb'"\ufffd"'),
    (rb'"\uDE00 x"', rb'"\ufffd x"'),
    (rb'"\ud83d\ude00"', rb'"\ud83d\ude00"'),
    (rb'"\ud83d\ud83d\ude00\ude00"', rb'"\ufffd\ud83d\ude00\ufffd"'),
    (rb'"\\ud83d"', rb'"\\ud83d"'),
    (rb'"\\\ud83d"', rb'"\\\ufffd"'),
    (rb'"\"\ud83d\u0041\n"', rb'"\"\ufffd\u0041\n"'),
    (rb'"\ud83"', rb'"\ud83"'),
]


@pytest.mark.parametrize(("text", "readable"), HALVES)
def test_only_half_of_a_pair_is_replaced(text: bytes, readable: bytes):
    assert replace_half_pairs(text) == readable


@given(st.text(st.characters(), max_size=50))
def test_any_text_can_be_encoded_after_the_replacement(text: str):
    line = json.dumps(text).encode()
    readable = replace_half_pairs(line)
    assert len(readable) == len(line)
    assert json.loads(readable) == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


BEGINNINGS: list[tuple[bytes, dict[str, Any]]] = [
    (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"a', {"jsonrpc": "2.0", "id": 7, "method": "m", "params": CUT}),
    (b' { "id" : "x" , "result" : [1, 2', {"id": "x", "result": CUT}),
    (b'{"params":{"id":1},"id":2,"method":"m', {"params": {"id": 1}, "id": 2, "method": CUT}),
    (b'{"id":12', {"id": CUT}),
    (b'{"id":null,"m', {"id": None}),
    (b'{"\\ud83d":1,"id":7,"x":', {"\ud83d": 1, "id": 7, "x": CUT}),
    (b'{"id":7,\xff', {"id": 7}),
    (b'{7:1,"id":7,', {}),
    (b'[{"id":7,"method":"m"', {}),
    (b"garbage", {}),
    (b"", {}),
    (b'{"id":7,"x":' + b"[" * BEGINNING_BYTES, {"id": 7, "x": CUT}),
    (b'{"id":7,"x":' + b"1" * BEGINNING_BYTES, {"id": 7, "x": CUT}),
]


@pytest.mark.parametrize(("line", "members"), BEGINNINGS)
def test_the_members_at_the_beginning_of_a_line(line: bytes, members: dict[str, Any]):
    assert read_beginning(line) == members
