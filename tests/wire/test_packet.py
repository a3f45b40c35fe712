"""Stream packets: `op` names the kind, and invalid ones cannot be built."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from accord.errors import ErrorSeverity, NotSerialisableError
from accord.wire.event import PresentationEvent
from accord.wire.message import Message
from accord.wire.packet import (
    AnyPacket,
    ClosePacket,
    DeltaPacket,
    ErrorPacket,
    EventPacket,
    StreamError,
    StreamOpCode,
    StreamPacket,
    make_delta,
)

BOOM = StreamError(code="boom", message="m", severity=ErrorSeverity.FATAL)
EVENT = PresentationEvent(type="markdown_block", data={"content": "x"}, id=UUID(int=1))


@pytest.mark.parametrize(
    ("op", "payload", "kind"),
    [
        ("delta", "The", DeltaPacket),
        ("delta", "", DeltaPacket),
        (StreamOpCode.DELTA, "The", DeltaPacket),
        ("event", {}, EventPacket),
        ("event", {"op": "delta"}, EventPacket),
        ("event", EVENT, EventPacket),
        ("error", BOOM, ErrorPacket),
        ("error", {"code": "c", "message": "m", "severity": "transient"}, ErrorPacket),
        ("close", None, ClosePacket),
    ],
)
def test_decision_3_the_op_decides_the_kind(op: str, payload: Any, kind: type[StreamPacket]):
    packet = StreamPacket(op=op, p=payload)
    assert type(packet) is kind
    assert packet.op is StreamOpCode(op)
    assert StreamPacket.parse(packet.to_json()) == packet


@pytest.mark.parametrize(
    ("op", "payload"),
    [
        ("delta", None),
        ("delta", 1),
        ("delta", {"text": "x"}),
        ("delta", b"The"),
        ("event", None),
        ("event", "text"),
        ("event", [1]),
        ("event", BOOM),
        ("error", None),
        ("error", "boom"),
        ("error", {"code": "c", "message": "m"}),
        ("error", {"code": "c", "message": "m", "severity": "mild"}),
        ("close", "bye"),
        ("close", {}),
        ("DELTA", "The"),
        ("", None),
        (None, None),
        (1, None),
        ([], None),
    ],
)
def test_decision_3_building_a_packet_is_as_strict_as_reading_one(op: Any, payload: Any):
    with pytest.raises(ValidationError):
        StreamPacket(op=op, p=payload)
    with pytest.raises(ValidationError):
        StreamPacket.model_validate({"op": op, "p": payload})


def test_a_packet_without_an_op_is_refused():
    with pytest.raises(ValidationError, match="op"):
        StreamPacket()  # pyright: ignore[reportCallIssue]


def test_decision_3_a_presentation_event_can_be_given_as_the_payload():
    assert StreamPacket(op="event", p=EVENT).p == EVENT.dump()


def test_a_close_packet_is_written_as_every_message_is():
    assert ClosePacket().to_json() == Message.to_json(ClosePacket())


def test_a_close_packet_has_no_payload():
    assert StreamPacket(op="close").to_json() == '{"op":"close"}'
    assert StreamPacket.parse('{"op":"close","p":null}') == StreamPacket.parse('{"op":"close"}')


@pytest.mark.parametrize(
    "payload",
    [
        {"code": "x", "message": "m", "severity": "fatal", "extra": "kept"},
        {"n": None, "m": {"k": None}},
        {"n": 123456789012345678901234567890},
        {"type": "citation_block"},
        {"": {"": [None, [None]]}},
    ],
)
def test_decision_2_an_event_keeps_every_member(payload: dict[str, Any]):
    assert StreamPacket.parse(EventPacket(p=payload).to_json()).p == payload


def test_decision_2_an_envelope_ignores_unknown_members():
    packet = StreamPacket.parse('{"op":"delta","p":"x","seq":7}')
    assert packet.to_json() == '{"op":"delta","p":"x"}'


def test_a_packet_is_validated_inside_other_models():
    packets = TypeAdapter(list[StreamPacket]).validate_json('[{"op":"delta","p":"a"},{"op":"close"}]')
    assert packets == [DeltaPacket(p="a"), ClosePacket()]
    assert TypeAdapter(list[StreamPacket]).dump_json(packets, exclude_none=True) == (
        b'[{"op":"delta","p":"a"},{"op":"close"}]'
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(), JSON, max_size=4)
ERRORS = st.builds(
    StreamError,
    code=st.text(),
    message=st.text(),
    severity=st.sampled_from(ErrorSeverity),
    details=st.none() | OBJECTS,
)
PACKETS = st.one_of(
    st.builds(DeltaPacket, p=st.text()),
    st.builds(EventPacket, p=OBJECTS),
    st.builds(ErrorPacket, p=ERRORS),
    st.just(ClosePacket()),
)


@given(PACKETS)
def test_reading_after_writing_is_the_identity(packet: AnyPacket):
    assert StreamPacket.parse(packet.to_json()) == packet
    assert StreamPacket.model_validate(packet.dump()) == packet


@given(st.text())
def test_a_delta_is_made_and_written_as_every_message_is(text: str):
    packet = make_delta({"p": text})
    assert packet == DeltaPacket(p=text)
    assert packet.model_fields_set == DeltaPacket(p=text).model_fields_set
    assert packet.to_json() == Message.to_json(packet)


def test_a_delta_with_a_lone_surrogate_cannot_be_written():
    with pytest.raises(NotSerialisableError, match="DeltaPacket holds a value that is not JSON"):
        DeltaPacket(p="\ud800").to_json()
