"""This process's own standard input and output as a connection, kept apart from everything that prints.

What prints goes to standard error from then on, in this process and in its children: nothing but protocol on stdout.
"""

import asyncio
import os
import sys
import threading
from typing import Final

CHUNK: Final = 256 * 1024


class PipeSink:
    """Writes to a file descriptor. Pipes that are full block only a thread of their own."""

    def __init__(self, fd: int) -> None:
        self._fd: Final = fd
        self._pending = bytearray()
        self._lock: Final = asyncio.Lock()

    def write(self, data: bytes, /) -> None:
        """Take these bytes; they go out at the next `drain`, or at once if nothing waits."""
        self._pending += data

    async def drain(self) -> None:
        """Write everything, however slow the reader is."""
        async with self._lock:
            while self._pending:
                data = bytes(self._pending)
                self._pending.clear()
                await asyncio.to_thread(_write_all, self._fd, data)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


async def own_pipes() -> tuple[asyncio.StreamReader, PipeSink]:
    """Standard input to read and standard output to write, whatever they are: pipes, files, terminals."""
    incoming, outgoing = os.dup(sys.stdin.fileno()), os.dup(sys.stdout.fileno())
    sys.stdout.flush()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    reader = asyncio.StreamReader(limit=4 * CHUNK)
    loop = asyncio.get_running_loop()
    # A thread reads, since a file cannot be waited for; it ends with the input, or with the process.
    threading.Thread(target=_pump, args=(incoming, reader, loop), name="accord-stdin", daemon=True).start()
    return reader, PipeSink(outgoing)


def _pump(fd: int, reader: asyncio.StreamReader, loop: asyncio.AbstractEventLoop) -> None:
    try:
        while data := os.read(fd, CHUNK):
            asyncio.run_coroutine_threadsafe(_feed(reader, data), loop).result()
        loop.call_soon_threadsafe(reader.feed_eof)
    except (OSError, RuntimeError):  # the loop is gone
        return


async def _feed(reader: asyncio.StreamReader, data: bytes) -> None:
    reader.feed_data(data)
