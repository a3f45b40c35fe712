"""One HTTP/1.1 connection to a model endpoint: writes a request, parses the reply, and can then be used again.

It knows neither addresses nor pools (see `upstream_direct.py`). The parser is httptools; what this adds is limits on
what an endpoint may send, timeouts, and the rules for when a connection may carry another request. Requests are never
pipelined: a byte that arrives without a request, or after the end of a reply, closes the connection and is reported.
"""

import asyncio
import os
import select
from collections.abc import Callable, Mapping
from errno import errorcode
from typing import Final, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from accord.apis.failure import Failure
from accord.backends.upstream import UpstreamError, UpstreamTimeouts

MAX_HEAD_BYTES: Final = 64 << 10
"""Of the head of a reply, and of any other bytes that hold no part of its body, such as trailers."""
MAX_HEADERS: Final = 200
MAX_UNREAD_BYTES: Final = 256 << 10
"""Of a body; the endpoint has to wait as long as more than this is unread. One read of the system may exceed it."""
READ_BYTES: Final = 32 << 10
"""Of a body, at most this much is returned at once: it may be thousands of events, which take a while to parse."""
WRITE_BYTES: Final = 256 << 10
"""A larger body is written in pieces of this size, so that it neither blocks the event loop nor is copied at once."""
IDLE_S: Final = 15.0
"""How long a connection is kept without a request."""
CLOSED: Final = "the connection was closed"
CLOCK_S: Final = 0.002
"""The resolution of the event loop's clock: uvloop counts milliseconds, and a timer may be early by one."""


class ClosedUnansweredError(UpstreamError):
    """The endpoint closed the connection without having sent a byte of the reply."""


class DirectReply:
    """One reply. `connection` is None as soon as its last byte has arrived, or after it was closed."""

    __slots__ = ("_connection", "_is_cut", "_pieces", "error", "headers", "status")

    def __init__(self, connection: "UpstreamConnection") -> None:
        self.status = 0
        """0 until the head has arrived."""
        self.headers: Mapping[str, str] = {}
        self._connection: UpstreamConnection | None = connection
        self._pieces: list[bytes | memoryview] = []
        self._is_cut = False
        """Whether the last read has left a part of what had arrived."""
        self.error: tuple[Failure, str] | None = None
        """Raised when the pieces before it have been read."""

    def add(self, piece: bytes) -> int:
        """Add a part of the body; return the number of bytes that are unread."""
        self._pieces.append(piece)
        return len(piece) if len(self._pieces) == 1 else sum(map(len, self._pieces))

    def end(self, failure: Failure | None = None, reason: str = "") -> None:
        """Add nothing more: the body is complete, or it failed."""
        self._connection = None
        self.error = (failure, reason) if failure is not None else None

    async def read(self) -> bytes:
        """Return what has arrived, at most `READ_BYTES`, without waiting if anything has.

        Between two parts of what had arrived, others get their turn.
        """
        if self._is_cut:
            self._is_cut = False
            await asyncio.sleep(0)
        while not self._pieces:
            if self.error is not None:
                raise UpstreamError(*self.error)
            if self._connection is None:
                return b""
            await self._connection.wait_for_body()
        pieces = self._pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        if len(data) > READ_BYTES:
            self._is_cut = True
            view = memoryview(data)  # of much, a copy of the rest for each part would cost more than reading it
            pieces.append(view[READ_BYTES:])
            return bytes(view[:READ_BYTES])
        if self._connection is not None:
            self._connection.resume_reading()
        return data if isinstance(data, bytes) else bytes(data)

    async def close(self) -> None:
        """Close the connection; if all has arrived, it is already in use for other requests."""
        if self._connection is not None:
            self._connection.abort()
            self._connection = None


class UpstreamConnection(asyncio.Protocol):
    """A connection that serves one request at a time. `on_idle` is called when another one may be sent.

    `on_unasked` is called when the endpoint has sent bytes that belong to no request.

    It has one timer for all timeouts. Each wait only moves the deadline; the timer looks at it when it fires, and is
    set anew only then, or if a deadline is earlier than the timer.
    """

    __slots__ = (
        "_chunks",
        "_deadline",
        "_has_received",
        "_header_bytes",
        "_headers",
        "_is_complete",
        "_is_encoded",
        "_is_left",
        "_is_reading_paused",
        "_is_writing",
        "_is_writing_paused",
        "_keeps_alive",
        "_loop",
        "_on_idle",
        "_on_lost",
        "_on_unasked",
        "_overhead_bytes",
        "_parser",
        "_poll",
        "_reply",
        "_timeouts",
        "_timer",
        "_timer_at",
        "_transport",
        "_until_close",
        "_waiter",
        "caller",
        "idle_since",
        "lost",
        "on_body",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timeouts: UpstreamTimeouts,
        on_idle: "Callable[[UpstreamConnection], None]",
        on_lost: "Callable[[UpstreamConnection], None]",
        on_unasked: Callable[[], None],
    ) -> None:
        self._loop: Final = loop
        self._timeouts: Final = timeouts
        self._on_idle: Final = on_idle
        self._on_lost: Final = on_lost
        self._on_unasked: Final = on_unasked
        self.caller = ""
        """For whom its last request was sent."""
        self.idle_since = 0.0
        self._poll: Final = select.poll()
        self._transport: asyncio.Transport | None = None
        self.lost: Final[asyncio.Future[None]] = loop.create_future()
        """Done when the connection is closed."""
        self._chunks: Final[list[bytes]] = []
        self.on_body: Final = self._chunks.append  # not a method: one call less for each chunk of a stream
        self._headers: dict[str, str] = {}
        self._header_bytes = 0
        self._overhead_bytes = 0
        self._reply: DirectReply | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._is_complete = False
        self._is_encoded = False
        self._is_left = False
        """The endpoint has closed the connection."""
        self._is_reading_paused = False
        self._is_writing = False
        self._is_writing_paused = False
        self._keeps_alive = False
        self._until_close = False
        self._has_received = False
        self._parser: Final = HttpResponseParser(self)

    # Requests and waits.

    async def send(self, head: bytes, body: bytes) -> DirectReply:
        """Write a request; return the reply when its head has arrived. The connection is closed if that fails."""
        reply = self._reply = DirectReply(self)
        self._headers, self._header_bytes, self._overhead_bytes = {}, 0, 0
        self._is_complete = self._has_received = False
        deadline = self._loop.time() + self._timeouts.first_byte_s
        try:
            if len(body) <= WRITE_BYTES and self._transport is not None:
                self._transport.write(head + body)
            else:
                await self._write_pieces(head, body, reply, deadline)
            while not reply.status:
                if self._reply is not reply:
                    raise self._error_of(reply)
                await self._wait(deadline)
        except BaseException:  # a cancelled request must not leave its connection open either
            if self._reply is reply:  # or the reply is complete, and the connection perhaps in use for another request
                self.abort()
            raise
        return reply

    async def _write_pieces(self, head: bytes, body: bytes, reply: DirectReply, deadline: float) -> None:
        """Write a large body as fast as the endpoint takes it, and no further once it refuses the request."""
        self._is_writing, view = True, memoryview(body)
        for piece in (head, *(view[at : at + WRITE_BYTES] for at in range(0, len(body), WRITE_BYTES))):
            while self._is_writing_paused and self._reply is reply and reply.status < 300:
                await self._wait(deadline)
            if self._reply is not reply or self._transport is None or reply.status >= 300:
                return  # and the connection is not used again
            self._transport.write(piece)
        self._is_writing = False

    async def wait_for_body(self) -> None:
        """Return when more of the body may have arrived, or when the reply has failed."""
        await self._wait(self._loop.time() + self._timeouts.gap_s)

    async def _wait(self, deadline: float) -> None:
        self._waiter = self._loop.create_future()
        self._set_deadline(deadline)
        # Nothing of this connection is touched afterwards: the next request may already wait on it.
        await self._waiter

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            # A failure is kept by the reply: as the exception of a future, it would be logged if its task is cancelled.
            waiter.set_result(None)

    def _set_deadline(self, deadline: float) -> None:
        self._deadline = deadline
        if self._timer is not None:
            if self._timer_at <= deadline:
                return
            self._timer.cancel()
        self._timer, self._timer_at = self._loop.call_at(deadline, self._on_timer), deadline

    def _on_timer(self) -> None:
        self._timer = None
        if self._deadline - self._loop.time() > CLOCK_S:
            self._set_deadline(self._deadline)
        elif self._reply is None:
            self.abort()  # it was idle for too long
        elif self._waiter is not None and not self._waiter.done():
            reason = "the answer stalled" if self._reply.status else "no answer began in time"
            self.abort(Failure.TIMED_OUT, reason)

    def _error_of(self, reply: DirectReply) -> UpstreamError:
        failure, reason = reply.error or (Failure.UNREACHABLE, CLOSED)
        is_unanswered = self._is_left and not self._has_received
        return (ClosedUnansweredError if is_unanswered else UpstreamError)(failure, reason)

    @property
    def is_open(self) -> bool:
        """Whether a request can be written."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_silent(self) -> bool:
        """Whether nothing has arrived that the event loop has not read: neither bytes nor the end."""
        return not self._poll.poll(0)

    def resume_reading(self) -> None:
        """Let the endpoint send more."""
        if self._is_reading_paused and self._transport is not None and not self._transport.is_closing():
            self._is_reading_paused = False
            self._transport.resume_reading()

    def abort(self, failure: Failure = Failure.BROKEN_OFF, reason: str = CLOSED) -> None:
        """Close the connection at once, whatever is still to be written; a reply that is not complete has failed."""
        if self._reply is not None:
            self._reply.end(failure, reason)
            self._reply = None
            self._wake()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()

    # Calls of the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)
        self._poll.register(transport.get_extra_info("socket"), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived, and hand it to the reply."""
        reply = self._reply
        if reply is None:
            self._on_unasked()
            self.abort()
            return
        self._has_received = True
        is_malformed = False
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            is_malformed = True
        if self._chunks:
            self._hand_over(reply)
        else:
            self._overhead_bytes += len(data)
        if self._is_complete:
            if is_malformed and self._keeps_alive:
                self._on_unasked()
            self._finish(reply, may_reuse=self._keeps_alive and not is_malformed and not self._is_writing)
        elif is_malformed or self._overhead_bytes > MAX_HEAD_BYTES:
            # After the head, it may be a fault of the connection, which a second attempt cures.
            failure = Failure.BROKEN_OFF if reply.status else Failure.NOT_UNDERSTOOD
            self.abort(failure, "it is not HTTP as it should be" if is_malformed else "its headers are too long")
        self._wake()

    def _hand_over(self, reply: DirectReply) -> None:
        """Give the reply what was parsed of its body."""
        chunks, self._overhead_bytes = self._chunks, 0
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        if self._is_encoded:
            self.abort(Failure.NOT_UNDERSTOOD, "it is compressed, which was not accepted")
        elif reply.add(data) > MAX_UNREAD_BYTES and not self._is_complete and self._transport is not None:
            self._is_reading_paused = True
            self._transport.pause_reading()

    def eof_received(self) -> None:
        """End the reply; the event loop then closes the connection."""
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the reply, if it has not ended."""
        self._transport = None
        self._end(exc)
        self.abort()
        self._on_lost(self)
        if not self.lost.done():
            self.lost.set_result(None)

    def pause_writing(self) -> None:
        """Write no more for now."""
        self._is_writing_paused = True

    def resume_writing(self) -> None:
        """Write on."""
        self._is_writing_paused = False
        self._wake()

    # Ends of a reply.

    def _finish(self, reply: DirectReply, *, may_reuse: bool) -> None:
        if self._reply is not reply:
            return  # it has failed
        reply.end()
        self._reply = None
        self.resume_reading()
        if may_reuse:
            self.idle_since = self._loop.time()
            self._set_deadline(self.idle_since + IDLE_S)
            self._on_idle(self)
        else:
            self.abort()

    def _end(self, error: Exception | None) -> None:
        """The endpoint sends no more."""
        self._is_left, reply = True, self._reply
        if reply is None:
            self.abort()
        elif not reply.status:
            self.abort(Failure.UNREACHABLE, reason_of(error, "the connection was closed before the answer"))
        elif self._until_close and error is None:
            self._finish(reply, may_reuse=False)
        else:
            reason = reason_of(error, "the connection was closed before the end of the answer")
            self.abort(Failure.BROKEN_OFF, reason)
        self._wake()

    # Calls of the parser. What they raise ends the parsing.

    def on_message_begin(self) -> None:
        """Reject what follows a complete reply."""
        if self._is_complete:
            raise ValueError("more than one reply")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header, within limits; trailers only count."""
        self._header_bytes += len(name) + len(value)
        headers = self._headers
        if self._header_bytes > MAX_HEAD_BYTES or len(headers) >= MAX_HEADERS:
            raise ValueError("too many headers")
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text

    def on_headers_complete(self) -> None:
        """Complete the head, unless it is an informational one, which another one follows."""
        status = self._parser.get_status_code()
        headers, self._headers = self._headers, {}
        reply = self._reply
        if reply is None or status == 101:
            raise ValueError("a change of protocol was not requested")
        if status < 200:
            return
        coding = headers.get("transfer-encoding")
        if coding is not None and coding.lower() != "chunked":
            raise ValueError("an unknown transfer coding")
        self._keeps_alive = self._parser.should_keep_alive()
        self._until_close = coding is None and "content-length" not in headers and status not in (204, 304)
        self._is_encoded = headers.get("content-encoding", "identity").lower() not in ("identity", "")
        reply.status, reply.headers = status, headers

    def on_message_complete(self) -> None:
        """Note the end of the reply."""
        self._is_complete = self._reply is not None and self._reply.status != 0


def reason_of(error: Exception | None, otherwise: str) -> str:
    """Return the system's message for this error; an error's own text may hold addresses."""
    number = error.errno if isinstance(error, OSError) else None
    return otherwise if number is None or number not in errorcode else os.strerror(number)
