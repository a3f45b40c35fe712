"""A turn while it runs in this process: it makes packets, has them kept, and hands them to whoever reads along.

What a client has seen is on disk: a packet goes out only after the store has it. Packets are made while the store still
writes the ones before, so that many share one write; the last ones are written together with the end of the turn and
its receipt, so that nobody sees a close whose receipt is not there. How far a turn may run ahead of its readers is
bounded: a client that does not read stops its own backend. Without any reader it goes on, or stops, as it is told.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from itertools import count
from math import inf
from typing import Final

from accord.core.canonicalise import canonical_object
from accord.core.collect import Collected
from accord.core.seal import Sealed
from accord.engine.at_once import Now, begin
from accord.engine.engine import RunningTurn
from accord.errors import AccordError, StoreError
from accord.ports import Append, SessionStore
from accord.wire.packet import ClosePacket, ErrorPacket, StreamPacket
from accord.wire.problem import stream_error
from accord.wire.session import PacketRecord, TurnRecord

AHEAD: Final = 64
"""How many packets may be made before they are kept, and before the quickest reader has them."""

REMEMBERED: Final = 2 * AHEAD
NOT_KEPT: Final = "The store failed in the middle of this turn"
PAGE: Final = 500

CLOSE: Final = ClosePacket().to_json()

End = Callable[["LiveTurn", Append], Awaitable[None]]


class _Reader:
    """Somebody who reads along. Whoever waits for the end alone has read everything as soon as it is there."""

    __slots__ = ("seq",)

    def __init__(self, seq: float) -> None:
        self.seq = seq


class LiveTurn:
    """One running turn and everyone who reads it."""

    def __init__(  # noqa: PLR0913 - what runs, where it is kept, and what is done at its end
        self,
        running: RunningTurn,
        record: TurnRecord,
        store: SessionStore,
        *,
        end: End,
        forget: Callable[[str], None],
        goes_on: bool,
    ) -> None:
        self.running: Final = running
        self.record: Final = record
        self.request_id: Final = record.request_id
        self.last_seq = 0
        self.is_over = False
        self.sealed: Sealed | None = None
        self.collected: Final = Collected()
        self._store: Final = store
        self._end: Final = end
        self._forget: Final = forget
        self._goes_on: Final = goes_on
        self._broken: AccordError | None = None
        self._readers: Final[list[_Reader]] = []
        self._recent: Final[deque[PacketRecord]] = deque(maxlen=REMEMBERED)
        self._pending: list[str] = []
        self._made = 0
        self._items_kept = 0
        self._is_write_due = False
        self._writing: asyncio.Task[None] | None = None
        self._news: Final = asyncio.Event()
        self._room: Final = asyncio.Event()
        self.task: Final = asyncio.create_task(self._run())

    def cancel(self) -> None:
        """Stop the agent and its backend at once; the stream is closed properly, for every reader."""
        self.running.cancel()
        self._room.set()

    def item(self, item_id: str) -> str | None:
        """What a notice of this turn says is kept."""
        kept = self.running.adapter.deferred.get(item_id)
        return None if kept is None else canonical_object(kept).decode()

    async def packets(self, after: int = 0) -> AsyncGenerator[PacketRecord, None]:
        """The packets that follow this number, as they are kept, to the end of the turn."""
        async with aclosing(self.batches(after)) as batches:
            async for batch in batches:
                for kept in batch:
                    yield kept

    async def batches(self, after: int = 0) -> AsyncGenerator[Sequence[PacketRecord], None]:
        """The same, as many at a time as are there."""
        reader = self._join(after)
        try:
            while True:
                if batch := await self._kept_after(after):
                    yield batch
                    # Asked for more, so all of these are read.
                    reader.seq = after = batch[-1].seq
                    self._room.set()
                elif self.is_over:
                    break
                else:
                    await self._news.wait()
        finally:
            self._leave(reader)
        self._check()

    async def whole(self) -> Collected:
        """The answer as a whole, once the turn is over and kept."""
        if not self.is_over:
            reader = self._join(inf)
            try:
                while not self.is_over:
                    await self._news.wait()
            finally:
                self._leave(reader)
        self._check()
        return self.collected

    def _join(self, seq: float) -> _Reader:
        """Count one more reader, who has read so far."""
        reader = _Reader(seq)
        self._readers.append(reader)
        return reader

    def _leave(self, reader: _Reader) -> None:
        self._readers.remove(reader)
        self._room.set()
        if not self._readers and not self._goes_on and not self.is_over:
            self.cancel()

    def _check(self) -> None:
        """Raise what became of a turn that could not be kept."""
        if self._broken is not None:
            raise self._broken

    async def _kept_after(self, seq: int) -> Sequence[PacketRecord]:
        if seq >= self.last_seq:
            return ()
        if self._recent and self._recent[0].seq <= seq + 1:
            return [kept for kept in self._recent if kept.seq > seq]
        return await self._store.packets(self.request_id, after_seq=seq, limit=PAGE)

    async def _run(self) -> None:
        try:
            async with aclosing(self.running.packets()) as packets:
                while (packet := await self._next(packets)) is not None:
                    if self._broken is None and type(packet) is not ClosePacket:
                        self.collected.feed(packet)
                        self._pending.append(packet.to_json())
                        self._made += 1
                        while self._is_far_ahead():
                            self._write_meanwhile()
                            self._room.clear()
                            await self._room.wait()
            if self._writing is not None:
                await self._writing
            rest = [*self._pending, CLOSE] if self._broken is None else self._breaking_off()
            await self._end(self, self._appending(rest))
            self._publish(rest)
            self._broken = None
        except Exception as error:  # noqa: BLE001 - whatever a store raises ends the stream of everyone, in our words
            self._broken = _as_store_error(error)
        finally:
            self.is_over = True
            self._forget(self.request_id)
            self._tell()

    async def _next(self, packets: AsyncGenerator[StreamPacket, None]) -> StreamPacket | None:
        """The next packet. Those before it are written if it has to be waited for, else together with it."""
        begun = begin(anext(packets, None))
        if isinstance(begun, Now):
            return begun.result
        self._write_meanwhile()
        return await begun

    def _breaking_off(self) -> list[str]:
        """What is kept of a turn whose packets could not be, if the store works again: that it failed, and why."""
        self.running.failure = failure = StoreError(NOT_KEPT)
        told = ErrorPacket(p=stream_error(failure))
        self.collected.feed(told)
        return [told.to_json(), CLOSE]

    def _is_far_ahead(self) -> bool:
        if self._broken is not None or self.running.is_cancelled:
            return False
        if self._made - self.last_seq >= AHEAD:
            return True
        for reader in self._readers:
            if self._made - reader.seq < AHEAD:
                return False
        return bool(self._readers)

    def _write_meanwhile(self) -> None:
        # Not at once: an agent that only lets others run for a moment has its next packet written with this one.
        if self._pending and self._writing is None and not self._is_write_due:
            self._is_write_due = True
            asyncio.get_running_loop().call_soon(self._begin_writing)

    def _begin_writing(self) -> None:
        self._is_write_due = False
        if self._pending and self._writing is None and not self.running.is_complete:
            self._writing = asyncio.create_task(self._write())

    async def _write(self) -> None:
        try:
            while self._pending:
                bodies, self._pending = self._pending, []
                await self._store.append_packets(self._appending(bodies))
                self._publish(bodies)
        except Exception as error:  # noqa: BLE001 - packets that were not kept must not be skipped
            self._broken = _as_store_error(error)
            self.running.cancel()
        finally:
            self._writing = None
            self._room.set()

    def _appending(self, bodies: Sequence[str]) -> Append:
        deferred = self.running.adapter.deferred
        if len(deferred) == self._items_kept:
            return Append(self.request_id, self.last_seq + 1, bodies)
        fresh = list(deferred.items())[self._items_kept :]
        self._items_kept = len(deferred)
        items = {item_id: canonical_object(event).decode() for item_id, event in fresh}
        return Append(self.request_id, self.last_seq + 1, bodies, items)

    def _publish(self, bodies: Sequence[str]) -> None:
        seq = self.last_seq
        self.last_seq += len(bodies)
        if all(reader.seq == inf for reader in self._readers):
            # Nobody reads packets; whoever comes later finds these in the store.
            self._recent.clear()
        else:
            self._recent.extend(map(PacketRecord, count(seq + 1), bodies))
        self._tell()

    def _tell(self) -> None:
        """Wake everyone who waits for more."""
        self._news.set()
        self._news.clear()


def _as_store_error(error: Exception) -> StoreError:
    """A store should raise nothing else; what it raises against its contract has the same consequences."""
    if isinstance(error, StoreError):
        return error
    broken = StoreError(f"The store failed ({type(error).__name__})")
    broken.__cause__ = error
    return broken
