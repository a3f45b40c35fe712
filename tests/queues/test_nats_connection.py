"""A server that ends the connection with an error, after which its client gives up for good: it is made again."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from accord.queues.nats.connection import NatsConnection, NatsSettings
from accord.queues.nats.work import NatsWorkQueue
from tests.queues.nats_server import NatsServer

pytestmark = pytest.mark.anyio

LIMIT_S = 30
UNKNOWN_COMMAND = b"BOGUS\r\n"
"""NATS answers with an error and ends the connection."""


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():  # noqa: ASYNC110 - several objects change
            await asyncio.sleep(0.02)


async def end_with_error(connection: NatsConnection) -> None:
    """Have the server end the connection, and wait until there is another one."""
    client: Any = connection.client
    client._transport.write(UNKNOWN_COMMAND)
    await until(lambda: client.is_closed)
    await until(lambda: connection.is_connected)


Check = Callable[[NatsConnection, NatsConnection], Awaitable[None]]


@pytest.fixture
def over_two(nats_server: NatsServer, request: pytest.FixtureRequest) -> Callable[[Check], Awaitable[None]]:
    """Runs a check with two connections of one service, the first of which was ended by the server."""
    settings = NatsSettings(nats_server.url, prefix=f"ended{abs(hash(request.node.name))}")

    async def run(check: Check) -> None:
        ended, other = NatsConnection(settings), NatsConnection(settings)
        await ended.open()
        await other.open()
        try:
            await check(ended, other)
        finally:
            await ended.close()
            await other.close()

    return run


async def test_topics_are_received_again_and_the_gap_is_reported(over_two: Callable[[Check], Awaitable[None]]):
    async def check(ended: NatsConnection, other: NatsConnection) -> None:
        received: list[bytes] = []
        gaps: list[None] = []
        ended.subscribe("topic", received.append)
        ended.on_gap(lambda: gaps.append(None))
        await end_with_error(ended)
        await until(lambda: len(gaps) == 1)
        other.publish("topic", b"after")
        await until(lambda: received == [b"after"])

    await over_two(check)


async def test_subjects_are_followed_again_unless_that_has_ended(over_two: Callable[[Check], Awaitable[None]]):
    async def check(ended: NatsConnection, other: NatsConnection) -> None:
        followed: list[bytes] = []
        subjects = [ended.names.packets_out(name) for name in ("one", "two")]
        ends = [ended.follow(subject, lambda message: followed.append(message.data)) for subject in subjects]
        await end_with_error(ended)
        ends[0]()
        await ended.client.flush()
        await ended.client.flush()
        for subject in subjects:
            other.send(subject, subject.encode())
        await until(lambda: followed == [subjects[1].encode()])

    await over_two(check)


async def test_work_is_received_again(over_two: Callable[[Check], Awaitable[None]], caplog: pytest.LogCaptureFixture):
    async def check(ended: NatsConnection, other: NatsConnection) -> None:
        receiving, announcing = NatsWorkQueue(ended), NatsWorkQueue(other)
        announcing.announce("agent", "1")
        assert len(await receiving.receive(["agent"], limit=1, timeout_s=5)) == 1
        await end_with_error(ended)
        announcing.announce("agent", "2")
        found = 0
        async with asyncio.timeout(LIMIT_S):
            while not found:
                found = len(await receiving.receive(["agent"], limit=1, timeout_s=1))

    with caplog.at_level(logging.ERROR, logger="accord.queue"):
        await over_two(check)
    assert "NATS has ended the connection: nats: unknown protocol operation" in caplog.text


async def test_a_connection_that_is_closed_on_purpose_stays_closed(nats_server: NatsServer):
    connection = NatsConnection(NatsSettings(nats_server.url, prefix="closed"))
    await connection.open()
    client = connection.client
    await connection.close()
    assert client.is_closed
    assert not connection.is_connected
