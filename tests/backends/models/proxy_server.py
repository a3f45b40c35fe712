"""A small HTTP proxy in a thread: it forwards requests, opens tunnels, and records both."""

import asyncio
import threading
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

LIMIT_S = 20.0


@dataclass
class ForwardingProxy:
    """Use it by `with`."""

    requested: list[str] = field(default_factory=list[str])
    passed: bytearray = field(default_factory=bytearray)
    """All that clients sent through it."""

    def __enter__(self) -> Self:
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, int]] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(started)))
        self._thread.start()
        self._loop, self._end, port = started.result(LIMIT_S)
        self.url = f"http://127.0.0.1:{port}"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()

    async def _serve(self, started: "Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, int]]") -> None:
        end = asyncio.Event()
        server = await asyncio.start_server(self._met, "127.0.0.1", 0)
        started.set_result((asyncio.get_running_loop(), end, server.sockets[0].getsockname()[1]))
        await end.wait()
        server.close()
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._forward(reader, writer)
        finally:
            await _closed(writer)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            first, _, rest = head.partition(b"\r\n")
            method, target, _ = first.decode("latin-1").split(" ")
            self.requested.append(f"{method} {target}")
            parts = urlsplit(target if method != "CONNECT" else f"//{target}")
            there_reader, there_writer = await asyncio.open_connection(parts.hostname, parts.port)
            try:
                if method == "CONNECT":
                    writer.write(b"HTTP/1.1 200 Dug\r\n\r\n")
                else:
                    there_writer.write(f"{method} {parts.path} HTTP/1.1\r\n".encode() + rest)
                await asyncio.gather(self._pump(reader, there_writer, self.passed), self._pump(there_reader, writer))
            finally:
                await _closed(there_writer)

    async def _pump(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, kept: bytearray | None = None
    ) -> None:
        with suppress(ConnectionError):
            while data := await source.read(1 << 16):
                if kept is not None:
                    kept += data
                target.write(data)
                await target.drain()
        target.close()


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
