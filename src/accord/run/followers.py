"""Readers of turns that other processes run: they get news as it comes, and miss nothing if news is lost.

News waits for a slow reader in a bounded amount; beyond it the reader reads the store, page by page. Every few seconds
one query for all followed turns finds those whose news is late or was lost, and those whose process died.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Final

from accord.errors import StoreError
from accord.ports import LinkCounts, PacketLog, RunNews, SessionStore

CHECK_S: Final = 2.0
"""How often the store is asked how far the followed turns are."""
MAX_WAITING: Final = 64
"""How many news wait for a slow reader before it has to read the store."""
MAX_WAITING_BYTES: Final = 256 * 1024
MAX_IDS: Final = 500
"""How many turns one query asks for."""

LOG: Final = logging.getLogger("accord.run")


class Follower:
    """One reader of a turn that runs elsewhere."""

    def __init__(self, request_id: str, leave: Callable[["Follower"], None]) -> None:
        self.request_id: Final = request_id
        self.last_known = 0
        """The last packet that news or a read of the store has named; the store having more means lost or late news."""
        self._leave: Final = leave
        self._news: Final[deque[RunNews]] = deque()
        self._bytes = 0
        self._must_read = False
        self._arrived: Final = asyncio.Event()

    @property
    def waiting(self) -> int:
        """How many news wait for the reader."""
        return len(self._news)

    def put(self, news: RunNews) -> None:
        """Add news."""
        self.last_known = max(self.last_known, news.last_seq)
        size = sum(map(len, news.packets)) if news.packets else 0
        if len(self._news) >= MAX_WAITING or self._bytes + size > MAX_WAITING_BYTES:
            self.must_read()
            return
        self._news.append(news)
        self._bytes += size
        self._arrived.set()

    def must_read(self) -> None:
        """Have the reader read the store instead of waiting for news."""
        self._news.clear()
        self._bytes = 0
        self._must_read = True
        self._arrived.set()

    async def next(self) -> RunNews | None:
        """The next news; None if the store has to be read."""
        while not self._arrived.is_set():
            await self._arrived.wait()
        if self._must_read:
            self._must_read = False
            news = None
        else:
            news = self._news.popleft()
            self._bytes -= sum(map(len, news.packets)) if news.packets else 0
        if not self._news and not self._must_read:
            self._arrived.clear()
        return news

    def close(self) -> None:
        """Stop following."""
        self._leave(self)


class Followers:
    """All turns that readers of this process follow. `recover` takes care of turns whose process died."""

    def __init__(
        self,
        store: SessionStore,
        log: PacketLog,
        recover: Callable[[], Awaitable[object]],
        counts: LinkCounts | None = None,
    ) -> None:
        self._counts: Final = counts or LinkCounts()
        self._store: Final = store
        self._log: Final = log
        self._recover: Final = recover
        self._followers: Final[dict[str, list[Follower]]] = {}
        self._ends: Final[dict[str, Callable[[], None]]] = {}
        self._left: Final = asyncio.Event()
        """Set whenever a turn is not followed any more."""
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: Final[dict[str, asyncio.Task[None]]] = {}
        log.on_gap(self._read_all)

    def join(self, request_id: str) -> Follower:
        """Follow a turn; the caller then reads the store, and closes the follower in the end."""
        follower = Follower(request_id, self._leave)
        others = self._followers.get(request_id)
        if others is not None:
            others.append(follower)
            return follower
        self._followers[request_id] = [follower]
        self._ends[request_id] = self._log.follow(request_id, lambda news: self._put(request_id, news))
        if self._timer is None:
            self._check_later()
        return follower

    async def wait_until_empty(self, seconds: float) -> None:
        """Wait until no turn is followed, at most so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._followers:
                    self._left.clear()
                    await self._left.wait()

    async def close(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _leave(self, follower: Follower) -> None:
        others = self._followers.get(follower.request_id, [])
        if follower in others:
            others.remove(follower)
            if not others:
                del self._followers[follower.request_id]
                self._left.set()
                self._ends.pop(follower.request_id)()

    def _put(self, request_id: str, news: RunNews) -> None:
        for follower in self._followers.get(request_id, ()):
            follower.put(news)

    def _read_all(self) -> None:
        for follower in self._all():
            follower.must_read()

    def _all(self) -> Iterable[Follower]:
        return [follower for followers in self._followers.values() for follower in followers]

    def _check_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(CHECK_S, self._check)

    def _check(self) -> None:
        self._timer = None
        if self._followers:
            # Each on its own: while NATS is away, recovering fails, and readers depend on the store.
            for name, work in (("find late", self._find_late), ("recover", self._recover_dead)):
                task = self._tasks.get(name)
                if task is None or task.done():
                    self._tasks[name] = asyncio.create_task(work())
            self._check_later()

    async def _recover_dead(self) -> None:
        try:
            await self._recover()
        except StoreError as error:
            LOG.warning("Turns of dead processes cannot be taken over now: %s", error.message)

    async def _find_late(self) -> None:
        """Wake the readers of turns that are further in the store than their news, or over."""
        try:
            ids = list(self._followers)
            for start in range(0, len(ids), MAX_IDS):
                page = ids[start : start + MAX_IDS]
                states = await self._store.turn_states(page)
                for request_id in page:
                    state = states.get(request_id)
                    for follower in self._followers.get(request_id, ()):
                        if state is None or not state.is_running or state.last_seq > follower.last_known:
                            self._counts.late_news += 1
                            follower.must_read()
        except StoreError as error:
            LOG.warning("Followed turns cannot be checked: %s", error.message)
