"""A proxy in front of a server: its connections can be cut, and new ones refused or left without an answer."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Final

PIECE: Final = 65_536


class Proxy:
    """Passes bytes between clients and a server, both at a TCP port of loopback or at a path."""

    def __init__(self, listen: int | Path, target: int | Path) -> None:
        self.cuts = 0
        self._listen: Final = listen
        self._target: Final = target
        self._server: asyncio.Server | None = None
        self._writers: Final[set[asyncio.StreamWriter]] = set()
        self._flows = asyncio.Event()
        self._flows.set()

    async def open(self) -> None:
        """Accept connections."""
        if self._server is not None:
            return
        if isinstance(self._listen, Path):
            self._server = await asyncio.start_unix_server(self._connected, self._listen)
            self._listen.chmod(0o777)
        else:
            self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._listen)

    async def cut(self) -> None:
        """Break every connection and refuse new ones."""
        self.cuts += 1
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            writer.transport.abort()

    def hold(self) -> None:
        """Pass nothing on, as a network does that drops everything."""
        self._flows.clear()

    def release(self) -> None:
        """Pass on what was held."""
        self._flows.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            other_reader, other_writer = await (
                asyncio.open_unix_connection(self._target)
                if isinstance(self._target, Path)
                else asyncio.open_connection("127.0.0.1", self._target)
            )
        except OSError:
            writer.transport.abort()
            return
        self._writers.update((writer, other_writer))
        try:
            await asyncio.gather(self._pass(reader, other_writer), self._pass(other_reader, writer))
        finally:
            self._writers.difference_update((writer, other_writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await reader.read(PIECE):
                await self._flows.wait()
                writer.write(piece)
                await writer.drain()
        writer.close()
