"""The order of packets in a stream, and a whole stream collected into one answer."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from accord.wire.packet import DeltaPacket, ErrorPacket, EventPacket, StreamError, StreamOpCode, StreamPacket

# Keeps packets in order: nothing after the close, an error ends a stream, exactly one close.
#
# The table is the rule. Whoever produces packets runs them through a `PacketOrder`; what the table does not allow is
# told as a value, and the one who pumps decides what to do about it.


class StreamStage(StrEnum):
    """How far a stream has come."""

    OPEN = "open"
    FAILED = "failed"
    CLOSED = "closed"


NEXT: Final[Mapping[tuple[StreamStage, StreamOpCode], StreamStage]] = MappingProxyType(
    {
        (StreamStage.OPEN, StreamOpCode.DELTA): StreamStage.OPEN,
        (StreamStage.OPEN, StreamOpCode.EVENT): StreamStage.OPEN,
        (StreamStage.OPEN, StreamOpCode.ERROR): StreamStage.FAILED,
        (StreamStage.OPEN, StreamOpCode.CLOSE): StreamStage.CLOSED,
        (StreamStage.FAILED, StreamOpCode.CLOSE): StreamStage.CLOSED,
    }
)
"""What may follow; everything else is out of order."""


class PacketOrder:
    """Where one stream stands."""

    __slots__ = ("stage",)

    def __init__(self) -> None:
        self.stage = StreamStage.OPEN

    def take(self, op: StreamOpCode) -> str | None:
        """Why a packet of this kind may not come now; None if it may, and then it has."""
        after = NEXT.get((self.stage, op))
        if after is None:
            return f"{op} after the stream has {'closed' if self.stage is StreamStage.CLOSED else 'failed'}"
        self.stage = after
        return None


# Collects a stream into one answer: its text, its events, and the error that it ended in, if any.


class OutputCollector:
    """One stream, as a whole."""

    def __init__(self) -> None:
        self.error: StreamError | None = None
        self._text: Final[list[str]] = []
        self._events: Final[list[dict[str, Any]]] = []

    def feed(self, packet: StreamPacket) -> None:
        """Take this packet in."""
        if isinstance(packet, DeltaPacket):
            self._text.append(packet.p)
        elif isinstance(packet, EventPacket):
            self._events.append(packet.p)
        elif isinstance(packet, ErrorPacket):
            self.error = packet.p

    @property
    def output(self) -> dict[str, Any]:
        """What a `ServiceResponse` carries."""
        return {"text": "".join(self._text)} | ({"events": self._events} if self._events else {})
