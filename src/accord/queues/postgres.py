"""PostgreSQL alone: messages between processes by LISTEN and NOTIFY, and a queue of turns that wait in the store.

One channel of the database carries all topics. Messages that are published at about the same time are sent with one
statement. It knows nothing of turns but that some wait.
"""

import asyncio
import base64
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, Final, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from accord.errors import StoreError, UsageError
from accord.ports import Channel, WorkItem
from accord.ports.queue import Receive

CHANNEL: Final = "accord"
MAX_MESSAGE_BYTES: Final = 7_999
"""PostgreSQL takes payloads of less than 8,000 bytes."""
MAX_BYTES: Final = 5_700
"""The largest payload: with its topic it fits into a message, also in base64 if it is no text."""
GAP: Final = "gap"
"""The message that says that another one was not sent."""
MAX_WAITING: Final = 10_000
"""How many messages wait while the database cannot be reached; older ones are dropped."""
CONNECT_S: Final = 5.0
SEND_S: Final = 5.0
LAST_SEND_S: Final = 1.0
"""How long closing may wait for the last messages to be sent."""
FIRST_RETRY_S: Final = 0.2
LAST_RETRY_S: Final = 5.0
NOTIFY: Final = "SELECT pg_notify($1, each) FROM unnest($2::text[]) each"
WORK_TOPIC: Final = "work"
DEAD_TOPIC: Final = "dead"

LOG: Final = logging.getLogger("accord.queue")
FAILURES: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)


class PostgresChannel:
    """A channel over LISTEN and NOTIFY, with one connection to listen and one to send."""

    def __init__(self, url: str) -> None:
        self.max_bytes: Final = MAX_BYTES
        try:
            self._url: Final = make_url(url).set(drivername="postgresql")
        except (ArgumentError, ValueError):
            raise UsageError("The queue's address is not valid; use postgresql://user:password@host/database") from None
        self._receivers: Final[dict[str, list[Receive]]] = {}
        self._lost: Final[list[Callable[[], None]]] = []
        self._outbox: Final[deque[str]] = deque(maxlen=MAX_WAITING)
        self._numbers: Final = count()
        self._filled: Final = asyncio.Event()
        self._emptied: Final = asyncio.Event()
        self._tasks: Final[list[asyncio.Task[None]]] = []
        self._listening: Final = asyncio.Event()

    @property
    def is_connected(self) -> bool:
        """Whether it listens now."""
        return bool(self._tasks) and self._listening.is_set()

    async def open(self) -> None:
        """Connect and listen."""
        if self._tasks:
            return
        try:
            connection = await self._connect()
        except FAILURES as error:
            raise StoreError(f"PostgreSQL {self._url.host or ''}: {error or type(error).__name__}") from error
        self._tasks.append(asyncio.create_task(self._listen(connection)))
        self._tasks.append(asyncio.create_task(self._send()))
        async with asyncio.timeout(CONNECT_S):
            await self._listening.wait()

    async def close(self) -> None:
        """Send what is waiting and disconnect."""
        tasks, self._tasks[:] = list(self._tasks), []
        if tasks and self._outbox:
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_SEND_S):
                    await self._emptied.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def publish(self, topic: str, payload: bytes) -> None:
        """Send a message to all processes soon."""
        try:
            text = payload.decode()
            encoded = "" if "\0" not in text else None
        except UnicodeDecodeError:
            text, encoded = "", None
        if encoded is None:
            encoded, text = "b", base64.b64encode(payload).decode()
        # Numbered: PostgreSQL sends one of several messages that are equal.
        message = f"{next(self._numbers)} {topic} {encoded}\n{text}"
        if len(payload) > MAX_BYTES or len(message.encode()) > MAX_MESSAGE_BYTES:
            fields = {"topic": topic, "bytes": len(payload)}
            LOG.error("A message between processes is too large and was not sent", extra={"fields": fields})
            message = GAP
        self._outbox.append(message)
        self._filled.set()
        self._emptied.clear()

    def subscribe(self, topic: str, receive: Receive) -> Callable[[], None]:
        """Call `receive` with each message of this topic."""
        self._receivers.setdefault(topic, []).append(receive)

        def end() -> None:
            receivers = self._receivers.get(topic, [])
            if receive in receivers:
                receivers.remove(receive)
            if not receivers:
                self._receivers.pop(topic, None)

        return end

    def on_gap(self, lost: Callable[[], None]) -> None:
        """Call `lost` after every new connection."""
        self._lost.append(lost)

    async def _connect(self) -> Any:
        connect = cast("Any", asyncpg).connect
        settings = {"application_name": "accord-queue", "synchronous_commit": "off"}
        address = self._url.render_as_string(hide_password=False)
        return await connect(address, timeout=CONNECT_S, server_settings=settings)

    async def _listen(self, connection: Any) -> None:
        """Listen, and again with a new connection whenever the connection breaks."""
        retry_s, is_first = FIRST_RETRY_S, True
        while True:
            try:
                connection = connection or await self._connect()
                broken = asyncio.Event()
                connection.add_termination_listener(partial(_set, broken))
                await connection.add_listener(CHANNEL, self._received)
                self._listening.set()
                if not is_first:
                    self._report_gap()
                retry_s, is_first = FIRST_RETRY_S, False
                await broken.wait()
                self._listening.clear()
                LOG.warning("The connection to PostgreSQL that listens for messages is lost")
            except FAILURES as error:
                LOG.debug("PostgreSQL: %s", error)
            except Exception:
                LOG.exception("The connection to PostgreSQL that listens for messages failed")
            finally:
                if connection is not None:
                    connection.terminate()
                connection = None
            await asyncio.sleep(retry_s)
            retry_s = min(2 * retry_s, LAST_RETRY_S)

    def _report_gap(self) -> None:
        for lost in self._lost:
            lost()

    async def _send(self) -> None:
        """Send the messages that are waiting, all with one statement, again and again."""
        connection: Any = None
        retry_s = FIRST_RETRY_S
        try:
            while True:
                await self._filled.wait()
                batch = list(self._outbox)
                try:
                    async with asyncio.timeout(SEND_S):
                        connection = connection or await self._connect()
                        await connection.execute(NOTIFY, CHANNEL, batch)
                except Exception as error:  # noqa: BLE001 - without this task no message would be sent any more
                    LOG.debug("PostgreSQL: %s", error)
                    if connection is not None:
                        connection.terminate()
                        connection = None
                    await asyncio.sleep(retry_s)
                    retry_s = min(2 * retry_s, LAST_RETRY_S)
                    continue
                retry_s = FIRST_RETRY_S
                for _ in batch:
                    self._outbox.popleft()
                if not self._outbox:
                    self._filled.clear()
                    self._emptied.set()
        finally:
            if connection is not None:
                connection.terminate()

    def _received(self, connection: Any, pid: int, channel: str, message: str) -> None:
        del connection, pid, channel
        if message == GAP:
            self._report_gap()
            return
        head, _, text = message.partition("\n")
        _, topic, encoded = [*head.split(" ", 2), "", ""][:3]  # another program may have sent anything
        receivers = self._receivers.get(topic)
        if receivers:
            payload = base64.b64decode(text) if encoded == "b" else text.encode()
            for receive in tuple(receivers):
                receive(payload)


class ChannelWorkQueue:
    """Announces waiting turns to the workers over a channel. Every idle worker looks into the store then."""

    def __init__(self, channel: Channel) -> None:
        self.counts_turns: Final = False
        self._channel: Final = channel
        self._news: Final = asyncio.Event()
        channel.subscribe(WORK_TOPIC, partial(_set, self._news))
        channel.on_gap(self._news.set)

    def announce(self, agent: str, request_id: str) -> None:
        """Say that a turn waits."""
        del agent
        self._channel.publish(WORK_TOPIC, request_id.encode())

    def bury(self, request_id: str, reason: str) -> None:
        """Say that a turn was given up; its receipt has the reason, too."""
        self._channel.publish(DEAD_TOPIC, f"{request_id} {reason}".encode())

    async def receive(self, agents: Sequence[str], *, limit: int, timeout_s: float) -> Sequence[WorkItem]:
        """Wait until a turn may be waiting. There are no messages to be acknowledged."""
        del agents, limit
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        self._news.clear()
        return ()


def _set(event: asyncio.Event, _: object) -> None:
    event.set()
