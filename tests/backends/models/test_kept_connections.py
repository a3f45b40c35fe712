"""Connections that are kept: when they carry another request, and what bytes that nobody asked for do to them."""

import asyncio
import socket

import pytest

from accord.backends import upstream_direct
from accord.backends.upstream import CALLER
from accord.backends.upstream_direct import UNASKED
from tests.backends.models.test_upstream_connection import LOOPS, within
from tests.backends.models.test_upstream_direct import GOOD, body_of, pool, talk
from tests.client.faulty_server import FaultyServer, in_turn, whole


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> str:
    return request.param


def test_bytes_that_the_event_loop_has_not_read_keep_a_connection_from_being_used_again(loop: str):
    async def twice() -> tuple[list[bytes], int]:
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setblocking(False)
        running, url = asyncio.get_running_loop(), f"http://127.0.0.1:{listening.getsockname()[1]}"
        bodies: list[bytes] = []
        peers: list[socket.socket] = []
        async with pool() as upstream:
            for text in (b'"first"', b'"second"'):
                sending = asyncio.create_task(body_of(upstream, talk(url)))
                peer, _ = await running.sock_accept(listening)
                peers.append(peer)
                await running.sock_recv(peer, 65536)
                peer.send(whole(200, text))
                bodies.append(await sending)
                peer.send(whole(200, b'"nobody asked"'))  # the next request is sent before the event loop reads it
        for each in (*peers, listening):
            each.close()
        return bodies, len(peers)

    assert within(loop, twice) == ([b'"first"', b'"second"'], 2)


def test_a_connection_serves_another_caller_only_after_a_rest(monkeypatch: pytest.MonkeyPatch, loop: str):
    async def connections(url: str, callers: str) -> None:
        async with pool() as upstream:
            for caller in callers:
                CALLER.set(caller)
                await body_of(upstream, talk(url))

    with FaultyServer(in_turn([GOOD])) as server:
        within(loop, lambda: connections(server.url, "abab"))
        assert server.connections == 2
        monkeypatch.setattr(upstream_direct, "REST_S", 0.0)
        within(loop, lambda: connections(server.url, "abab"))
        assert server.connections == 3


def test_no_connection_is_kept_to_an_endpoint_that_sent_bytes_unasked(caplog: pytest.LogCaptureFixture, loop: str):
    async def thrice(url: str) -> None:
        async with pool() as upstream:
            for _ in range(4):
                await body_of(upstream, talk(url))

    with FaultyServer(in_turn([GOOD], [GOOD + GOOD], [GOOD])) as server:
        within(loop, lambda: thrice(server.url))
    assert server.connections == 3
    assert [record.message for record in caplog.records].count(UNASKED) == 1
