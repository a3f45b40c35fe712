"""uvicorn's connections with the limits that they lack.

Limited are the size and duration of headers, the number of pipelined requests, and how long a peer may not read.
What cannot be read as a request is answered in the form of every other failure, if anything can still be answered at
all: never in the middle of an answer, where it would be taken for a part of it. An application may end the connection
of a client that has stopped reading (`accord.abort`): closing it properly would wait for that very client.
"""

import asyncio
from collections.abc import Sized
from time import monotonic
from typing import Any, ClassVar, Final, cast
from uuid import uuid4

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from accord.config import ServerConfig
from accord.errors import AccordError, ErrorCode, RefusedError
from accord.wire.problem import PROBLEM_MEDIA_TYPE, problem_body

MAX_HEADERS: Final = 128
MAX_PIECES: Final = 1_000
MIN_PIECE_BYTES: Final = 64
"""A body may come in so many pieces of any size; with more, they have to be of this size on average."""
FED_BYTES: Final = 1024
FED_S: Final = 0.001
FED_PAUSE_S: Final = 0.003
"""How much of a WebSocket is parsed at once, for how long, and the pause after it.

A kilobyte can hold 170 pings, which take some 3 ms; of a large frame a millisecond takes hundreds of kilobytes. Without
the pause, a client that only sends pings kept the event loop busy: the store's thread then waits up to 5 ms for the
interpreter's lock at each of its steps, and everyone's turns took 100 ms longer.
"""
MAX_PIPELINED: Final = 8
"""How many requests may wait on one connection while another is answered."""
HEADERS_TOO_LONG: Final = 431
"""No error of ours has this status: a body that is too large and headers that are too large are one code."""

TOO_LONG: Final = RefusedError("The headers are longer than the limit", ErrorCode.TOO_LARGE, {})
TOO_SLOW: Final = RefusedError("The headers did not arrive in time", ErrorCode.REQUEST_TIMED_OUT, {})
NOT_HTTP: Final = RefusedError("This is not an HTTP request", ErrorCode.INVALID_MESSAGE, {})
TINY_PIECES: Final = RefusedError("The body came in too many tiny pieces", ErrorCode.INVALID_MESSAGE, {})
TOO_MANY_PIPELINED: Final = RefusedError(
    f"More than {MAX_PIPELINED} requests were waiting on this connection; wait for answers, or open another connection",
    ErrorCode.RATE_LIMIT_EXCEEDED,
    {"limit": MAX_PIPELINED},
)


class ConnectionRejectedError(Exception):
    """Stops the parser: the connection was given up, and what follows is not to be read."""


class _Written:
    """A connection whose peer has to read: as long as too much waits for it, it is looked at now and then."""

    settings: ClassVar[ServerConfig] = ServerConfig()
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    _looking: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        """Too much waits to be read."""
        cast("Any", super()).pause_writing()
        self._look_later()

    def resume_writing(self) -> None:
        """It was read."""
        self._stop_looking()
        cast("Any", super()).resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self._stop_looking()
        cast("Any", super()).connection_lost(exc)

    def _look_later(self) -> None:
        self._stop_looking()
        waiting = self.transport.get_write_buffer_size()
        self._looking = self.loop.call_later(self.settings.write_timeout_s, self._look, waiting)

    def _look(self, waited: int) -> None:
        """A big answer may take a slow reader long; one who has read nothing of it is gone."""
        self._looking = None
        if self.transport.get_write_buffer_size() < waited:
            self._look_later()
        else:
            self.transport.abort()

    def _stop_looking(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None


class _PipelineFlow(FlowControl):
    """Flow control that reads nothing more while pipelined requests wait.

    uvicorn resumes reading after every answer and on every `receive`, whatever is already queued: 21 MB of small
    requests on one connection then take 1.4 GB.
    """

    def __init__(self, transport: asyncio.Transport, pipeline: Sized) -> None:
        super().__init__(transport)
        self._pipeline: Final = pipeline
        self.is_stopped = False
        """Set when the pipeline had to be cut off: nothing more is read from this connection."""

    def resume_reading(self) -> None:
        if not self._pipeline and not self.is_stopped:
            super().resume_reading()


class LimitedConnection(_Written, HttpToolsProtocol):
    """One HTTP connection. The limits are the class's, set by `limited`."""

    def connection_made(self, transport: Any) -> None:
        """A client is there; its headers are awaited from now on."""
        super().connection_made(transport)
        self.flow = self._reading = _PipelineFlow(transport, self.pipeline)
        self._header_bytes = self._headers_seen = self._unread_bytes = 0
        self._is_in_headers = False
        self._deadline: asyncio.TimerHandle | None = None
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes, unless the connection was given up."""
        if self.transport.is_closing():
            return
        self._unread_bytes += len(data)
        super().data_received(data)
        if self._reading.is_stopped:
            return
        if self._unread_bytes > self.settings.max_header_bytes:
            # The parser collects one endless header by itself, and tells nobody.
            self._give_up(TOO_LONG, HEADERS_TOO_LONG)
        elif self._deadline is None and self.cycle and self.cycle.response_complete:
            # What comes after an answer is the rest of a body that nobody wants, or the next request: it has to end.
            self._await_headers()

    def on_message_begin(self) -> None:
        """Another request begins."""
        self._header_bytes = self._headers_seen = self._unread_bytes = 0
        self._pieces = self._body_bytes = 0
        self._is_in_headers = True
        if self._deadline is None:
            self._await_headers()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A piece of the address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header; or a trailer, which comes too late to be one and is left out."""
        self._headers_seen += 1
        self._count(len(name) + len(value))
        if self._is_in_headers:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The request is known; its body may follow."""
        if len(self.pipeline) >= MAX_PIPELINED:
            # One read can bring thousands of requests. Those accepted so far are answered first.
            self._reading.is_stopped = True
            self._stop_waiting()
            raise ConnectionRejectedError
        self._is_in_headers = False
        self._stop_waiting()
        before = self.cycle
        super().on_headers_complete()
        scope = cast("dict[str, Any]", self.scope)
        scope.setdefault("extensions", {})["accord.abort"] = self.transport.abort
        if self.expect_100_continue and self.cycle is not before:
            # If it is answered before its body was asked for, nobody could tell that body from the next request.
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._unread_bytes = 0
        self._pieces += 1
        self._body_bytes += len(body)
        if self._pieces > MAX_PIECES and self._body_bytes < self._pieces * MIN_PIECE_BYTES:
            # Chunks of one byte: one read would bring forty thousand of them.
            self._give_up(TINY_PIECES)
            raise ConnectionRejectedError
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is all there."""
        self._unread_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The answer is written, if not read."""
        is_last = not self.pipeline
        super().on_response_complete()
        if self.transport.is_closing():
            self._look_later()
        elif not self._reading.is_stopped:
            self.flow.resume_reading()  # the flow did not while the request that was just started still waited
            if self._deadline is not None:
                # Headers of which a part came with a waiting request: only now can the rest be read.
                self._stop_waiting()
                self._await_headers()
        elif is_last:
            self._give_up(TOO_MANY_PIPELINED)

    def timeout_keep_alive_handler(self) -> None:
        """Nothing more came."""
        super().timeout_keep_alive_handler()
        self._look_later()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP."""
        del msg
        if not self._reading.is_stopped:
            self._give_up(NOT_HTTP)

    def _await_headers(self) -> None:
        self._deadline = self.loop.call_later(self.settings.header_timeout_s, self._headers_are_late)

    def _headers_are_late(self) -> None:
        if self.pipeline:
            self._await_headers()  # nothing is read while requests wait, so the rest of these headers may be here
        else:
            self._give_up(TOO_SLOW)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _count(self, more: int) -> None:
        self._unread_bytes = 0
        self._header_bytes += more
        if self._header_bytes > self.settings.max_header_bytes or self._headers_seen > MAX_HEADERS:
            self._give_up(TOO_LONG, HEADERS_TOO_LONG)
            raise ConnectionRejectedError

    def _give_up(self, error: AccordError, status: int | None = None) -> None:
        self._stop_waiting()
        if self.transport.is_closing():
            return
        if self._is_unanswered():
            self.transport.write(_answer(error, status or error.facts.http))
        self.transport.close()
        self._look_later()

    def _is_unanswered(self) -> bool:
        """Whether the client waits for an answer to what it is sending, and for no other before."""
        if not self.cycle:
            return True
        if self._is_in_headers:
            return self.cycle.response_complete
        return self.cycle.more_body and not self.cycle.response_started and not self.pipeline


class LimitedWebSocket(_Written, WebSocketsSansIOProtocol):
    """One WebSocket. Its frames are parsed a few at a time: one read can bring 40,000, which take most of a second."""

    def connection_made(self, transport: Any) -> None:
        """The handshake's bytes come next."""
        super().connection_made(transport)
        self._unfed = bytearray()
        self._feeding: asyncio.Handle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone, and so is what it sent and nobody has looked at."""
        self._unfed.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the first bytes now and the others later; nothing more is read until then."""
        self._unfed += data
        if self._feeding is None:
            self._feed()

    def _feed(self) -> None:
        self._feeding = None
        if self.read_paused or self.transport.is_closing():
            return  # `receive` goes on when the application has taken what is queued
        until = monotonic() + FED_S  # uvloop reads its own clock once for each round of the loop
        while self._unfed and not self.read_paused and not self.transport.is_closing():
            data = bytes(self._unfed[:FED_BYTES])
            del self._unfed[:FED_BYTES]
            super().data_received(data)
            if monotonic() > until:
                break
        if self._unfed:
            self.transport.pause_reading()
            self._feed_later(FED_PAUSE_S)
        elif not self.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def _feed_later(self, after_s: float = 0) -> None:
        if self._feeding is None:
            self._feeding = self.loop.call_later(after_s, self._feed)

    async def receive(self) -> Any:
        """The next message; more is parsed, and then read, once all are taken."""
        message = await self.queue.get()
        if self.read_paused and self.queue.empty():
            self.read_paused = False
            self._feed_later()
        return message

    def handle_ping(self) -> None:
        """Answer a ping, unless its sender does not read what is sent: answers would pile up."""
        pong = b"".join(self.conn.data_to_send())
        if self.writable.is_set():
            self.transport.write(pong)

    async def send(self, message: Any) -> None:
        """Send on; a client that was turned away needs no handshake, and the log no line about it."""
        await super().send(message)
        if self.close_sent:
            self.handshake_complete = True
            self._feed_later()  # the client's own close may be in what is not parsed yet


def _answer(error: AccordError, status: int) -> bytes:
    told = problem_body(error, request_id=str(uuid4())).model_copy(update={"status": status})
    body = told.to_json().encode()
    headers = f"content-type: {PROBLEM_MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    return STATUS_LINE[status] + headers.encode() + body


def limited(settings: ServerConfig) -> tuple[type[LimitedConnection], type[LimitedWebSocket]]:
    """Both connections with these limits."""
    of = {"settings": settings}
    return (
        cast("type[LimitedConnection]", type("LimitedConnection", (LimitedConnection,), of)),
        cast("type[LimitedWebSocket]", type("LimitedWebSocket", (LimitedWebSocket,), of)),
    )
