"""A turn that is over, or that another process runs: it is read from the store."""

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

FIRST_LOOK_S: Final = 0.05
LAST_LOOK_S: Final = 1.0
"""How often the store is asked for more, at first and when nothing has come for a while."""

MARKS_PER_GRACE: Final = 3
"""A reader says so this often within the grace period of an unread turn, so that one late mark does not end it."""


class StoredTurn:
    """A turn as the store has it. `recover` ends the turns of dead processes, this one among them if its process is."""

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
        store, look_s, is_first = self._store, FIRST_LOOK_S, True
        most_s = LAST_LOOK_S if self._mark_every_s is None else min(LAST_LOOK_S, self._mark_every_s)
        while True:
            while page := await store.packets(self.request_id, after_seq=after, limit=PAGE):
                yield page
                after, look_s = page[-1].seq, FIRST_LOOK_S
            if self.is_over:
                return
            await self._mark_read()
            # At once, since the turn may have been abandoned long ago, and then as often as looking does not matter.
            if look_s >= most_s or is_first:
                await self._recover()
                is_first = False
            await asyncio.sleep(look_s)
            look_s = min(2 * look_s, most_s)
            found = await store.turn(self.request_id)
            if found is None:
                return
            self.record = found

    async def whole(self) -> OutputCollector:
        """The answer as a whole, once the turn is over."""
        collected = OutputCollector()
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                for kept in batch:
                    collected.feed(StreamPacket.parse(kept.body))
        return collected

    async def _mark_read(self) -> None:
        """Let the process that runs the turn know that it is read, where it would stop otherwise."""
        if self._mark_every_s is not None and monotonic() - self._marked_at >= self._mark_every_s:
            self._marked_at = monotonic()
            await self._store.mark_read(self.request_id)
