"""The last packets of a running turn, and its readers."""

from collections import deque
from collections.abc import Sequence
from itertools import count
from typing import Final

from accord.wire.session import PacketRecord

RECENT: Final = 128
RECENT_BYTES: Final = 1024 * 1024
"""How many packets, and how many bytes of them, readers get from memory instead of the store."""


class LiveReader:
    """A reader of a running turn: how many packets of the agent it has seen, and whether it makes its own view."""

    __slots__ = ("has_own_view", "seen")

    def __init__(self, seen: float, *, has_own_view: bool = False) -> None:
        self.seen = seen
        self.has_own_view = has_own_view


class RecentPackets:
    """The last packets, which readers get from memory; a slower reader gets them from the store."""

    __slots__ = ("_bytes", "_packets", "last_seq")

    def __init__(self) -> None:
        self.last_seq = 0
        self._packets: Final[deque[PacketRecord]] = deque()
        self._bytes = 0

    def add(self, bodies: Sequence[str], *, are_read: bool) -> None:
        """Number these packets, and keep them if a reader waits for them."""
        first, self.last_seq = self.last_seq + 1, self.last_seq + len(bodies)
        if not are_read:
            self.clear()
            return
        self._packets.extend(map(PacketRecord, count(first), bodies))
        self._bytes += sum(map(len, bodies))
        while self._bytes > RECENT_BYTES or len(self._packets) > RECENT:
            self._bytes -= len(self._packets.popleft().body)

    def clear(self) -> None:
        """Keep none of them."""
        self._packets.clear()
        self._bytes = 0

    def after(self, seq: int) -> Sequence[PacketRecord] | None:
        """The packets after this number; None if they are not all here."""
        if seq >= self.last_seq:
            return ()
        if not self._packets or self._packets[0].seq > seq + 1:
            return None
        return [record for record in self._packets if record.seq > seq]
