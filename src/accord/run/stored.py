"""A turn that is over, or that another process runs: read from the store and from news, in the view of any client."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from time import monotonic
from typing import Final
from weakref import finalize

from accord.errors import StoreError
from accord.ports import PacketLog, RunNews, SessionStore
from accord.run.followers import Follower, Followers
from accord.run.run import PAGE
from accord.run.views import View, ViewBatch
from accord.wire.session import PacketRecord, RunRecord, StoredState

LOST: Final = "Packets that were already sent are lost; read the request again from its start"
MARKS_PER_GRACE: Final = 3
"""How many read marks are written in a grace period of an unread turn, so that one late mark does not end it."""


class StoredRun:
    """A turn that this process does not run. One with a `follower` was just queued, and has no packets yet."""

    def __init__(  # noqa: PLR0913 - where its packets come from, and how they are shown
        self,
        store: SessionStore,
        record: RunRecord,
        *,
        log: PacketLog,
        followers: Followers,
        new_view: Callable[[], View],
        stop_unread_after_s: float | None,
        follower: Follower | None = None,
    ) -> None:
        self.request_id: Final = record.request_id
        self.record = record
        self._store: Final = store
        self._log: Final = log
        self._followers: Final = followers
        self._new_view: Final = new_view
        self._mark_every_s: Final = None if not stop_unread_after_s else stop_unread_after_s / MARKS_PER_GRACE
        self._marked_at = -float("inf")
        self._first_follower = follower
        if follower is not None:
            finalize(self, follower.close)  # the client may be gone before anything is read

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.record.state is not StoredState.RUNNING

    def read(self, after: int = 0, view: View | None = None) -> AsyncGenerator[ViewBatch, None]:
        """The packets after this number in the view of the client that sent the request, or in another one."""
        packets = self._stored_pages(0) if self.is_over else self._followed()
        return (view or self._new_view()).read(packets, after)

    async def _followed(self) -> AsyncGenerator[Sequence[PacketRecord], None]:
        """The packets as the agent makes them, to the end of the turn."""
        # A turn that this process has just queued was followed before: there is nothing to be read yet.
        follower, self._first_follower = self._first_follower, None
        must_read = follower is None
        follower = follower or self._followers.join(self.request_id)
        after, last_seq, is_over = 0, 0, False
        try:
            while not is_over:
                if must_read:
                    is_over = await self._is_over_now()
                    async for page in self._stored_pages(after):
                        yield page
                        after = page[-1].seq
                    follower.last_known = max(follower.last_known, after)
                    must_read = False
                    last_seq = self.record.last_seq
                elif (news := await self._next_news(follower)) is None or not news.continues(after):
                    must_read = True
                else:
                    if fresh := (news.packets or ())[after + 1 - news.first_seq :]:
                        yield [PacketRecord(seq, body) for seq, body in enumerate(fresh, start=after + 1)]
                        after += len(fresh)
                    is_over, last_seq = news.is_over, news.last_seq
        finally:
            follower.close()
        if after > last_seq:
            raise StoreError(LOST)

    async def _is_over_now(self) -> bool:
        """Whether it is over by now, or deleted. Asked before its packets are read, so that none is missed."""
        found = await self._store.turn(self.request_id)
        if found is not None:
            self.record = found
        return found is None or self.is_over

    async def _stored_pages(self, after: int) -> AsyncGenerator[Sequence[PacketRecord], None]:
        """The packets that are stored after this number, page by page."""
        while page := await self._store.packets(self.request_id, after_seq=after, limit=PAGE):
            yield page
            after = page[-1].seq
        while not self.is_over and (page := await self._log.unstored(self.request_id, after)):
            yield page
            after = page[-1].seq

    async def _next_news(self, follower: Follower) -> RunNews | None:
        """Wait for news, and mark meanwhile that the turn is read, if one without readers is stopped."""
        if self._mark_every_s is None:
            return await follower.next()
        while True:
            if monotonic() - self._marked_at >= self._mark_every_s:
                self._marked_at = monotonic()
                await self._store.mark_read(self.request_id)
            try:
                async with asyncio.timeout(self._mark_every_s):
                    return await follower.next()
            except TimeoutError:
                continue
