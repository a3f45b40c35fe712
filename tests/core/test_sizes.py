"""Size limits of a packet, an answer and a turn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core.sizes import AnswerSize, RunSize, SizeLimits, split_deltas
from accord.errors import AgentError, BackendError
from accord.wire.packet import DeltaPacket, EventPacket, StreamPacket
from accord.wire.work import EndPiece, TextPiece, ThinkingPiece, ToolCallPiece, WorkPiece

TEXTS = st.text(st.sampled_from(["a", "é", "🏗", "\n", '"', "\x00", "\\"]), max_size=300)


@given(TEXTS, st.integers(min_value=40, max_value=400))
def test_split_text_is_the_same_text_and_every_part_fits(text: str, limit: int):
    parts = split_deltas([DeltaPacket(p=text)], limit)
    assert "".join(part.p for part in parts) == text
    assert all(len(part.to_json().encode()) <= limit for part in parts)


def test_packets_within_the_limit_are_unchanged():
    packets: list[StreamPacket] = [DeltaPacket(p="x" * 100), EventPacket(p={"type": "x", "data": "y" * 900})]
    assert split_deltas(packets, 700) is packets


def test_an_event_over_the_limit_fails_with_its_size_in_bytes():
    event = EventPacket(p={"type": "x", "data": "é" * 100})
    size = len(event.to_json().encode())
    RunSize(SizeLimits(packet_bytes=size)).add(event)
    with pytest.raises(AgentError, match=f"an event of {size} bytes; at most {size - 1} are allowed"):
        RunSize(SizeLimits(packet_bytes=size - 1)).add(event)


def test_a_turn_is_too_large_with_the_packet_that_exceeds_its_limit():
    packets = [DeltaPacket(p='é"\n'), EventPacket(p={"type": "x"})]
    total = sum(len(packet.to_json().encode()) for packet in packets)
    for limit, fails in [(total, False), (total - 1, True)]:
        size = RunSize(SizeLimits(turn_bytes=limit))
        size.add(packets[0])
        if fails:
            with pytest.raises(AgentError, match=r"limits\.max_turn_bytes"):
                size.add(packets[1])
        else:
            size.add(packets[1])


@given(st.lists(TEXTS | st.just("\x00\n\\"), min_size=1, max_size=30), st.integers(20, 2_000))
def test_a_turn_exceeds_its_limit_with_the_same_packet_as_the_sum_of_its_json(texts: list[str], limit: int):
    size, total = RunSize(SizeLimits(turn_bytes=limit)), 0
    for text in texts:
        packet = DeltaPacket(p=text)
        total += len(packet.to_json().encode())
        if total > limit:
            with pytest.raises(AgentError, match=f"more than the {limit} bytes"):
                size.add(packet)
            return
        size.add(packet)


@pytest.mark.parametrize(
    ("piece", "size"),
    [
        (TextPiece(text="é"), 2),
        (ThinkingPiece(text="abc"), 3),
        (ToolCallPiece(id="1", name="t", input={"a": 1}), 7),
        (WorkPiece(event={"a": 1}), 7),
        (EndPiece(), 0),
        (EndPiece(logprobs=[{"a": 1}]), 9),
    ],
)
def test_every_piece_of_an_answer_counts(piece: TextPiece | ThinkingPiece | ToolCallPiece | WorkPiece, size: int):
    counted = AnswerSize("a model", SizeLimits(answer_bytes=10 + size))
    counted.add(TextPiece(text="0123456789"))
    counted.add(piece)
    with pytest.raises(BackendError, match=r"a model sent more than the \d+ bytes .*max_answer_bytes") as caught:
        counted.add(TextPiece(text="x"))
    assert not caught.value.retryable
