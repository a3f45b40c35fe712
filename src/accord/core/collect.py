"""Collects a stream into one answer: its text, its events, and the error that it ended in, if any."""

from typing import Any, Final

from accord.wire.packet import DeltaPacket, ErrorPacket, EventPacket, StreamError, StreamPacket


class Collected:
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
