"""A turn that is over, or that another process runs: read from the store, in the view of any client."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from time import monotonic
from typing import Final

from accord.engine.live import PAGE
from accord.engine.views import View, ViewBatch
from accord.ports import SessionStore
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
        new_view: Callable[[], View],
        recover: Callable[[], Awaitable[object]],
        stop_unread_after_s: float | None,
    ) -> None:
        self.request_id: Final = record.request_id
        self.record = record
        self._store: Final = store
        self._new_view: Final = new_view
        self._recover: Final = recover
        self._mark_every_s: Final = None if not stop_unread_after_s else stop_unread_after_s / MARKS_PER_GRACE
        self._marked_at = -float("inf")

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.record.state is not TurnState.RUNNING

    def read(self, after: int = 0, view: View | None = None) -> AsyncGenerator[ViewBatch, None]:
        """The packets after this number in the view of the client that sent the request, or in another one."""
        return (view or self._new_view()).read(self._batches(), after)

    async def _batches(self) -> AsyncGenerator[Sequence[PacketRecord], None]:
        """The stored packets, page by page; polls the store while the turn still runs elsewhere."""
        store, poll_s, is_first, mark_every_s = self._store, FIRST_POLL_S, True, self._mark_every_s
        after = 0
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
