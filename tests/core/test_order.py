"""Which packet may follow which."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core.order import NEXT, PacketOrder, Stage
from accord.wire.packet import StreamOpCode


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("op", StreamOpCode)
def test_every_packet_has_its_place_or_its_reason(stage: Stage, op: StreamOpCode):
    order = PacketOrder()
    order.stage = stage
    problem = order.take(op)
    assert (problem is None) is ((stage, op) in NEXT)
    assert order.stage is NEXT.get((stage, op), stage)


def test_the_reason_is_a_sentence():
    order = PacketOrder()
    order.take(StreamOpCode.CLOSE)
    assert order.take(StreamOpCode.DELTA) == "delta after the stream has closed"


@given(st.lists(st.sampled_from(StreamOpCode)))
def test_whatever_is_sent_at_most_one_close_and_one_error_get_through(ops: list[StreamOpCode]):
    order = PacketOrder()
    passed = [op for op in ops if order.take(op) is None]
    assert passed.count(StreamOpCode.CLOSE) <= 1
    assert passed.count(StreamOpCode.ERROR) <= 1
    assert StreamOpCode.CLOSE not in passed[:-1]
