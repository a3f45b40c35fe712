"""A load generator: so many connections, each sending a request as soon as the last one is answered.

Our own, because every request needs an id of its own, and a stream the time of its first packet.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from statistics import median
from time import perf_counter
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import uuid4

EVENTS: Final = "text/event-stream"
JSON: Final = "application/json"
OK: Final = b"HTTP/1.1 200"
HEAD_END: Final = b"\r\n\r\n"
LENGTH: Final = b"content-length: "
LAST_CHUNK: Final = b"0\r\n\r\n"


@dataclass(slots=True)
class Measured:
    """What came back, how fast, and how soon each answer began."""

    answers: int = 0
    seconds: float = 0.0
    waits: list[float] = field(default_factory=list[float])
    last: bytes = b""

    @property
    def per_second(self) -> float:
        """Answers in a second."""
        return self.answers / self.seconds

    @property
    def first_ms(self) -> float:
        """After how long half of the answers had begun."""
        return median(self.waits) * 1_000


def requests(accept: str) -> Iterator[bytes]:
    """Requests without end, each with an id and a session of its own."""
    run = uuid4().hex[:20]
    for number in count():
        body = (
            f'{{"request_id":"{run}{number:012x}","context":{{"session_id":"s{run}{number}","user":{{"id":"u",'
            f'"name":"U"}}}},"payload":{{"query":"What is to be said of this?"}}}}'
        )
        yield (
            f"POST /v1/assist HTTP/1.1\r\nhost: localhost\r\naccept: {accept}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n{body}"
        ).encode()


class Run:
    """One measurement: it ends after so many seconds, or so many answers."""

    def __init__(self, requests: Iterator[bytes], *, seconds: float | None, answers: int | None) -> None:
        self.requests: Final = requests
        self.measured: Final = Measured()
        self._answers: Final = answers
        self._until: Final = None if seconds is None else perf_counter() + seconds

    def is_over(self) -> bool:
        """Whether no more requests should be sent."""
        if self._until is not None:
            return perf_counter() >= self._until
        return self._answers is not None and self.measured.answers >= self._answers


class Connection(asyncio.Protocol):
    """One connection that sends one request after the other."""

    def __init__(self, run: Run) -> None:
        self._run: Final = run
        self._transport: Any = None
        self._head = b""
        self._left = 0
        self._parts: list[bytes] = []
        self._sent_at = 0.0
        self._has_begun = False
        self.done: Final = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        self._transport = transport
        self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        """The server hung up."""
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("The server hung up"))

    def data_received(self, data: bytes) -> None:
        """A piece of an answer."""
        if self._left == 0:
            data = self._read_head(data)
        if not data:
            return
        if not self._has_begun:
            self._has_begun = True
            self._run.measured.waits.append(perf_counter() - self._sent_at)
        self._parts.append(data)
        if self._left > 0:
            self._left -= len(data)
        if self._left == 0 or (self._left < 0 and b"".join(self._parts[-2:]).endswith(LAST_CHUNK)):
            self._answered()

    def _read_head(self, data: bytes) -> bytes:
        self._head += data
        head, found, rest = self._head.partition(HEAD_END)
        if not found:
            return b""
        self._head = b""
        if not head.startswith(OK):
            self._transport.abort()
            self.done.set_exception(RuntimeError(f"Not the answer that was expected: {(head + rest)[:300]!r}"))
            return b""
        _, length, value = head.lower().partition(LENGTH)
        self._left = int(value.split(b"\r\n", 1)[0]) if length else -1
        return rest

    def _answered(self) -> None:
        measured = self._run.measured
        measured.answers += 1
        measured.last = b"".join(self._parts)
        self._left = 0
        if self._run.is_over():
            self._transport.close()
            if not self.done.done():
                self.done.set_result(None)
        else:
            self._ask()

    def _ask(self) -> None:
        self._parts = []
        self._has_begun = False
        self._sent_at = perf_counter()
        self._transport.write(next(self._run.requests))


async def load(  # noqa: PLR0913 - what a load consists of
    address: str,
    accept: str,
    at_once: int,
    *,
    seconds: float | None = None,
    answers: int | None = None,
    spread_s: float = 0.0,
) -> Measured:
    """Send requests on this many connections, for so long or so often; their starts are spread over a while."""
    at = urlsplit(address)
    run = Run(requests(accept), seconds=seconds, answers=answers)
    loop = asyncio.get_running_loop()
    began_at = perf_counter()
    made: list[tuple[asyncio.BaseTransport, Connection]] = []
    for _ in range(at_once):
        made.append(await loop.create_connection(lambda: Connection(run), at.hostname or "", at.port or 0))
        if spread_s:
            await asyncio.sleep(spread_s / at_once)
    await asyncio.gather(*(connection.done for _, connection in made))
    run.measured.seconds = perf_counter() - began_at
    return run.measured
