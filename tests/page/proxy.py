"""A TCP proxy on loopback that cuts connections: all of them at once, or a stream after so many bytes."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final
from urllib.parse import urlsplit

CHUNK: Final = 65_536


class Proxy:
    """Passes connections on to the server at this address."""

    def __init__(self, address: str) -> None:
        self._target: Final = urlsplit(address)
        self._limits: list[int] = []
        self._connections: Final[dict[asyncio.Task[None] | None, asyncio.StreamWriter]] = {}

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[str]:
        """Listen; gives the address."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            self.cut()
            await asyncio.gather(*filter(None, self._connections), return_exceptions=True)

    def cut(self) -> None:
        """Cut every connection now."""
        for client in self._connections.values():
            client.transport.abort()

    def cut_streams_after(self, *limits: int) -> None:
        """Cut the next streams of events, each after so many bytes of its body."""
        self._limits = list(limits)

    @property
    def cuts_to_come(self) -> int:
        """How many of these streams there were not yet."""
        return len(self._limits)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections[asyncio.current_task()] = writer
        upstream, to_upstream = await asyncio.open_connection(self._target.hostname, self._target.port)
        copying = [
            asyncio.create_task(_copy(reader, to_upstream)),
            asyncio.create_task(self._copy_answer(upstream, writer)),
        ]
        await asyncio.wait(copying, return_when=asyncio.FIRST_COMPLETED)
        for task in copying:
            task.cancel()
        await asyncio.gather(*copying, return_exceptions=True)
        writer.close()
        to_upstream.transport.abort()
        self._connections.pop(asyncio.current_task())

    async def _copy_answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                if not self._limits or b"content-type: text/event-stream" not in data:
                    writer.write(data)
                    continue
                limit = self._limits.pop(0) + data.index(b"\r\n\r\n") + 4
                writer.write(data[:limit])
                await _copy(reader, writer, max(0, limit - len(data)))
                return


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int | None = None) -> None:
    """Copy everything, or so many bytes."""
    with suppress(OSError):
        while data := await reader.read(CHUNK if limit is None else min(CHUNK, limit)):
            writer.write(data)
            await writer.drain()
            if limit is not None:
                limit -= len(data)
