"""New connections: all that wait are accepted together, and again after the process had no file left for one."""

import asyncio
import os
import resource

from accord.servers.http.serve import Listener, listen_at


class Greeting(asyncio.Protocol):
    """Sends a word to each client."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"hello")
        transport.close()


async def greet(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        return await reader.read()
    finally:
        writer.close()


async def accept_after_no_file_was_left() -> bytes:
    socket = listen_at("127.0.0.1", 0)
    listener = Listener(socket, Greeting)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        client = asyncio.create_task(greet(socket.getsockname()[1]))
        await asyncio.sleep(0)  # its socket is made now
        os.close(lowest := os.dup(0))
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
        done, _ = await asyncio.wait({client}, timeout=0.3)
        assert not done
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return await client
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        listener.close()


async def accept_many(count: int) -> list[bytes]:
    socket = listen_at("127.0.0.1", 0)
    listener = Listener(socket, Greeting)
    try:
        return await asyncio.gather(*[greet(socket.getsockname()[1]) for _ in range(count)])
    finally:
        listener.close()


def test_all_connections_that_wait_are_accepted():
    assert asyncio.run(asyncio.wait_for(accept_many(150), 10)) == [b"hello"] * 150


def test_connections_are_accepted_again_after_no_file_was_left():
    assert asyncio.run(asyncio.wait_for(accept_after_no_file_was_left(), 10)) == b"hello"
