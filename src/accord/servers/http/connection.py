"""uvicorn's connections with the limits that they lack.

Limited are the size and duration of headers, the number of pipelined requests, and how long a peer may stop reading.
Bytes that are not a valid request are answered with a problem body, but never in the middle of another answer, where it
would be taken for a part of that answer. An application may abort the connection of a client that does not read
(`accord.abort` in the scope): a proper close would wait for that client.
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
"""A body may come in so many pieces of any size; with more of them, they must have this size on average."""
PARSED_BYTES: Final = 1024
PARSE_S: Final = 0.001
PARSE_PAUSE_S: Final = 0.003
"""How many bytes of a WebSocket are parsed at once, for how long, and the pause after that.

A kilobyte can contain 170 pings, which take about 3 ms; of a large frame, hundreds of kilobytes are parsed in a
millisecond. Without the pause, a client that only sends pings keeps the event loop busy: the store's thread then waits
up to 5 ms for the interpreter's lock at each of its steps, and the turns of all clients took 100 ms longer.
"""
MAX_PIPELINED: Final = 8
"""How many requests may wait on one connection while another is answered."""
HEADERS_TOO_LONG: Final = 431
"""The status of headers above the limit. Bodies above theirs have the same error code, with status 413."""

TOO_LONG: Final = RefusedError("The headers are longer than the limit; send shorter ones", ErrorCode.TOO_LARGE, {})
TOO_SLOW: Final = RefusedError(
    "The headers did not arrive in time; send the request again", ErrorCode.REQUEST_TIMED_OUT, {}
)
NOT_HTTP: Final = RefusedError("This is not a valid HTTP request", ErrorCode.INVALID_MESSAGE, {})
TINY_PIECES: Final = RefusedError("The body has too many tiny chunks; send larger ones", ErrorCode.INVALID_MESSAGE, {})
TOO_MANY_PIPELINED: Final = RefusedError(
    f"More than {MAX_PIPELINED} requests are waiting on this connection; wait for answers or open another connection",
    ErrorCode.RATE_LIMIT_EXCEEDED,
    {"limit": MAX_PIPELINED},
)


class ConnectionRejectedError(Exception):
    """Stops the parser: the connection was rejected, and the bytes that follow must not be parsed."""


class _ReaderCheck:
    """Aborts a connection whose peer does not read: while the write buffer is too full, its size is checked."""

    settings: ClassVar[ServerConfig] = ServerConfig()
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    _check: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        """The write buffer is too full."""
        cast("Any", super()).pause_writing()
        self._check_later()

    def resume_writing(self) -> None:
        """The write buffer has room again."""
        self._stop_checking()
        cast("Any", super()).resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The peer has disconnected."""
        self._stop_checking()
        cast("Any", super()).connection_lost(exc)

    def _check_later(self) -> None:
        self._stop_checking()
        size = self.transport.get_write_buffer_size()
        self._check = self.loop.call_later(self.settings.write_timeout_s, self._check_progress, size)

    def _check_progress(self, size_before: int) -> None:
        """Abort if nothing was read since the last check. A slow reader may take long for a big answer."""
        self._check = None
        if self.transport.get_write_buffer_size() < size_before:
            self._check_later()
        else:
            self.transport.abort()

    def _stop_checking(self) -> None:
        if self._check is not None:
            self._check.cancel()
            self._check = None


class _PipelineFlow(FlowControl):
    """Flow control that stops reading while pipelined requests wait.

    uvicorn resumes reading after every answer and on every `receive`, whatever is queued: 21 MB of small requests on
    one connection then take 1.4 GB.
    """

    def __init__(self, transport: asyncio.Transport, pipeline: Sized) -> None:
        super().__init__(transport)
        self._pipeline: Final = pipeline
        self.is_stopped = False
        """Set when the pipeline is too long: nothing more is read from this connection."""

    def resume_reading(self) -> None:
        if not self._pipeline and not self.is_stopped:
            super().resume_reading()


class LimitedConnection(_ReaderCheck, HttpToolsProtocol):
    """One HTTP connection. The limits are an attribute of the class, set by `with_limits`."""

    def connection_made(self, transport: Any) -> None:
        """A client has connected; the time limit for its headers starts."""
        super().connection_made(transport)
        self.flow = self._reading = _PipelineFlow(transport, self.pipeline)
        self._header_bytes = self._headers_seen = self._unread_bytes = 0
        self._is_in_headers = False
        self._deadline: asyncio.TimerHandle | None = None
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has disconnected."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse bytes, unless the connection was rejected."""
        if self.transport.is_closing():
            return
        self._unread_bytes += len(data)
        super().data_received(data)
        if self._reading.is_stopped:
            return
        if self._unread_bytes > self.settings.max_header_bytes:
            # The parser buffers one endless header by itself, without any callback.
            self._reject(TOO_LONG, HEADERS_TOO_LONG)
        elif self._deadline is None and not self.transport.is_closing() and self._awaits_rest():
            self._await_headers()

    def _awaits_rest(self) -> bool:
        """Whether what was read has a time limit: a part of headers, or, after an answer, of an unread body."""
        # Not asked when headers begin: most are complete with the same read, and a timer takes 1 µs.
        return self._is_in_headers or bool(self.cycle and self.cycle.response_complete)

    def on_message_begin(self) -> None:
        """A request begins."""
        self._header_bytes = self._headers_seen = self._unread_bytes = 0
        self._pieces = self._body_bytes = 0
        self._is_in_headers = True
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A part of the URL."""
        self._count_header_bytes(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header; or a trailer, which comes after the body and is ignored."""
        self._headers_seen += 1
        self._count_header_bytes(len(name) + len(value))
        if self._is_in_headers:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The headers are complete; the body may follow."""
        if len(self.pipeline) >= MAX_PIPELINED:
            # One read can contain thousands of requests. Those accepted so far are answered first.
            self._reading.is_stopped = True
            self._stop_waiting()
            raise ConnectionRejectedError
        self._is_in_headers = False
        self._stop_waiting()
        before = self.cycle
        super().on_headers_complete()
        scope = cast("dict[str, Any]", self.scope)
        scope["extensions"] = {"accord.abort": self.transport.abort}
        if self.expect_100_continue and self.cycle is not before:
            # If it is answered before the body was requested, the body would be read as the next request.
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._unread_bytes = 0
        self._pieces += 1
        self._body_bytes += len(body)
        if self._pieces > MAX_PIECES and self._body_bytes < self._pieces * MIN_PIECE_BYTES:
            # Chunks of one byte: one read can contain forty thousand of them.
            self._reject(TINY_PIECES)
            raise ConnectionRejectedError
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._unread_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The answer is written to the connection; the client may not have read it."""
        is_last = not self.pipeline
        super().on_response_complete()
        if self.transport.is_closing():
            self._check_later()
        elif not self._reading.is_stopped:
            # `_PipelineFlow` did not resume while the request that was just started was still waiting.
            self.flow.resume_reading()
            if self._deadline is not None:
                # A part of these headers came with a waiting request: only now can the rest be read.
                self._stop_waiting()
                self._await_headers()
        elif is_last:
            self._reject(TOO_MANY_PIPELINED)

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection."""
        super().timeout_keep_alive_handler()
        self._check_later()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not HTTP."""
        del msg
        if not self._reading.is_stopped:
            self._reject(NOT_HTTP)

    def _await_headers(self) -> None:
        self._deadline = self.loop.call_later(self.settings.header_timeout_s, self._reject_late_headers)

    def _reject_late_headers(self) -> None:
        if self.pipeline:
            self._await_headers()  # nothing is read while requests wait, so the rest of these headers may have arrived
        else:
            self._reject(TOO_SLOW)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _count_header_bytes(self, more: int) -> None:
        self._unread_bytes = 0
        self._header_bytes += more
        if self._header_bytes > self.settings.max_header_bytes or self._headers_seen > MAX_HEADERS:
            self._reject(TOO_LONG, HEADERS_TOO_LONG)
            raise ConnectionRejectedError

    def _reject(self, error: AccordError, status: int | None = None) -> None:
        self._stop_waiting()
        if self.transport.is_closing():
            return
        if self._awaits_answer():
            status = status or error.facts.http
            problem = problem_body(error, request_id=str(uuid4())).model_copy(update={"status": status})
            body = problem.to_json().encode()
            headers = f"content-type: {PROBLEM_MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            self.transport.write(STATUS_LINE[status] + headers.encode() + body)
        self.transport.close()
        self._check_later()

    def _awaits_answer(self) -> bool:
        """Whether the next answer on this connection is the one to the request that is being received."""
        if not self.cycle:
            return True
        if self._is_in_headers:
            return self.cycle.response_complete
        return self.cycle.more_body and not self.cycle.response_started and not self.pipeline


class LimitedWebSocket(_ReaderCheck, WebSocketsSansIOProtocol):
    """One WebSocket. Frames are parsed a few at a time: one read can contain 40,000, which take most of a second."""

    def connection_made(self, transport: Any) -> None:
        """A client has connected; the handshake follows."""
        super().connection_made(transport)
        self._unparsed = bytearray()
        self._parse_timer: asyncio.Handle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has disconnected; bytes that are not parsed yet are dropped."""
        self._unparsed.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the first bytes now and the others later; until then nothing more is read."""
        self._unparsed += data
        if self._parse_timer is None:
            self._parse_some()

    def _parse_some(self) -> None:
        self._parse_timer = None
        if self.read_paused or self.transport.is_closing():
            return  # `receive` continues when the application has taken what is queued
        until = monotonic() + PARSE_S  # not the loop's clock: uvloop reads that once for each round of the loop
        while self._unparsed and not self.read_paused and not self.transport.is_closing():
            data = bytes(self._unparsed[:PARSED_BYTES])
            del self._unparsed[:PARSED_BYTES]
            super().data_received(data)
            if monotonic() > until:
                break
        if self._unparsed:
            self.transport.pause_reading()
            self._parse_later(PARSE_PAUSE_S)
        elif not self.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def _parse_later(self, after_s: float = 0) -> None:
        if self._parse_timer is None:
            self._parse_timer = self.loop.call_later(after_s, self._parse_some)

    async def receive(self) -> Any:
        """The next message. When the last one is taken, more is parsed, and then read."""
        message = await self.queue.get()
        if self.read_paused and self.queue.empty():
            self.read_paused = False
            self._parse_later()
        return message

    def handle_ping(self) -> None:
        """Answer a ping, unless the client does not read: answers would pile up."""
        pong = b"".join(self.conn.data_to_send())
        if self.writable.is_set():
            self.transport.write(pong)

    async def send(self, message: Any) -> None:
        """Send a message. After a refusal the handshake counts as complete, or uvicorn would log an error."""
        await super().send(message)
        if self.close_sent:
            self.handshake_complete = True
            self._parse_later()  # the bytes that are not parsed yet may contain the client's close


def with_limits(settings: ServerConfig) -> tuple[type[LimitedConnection], type[LimitedWebSocket]]:
    """Both connection classes with these limits."""
    attributes = {"settings": settings}
    return (
        cast("type[LimitedConnection]", type("LimitedConnection", (LimitedConnection,), attributes)),
        cast("type[LimitedWebSocket]", type("LimitedWebSocket", (LimitedWebSocket,), attributes)),
    )
