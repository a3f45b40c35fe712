"""A run that is repeated after its process died: of its packets, those that were not sent yet.

Text is compared as text, wherever the packets were cut; events by their type and content, since time and id may differ.
A repeated run that differs from what was sent cannot continue it: two different answers would be joined.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final

from accord.wire.packet import DeltaPacket, EventPacket, StreamPacket, make_delta

IGNORED: Final = ("id", "timestamp")
"""Members of an event that may differ in a repeated run."""


class ReplayFilter:
    """Removes from a repeated run what was sent before. `differs` is True once it has sent something else."""

    def __init__(self, sent: Iterable[StreamPacket]) -> None:
        self.differs = False
        items: list[list[str] | dict[str, Any]] = []
        for packet in sent:
            if type(packet) is DeltaPacket and packet.p:
                if items and isinstance(items[-1], list):
                    items[-1].append(packet.p)
                else:
                    items.append([packet.p])
            elif type(packet) is EventPacket:
                items.append(_content(packet))
        self._left: Final = deque("".join(item) if isinstance(item, list) else item for item in items)
        self._seen_chars = 0
        """How much of the text that is first in `_left` was repeated already."""

    @property
    def is_behind(self) -> bool:
        """Whether the repeated run has not reached the end of what was sent."""
        return bool(self._left)

    def feed(self, packet: StreamPacket) -> Sequence[StreamPacket]:
        """The part of this packet that was not sent yet; nothing if the run differs."""
        if self.differs or (type(packet) is DeltaPacket and not packet.p):
            return ()
        if not self._left:
            return (packet,)
        expected = self._left[0]
        if type(packet) is DeltaPacket and isinstance(expected, str):
            return self._feed_text(packet.p, expected)
        if type(packet) is EventPacket and not self._seen_chars and _content(packet) == expected:
            self._left.popleft()
        else:
            self.differs = True
        return ()

    def _feed_text(self, text: str, expected: str) -> Sequence[StreamPacket]:
        room = len(expected) - self._seen_chars
        if not expected.startswith(text[:room], self._seen_chars):
            self.differs = True
            return ()
        if len(text) < room:
            self._seen_chars += len(text)
            return ()
        self._left.popleft()
        self._seen_chars = 0
        if len(text) == room:
            return ()
        if self._left:  # an event comes next
            self.differs = True
            return ()
        return (make_delta({"p": text[room:]}),)


def _content(packet: EventPacket) -> dict[str, Any]:
    return {name: value for name, value in packet.p.items() if name not in IGNORED}
