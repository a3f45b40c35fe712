"""A lean load generator: so many connections, each sending the same prepared request once the last one is answered.

Every answer is checked: it must be a 200 and contain the given words as often as the upstream wrote them. A gateway
that loses a chunk fails instead of being fast.
"""

import asyncio
import re
from dataclasses import dataclass, field
from time import perf_counter
from typing import Final, cast

import uvloop

OK: Final = b"HTTP/1.1 200"
HEAD_END: Final = b"\r\n\r\n"
LENGTH: Final = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
LAST_CHUNK: Final = b"0\r\n\r\n"
FIRST_DATA: Final = b"data:"
UNBOUNDED: Final = -1
LIMIT_S: Final = 60.0
"""How long a load may take beyond its own duration."""


class LoadError(Exception):
    """An answer was not what the upstream had written, or none came."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A prepared request, and the words that each answer must contain so many times."""

    request: bytes
    words: bytes
    count: int
    is_stream: bool = False


@dataclass(frozen=True, slots=True)
class Load:
    """So many connections for so long, or until so many answers; by default each sends one request.

    The first requests of the connections may be spread over a while.
    """

    port: int
    exchange: Exchange
    at_once: int
    seconds: float = 0.0
    answers: int | None = None
    spread_s: float = 0.0


@dataclass(slots=True)
class Measured:
    """Number of answers, the duration of the whole load, and the waits: until the end, and until the first data."""

    answers: int = 0
    seconds: float = 0.0
    waits: list[float] = field(default_factory=list[float])
    first_waits: list[float] = field(default_factory=list[float])

    @property
    def rate(self) -> float:
        """Answers in a second."""
        return self.answers / self.seconds


def quantile_ms(waits: list[float], share: float) -> float:
    """The wait that this share of the answers did not exceed, in milliseconds."""
    return sorted(waits)[min(int(len(waits) * share), len(waits) - 1)] * 1_000


def without_chunks(answer: bytes) -> bytes:
    """The body of a chunked answer."""
    rest = answer.partition(HEAD_END)[2]
    parts: list[bytes] = []
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size.partition(b";")[0] or b"0", 16)
        parts.append(rest[:length])
        rest = rest[length + 2 :]
    return b"".join(parts)


class LoadConnection(asyncio.Protocol):
    """One connection with one request at a time, until the time or the number of answers is reached."""

    def __init__(self, load: Load, measured: Measured, began_at: float) -> None:
        self._exchange: Final = load.exchange
        self._measured: Final = measured
        self._until: Final = began_at + load.seconds
        self._answers: Final = load.answers
        self._transport: asyncio.WriteTransport | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._expected_size = 0
        self._sent_at = 0.0
        self._has_data = False
        self.done: Final = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        self._transport = cast("asyncio.WriteTransport", transport)
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail, unless the load is over."""
        if not self.done.done():
            self.done.set_exception(LoadError(f"the gateway closed a connection: {exc or 'without a reason'}"))

    def data_received(self, data: bytes) -> None:
        """Collect the answer; at its end send the next request."""
        if not self._parts and not self._read_head(data):
            return
        if self._exchange.is_stream and not self._has_data and FIRST_DATA in data:
            self._has_data = True
            self._measured.first_waits.append(perf_counter() - self._sent_at)
        self._parts.append(data)
        self._size += len(data)
        if self._expected_size == UNBOUNDED:
            tail = data if len(data) >= len(LAST_CHUNK) else b"".join(self._parts[-len(LAST_CHUNK) :])
            if tail.endswith(LAST_CHUNK):
                self._finish()
        elif self._size >= self._expected_size:
            self._finish()

    def _read_head(self, data: bytes) -> bool:
        # All gateways write their headers at once, so that the first piece has them whole.
        end = data.find(HEAD_END)
        if end < 0 or not data.startswith(OK):
            status, _, rest = data.partition(b"\r\n")
            text = rest.partition(HEAD_END)[2].decode(errors="replace")
            self._fail(f"the answer was {status.decode(errors='replace')} {text[:300]}".strip())
            return False
        length = LENGTH.search(data, 0, end)
        self._expected_size = end + len(HEAD_END) + int(length[1]) if length else UNBOUNDED
        return True

    def _finish(self) -> None:
        measured = self._measured
        now = perf_counter()
        measured.answers += 1
        measured.waits.append(now - self._sent_at)
        answer = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        if not self._is_whole(answer):
            self._fail(f"an answer is not the upstream's: {answer[:300]!r} … {answer[-300:]!r}")
        elif now >= self._until or (self._answers is not None and measured.answers >= self._answers):
            self.done.set_result(None)
            self.close()
        else:
            self._send()

    def _is_whole(self, answer: bytes) -> bool:
        words, count = self._exchange.words, self._exchange.count
        # A word can be cut in two by an HTTP chunk; most gateways never do that, so that this is looked at second.
        return answer.count(words) == count or without_chunks(answer).count(words) == count

    def _fail(self, reason: str) -> None:
        if not self.done.done():
            self.done.set_exception(LoadError(reason))
        self.close()

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.abort()

    def _send(self) -> None:
        self._parts = []
        self._size = 0
        self._has_data = False
        self._sent_at = perf_counter()
        if self._transport is not None:
            self._transport.write(self._exchange.request)


async def send(load: Load) -> Measured:
    """Send the requests of a load and wait for all answers."""
    measured = Measured()
    loop = asyncio.get_running_loop()
    began_at = perf_counter()
    connections: list[LoadConnection] = []
    try:
        async with asyncio.timeout(load.seconds + LIMIT_S):
            for _ in range(load.at_once):
                made = await loop.create_connection(
                    lambda: LoadConnection(load, measured, began_at), "127.0.0.1", load.port
                )
                connections.append(made[1])
                await asyncio.sleep(load.spread_s / load.at_once)
            await asyncio.gather(*(connection.done for connection in connections))
    except TimeoutError:
        raise LoadError(f"no answer within {load.seconds + LIMIT_S:.0f} s") from None
    except OSError as error:
        raise LoadError(f"no connection: {error}") from error
    finally:
        for connection in connections:
            connection.done.cancel()
            connection.close()
    measured.seconds = perf_counter() - began_at
    return measured


def run_load(load: Load) -> Measured:
    """The same, from code that has no event loop."""
    return uvloop.run(send(load))
