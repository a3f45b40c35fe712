"""What every channel does, whatever carries its messages. A further kind is a further row of `KINDS`."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest

from accord.ports.queue import Channel
from accord.queues.local import LocalChannel
from accord.queues.nats.connection import NatsConnection, NatsSettings
from accord.queues.postgres import PostgresChannel
from tests.queues.nats_server import NatsServer
from tests.stores.postgres_server import PostgresServer

pytestmark = pytest.mark.anyio

WAIT_S = 10.0
MANY = 500

KINDS: dict[str, Callable[[pytest.FixtureRequest, Path], Channel]] = {
    "local": lambda _, folder: LocalChannel(folder / "service" / "channel"),
    "postgres": lambda request, folder: PostgresChannel(database_of(request, folder)),
    "nats": lambda request, folder: NatsConnection(nats_of(request, folder)),
}
"""Makes a channel of one service, each call as another process would."""


@cache
def database_of(request: pytest.FixtureRequest, folder: Path) -> str:
    """A database for one test, the same for all of its channels: every channel of a database gets all messages."""
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.make_database(f"channel_{digest_of(folder)}")


def nats_of(request: pytest.FixtureRequest, folder: Path) -> NatsSettings:
    """A prefix for one test, the same for all of its channels."""
    server: NatsServer = request.getfixturevalue("nats_server")
    return NatsSettings(server.url, prefix=f"channel_{digest_of(folder)}")


def digest_of(folder: Path) -> str:
    return sha256(bytes(folder)).hexdigest()[:12]


MakeChannel = Callable[[], Awaitable[Channel]]


@pytest.fixture(params=KINDS)
async def new_channel(request: pytest.FixtureRequest, short_path: Path) -> AsyncGenerator[MakeChannel]:
    """Makes and opens channels that reach each other."""
    opened: list[Channel] = []

    async def make() -> Channel:
        channel = KINDS[request.param](request, short_path)
        await channel.open()
        opened.append(channel)
        return channel

    yield make
    for channel in opened:
        await channel.close()


class Inbox:
    """The messages of one topic, and how many gaps there were."""

    def __init__(self, channel: Channel, topic: str) -> None:
        self.messages: list[bytes] = []
        self.gaps = 0
        self._news = asyncio.Event()
        self.end = channel.subscribe(topic, self._receive)
        channel.on_gap(self._lost)

    def _receive(self, message: bytes) -> None:
        self.messages.append(message)
        self._news.set()

    def _lost(self) -> None:
        self.gaps += 1
        self._news.set()

    async def until(self, is_true: Callable[["Inbox"], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not is_true(self):
                self._news.clear()
                await self._news.wait()


async def test_a_message_reaches_every_other_channel(new_channel: MakeChannel):
    first, second, third = [await new_channel() for _ in range(3)]
    inboxes = [Inbox(channel, "topic") for channel in (second, third)]
    first.publish("topic", b"hello")
    for inbox in inboxes:
        await inbox.until(lambda each: each.messages == [b"hello"])
        assert inbox.gaps == 0


async def test_messages_of_one_sender_keep_their_order(new_channel: MakeChannel):
    sender, receiver = await new_channel(), await new_channel()
    inbox = Inbox(receiver, "topic")
    sent = [f"{number}".encode() for number in range(MANY)]
    for message in sent:
        sender.publish("topic", message)
    await inbox.until(lambda each: len(each.messages) == MANY)
    assert inbox.messages == sent
    assert inbox.gaps == 0


async def test_a_topic_gets_its_own_messages_only(new_channel: MakeChannel):
    sender, receiver = await new_channel(), await new_channel()
    one, other = Inbox(receiver, "turn.1-a_B"), Inbox(receiver, "turn.2")
    sender.publish("turn.3", b"nobody")
    sender.publish("turn.2", b"two")
    sender.publish("turn.1-a_B", b"one")
    await one.until(lambda each: bool(each.messages))
    assert (one.messages, other.messages) == ([b"one"], [b"two"])


async def test_a_topic_may_have_several_receivers_and_each_can_end(new_channel: MakeChannel):
    sender, receiver = await new_channel(), await new_channel()
    ended, staying = Inbox(receiver, "topic"), Inbox(receiver, "topic")
    sender.publish("topic", b"1")
    await staying.until(lambda each: each.messages == [b"1"])
    ended.end()
    ended.end()
    sender.publish("topic", b"2")
    await staying.until(lambda each: each.messages == [b"1", b"2"])
    assert ended.messages == [b"1"]


@pytest.mark.parametrize("size", [0, 1, "max"])
async def test_payloads_up_to_the_limit_arrive_whole(new_channel: MakeChannel, size: int | str):
    sender, receiver = await new_channel(), await new_channel()
    inbox = Inbox(receiver, "topic")
    payload = bytes(range(256)) * (sender.max_bytes // 256 + 1)
    payload = payload[: sender.max_bytes if isinstance(size, str) else size]
    sender.publish("topic", payload)
    await inbox.until(lambda each: each.messages == [payload])


async def test_a_payload_that_is_too_large_is_a_gap(new_channel: MakeChannel):
    sender, receiver = await new_channel(), await new_channel()
    inbox = Inbox(receiver, "topic")
    sender.publish("topic", bytes(sender.max_bytes + 1))
    await inbox.until(lambda each: each.gaps > 0)
    sender.publish("topic", b"later")
    await inbox.until(lambda each: each.messages == [b"later"])


async def test_a_channel_that_opens_later_gets_later_messages(new_channel: MakeChannel):
    sender = await new_channel()
    sender.publish("topic", b"early")
    inbox = Inbox(await new_channel(), "topic")
    sender.publish("topic", b"late")
    await inbox.until(lambda each: each.messages[-1:] == [b"late"])  # an early one may still have been under way
    assert inbox.gaps == 0


async def test_what_is_published_before_closing_still_arrives(new_channel: MakeChannel):
    sender, receiver = await new_channel(), await new_channel()
    inbox = Inbox(receiver, "topic")
    for number in range(MANY):
        sender.publish("topic", bytes([number % 256]))
    await sender.close()
    await inbox.until(lambda each: len(each.messages) == MANY)


async def test_closing_twice_is_no_error_and_a_closed_channel_sends_nothing(new_channel: MakeChannel):
    sender, receiver, last = await new_channel(), await new_channel(), await new_channel()
    inbox = Inbox(receiver, "topic")
    await sender.close()
    await sender.close()
    sender.publish("topic", b"closed")
    last.publish("topic", b"open")
    await inbox.until(lambda each: bool(each.messages))
    assert inbox.messages == [b"open"]


async def test_a_receiver_may_publish_and_close(new_channel: MakeChannel):
    first, second = await new_channel(), await new_channel()
    inbox, closing = Inbox(first, "answer"), list[asyncio.Task[None]]()

    def answer(message: bytes) -> None:
        second.publish("answer", message)
        closing.append(asyncio.ensure_future(second.close()))

    second.subscribe("question", answer)
    first.publish("question", b"?")
    await inbox.until(lambda each: each.messages == [b"?"])
    await asyncio.wait_for(asyncio.gather(*closing), WAIT_S)
