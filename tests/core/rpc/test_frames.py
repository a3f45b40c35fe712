"""What a line is: one of four messages, or broken with the one reply that it costs."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core.rpc import (
    INVALID_REQUEST,
    TOO_MANY_VALUES,
    MalformedMessage,
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
def test_each_message_is_told_by_its_members(line: bytes, frame: RpcMessage):
    assert read_frames(line) == [frame]


@pytest.mark.parametrize(
    ("line", "own", "code"),
    [
        (b"garbage", None, -32700),
        (b'{"id":1,"method":"m"', None, -32700),
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
def test_a_line_that_is_no_message_costs_one_reply(line: bytes, own: Any, code: int):
    (broken,) = read_frames(line)
    assert isinstance(broken, MalformedMessage)
    assert (broken.id, broken.code) == (own, code)


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        (b'[{"id":1,"method":"a"},{"method":"b"}]', [RpcRequest, RpcNotification]),
        (b'[{"id":1,"method":"a"},7]', [RpcRequest, MalformedMessage]),
        (b"[]", [MalformedMessage]),
        (b"[1", [MalformedMessage]),
    ],
)
def test_a_batch_is_read_where_batches_are_spoken(line: bytes, kinds: list[type[Any]]):
    assert [type(frame) for frame in read_frames(line, batches=True)] == kinds


@given(st.binary(), st.booleans())
def test_any_bytes_at_all_give_frames_and_never_an_exception(line: bytes, batches: bool):
    assert read_frames(line, batches=batches)


@given(st.integers() | st.text() | st.none(), ANY_JSON)
def test_what_is_written_is_read_back(own: Any, value: Any):
    (answer,) = read_frames(result_line(own, value))
    assert isinstance(answer, RpcResult | MalformedMessage)
    if isinstance(answer, RpcResult):
        assert (answer.id, answer.value()) == (own, value)
        (call,) = read_frames(request_line(own, "m", {"value": value}))
        assert isinstance(call, RpcRequest)
        assert call.value() == {"value": value}
        assert json.loads(call.raw) == {"value": value}


def test_a_message_of_too_many_values_costs_its_sender_one_reply_and_fails_who_waits_for_it():
    many = b"[" + b"[]," * MAX_VALUES + b"0]"
    assert read_frames(b'{"id":1,"method":"m","params":%s}' % many) == [
        MalformedMessage(1, INVALID_REQUEST, TOO_MANY_VALUES)
    ]
    assert read_frames(b'{"method":"m","params":%s}' % many) == [
        MalformedMessage(None, INVALID_REQUEST, TOO_MANY_VALUES)
    ]
    (failed,) = read_frames(b'{"id":1,"result":%s}' % many)
    assert isinstance(failed, RpcFailure)
    assert failed.value() == {"code": INVALID_REQUEST, "message": TOO_MANY_VALUES}
    media = b'{"data":"%s"}' % (b"[,{" * MAX_VALUES)
    assert read_frames(b'{"id":1,"result":%s}' % media) == [RpcResult(1, media)]
