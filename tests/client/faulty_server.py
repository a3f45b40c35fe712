"""A real HTTP server on loopback that answers in raw bytes, as a test requires: well, badly, partly or not at all.

It runs in a thread of its own, so that blocking and async clients meet the same one. It knows nothing of Accord.
"""

import asyncio
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Self

LIMIT_S = 20.0


class Do(Enum):
    """What to do to a connection instead of writing to it."""

    RESET = "reset"
    CLOSE = "close"
    HOLD = "wait until the client goes away"
    BEAT = "wait a tenth of a second"


Step = bytes | Do


@dataclass(frozen=True)
class Seen:
    """A request as it came."""

    number: int
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def last_id(self) -> int:
        return int(self.headers.get("last-event-id", "0"))

    @property
    def line(self) -> str:
        return f"{self.method} {self.target}"


Answering = Callable[[Seen], Sequence[Step]]


@dataclass
class FaultyServer:
    """Answers each request with the given steps; use it with `with`."""

    answering: Answering
    tls: ssl.SSLContext | None = None
    bytes_per_read: int | None = None
    """Read the body of a request in pieces of this size with a pause before each; all at once if None."""
    port: int = 0
    """Where it listens; 0 takes a free port."""
    seen: list[Seen] = field(default_factory=list[Seen])
    connections: int = 0
    left: threading.Event = field(default_factory=threading.Event)
    """Set when a client has gone away from an answer that was held."""
    held: threading.Event = field(default_factory=threading.Event)
    """Set when an answer is being held."""

    def __enter__(self) -> Self:
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, int]] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(started)))
        self._thread.start()
        self._loop, self._end, self.port = started.result(LIMIT_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Close every connection and listen no more; a second call does nothing."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    @property
    def lines(self) -> list[str]:
        return [seen.line for seen in self.seen]

    async def _serve(self, started: "Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, int]]") -> None:
        end = asyncio.Event()
        busy: set[asyncio.Task[None]] = set()

        async def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task
            busy.add(task)
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, ssl.SSLError):
                await self._converse(reader, writer)
            writer.close()
            with suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()
            busy.discard(task)

        listening = socket.create_server(("127.0.0.1", self.port))
        if self.bytes_per_read is not None:
            # Or the system would take most of a body at once, however slowly it is read.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        server = await asyncio.start_server(met, sock=listening, ssl=self.tls)
        started.set_result((asyncio.get_running_loop(), end, server.sockets[0].getsockname()[1]))
        await end.wait()
        server.close()
        for task in tuple(busy):
            task.cancel()
        if busy:
            await asyncio.wait(tuple(busy), timeout=LIMIT_S)
        await server.wait_closed()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            seen = await self._read(reader)
            self.seen.append(seen)
            for step in self.answering(seen):
                if not await self._take(step, reader, writer):
                    return

    async def _read(self, reader: asyncio.StreamReader) -> Seen:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *rest = head.strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
        body = await self._read_body(reader, int(headers.get("content-length", "0")))
        method, target, _ = first.split(" ")
        return Seen(len(self.seen), method, target, headers, body)

    async def _read_body(self, reader: asyncio.StreamReader, size: int) -> bytes:
        if self.bytes_per_read is None:
            return await reader.readexactly(size)
        body = b""
        while len(body) < size:
            await asyncio.sleep(0.05)
            body += await reader.readexactly(min(self.bytes_per_read, size - len(body)))
        return body

    async def _take(self, step: Step, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        match step:
            case bytes():
                writer.write(step)
                await writer.drain()
            case Do.BEAT:
                await asyncio.sleep(0.1)
            case Do.HOLD:
                self.held.set()
                with suppress(ConnectionError):
                    await asyncio.wait_for(reader.read(), LIMIT_S)
                self.left.set()
                return False
            case Do.CLOSE:
                return False
            case Do.RESET:
                connected: socket.socket = writer.get_extra_info("socket")
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return False
        return True


def in_turn(*answers: Sequence[Step]) -> Answering:
    """Each request gets the next of these answers; the last one is for all that follow."""
    return lambda seen: answers[min(seen.number, len(answers) - 1)]


def whole(status: int, body: bytes, *headers: str, kind: str = "application/json") -> bytes:
    """A complete answer."""
    lines = [f"HTTP/1.1 {status} Told", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def as_json(value: Any, status: int = 200, *headers: str) -> bytes:
    return whole(status, json.dumps(value).encode(), *headers)


def problem(status: int, code: str, *headers: str, **details: Any) -> bytes:
    body = {"title": "t", "status": status, "code": code, "detail": f"Told {code}", "details": details or None}
    return whole(status, json.dumps(body).encode(), *headers, kind="application/problem+json")


STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
BARE_STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nConnection: close\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def event(number: int, packet: str) -> bytes:
    return f"id: {number}\ndata: {packet}\n\n".encode()
