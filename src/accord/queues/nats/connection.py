"""One connection to NATS: the streams that Accord needs, and a channel for messages between processes."""

# The annotations of the client are incomplete.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final
from urllib.parse import urlsplit

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js import JetStreamContext
from nats.js.api import DiscardPolicy, RePublish, RetentionPolicy, StorageType, StreamConfig
from nats.js.errors import NotFoundError

from accord.errors import StoreError
from accord.ports.queue import Receive
from accord.wire.queue_messages import Names

CONNECT_S: Final = 5
RECONNECT_EVERY_S: Final = 0.25
REOPEN_EVERY_S: Final = 1.0
"""How long to wait before a connection that the server has ended with an error is made again."""
PING_EVERY_S: Final = 5
"""A server that does not answer two pings is gone: the connection is made anew."""
REQUEST_S: Final = 2.0
"""How long an answer of JetStream may take before the session store takes over."""
MAKE_STREAMS_S: Final = 20.0
"""How long a process that starts waits for JetStream."""
PACKETS_AGE_S: Final = 3_600
"""How long packets of a turn stay in the stream; longer than any turn takes, since a finished turn is in the store."""
DEAD_AGE_S: Final = 7 * 86_400
DEDUPLICATE_S: Final = 120
HEADER_ROOM: Final = 1_024
"""Bytes of the largest message that are left for its headers."""
GAP_TOPIC: Final = "gap"
"""The topic of a message that says that another one was not sent."""

LOG: Final = logging.getLogger("accord.queue")


@dataclass(frozen=True, slots=True)
class NatsSettings:
    """Where NATS is and how to authenticate. `replicas` is for streams that do not exist yet."""

    url: str
    prefix: str = "accord"
    replicas: int = 1
    credentials_file: str | None = None
    ca_file: str | None = None


class _Follower:
    """A subscription to one subject, which outlives the client that it was made with."""

    def __init__(self, subject: str, receive: Callable[[Msg], None]) -> None:
        self._subject: Final = subject
        self._receive: Final = receive
        self._subscription: Subscription | None = None
        self._is_ended = False

    async def subscribe(self, client: Client) -> None:
        self._subscription = await client.subscribe(self._subject, cb=self._pass_on)
        if self._is_ended:
            await self._subscription.unsubscribe()

    async def end(self) -> None:
        self._is_ended = True
        if self._subscription is not None:
            await self._subscription.unsubscribe()

    async def _pass_on(self, message: Msg) -> None:
        self._receive(message)


class NatsConnection:
    """A connection that is made again when it breaks, and the channel of a service over it."""

    def __init__(self, settings: NatsSettings, *, name: str = "accord") -> None:
        self.names: Final = Names(settings.prefix)
        self._settings: Final = settings
        self._name: Final = name
        self._client: Client | None = None
        self._jetstream: JetStreamContext | None = None
        self._last_error: Exception | None = None
        self._lost: Final[list[Callable[[], None]]] = []
        self._receivers: Final[dict[str, list[Receive]]] = {}
        self._outbox: Final[deque[tuple[str, bytes, Mapping[str, str] | None]]] = deque()
        self._sending: asyncio.Task[None] | None = None
        self._tasks: Final[set[asyncio.Task[Any]]] = set()
        self._followers: Final[list[_Follower]] = []

    @property
    def client(self) -> Client:
        """The client; raises `StoreError` if there is no connection now."""
        if self._client is None or not self._client.is_connected:
            raise StoreError("NATS cannot be reached")
        return self._client

    @property
    def jetstream(self) -> JetStreamContext:
        """JetStream over this connection; raises `StoreError` if there is no connection now."""
        if self._jetstream is None or not self.is_connected:
            raise StoreError("NATS cannot be reached")
        return self._jetstream

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return self._client is not None and self._client.is_connected

    @property
    def max_bytes(self) -> int:
        """The largest payload that the server accepts, less some room for headers."""
        return (self._client.max_payload if self._client is not None else 1_048_576) - HEADER_ROOM

    async def open(self) -> None:
        """Connect and make sure that the streams exist."""
        if self._client is not None:
            return
        try:
            await self._connect()
        except (NatsError, OSError, TimeoutError, ValueError) as error:
            place = urlsplit(self._settings.url.split(",")[0])
            # The client tries again until the time is over; what failed each time, it only reports.
            cause = self._last_error if isinstance(error, TimeoutError) and self._last_error is not None else error
            raise StoreError(
                f"NATS at {place.hostname}:{place.port or 4222} cannot be used: {_reason(cause)}"
            ) from error

    async def _connect(self) -> None:
        settings, before, client = self._settings, self._client, Client()
        options: dict[str, Any] = {}
        if settings.credentials_file is not None:
            options["user_credentials"] = settings.credentials_file
        if settings.ca_file is not None or urlsplit(settings.url).scheme == "tls":
            options["tls"] = ssl.create_default_context(cafile=settings.ca_file)
        try:
            await asyncio.wait_for(
                client.connect(
                    settings.url.split(","),
                    name=self._name,
                    connect_timeout=CONNECT_S,
                    reconnect_time_wait=RECONNECT_EVERY_S,  # pyright: ignore[reportArgumentType] - any number will do
                    max_reconnect_attempts=-1,
                    ping_interval=PING_EVERY_S,
                    error_cb=self._failed,
                    disconnected_cb=self._disconnected,
                    reconnected_cb=self._reconnected,
                    closed_cb=self._closed,
                    allow_reconnect=True,
                    **options,
                ),
                2 * CONNECT_S,
            )
            jetstream = client.jetstream(timeout=REQUEST_S)
            await self._make_streams_when_possible(jetstream)
            # To all topics, so that a receiver that is added later misses nothing while it is subscribed.
            await client.subscribe(self.names.topic(">"), cb=self._received)
            # From here on, a new follower subscribes by itself.
            self._client, self._jetstream = client, jetstream
            for follower in tuple(self._followers):
                await follower.subscribe(client)
            await _flush(client, CONNECT_S)
        except BaseException:
            self._client = before
            with suppress(NatsError, OSError, TimeoutError):
                await client.close()
            raise

    async def close(self) -> None:
        """Send what is waiting and disconnect."""
        client, self._client = self._client, None
        for task in tuple(self._tasks):
            task.cancel()
        if client is not None:
            with suppress(NatsError, OSError, TimeoutError, asyncio.CancelledError):
                if client.is_connected:
                    await self._send(client)
                    await _flush(client, 1)
            with suppress(NatsError, OSError, TimeoutError):
                await client.close()

    def publish(self, topic: str, payload: bytes) -> None:
        """Send a message to the other processes soon; one that is too large is logged, and they notice a gap."""
        if len(payload) > self.max_bytes:
            fields = {"topic": topic, "bytes": len(payload)}
            LOG.error("A message between processes is too large and was not sent", extra={"fields": fields})
            topic, payload = GAP_TOPIC, b""
        self.send(self.names.topic(topic), payload)

    def send(self, subject: str, payload: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Send a message to any subject soon; it is lost if there is no connection."""
        if not self.is_connected:
            return
        self._outbox.append((subject, payload, headers))
        if self._sending is None or self._sending.done():
            self._sending = self.run(self._send(self._client))

    def run(self, work: Any) -> asyncio.Task[Any]:
        """Run a coroutine that ends with the connection; its failures are logged."""
        task = asyncio.create_task(_logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: work.close())  # one that was cancelled before it began is not awaited any more
        return task

    def subscribe(self, topic: str, receive: Receive) -> Callable[[], None]:
        """Call `receive` with each message of this topic."""
        receivers = self._receivers.setdefault(topic, [])
        receivers.append(receive)

        def end() -> None:
            if receive in receivers:
                receivers.remove(receive)

        return end

    def follow(self, subject: str, receive: Callable[[Msg], None]) -> Callable[[], None]:
        """Call `receive` with each message of this subject, also after the connection was made again."""
        follower = _Follower(subject, receive)
        self._followers.append(follower)
        if self._client is not None:
            # Also while NATS is away: the client subscribes when it is back.
            self.run(follower.subscribe(self._client))

        def end() -> None:
            if follower in self._followers:
                self._followers.remove(follower)
                self.run(follower.end())

        return end

    def on_gap(self, lost: Callable[[], None]) -> None:
        """Call `lost` after every new connection, and when a message was too large."""
        self._lost.append(lost)

    async def _received(self, message: Msg) -> None:
        topic = message.subject.removeprefix(self.names.topic(""))
        if topic == GAP_TOPIC:
            self._report_gap()
        for receive in tuple(self._receivers.get(topic, ())):
            receive(message.data)

    def _report_gap(self) -> None:
        for lost in self._lost:
            lost()

    async def _send(self, client: Client | None) -> None:
        while self._outbox and client is not None:
            subject, payload, headers = self._outbox.popleft()
            await client.publish(subject, payload, headers=dict(headers) if headers else None)

    async def _failed(self, error: Exception) -> None:
        self._last_error = error
        LOG.debug("NATS: %s", _reason(error))

    async def _disconnected(self) -> None:
        if self._client is not None:
            LOG.warning("The connection to NATS is lost; packets go through the session store until it is back")

    async def _reconnected(self) -> None:
        LOG.warning("NATS is connected again")
        self._report_gap()

    async def _closed(self) -> None:
        """Connect again: after most errors that a server sends, the client gives up for good."""
        if self._client is not None and self._client.is_closed:
            LOG.error("NATS has ended the connection: %s", _reason(self._client.last_error or StoreError("no reason")))
            self.run(self._reopen())

    async def _reopen(self) -> None:
        while True:
            await asyncio.sleep(REOPEN_EVERY_S)
            try:
                await self._connect()
            except (NatsError, OSError, TimeoutError, ValueError) as error:
                LOG.warning("NATS cannot be connected again yet: %s", _reason(error))
            else:
                return await self._reconnected()

    async def _make_streams_when_possible(self, jetstream: JetStreamContext) -> None:
        """Make the streams; a cluster that elects a leader right now never answers a request, but it does the next."""
        until = monotonic() + MAKE_STREAMS_S
        while True:
            try:
                return await self._make_streams(jetstream)
            except NatsTimeoutError:
                if monotonic() > until:
                    raise

    async def _make_streams(self, jetstream: JetStreamContext) -> None:
        """Add the streams that do not exist; the settings of those that do are the operator's."""
        names, replicas = self.names, self._settings.replicas
        streams = (
            StreamConfig(
                name=names.stream("WORK"),
                subjects=[names.all_work],
                retention=RetentionPolicy.WORK_QUEUE,
                storage=StorageType.FILE,
                num_replicas=replicas,
                duplicate_window=DEDUPLICATE_S,
            ),
            StreamConfig(
                name=names.stream("PACKETS"),
                subjects=[names.packets_in("*")],
                storage=StorageType.FILE,
                num_replicas=replicas,
                max_age=PACKETS_AGE_S,
                discard=DiscardPolicy.NEW,
                duplicate_window=DEDUPLICATE_S,
                allow_direct=True,
                republish=RePublish(src=names.packets_in("*"), dest=names.packets_out("{{wildcard(1)}}")),
            ),
            StreamConfig(
                name=names.stream("DEAD"),
                subjects=[names.all_dead],
                storage=StorageType.FILE,
                num_replicas=replicas,
                max_age=DEAD_AGE_S,
            ),
        )
        for stream in streams:
            try:
                await jetstream.stream_info(stream.name or "")
            except NotFoundError:
                await jetstream.add_stream(stream)


async def _flush(client: Client, timeout_s: int) -> None:
    """Return when the server has processed what was sent before."""
    # The client's ping overtakes commands that it has not written yet; a second ping follows them.
    for _ in range(2):
        await client.flush(timeout=timeout_s)


async def _logged(work: Any) -> None:
    try:
        await work
    except (NatsError, OSError, TimeoutError, StoreError) as error:
        LOG.debug("A message to NATS was not sent: %s", _reason(error))


def _reason(error: BaseException) -> str:
    return "it does not answer" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
