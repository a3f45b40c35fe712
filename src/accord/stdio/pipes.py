"""The standard input and output of this process as byte streams, reserved for the protocol.

Once they are opened, everything that prints to standard output, in this process and in its children, goes to standard
error. The event loop waits for pipes and sockets; for files and terminals, which it cannot wait for, a thread does.
No thread keeps the process from exiting.
"""

import asyncio
import os
import select
import stat
import sys
import threading
from concurrent.futures import CancelledError
from queue import SimpleQueue
from typing import Final

from accord.stdio.connection import Sink

CHUNK: Final = 256 * 1024
MAX_UNREAD: Final = 4 * CHUNK
FLUSH_BYTES: Final = 64 * 1024
"""How many bytes are collected at most before they are written."""
LONG_BYTES: Final = 4 * CHUNK
"""More than this is written in slices."""


class PipeSink:
    """Collects writes until the event loop is idle: many lines cost one system call.

    A long piece is written in slices, as fast as the peer reads, so that it is in memory only once.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink: Final = sink
        self._pending: list[bytes] = []
        self._size = 0
        self._loop: Final = asyncio.get_running_loop()
        self._slicing: asyncio.Task[None] | None = None

    def write(self, data: bytes, /) -> None:
        """Accept these bytes; they are written before the event loop waits, unless the peer reads too slowly."""
        if not self._pending:
            self._loop.call_soon(self._flush)
        self._pending.append(data)
        self._size += len(data)

    async def drain(self) -> None:
        """Wait while the peer reads too slowly."""
        if self._size >= FLUSH_BYTES:
            self._flush()
        if self._slicing is not None:
            await asyncio.shield(self._slicing)
        # Also for small writes: they add up.
        await self._sink.drain()

    async def finish(self) -> None:
        """Wait until everything is written."""
        self._flush()
        if self._slicing is not None:
            await asyncio.shield(self._slicing)
        if isinstance(self._sink, asyncio.StreamWriter) and not self._is_closing:
            self._sink.transport.set_write_buffer_limits(high=0)  # draining then means that nothing is left
        await self._sink.drain()

    def _flush(self) -> None:
        if self._slicing is not None:
            return  # what is pending follows
        if self._size > LONG_BYTES:
            self._slicing = asyncio.create_task(self._write_slices())
            self._slicing.add_done_callback(self._end_slices)
        elif self._pending:
            pieces, self._pending, self._size = self._pending, [], 0
            self._write(b"".join(pieces))

    async def _write_slices(self) -> None:
        while self._pending:
            pieces, self._pending, self._size = self._pending, [], 0
            for piece in pieces:
                for start in range(0, len(piece), CHUNK):
                    self._write(piece[start : start + CHUNK])
                    await self._sink.drain()

    def _write(self, data: bytes) -> None:
        # A peer that is gone is reported by `drain`; uvloop would report it here, too, with another error.
        if not self._is_closing:
            self._sink.write(data)

    @property
    def _is_closing(self) -> bool:
        return isinstance(self._sink, asyncio.StreamWriter) and self._sink.is_closing()

    def _end_slices(self, done: "asyncio.Task[None]") -> None:
        self._slicing = None
        if not done.cancelled():
            done.exception()  # the next write or drain raises it again


class PipeReader(asyncio.StreamReader):
    """Bytes read by a thread, which waits while too many are unread, so that memory stays bounded."""

    def __init__(self) -> None:
        super().__init__(limit=MAX_UNREAD)
        self._unread = 0
        self._space: Final = asyncio.Event()

    async def take(self, data: bytes) -> None:
        """Add these bytes, and wait until there is space for more."""
        self.feed_data(data)
        self._unread += len(data)
        while self._unread > MAX_UNREAD:
            self._space.clear()
            await self._space.wait()

    async def read(self, n: int = -1) -> bytes:
        """Read up to `n` bytes; empty at the end of the input."""
        data = await super().read(n)
        self._unread -= len(data)
        self._space.set()
        return data


async def open_stdio() -> tuple[asyncio.StreamReader, PipeSink]:
    """Open standard input for reading and standard output for writing, whether pipes, files or terminals."""
    incoming, outgoing = os.dup(sys.stdin.fileno()), os.dup(sys.stdout.fileno())
    sys.stdout.flush()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    loop = asyncio.get_running_loop()
    if _is_pipe(incoming):
        reader = asyncio.StreamReader(limit=MAX_UNREAD)
        pipe = os.fdopen(incoming, "rb", buffering=0)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    else:
        reader = PipeReader()
        # The thread ends with the input, or with the process.
        threading.Thread(target=_read_all, args=(incoming, reader, loop), name="accord-stdin", daemon=True).start()
    if not _is_pipe(outgoing):
        return reader, PipeSink(_ThreadSink(outgoing))
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(outgoing, "wb", buffering=0)
    )
    return reader, PipeSink(asyncio.StreamWriter(transport, protocol, None, loop))


def is_hung_up(fd: int) -> bool:
    """Whether the other end of this pipe or socket will write no more, also if what it wrote is still unread."""
    if not hasattr(select, "poll"):
        return False
    ends = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)
    poll = select.poll()
    poll.register(fd, ends)
    return any(events & ends for _, events in poll.poll(0))


def _is_pipe(fd: int) -> bool:
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


class _ThreadSink:
    """Writes in a thread, because the write may block."""

    def __init__(self, fd: int) -> None:
        self._fd: Final = fd
        self._loop: Final = asyncio.get_running_loop()
        self._queue: Final[SimpleQueue[bytes]] = SimpleQueue()
        self._unwritten = 0
        self._failure: OSError | None = None
        self._is_written: Final = asyncio.Event()
        self._is_written.set()
        threading.Thread(target=self._write_all, name="accord-stdout", daemon=True).start()

    def write(self, data: bytes, /) -> None:
        self._unwritten += 1
        self._is_written.clear()
        self._queue.put(data)

    async def drain(self) -> None:
        await self._is_written.wait()
        if self._failure is not None:
            raise self._failure

    def _write_all(self) -> None:
        while True:
            view, failure = memoryview(self._queue.get()), None
            try:
                while view:
                    view = view[os.write(self._fd, view) :]
            except OSError as error:
                failure = error
            try:
                self._loop.call_soon_threadsafe(self._note_written, failure)
            except RuntimeError:  # the loop is closed
                return

    def _note_written(self, failure: OSError | None) -> None:
        self._unwritten -= 1
        self._failure = self._failure or failure
        if not self._unwritten:
            self._is_written.set()


def _read_all(fd: int, reader: PipeReader, loop: asyncio.AbstractEventLoop) -> None:
    try:
        while data := os.read(fd, CHUNK):
            asyncio.run_coroutine_threadsafe(reader.take(data), loop).result()
        loop.call_soon_threadsafe(reader.feed_eof)
    except (OSError, RuntimeError, CancelledError):  # the loop is closed, or about to be
        return
