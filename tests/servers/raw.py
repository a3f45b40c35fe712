"""Sends bytes to a real server, as no well-meaning client would."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from accord.servers.http.app import Application
from tests.servers.transports import Answered, body, served

REQUEST = json.dumps(body()).encode()


@dataclass(slots=True)
class Wire:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> Answered:
        """The next answer with a known length, or one in chunks, whole."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        status, headers = parse_head(head)
        if headers.get("transfer-encoding") == "chunked":
            return Answered(status, headers, await self._chunks())
        return Answered(status, headers, await self.reader.readexactly(int(headers.get("content-length", 0))))

    async def rest(self) -> bytes:
        """Everything up to the end of the connection, however it ends."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""

    async def _chunks(self) -> bytes:
        parts: list[bytes] = []
        while size := int(await self.reader.readline(), 16):
            parts.append(await self.reader.readexactly(size))
            await self.reader.readline()
        await self.reader.readline()
        return b"".join(parts)


def parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    return int(first.split()[1]), {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}


def post(content: bytes = REQUEST, *more: str, host: str = "localhost", length: int | None = None) -> bytes:
    """A request as bytes, with these header lines."""
    lines = [
        "POST /v1/assist HTTP/1.1",
        f"Host: {host}",
        f"Content-Length: {len(content) if length is None else length}",
    ]
    return "\r\n".join([*lines, *more, "", ""]).encode() + content


@asynccontextmanager
async def wired(application: Application) -> AsyncGenerator["Port"]:
    """The application on a real server, and the way to connect to it."""
    async with served(application) as address:
        yield Port(address, int(address.rpartition(":")[2]))


@dataclass(slots=True)
class Port:
    """Where a server listens."""

    address: str
    number: int

    @asynccontextmanager
    async def wire(self, **options: Any) -> AsyncGenerator[Wire]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.number, **options)
        try:
            yield Wire(reader, writer)
        finally:
            writer.transport.abort()

    async def exchange(self, data: bytes) -> bytes:
        """Everything that comes back for these bytes, to the end of the connection."""
        async with self.wire() as wire:
            await wire.send(data)
            wire.writer.write_eof()
            return await wire.rest()

    async def ask(self, data: bytes) -> Answered:
        """The first answer to these bytes."""
        async with self.wire() as wire:
            await wire.send(data)
            return await wire.answer()
