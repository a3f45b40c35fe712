"""This process's own standard input and output as a connection, kept apart from everything that prints.

What prints goes to standard error from then on, in this process and in its children: nothing but protocol on stdout.
Pipes and sockets are waited for by the event loop; files and terminals, which cannot be, by a thread each.
"""

import asyncio
import os
import stat
import sys
import threading
from concurrent.futures import CancelledError
from typing import Final, Protocol

CHUNK: Final = 256 * 1024
MAX_UNREAD: Final = 4 * CHUNK
TOGETHER: Final = 64 * 1024
"""What is written at once goes out at once, up to so many bytes."""


class Outlet(Protocol):
    """Where bytes leave: asyncio's `StreamWriter`, or a thread that writes."""

    def write(self, data: bytes, /) -> None:
        """Take these bytes."""
        ...

    async def drain(self) -> None:
        """Wait until more can be taken."""
        ...


class PipeSink:
    """Collects what is written until the event loop has nothing else to do: many lines, one call of the system."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet: Final = outlet
        self._pending: list[bytes] = []
        self._size = 0
        self._loop: Final = asyncio.get_running_loop()

    def write(self, data: bytes, /) -> None:
        """Take these bytes; they go out before anything is waited for."""
        if not self._pending:
            self._loop.call_soon(self._flush)
        self._pending.append(data)
        self._size += len(data)

    async def drain(self) -> None:
        """Wait while the reader does not keep up."""
        if self._size >= TOGETHER:
            self._flush()
        # Small pieces add up, too.
        await self._outlet.drain()

    async def finish(self) -> None:
        """Have everything written."""
        self._flush()
        if isinstance(self._outlet, asyncio.StreamWriter):
            self._outlet.transport.set_write_buffer_limits(high=0)  # draining then means that nothing is left
        await self._outlet.drain()

    def _flush(self) -> None:
        if self._pending:
            data = b"".join(self._pending)
            self._pending, self._size = [], 0
            self._outlet.write(data)


class PipeReader(asyncio.StreamReader):
    """What comes in. A thread that feeds it waits while too much is unread, so that a flood stays outside."""

    def __init__(self) -> None:
        super().__init__(limit=MAX_UNREAD)
        self._unread = 0
        self._room: Final = asyncio.Event()

    async def take(self, data: bytes) -> None:
        """Take these bytes, and wait until there is room for more."""
        self.feed_data(data)
        self._unread += len(data)
        while self._unread > MAX_UNREAD:
            self._room.clear()
            await self._room.wait()

    async def read(self, n: int = -1) -> bytes:
        """What has come."""
        data = await super().read(n)
        self._unread -= len(data)
        self._room.set()
        return data


async def open_stdio() -> tuple[asyncio.StreamReader, PipeSink]:
    """Standard input to read and standard output to write, whatever they are: pipes, files, terminals."""
    incoming, outgoing = os.dup(sys.stdin.fileno()), os.dup(sys.stdout.fileno())
    sys.stdout.flush()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return await _reading(incoming), PipeSink(await _writing(outgoing))


def _can_be_awaited(fd: int) -> bool:
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


async def _reading(fd: int) -> asyncio.StreamReader:
    loop = asyncio.get_running_loop()
    if _can_be_awaited(fd):
        reader = asyncio.StreamReader(limit=MAX_UNREAD)
        pipe = os.fdopen(fd, "rb", buffering=0)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        return reader
    fed = PipeReader()
    # It ends with the input, or with the process.
    threading.Thread(target=_pump, args=(fd, fed, loop), name="accord-stdin", daemon=True).start()
    return fed


async def _writing(fd: int) -> Outlet:
    if not _can_be_awaited(fd):
        return _ThreadOutlet(fd)
    loop = asyncio.get_running_loop()
    pipe = os.fdopen(fd, "wb", buffering=0)
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), pipe
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)


class _ThreadOutlet:
    """Writes to what may block, in a thread."""

    def __init__(self, fd: int) -> None:
        self._fd: Final = fd
        self._pending = bytearray()
        self._lock: Final = asyncio.Lock()
        self._writing: asyncio.Task[None] | None = None

    def write(self, data: bytes, /) -> None:
        self._pending += data
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self.drain())

    async def drain(self) -> None:
        async with self._lock:
            while self._pending:
                data = bytes(self._pending)
                self._pending.clear()
                await asyncio.to_thread(_write_all, self._fd, data)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _pump(fd: int, reader: PipeReader, loop: asyncio.AbstractEventLoop) -> None:
    try:
        while data := os.read(fd, CHUNK):
            asyncio.run_coroutine_threadsafe(reader.take(data), loop).result()
        loop.call_soon_threadsafe(reader.feed_eof)
    except (OSError, RuntimeError, CancelledError):  # the loop is gone, or about to go
        return
