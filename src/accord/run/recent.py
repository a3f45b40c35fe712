"""The last packets of a run, its readers, and the view that most of them share."""

from collections import deque
from collections.abc import Sequence
from itertools import count
from typing import Final

from accord.core.output.packets import OutputCollector
from accord.run.views import View
from accord.wire.packet import StreamPacket, make_delta
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


class SharedView:
    """The view of the client that sent the request, made once for all who read in it. Feed it every packet, in order.

    It may begin after text that is the same in it: the `texts` of the agent, of which the packets up to `last_seq` are
    stored, and those of `unstored` are not.
    """

    __slots__ = ("_unpublished", "collected", "recent", "view")

    def __init__(self, view: View, texts: Sequence[str], last_seq: int, unstored: Sequence[str]) -> None:
        self.view: Final = view
        self.collected: Final = OutputCollector(texts)
        self.recent: Final = RecentPackets()
        self.recent.last_seq = last_seq
        self._unpublished: Final = deque(enumerate(unstored, last_seq + 1))
        """Packets of the view, each with the number of the packet that has to be stored first."""
        for text in texts:
            view.feed(make_delta({"p": text}))

    def add(self, number: int, packet: StreamPacket, body: str, adapted: Sequence[StreamPacket] | None = None) -> None:
        """Adapt the packet of this number, to be published once it is stored; or take it as it was `adapted`."""
        for each in self.view.feed(packet) if adapted is None else adapted:
            self.collected.feed(each)
            self._unpublished.append((number, body if each is packet else each.to_json()))

    def publish(self, last_seq: int, *, are_read: bool) -> None:
        """Give the readers what was made of the packets up to this one."""
        viewed: list[str] = []
        while self._unpublished and self._unpublished[0][0] <= last_seq:
            viewed.append(self._unpublished.popleft()[1])
        self.recent.add(viewed, are_read=are_read)
