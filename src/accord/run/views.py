"""Views: what one client gets of a turn, adapted from the packets as the agent made them.

A view depends on nothing but the client's declaration and the packets. So it is the same whenever and wherever it is
made: packet 17 of a view is packet 17 in every process, and a reader that resumes after it gets exactly the rest.
Where packets come from is not known here; `live.py` and `stored.py` pass them in.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, NamedTuple

from accord.core.output import ClientAdapter, ImageShrinker
from accord.core.sizes import split_deltas
from accord.wire.packet import DeltaPacket, StreamPacket
from accord.wire.request import ClientCapabilities
from accord.wire.session import PacketRecord

PAUSE_BYTES: Final = 32 * 1024
"""After so much text other turns run before more is adapted: 24 MB of short lines take a minute."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A client that reads a turn in a view of its own; `declared` is None for a client that declared nothing."""

    declared: ClientCapabilities | None


class ViewBatch(NamedTuple):
    """Packets of a view with their numbers in it, and how many packets of the agent the reader has seen with them.

    A batch may be empty: a client gets nothing for an event that is dropped in its view.
    """

    packets: Sequence[PacketRecord]
    made: int


class View:
    """One client's view of one turn. Feed it every packet of the agent, in order, from the first one on."""

    __slots__ = ("_image_threads", "_packet_bytes", "adapter", "seq")

    def __init__(
        self,
        declared: ClientCapabilities | None,
        *,
        packet_bytes: int,
        images: ImageShrinker | None,
        image_threads: ThreadPoolExecutor,
    ) -> None:
        self.adapter: Final = ClientAdapter(declared, images=images)
        self.seq = 0
        """The number of the last packet that was made of a record."""
        self._packet_bytes: Final = packet_bytes
        self._image_threads: Final = image_threads

    def is_slow(self, packet: StreamPacket) -> bool:
        """Whether this packet should be fed in a thread, because images may be re-encoded."""
        return type(packet) is not DeltaPacket and self.adapter.may_reencode_images(packet)

    def feed(self, packet: StreamPacket) -> Sequence[StreamPacket]:
        """The packets that the client gets for this one."""
        return split_deltas(self.adapter.feed(packet), self._packet_bytes)

    async def feed_in_thread(self, packet: StreamPacket) -> Sequence[StreamPacket]:
        """The packets that the client gets for this one, made while other turns run."""
        return await asyncio.get_running_loop().run_in_executor(self._image_threads, self.feed, packet)

    async def read(
        self, batches: AsyncGenerator[Sequence[PacketRecord], None], after: int = 0
    ) -> AsyncGenerator[ViewBatch, None]:
        """The packets of this view after this number, made of all stored packets of the turn."""
        unpaused = 0
        async with aclosing(batches):
            async for batch in batches:
                packets: list[PacketRecord] = []
                for record in batch:
                    packet = StreamPacket.parse(record.body)
                    # Not in a function of its own: a coroutine for each packet would take 8 % longer.
                    adapted = await self.feed_in_thread(packet) if self.is_slow(packet) else self.feed(packet)
                    for each in adapted:
                        self.seq += 1
                        if self.seq > after:
                            packets.append(PacketRecord(self.seq, record.body if each is packet else each.to_json()))
                    unpaused += len(record.body)
                    if unpaused > PAUSE_BYTES:
                        unpaused = 0
                        await asyncio.sleep(0)
                yield ViewBatch(packets, batch[-1].seq)
