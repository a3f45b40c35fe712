"""One client that sends very many very small pieces does not keep the server from the others."""

import asyncio
from typing import Any, cast

import aiohttp

from accord.agents import demo
from accord.servers.http.app import Application
from accord.servers.http.connection import MAX_PIECES, MIN_PIECE_BYTES, PARSED_BYTES, LimitedWebSocket
from accord.servers.http.serve import address_of, make_server
from tests.servers.raw import REQUEST, wired
from tests.servers.transports import make_service, within

CHUNKED = b"POST /v1/assist HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
FRAMES = 4_000
FRAME = b"\x81\x82\x00\x00\x00\x00{}"


def in_chunks(content: bytes, size: int) -> bytes:
    pieces = [content[at : at + size] for at in range(0, len(content), size)]
    return b"".join(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in pieces) + b"0\r\n\r\n"


def test_a_body_of_tiny_chunks_is_cut_off_and_small_ones_are_fine():
    async def run() -> None:
        async with wired(Application(make_service(demo))) as port:
            padded = REQUEST + b" " * 2 * MAX_PIECES * MIN_PIECE_BYTES
            for content, size, status in [
                (REQUEST, 1, 200),
                (padded, 2 * MIN_PIECE_BYTES, 200),
                (padded, MIN_PIECE_BYTES // 2, 400),
                (padded, 1, 400),
            ]:
                answered = await port.ask(CHUNKED + in_chunks(content, size))
                assert answered.status == status
                assert status == 200 or "too many tiny chunks" in answered.json()["detail"]

    within(run)


def test_frames_that_come_in_one_read_are_parsed_a_few_at_a_time():
    async def run() -> None:
        server = make_server(Application(make_service(demo)))
        serving = asyncio.create_task(server.serve())
        address = await address_of(server)
        async with aiohttp.ClientSession(address) as client, client.ws_connect("/v1/ws") as socket:
            (connection,) = (each for each in server.server_state.connections if isinstance(each, LimitedWebSocket))
            transport = cast("Any", socket)._writer.transport
            transport.write(FRAME * FRAMES)
            most = answered = 0
            while answered < FRAMES:
                most = max(most, connection.queue.qsize())
                assert (await socket.receive_json())["op"] == "error"
                answered += 1
            assert 0 < most <= PARSED_BYTES // len(FRAME)
        server.should_exit = True
        await serving

    within(run)
