"""JSON-RPC over lines: any bytes give messages or malformed lines, wherever the stream was cut."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core.rpc import (
    TOO_MANY_VALUES,
    LineSplitter,
    MalformedMessage,
    OversizedLine,
    RpcFailure,
    RpcMessage,
    RpcNotification,
    RpcRequest,
    RpcResult,
    read_frames,
    request_line,
    result_line,
)
from accord.core.sizes import MAX_VALUES
from accord.errors import RpcCode

ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("line", "frame"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a": 1}}', RpcRequest(1, "m", b'{"a": 1}')),
        (b'{"id":"x","method":"m"}', RpcRequest("x", "m", b"")),
        (b'{"jsonrpc":"2.0","id":null,"method":"m"}', RpcRequest(None, "m", b"")),
        (b'{"jsonrpc":"2.0","method":"m","params":[]}', RpcNotification("m", b"[]")),
        (b'{"jsonrpc":"2.0","id":3,"result":null}', RpcResult(3, b"null")),
        (b'{"jsonrpc":"2.0","id":3,"error":{"code":1,"message":"no"}}', RpcFailure(3, b'{"code":1,"message":"no"}')),
        (b'{"jsonrpc":"2.0","id":3,"result":1,"more":{}}', RpcResult(3, b"1")),
    ],
)
def test_the_members_of_an_object_decide_its_kind(line: bytes, frame: RpcMessage):
    assert read_frames(line) == [frame]


@pytest.mark.parametrize(
    ("line", "request_id", "code"),
    [
        (b"garbage", None, -32700),
        (b'{"id":1,"method":"m"', 1, -32700),
        (b"\xff\xfe", None, -32700),
        (b"[]", None, -32600),
        (b"42", None, -32600),
        (b"null", None, -32600),
        (b'"text"', None, -32600),
        (b"{}", None, -32600),
        (b'{"id":7}', 7, -32600),
        (b'{"jsonrpc":"1.0","id":7,"method":"m"}', 7, -32600),
        (b'{"id":{},"method":"m"}', None, -32600),
        (b'{"id":1.5,"method":"m"}', None, -32600),
        (b'{"id":7,"method":3}', 7, -32600),
        (b'{"result":1}', None, -32600),
        (b"[" * 100_000, None, -32600),
    ],
)
def test_a_malformed_line_gives_one_error(line: bytes, request_id: Any, code: int):
    (malformed,) = read_frames(line)
    assert isinstance(malformed, MalformedMessage)
    assert (malformed.id, malformed.code) == (request_id, code)


HALVES: list[tuple[bytes, RpcMessage]] = [
    (rb'{"id":1,"method":"m","params":["\ud83d"]}', RpcRequest(1, "m", rb'["\ufffd"]')),
    (rb'{"id":1,"method":"m","params":["\udc00x\uD83D"]}', RpcRequest(1, "m", rb'["\ufffdx\ufffd"]')),
    (rb'{"id":1,"method":"m","params":["\ud83d\ude00"]}', RpcRequest(1, "m", rb'["\ud83d\ude00"]')),
    (rb'{"id":1,"method":"m","params":["\ud83d\ud83d\ude00"]}', RpcRequest(1, "m", rb'["\ufffd\ud83d\ude00"]')),
    (rb'{"id":1,"method":"m","params":["\\ud83d\ud83d"]}', RpcRequest(1, "m", rb'["\\ud83d\ufffd"]')),
    (rb'{"id":1,"method":"m","params":["\\\ud83d"]}', RpcRequest(1, "m", rb'["\\\ufffd"]')),
    (rb'{"id":1,"method":"m\ud83d","\ud83d":0}', RpcRequest(1, "m\ufffd")),
    (rb'{"id":"\ud83d","method":"m"}', RpcRequest("\ud83d", "m")),
    (rb'{"id":"\ud83d","result":"\ud83d"}', RpcResult("\ud83d", rb'"\ufffd"')),
    (b'{"id":1,"method":"m","params":["\xed\xa0\xbd"]}', RpcRequest(1, "m", '["\ufffd"]'.encode())),
    (b'{"id":"\xed\xa0\xbd","method":"m"}', RpcRequest("\ud83d", "m")),
]


@pytest.mark.parametrize(("line", "frame"), HALVES)
def test_half_a_surrogate_pair_is_replaced_everywhere_but_in_an_id(line: bytes, frame: RpcMessage):
    assert read_frames(line) == [frame]
    assert read_frames(b"[%s,%s]" % (line, line), batches=True) == [frame, frame]


@given(st.text(st.characters(exclude_categories=())), st.text(st.characters(exclude_categories=())))
def test_whatever_text_a_request_has_it_is_read_and_the_reply_has_exactly_its_id(request_id: str, text: str):
    line = json.dumps({"id": request_id, "method": "m", "params": {text: text}}).encode()
    (frame,) = read_frames(line)
    assert isinstance(frame, RpcRequest)
    assert json.loads(result_line(frame.id, None))["id"] == request_id
    is_half = [0xD800 <= ord(character) <= 0xDFFF for character in json.loads(json.dumps(text))]
    if not any(is_half):
        assert frame.value() == {text: text}


@pytest.mark.parametrize(
    ("line", "ids"),
    [
        (rb'{"id":7,"method":"m","params":{"a":"\x"}}', [(7, None)]),
        (b'{"method":"m","params":{"id":1,"a":"cut off', [(None, None)]),
        (b'{"id":7,"method":"m","params":{"a":"cut off', [(7, None)]),
        (b'{"id":7,"method":"m","params":{"a":"}","b":["{"', [(7, None)]),
        (b'{"method":"id","params":nul,"id":"x"}', [("x", None)]),
        (b'{"id":7,"method":"m","id":8,}', [(7, None)]),
        (b'{"id":[],"method":"m",}', [(None, None)]),
        (b'{"id":7,"result":nul}', [(None, 7)]),
        (b'{"id":7,}', [(None, None)]),
        (b'[{"id":1,"method":"m"},{"id":2,"method":"m",},{"method":"m"}]', [(1, None), (2, None)]),
        (b'[{"id":1,"method":"m","params":[{"id":3}]},{"id":2', [(1, None)]),
    ],
)
def test_the_error_of_a_broken_line_has_the_id_of_its_request_if_it_can_be_read(line: bytes, ids: list[Any]):
    frames = read_frames(line, batches=True)
    assert [(frame.id, frame.response_id) for frame in frames if isinstance(frame, MalformedMessage)] == ids
    assert {frame.code for frame in frames if isinstance(frame, MalformedMessage)} == {RpcCode.PARSE_ERROR}


def test_a_line_that_is_too_long_still_has_the_id_of_its_request():
    start = b'{"jsonrpc":"2.0","id":"x","method":"m","params":{"data":"'
    for size in (1, 7, 10_000):
        text = start + b"a" * 10_000 + b'"}}\nok\n'
        pieces = [text[place : place + size] for place in range(0, len(text), size)]
        assert lines_of(pieces, 5_000) == [OversizedLine(5_000, "x"), b"ok"]


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        (b'[{"id":1,"method":"a"},{"method":"b"}]', [RpcRequest, RpcNotification]),
        (b'[{"id":1,"method":"a"},7]', [RpcRequest, MalformedMessage]),
        (b"[]", [MalformedMessage]),
        (b"[1", [MalformedMessage]),
    ],
)
def test_a_batch_is_read_if_batches_are_allowed(line: bytes, kinds: list[type[Any]]):
    assert [type(frame) for frame in read_frames(line, batches=True)] == kinds


@given(st.binary(), st.booleans())
def test_any_bytes_give_messages_and_never_an_exception(line: bytes, batches: bool):
    assert read_frames(line, batches=batches)


@given(st.integers() | st.text() | st.none(), ANY_JSON)
def test_what_is_written_is_read_back(request_id: Any, value: Any):
    (response,) = read_frames(result_line(request_id, value))
    assert isinstance(response, RpcResult | MalformedMessage)
    if isinstance(response, RpcResult):
        assert (response.id, response.value()) == (request_id, value)
        (request,) = read_frames(request_line(request_id, "m", {"value": value}))
        assert isinstance(request, RpcRequest)
        assert request.value() == {"value": value}
        assert json.loads(request.raw) == {"value": value}


def test_too_many_values_give_an_error_to_the_sender_of_a_call_and_to_the_receiver_of_a_response():
    many, excess = b"[" + b"[]," * MAX_VALUES + b"0]", TOO_MANY_VALUES.format(MAX_VALUES)
    assert read_frames(b'{"id":1,"method":"m","params":%s}' % many) == [
        MalformedMessage(1, RpcCode.INVALID_REQUEST, excess)
    ]
    assert read_frames(b'{"method":"m","params":%s}' % many) == [
        MalformedMessage(None, RpcCode.INVALID_REQUEST, excess)
    ]
    (failed,) = read_frames(b'{"id":1,"result":%s}' % many)
    assert isinstance(failed, RpcFailure)
    assert failed.value() == {"code": RpcCode.INVALID_REQUEST, "message": excess}
    media = b'{"data":"%s"}' % (b"[,{" * MAX_VALUES)
    assert read_frames(b'{"id":1,"result":%s}' % media) == [RpcResult(1, media)]


@pytest.mark.parametrize("line", [b'{"id":1,"method":"m","params":[0,0]}', b'[{"id":1,"method":"m","params":[0,0]}]'])
def test_a_caller_may_set_the_number_of_values(line: bytes):
    assert read_frames(line, batches=True, max_values=3) == [RpcRequest(1, "m", b"[0,0]")]
    excess = MalformedMessage(1, RpcCode.INVALID_REQUEST, "A message has at most 2 values")
    assert read_frames(line, batches=True, max_values=2) == [excess]


def lines_of(pieces: list[bytes], max_bytes: int = 1_000) -> list[bytes | OversizedLine]:
    splitter = LineSplitter(max_bytes)
    return [line for piece in pieces for line in splitter.feed(piece)] + splitter.close()


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\r\nb", [b"a", b"b"]),
        (b"\n \n\t\r\n", []),
        (b"\xef\xbb\xbf{}\n", [b"{}"]),
        (b"x" * 11 + b"\nok\n", [OversizedLine(10), b"ok"]),
        (b"x" * 10 + b"\n", [b"x" * 10]),
        (b"x" * 11, [OversizedLine(10)]),
        (b"", []),
    ],
)
def test_lines_end_at_line_ends_and_blank_ones_are_skipped(text: bytes, lines: list[bytes | OversizedLine]):
    assert lines_of([text], 10) == lines


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=10), st.integers(1, 40))
def test_lines_do_not_depend_on_where_the_stream_was_cut(text: bytes, cuts: list[int], max_bytes: int):
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[start:end] for start, end in itertools.pairwise(places)]
    assert lines_of(pieces, max_bytes) == lines_of([text], max_bytes)
