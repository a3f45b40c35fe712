"""The order of packets: any number of deltas and events, at most one error, one close."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core.output.packets import PacketOrder
from accord.wire.packet import StreamOpCode

DELTA, EVENT, ERROR, CLOSE = StreamOpCode.DELTA, StreamOpCode.EVENT, StreamOpCode.ERROR, StreamOpCode.CLOSE
IN_ORDER = re.compile(r"(delta |event )*(error )?(close )?")


@pytest.mark.parametrize(
    "ops",
    [[DELTA, DELTA], [EVENT, EVENT], [DELTA, EVENT, DELTA, CLOSE], [CLOSE], [DELTA, ERROR, CLOSE], [ERROR, CLOSE]],
    ids=" ".join,
)
def test_a_stream_in_order_passes(ops: list[StreamOpCode]):
    order = PacketOrder()
    assert [order.take(op) for op in ops] == [None] * len(ops)


@pytest.mark.parametrize(
    ("before", "op", "sentence"),
    [
        ([CLOSE], DELTA, "delta after the stream has closed"),
        ([CLOSE], EVENT, "event after the stream has closed"),
        ([CLOSE], ERROR, "error after the stream has closed"),
        ([CLOSE], CLOSE, "close after the stream has closed"),
        ([ERROR], DELTA, "delta after the stream has failed"),
        ([ERROR], EVENT, "event after the stream has failed"),
        ([ERROR], ERROR, "error after the stream has failed"),
        ([ERROR, CLOSE], CLOSE, "close after the stream has closed"),
        ([CLOSE, DELTA], EVENT, "event after the stream has closed"),
        ([ERROR, DELTA], ERROR, "error after the stream has failed"),
    ],
)
def test_a_packet_out_of_order_is_rejected_with_a_reason(before: list[StreamOpCode], op: StreamOpCode, sentence: str):
    order = PacketOrder()
    for each in before:
        order.take(each)
    assert order.take(op) == sentence


@given(st.lists(st.sampled_from(StreamOpCode)))
def test_exactly_the_packets_in_order_pass(ops: list[StreamOpCode]):
    order, passed = PacketOrder(), ""
    for op in ops:
        fits = IN_ORDER.fullmatch(f"{passed}{op} ") is not None
        assert (order.take(op) is None) is fits
        passed += f"{op} " if fits else ""
