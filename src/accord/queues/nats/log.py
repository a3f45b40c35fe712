"""The packets of running turns in JetStream; the session store has each turn as a whole when it ends.

A worker publishes batches of packets to the turn's own subject. Each batch names the sequence number of the one before
(compare and set), so that of two workers only one can append; a worker that takes a turn over appends a fence first,
which changes that number, and reads the log after that. JetStream publishes what it has stored again, on another
subject: that one is followed, since the first also carries batches that were rejected.

Batches are copied to the session store every second, and when there are many, so that long turns are replayed from
there and JetStream keeps their end only. If JetStream does not answer, the session store takes over: packets are
appended there, and followers find them with their regular check.
"""

# The annotations of the client are incomplete.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

import asyncio
import json
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, Final, NamedTuple

from msgspec.structs import replace
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js.errors import APIError, NotFoundError

from accord.errors import StoreConflictError, StoreError
from accord.ports import LinkCounts, PacketBatch, RunLog, RunNews, SessionStore
from accord.queues.nats.connection import REQUEST_S, NatsConnection
from accord.wire.queue_messages import (
    EPOCH_HEADER,
    EXPECTED_HEADER,
    FENCE_HEADER,
    LAST_HEADER,
    MESSAGE_ID_HEADER,
    OVER_HEADER,
    PENDING_HEADER,
    SEQ_HEADER,
    SEQUENCE_HEADER,
)
from accord.wire.session import PacketRecord, RunRecord, StoredState

WRONG_SEQUENCE: Final = 10071
"""JetStream's code for a message whose expected last sequence number is not the last one."""
END_OF_BATCH: Final = "204"
NO_MESSAGES: Final = "404"

COPY_AFTER_S: Final = 1.0
COPY_PACKETS: Final = 256
COPY_BYTES: Final = 256 * 1024
"""When packets are copied to the session store: after so long, or when there are so many."""
PAGE: Final = 200
MAX_FENCES: Final = 50
MAX_READS: Final = 40
READ_AGAIN_S: Final = 0.05
"""How often, and after how long, the log is read again if the replica that answered is behind."""
GIVEN_AWAY: Final = "Another worker has this turn now"

LOG: Final = logging.getLogger("accord.queue")
CLIENT_ERRORS: Final = (NatsError, OSError, TimeoutError)


class StoredMessage(NamedTuple):
    """A message of a turn's subject as the stream has it."""

    sequence: int
    headers: Mapping[str, str]
    data: bytes

    @property
    def epoch(self) -> int:
        """The epoch of the worker that published it."""
        return _number(self.headers, EPOCH_HEADER)

    @property
    def packets(self) -> Sequence[PacketRecord]:
        """The packets with their numbers."""
        first = _number(self.headers, SEQ_HEADER)
        return [PacketRecord(seq, body) for seq, body in enumerate(_bodies(self.data), start=first)]


class JetStreamLog:
    """A log of packets in JetStream."""

    def __init__(self, connection: NatsConnection, store: SessionStore, counts: LinkCounts | None = None) -> None:
        self.connection: Final = connection
        self.store: Final = store
        self.counts: Final = counts or LinkCounts()
        self._fences: Final[dict[tuple[str, int], int]] = {}

    def open_turn(
        self, turn: RunRecord, logged_seq: int, unstored: Sequence[str] = (), *, is_followed: bool = False
    ) -> RunLog:
        """The log of a turn that this process runs."""
        del is_followed  # every turn is published
        fence = self._fences.pop((turn.request_id, turn.epoch), None)
        # A turn that was never run has no messages; of any other one, the last sequence number is looked up.
        expected = 0 if turn.epoch <= 1 else fence
        return _JetStreamRunLog(self, turn, logged_seq, unstored, expected)

    async def fence(self, turn: RunRecord) -> Sequence[str]:
        """Refuse packets of earlier epochs, then read what they have published after the stored packets."""
        request_id = turn.request_id
        headers = {EPOCH_HEADER: str(turn.epoch), FENCE_HEADER: "1", SEQ_HEADER: "0"}
        try:
            for _ in range(MAX_FENCES):
                last = await self.last(request_id)
                if last is not None and last.epoch > turn.epoch:
                    raise StoreConflictError(GIVEN_AWAY)  # this worker stood still; the next one has fenced already
                try:
                    fence = await self.publish(request_id, b"", headers, last.sequence if last else 0)
                except StoreConflictError:
                    continue  # the earlier worker was faster once more
                self._fences[request_id, turn.epoch] = fence
                return await self._before_fence(request_id, turn.last_seq, fence)
        except CLIENT_ERRORS as error:
            raise StoreError("NATS did not answer; the turn cannot be taken over now") from error
        raise StoreError("The turn cannot be taken over: another worker keeps publishing")

    async def _before_fence(self, request_id: str, after_seq: int, fence: int) -> Sequence[str]:
        """The packets after this number. In a cluster any replica answers: one without the fence lacks packets, too."""
        for _ in range(MAX_READS):
            bodies, last = await self._after(request_id, after_seq)
            if last >= fence:
                return bodies
            await asyncio.sleep(READ_AGAIN_S)
        raise StoreError("The turn cannot be taken over now: the replicas of NATS are behind")

    async def unstored(self, request_id: str, after_seq: int) -> Sequence[PacketRecord]:
        """Packets after this number, as far as the stream has them without a gap."""
        try:
            bodies, _ = await self._after(request_id, after_seq)
        except (*CLIENT_ERRORS, StoreError):
            return ()  # the session store gets them, too
        return [PacketRecord(seq, body) for seq, body in enumerate(bodies, start=after_seq + 1)]

    def follow(self, request_id: str, receive: Callable[[RunNews], None]) -> Callable[[], None]:
        """Call `receive` with the news of a turn."""

        def pass_on(message: Msg) -> None:
            if (news := _read_news(message)) is not None:
                receive(news)

        return self.connection.follow(self.connection.names.packets_out(request_id), pass_on)

    def on_gap(self, lost: Callable[[], None]) -> None:
        """Call `lost` after every new connection."""
        self.connection.on_gap(lost)

    async def publish(self, request_id: str, data: bytes, headers: dict[str, str], expected: int) -> int:
        """Append a message if `expected` is the last one of this turn; returns its sequence number.

        Raises `StoreConflictError` if another message is the last one.
        """
        subject = self.connection.names.packets_in(request_id)
        headers[EXPECTED_HEADER] = str(expected)
        reply = await self.connection.client.request(subject, data, timeout=REQUEST_S, headers=headers)
        answer: Any = json.loads(reply.data)
        error = answer.get("error")
        if error is None:
            return answer["seq"]
        if error.get("err_code") == WRONG_SEQUENCE:
            raise StoreConflictError("Another worker has published packets of this turn")
        raise APIError.from_error(error)

    async def last(self, request_id: str) -> StoredMessage | None:
        """The last message of a turn; None if there is none."""
        names = self.connection.names
        jetstream = self.connection.jetstream
        with suppress(NotFoundError):
            found = await jetstream.get_last_msg(names.stream("PACKETS"), names.packets_in(request_id))
            return StoredMessage(found.seq or 0, dict(found.headers or {}), found.data or b"")
        return None

    def forget_before(self, request_id: str, sequence: int) -> None:
        """Remove the messages of a turn before this one: the session store has them."""
        names = self.connection.names
        purge = self.connection.jetstream.purge_stream(
            names.stream("PACKETS"), seq=sequence, subject=names.packets_in(request_id)
        )
        self.connection.run(purge)

    async def _after(self, request_id: str, after_seq: int) -> tuple[list[str], int]:
        """The packets after this number, without a gap, and the sequence number of the last message that was read."""
        bodies: list[str] = []
        last = 0
        async with aclosing(self._messages(request_id)) as messages:
            async for message in messages:
                last = message.sequence
                for record in message.packets:
                    if record.seq == after_seq + len(bodies) + 1:
                        bodies.append(record.body)
        return bodies, last

    async def _messages(self, request_id: str) -> AsyncGenerator[StoredMessage, None]:
        """All messages of a turn that the stream has, many with each request."""
        names, start = self.connection.names, 1
        request_to = f"$JS.API.DIRECT.GET.{names.stream('PACKETS')}"
        while True:
            client = self.connection.client
            wanted = {"seq": start, "next_by_subj": names.packets_in(request_id), "batch": PAGE}
            inbox = client.new_inbox()
            replies = await client.subscribe(inbox)
            try:
                await client.publish(request_to, json.dumps(wanted).encode(), reply=inbox)
                while True:
                    message = await replies.next_msg(timeout=REQUEST_S)
                    headers = message.headers or {}
                    status = headers.get("Status")
                    if status == NO_MESSAGES or (status == END_OF_BATCH and not _number(headers, PENDING_HEADER)):
                        return
                    if status == END_OF_BATCH:  # a batch is limited in bytes, too
                        break
                    start = _number(headers, SEQUENCE_HEADER) + 1
                    yield StoredMessage(start - 1, headers, message.data)
            finally:
                await replies.unsubscribe()


class _JetStreamRunLog:
    """The log of one turn that this process runs."""

    def __init__(
        self, log: JetStreamLog, turn: RunRecord, logged_seq: int, unstored: Sequence[str], expected: int | None
    ) -> None:
        self._log: Final = log
        self._turn: Final = turn
        self._request_id: Final = turn.request_id
        self._epoch: Final = turn.epoch
        self._expected = expected
        """The sequence number of the turn's last message; None if it is not known."""
        self._logged_seq = logged_seq
        self._stored_seq = logged_seq - len(unstored)
        self._unstored: Final = deque(unstored)
        self._unstored_bytes = sum(map(len, unstored))
        self._messages: Final[deque[tuple[int, int]]] = deque()
        """The last packet and the sequence number of each message that the session store does not have yet."""
        self._timer: asyncio.TimerHandle | None = None
        self._copying: asyncio.Task[None] | None = None
        self._is_closed = False
        self._is_in_doubt = False
        """Whether JetStream may have packets, and followers may have seen them, without a confirmation."""

    async def append(self, new: PacketBatch) -> None:
        """Publish packets; the session store takes them if JetStream cannot."""
        data = "\n".join(new.packets).encode()
        connection = self._log.connection
        if len(data) <= connection.max_bytes and connection.is_connected:
            self._is_in_doubt = True
            try:
                await self._publish(new, data)
            except StoreConflictError:
                raise
            except (*CLIENT_ERRORS, StoreError) as error:
                LOG.warning("JetStream did not take packets, the session store does: %s", error or type(error).__name__)
                self._expected = None  # it may have taken them nevertheless
            else:
                self._is_in_doubt = False
                self._logged(new)
                return
        await self._store_takes_over(new)
        self._is_in_doubt = False

    async def ending(self, last: Sequence[str], stored_seq: int | None = None) -> PacketBatch:
        """The packets that the store does not have, and the last ones."""
        if self._copying is not None:
            await asyncio.gather(self._copying, return_exceptions=True)
        if self._is_in_doubt:
            with suppress(StoreConflictError):  # another worker has the turn; the store says so, too
                await self._find_unconfirmed()
        if stored_seq is not None:
            self._copied_up_to(stored_seq)
        self._stop_timer()
        return self._unstored_and(last)

    def ended(self, last: PacketBatch) -> None:
        """Publish the last packets to the followers; the session store has them."""
        bodies = last.packets[max(0, self._logged_seq + 1 - last.first_seq) :]
        first = last.last_seq - len(bodies) + 1
        self._announce(RunNews(first, last.last_seq, bodies, is_over=True))

    def close(self) -> None:
        """Copy nothing more."""
        self._is_closed = True
        self._stop_timer()

    async def _publish(self, new: PacketBatch, data: bytes) -> None:
        headers = {
            SEQ_HEADER: str(new.first_seq),
            EPOCH_HEADER: str(self._epoch),
            MESSAGE_ID_HEADER: f"{self._request_id}.{self._epoch}.{new.first_seq}",
        }
        if self._expected is None:
            self._expected = await self._last_of_this_epoch()
        try:
            self._expected = await self._log.publish(self._request_id, data, headers, self._expected)
        except StoreConflictError:
            # Either an earlier message of ours was taken although its answer was lost, or another worker has the turn.
            self._expected = await self._last_of_this_epoch()
            self._expected = await self._log.publish(self._request_id, data, headers, self._expected)

    async def _last_of_this_epoch(self) -> int:
        """The sequence number of the last message; raises `StoreConflictError` if another worker has the turn."""
        last = await self._log.last(self._request_id)
        if last is not None and last.epoch > self._epoch:
            raise StoreConflictError(GIVEN_AWAY)
        return last.sequence if last is not None else 0

    async def _find_unconfirmed(self) -> None:
        """Take the packets that JetStream has taken without an answer for this turn's own, and let no more follow."""
        found = await self._log.fence(replace(self._turn, last_seq=self._logged_seq))
        self._logged_seq += len(found)
        self._unstored.extend(found)
        self._is_in_doubt = False

    def _logged(self, new: PacketBatch) -> None:
        """Note what JetStream has taken, and copy it to the session store soon."""
        self._logged_seq = new.last_seq
        self._unstored.extend(new.packets)
        self._unstored_bytes += sum(map(len, new.packets))
        if self._expected is not None:
            self._messages.append((new.last_seq, self._expected))
        if len(self._unstored) >= COPY_PACKETS or self._unstored_bytes >= COPY_BYTES:
            self._copy_now()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(COPY_AFTER_S, self._copy_now)

    async def _store_takes_over(self, new: PacketBatch) -> None:
        """Append these packets, and those before them, to the session store."""
        self._log.counts.store_took_over += 1
        if self._copying is not None:
            await asyncio.gather(self._copying, return_exceptions=True)
        try:
            await self._log.store.append_packets(self._unstored_and(new.packets))
        except StoreConflictError:
            if not await self._find_stored():
                raise
            await self._log.store.append_packets(self._unstored_and(new.packets))
        self._copied(len(self._unstored))
        self._stored_seq = self._logged_seq = new.last_seq
        self._announce(RunNews(new.first_seq, new.last_seq))

    def _announce(self, news: RunNews) -> None:
        """Announce to the followers what the session store has, with the packets if they fit into a message."""
        connection = self._log.connection
        headers = {SEQ_HEADER: str(news.first_seq), EPOCH_HEADER: str(self._epoch)}
        if news.is_over:
            headers[OVER_HEADER] = "1"
        data = "\n".join(news.packets or ()).encode()
        if news.packets is None or len(data) > connection.max_bytes:
            headers[LAST_HEADER], data = str(news.last_seq), b""
        connection.send(connection.names.packets_out(self._request_id), data, headers)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _copy_now(self) -> None:
        self._stop_timer()
        if not self._is_closed and self._unstored and (self._copying is None or self._copying.done()):
            self._copying = asyncio.create_task(self._copy())

    async def _copy(self) -> None:
        batch = self._unstored_and(())
        # If it fails, JetStream has them: they are copied later, or the end of the turn finds that it was given away.
        with suppress(StoreError):
            try:
                await self._log.store.append_packets(batch)
            except StoreConflictError:
                if not await self._find_stored():
                    return
            else:
                self._copied(len(batch.packets))
        if self._unstored and not self._is_closed:
            self._timer = self._timer or asyncio.get_running_loop().call_later(COPY_AFTER_S, self._copy_now)

    def _unstored_and(self, more: Sequence[str]) -> PacketBatch:
        return PacketBatch(self._request_id, self._stored_seq + 1, [*self._unstored, *more], self._epoch)

    async def _find_stored(self) -> bool:
        """Look up what the store has, since an answer of it may have been lost; False if it has nothing more."""
        turn, before = await self._log.store.turn(self._request_id), self._stored_seq
        if turn is not None and turn.epoch == self._epoch and turn.state is StoredState.RUNNING:
            self._copied(turn.last_seq - before)
        return self._stored_seq > before

    def _copied_up_to(self, stored_seq: int) -> None:
        """Note that the store has these packets, also those that it took without an answer."""
        self._copied(max(0, stored_seq - self._stored_seq))
        self._stored_seq = max(self._stored_seq, stored_seq)
        self._logged_seq = max(self._logged_seq, stored_seq)

    def _copied(self, count: int) -> None:
        """Note that the session store has the next packets."""
        for _ in range(min(count, len(self._unstored))):
            self._unstored_bytes -= len(self._unstored.popleft())
            self._stored_seq += 1
        sequence: int | None = None
        while self._messages and self._messages[0][0] <= self._stored_seq:
            sequence = self._messages.popleft()[1]
        if sequence is not None and count >= COPY_PACKETS:
            with suppress(StoreError):
                self._log.forget_before(self._request_id, sequence)


def _read_news(message: Msg) -> RunNews | None:
    """The news in a message; None for one that is of use to workers only, or that another program has made up."""
    headers = message.headers or {}
    if FENCE_HEADER in headers:
        return None
    first, is_over = _number(headers, SEQ_HEADER), OVER_HEADER in headers
    if first < 1:
        return None
    if LAST_HEADER in headers:
        return RunNews(first, _number(headers, LAST_HEADER), None, is_over)
    bodies = _bodies(message.data)
    return RunNews(first, first + len(bodies) - 1, bodies, is_over)


def _bodies(data: bytes) -> list[str]:
    return data.decode(errors="replace").split("\n") if data else []


def _number(headers: Mapping[str, str], name: str) -> int:
    text = headers.get(name, "")
    return int(text) if text.isdecimal() and len(text) < 20 else 0
