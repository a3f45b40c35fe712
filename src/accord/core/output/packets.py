"""The order of packets in a stream, a whole stream collected into one answer, and an event found by its id."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from accord.core.output.event_parser import event_id
from accord.wire.packet import DeltaPacket, ErrorPacket, EventPacket, StreamError, StreamOpCode, StreamPacket


class StreamStage(StrEnum):
    """The state of a stream."""

    OPEN = "open"
    FAILED = "failed"
    CLOSED = "closed"


NEXT_STAGE: Final[Mapping[tuple[StreamStage, StreamOpCode], StreamStage]] = MappingProxyType(
    {
        (StreamStage.OPEN, StreamOpCode.DELTA): StreamStage.OPEN,
        (StreamStage.OPEN, StreamOpCode.EVENT): StreamStage.OPEN,
        (StreamStage.OPEN, StreamOpCode.ERROR): StreamStage.FAILED,
        (StreamStage.OPEN, StreamOpCode.CLOSE): StreamStage.CLOSED,
        (StreamStage.FAILED, StreamOpCode.CLOSE): StreamStage.CLOSED,
    }
)
"""The rule: any number of deltas and events, at most one error, one close. Everything else is out of order."""


class PacketOrder:
    """Checks the order of the packets of one stream."""

    __slots__ = ("stage",)

    def __init__(self) -> None:
        self.stage = StreamStage.OPEN

    def take(self, op: StreamOpCode) -> str | None:
        """Advance the stream by one packet; if it is out of order, return why and change nothing."""
        after = NEXT_STAGE.get((self.stage, op))
        if after is None:
            return f"{op} after the stream has {'closed' if self.stage is StreamStage.CLOSED else 'failed'}"
        self.stage = after
        return None


TEXT_OFFSET: Final = "text_offset"
"""The member of an event in a whole answer that says after how many characters of the text it came."""


class OutputCollector:
    """Collects a stream into one answer: its text, its events, and the error that ended it, if any.

    It may begin with texts that came before.
    """

    def __init__(self, texts: Sequence[str] = ()) -> None:
        self.error: StreamError | None = None
        self._text: Final[list[str]] = [*texts]
        self._chars = sum(map(len, texts))
        self._events: Final[list[dict[str, Any]]] = []

    def feed(self, packet: StreamPacket) -> None:
        """Add a packet."""
        # By class: an instance check of pydantic that fails takes 0.5 µs.
        if type(packet) is DeltaPacket:
            self._text.append(packet.p)
            self._chars += len(packet.p)
        elif type(packet) is EventPacket:
            self._events.append({**packet.p, TEXT_OFFSET: self._chars})
        elif type(packet) is ErrorPacket:
            self.error = packet.p

    @property
    def output(self) -> dict[str, Any]:
        """The `output` of a `ServiceResponse`."""
        return {"text": "".join(self._text)} | ({"events": self._events} if self._events else {})


def find_event(packets: Sequence[StreamPacket], item_id: str) -> dict[str, Any] | None:
    """Return the event that a notice calls by this id. `packets` are all packets of the stream that are not text.

    An id that several events have is followed by the number of the event among these packets.
    """
    events = [
        (event_id(packet.p, number), number, packet.p)
        for number, packet in enumerate(packets, start=1)
        if isinstance(packet, EventPacket)
    ]
    return next(
        (event for found, number, event in events if f"{found}-{number}" == item_id),
        next((event for found, _, event in events if found == item_id), None),
    )
