"""A turn that is over, or that another process runs: read from the store."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from time import monotonic
from typing import Final

from accord.core.output.packets import OutputCollector
from accord.engine.live import PAGE
from accord.ports import SessionStore
from accord.wire.packet import StreamPacket
from accord.wire.session import PacketRecord, TurnRecord, TurnState

FIRST_POLL_S: Final = 0.05
LAST_POLL_S: Final = 1.0
"""How often the store is polled for more packets, at first and when there were none for a while."""

MARKS_PER_GRACE: Final = 3
"""How many read marks are written in a grace period of an unread turn, so that one late mark does not end it."""


class StoredTurn:
    """A turn in the store. `recover` ends the turns of dead processes, which may include this one."""

    def __init__(
        self,
        store: SessionStore,
        record: TurnRecord,
        *,
        recover: Callable[[], Awaitable[object]],
        stop_unread_after_s: float | None,
    ) -> None:
        self.request_id: Final = record.request_id
        self.record = record
        self._store: Final = store
        self._recover: Final = recover
        self._mark_every_s: Final = None if not stop_unread_after_s else stop_unread_after_s / MARKS_PER_GRACE
        self._marked_at = -float("inf")

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.record.state is not TurnState.RUNNING

    async def batches(self, after: int = 0) -> AsyncGenerator[Sequence[PacketRecord], None]:
        """The packets after this number, page by page; polls the store while the turn still runs elsewhere."""
        store, poll_s, is_first, mark_every_s = self._store, FIRST_POLL_S, True, self._mark_every_s
        most_s = LAST_POLL_S if mark_every_s is None else min(LAST_POLL_S, mark_every_s)
        while True:
            while page := await store.packets(self.request_id, after_seq=after, limit=PAGE):
                yield page
                after, poll_s = page[-1].seq, FIRST_POLL_S
            if self.is_over:
                return
            if mark_every_s is not None and monotonic() - self._marked_at >= mark_every_s:
                # The process that runs the turn would stop it if no client read it.
                self._marked_at = monotonic()
                await store.mark_read(self.request_id)
            # At once, since the turn may have been abandoned long ago; then whenever polling is at its slowest.
            if poll_s >= most_s or is_first:
                await self._recover()
                is_first = False
            await asyncio.sleep(poll_s)
            poll_s = min(2 * poll_s, most_s)
            found = await store.turn(self.request_id)
            if found is None:
                return
            self.record = found

    async def whole(self) -> OutputCollector:
        """The whole answer, once the turn is over."""
        collected = OutputCollector()
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                for record in batch:
                    collected.feed(StreamPacket.parse(record.body))
        return collected
