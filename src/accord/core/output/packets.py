"""The order of packets in a stream, and a whole stream collected into one answer."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

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


class OutputCollector:
    """Collects a stream into one answer: its text, its events, and the error that ended it, if any."""

    def __init__(self) -> None:
        self.error: StreamError | None = None
        self._text: Final[list[str]] = []
        self._events: Final[list[dict[str, Any]]] = []

    def feed(self, packet: StreamPacket) -> None:
        """Add a packet."""
        if isinstance(packet, DeltaPacket):
            self._text.append(packet.p)
        elif isinstance(packet, EventPacket):
            self._events.append(packet.p)
        elif isinstance(packet, ErrorPacket):
            self.error = packet.p

    @property
    def output(self) -> dict[str, Any]:
        """The `output` of a `ServiceResponse`."""
        return {"text": "".join(self._text)} | ({"events": self._events} if self._events else {})
