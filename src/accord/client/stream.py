"""Reads one turn as it happens, packet by packet, over as many connections as it takes.

Packets are numbered from 1. Duplicates are dropped and missing packets are requested again, so that each is returned
once and in order. Before the first packet the request itself is repeated, which its id makes safe. After it only the
rest is requested: a service that has no such turn any more then answers with an error, instead of running it again and
continuing with the text of another answer.
"""

from collections import deque
from collections.abc import AsyncIterator
from typing import Final, NoReturn, Self, cast

from aiohttp import ClientResponse

from accord.client.connection import EVENT_STREAM, HttpRequest, ServiceConnection, next_piece
from accord.client.failure import Attempts, FailedAttempt, connection_failed
from accord.client.settings import ClientSettings
from accord.core.sse import EventDecoder, ServerEvent
from accord.errors import ErrorSeverity, InvalidMessageError, Problem, UsageError
from accord.wire.packet import AnyPacket, ClosePacket, DeltaPacket, ErrorPacket, StreamError, StreamPacket
from accord.wire.problem import error_from_stream
from accord.wire.routes import ASSIST_PATH, REQUEST_PATH, fill_path

LAST_BYTES_S: Final = 0.5
"""How long to wait for the end of the response after the last packet, so that its connection can be used again."""

MAX_DIGITS: Final = 18

_NO_NUMBER: Final = Problem("id", "the number of the packet, counted from 1")


class Stream:
    """One turn. `async for` yields its packets and raises the error that ends it; a second loop continues the first.

    `packets()` yields an error as a packet, `text()` yields only text. Use it with `async with`, or call `aclose`.
    """

    def __init__(  # noqa: PLR0913 - the connection, the request, and where to begin
        self,
        connection: ServiceConnection,
        settings: ClientSettings,
        request_id: str,
        *,
        body: bytes | None,
        after: int = 0,
        capabilities: str | None = None,
    ) -> None:
        self.request_id: Final = request_id
        self._received = after
        self.is_over = False
        self._connection: Final = connection
        self._settings: Final = settings
        self._body: Final = body
        self._capabilities: Final = capabilities
        self._attempts: Final = Attempts(settings)
        self._ready: Final[deque[AnyPacket]] = deque()
        self._response: ClientResponse | None = None
        self._decoder = EventDecoder(max_event_bytes=settings.max_event_bytes)
        self._heartbeats = 0
        self._failed_attempt: FailedAttempt | None = None
        self._failure: InvalidMessageError | None = None
        self._is_closed = False
        self._is_being_read = False

    @property
    def last_id(self) -> int:
        """The number of the last packet that was taken: another stream can continue from there."""
        return self._received - len(self._ready)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AnyPacket:
        packet = await self._next()
        if packet is None:
            raise StopAsyncIteration
        if isinstance(packet, ErrorPacket):
            await self.fail(packet.p)
        return packet

    async def packets(self) -> AsyncIterator[AnyPacket]:
        """Every packet, also the error that ends the stream."""
        while (packet := await self._next()) is not None:
            yield packet

    async def text(self) -> AsyncIterator[str]:
        """The text alone; raises the error that ends the stream."""
        async for packet in self:
            if isinstance(packet, DeltaPacket):
                yield packet.p

    def take(self) -> AnyPacket | None:
        """The next packet that has arrived, if there is one."""
        return self._ready.popleft() if self._ready else None

    async def wait_for_packet(self) -> None:
        """Wait until there is a packet to take, or until the stream is over."""
        if self._is_being_read:
            raise UsageError("This stream is already being read by another task; read it in one task only")
        self._is_being_read = True
        try:
            await self._read_packets()
        except BaseException:
            self._close_response()
            raise
        finally:
            self._is_being_read = False

    async def fail(self, error: StreamError) -> NoReturn:
        """Raise the error that ended this stream, and close it."""
        self._close_response()
        raise error_from_stream(error)

    async def cancel(self) -> None:
        """Cancel this turn; its stream then ends with `TurnCancelledError`."""
        await self._connection.fetch(HttpRequest("DELETE", self._path))

    async def aclose(self) -> None:
        """Stop reading. Whether the turn continues is a setting of the service."""
        self._is_closed = True
        self._close_response()

    @property
    def _path(self) -> str:
        return fill_path(REQUEST_PATH, request_id=self.request_id)

    async def _next(self) -> AnyPacket | None:
        if not self._ready:
            await self.wait_for_packet()
        return self.take()

    async def _read_packets(self) -> None:
        """Read until packets are ready or the stream is over, over new connections where one breaks."""
        while not self._ready and not self.is_over:
            if self._failure is not None:
                raise self._failure
            if self._is_closed:
                raise UsageError("This stream is closed; resume it with `client.resume(request_id, after=last_id)`")
            if self._failed_attempt is None:
                self._failed_attempt = await self._read_piece()
                if self._failed_attempt is not None:
                    self._close_response()
            # Packets that came before a break are returned before the wait for the next attempt.
            if self._failed_attempt is not None and not self._ready:
                attempt, self._failed_attempt = self._failed_attempt, None
                await self._attempts.wait_after(attempt)
        if not self._ready:
            await self._finish()

    async def _finish(self) -> None:
        if self._response is not None:
            # The end of the response usually follows at once, and frees its connection for the next request.
            await next_piece(self._response, LAST_BYTES_S)
        self._close_response()

    async def _read_piece(self) -> FailedAttempt | None:
        """Connect if necessary and read one piece of the response."""
        if self._response is None:
            after = self._received or None
            if self._body is not None and after is None:
                request = HttpRequest("POST", ASSIST_PATH, self._body, EVENT_STREAM)
            else:
                request = HttpRequest("GET", self._path, None, EVENT_STREAM, after, self._capabilities)
            opened = await self._connection.open_stream(request)
            if isinstance(opened, FailedAttempt):
                return opened
            self._response, self._heartbeats = opened, 0
            self._decoder = EventDecoder(max_event_bytes=self._settings.max_event_bytes)
        piece = await next_piece(self._response, self._settings.idle_s)
        if isinstance(piece, FailedAttempt):
            return piece
        return self._decode(piece) if piece else connection_failed("the stream ended before its last packet")

    def _decode(self, piece: bytes) -> FailedAttempt | None:
        try:
            for event in self._decoder.feed(piece):
                if self.is_over:
                    break
                if attempt := self._accept(event):
                    return attempt
        except InvalidMessageError as error:
            # No other attempt: the service would send the same again. Earlier packets are returned first.
            self._failure = error
            self._close_response()
        if self._decoder.comments > self._heartbeats:
            self._heartbeats = self._decoder.comments
            self._attempts.start_again()
        return None

    def _accept(self, event: ServerEvent) -> FailedAttempt | None:
        if event.id is None:
            return _connection_ended(StreamPacket.parse(event.data))
        if not event.id.isascii() or not event.id.isdigit() or len(event.id) > MAX_DIGITS:
            raise InvalidMessageError("event stream", [_NO_NUMBER])
        number = int(event.id)
        if number <= self._received:
            return None
        if number > self._received + 1:
            return connection_failed(f"packet {self._received + 1} is missing from the stream")
        packet = cast("AnyPacket", StreamPacket.parse(event.data))
        self._received = number
        self._ready.append(packet)
        self._attempts.start_again()
        self.is_over = isinstance(packet, ClosePacket)
        return None

    def _close_response(self) -> None:
        response, self._response = self._response, None
        if response is not None:
            self._connection.close_stream(response)


def _connection_ended(packet: StreamPacket) -> FailedAttempt:
    """The meaning of a packet without a number: the connection ends. The turn can be resumed after the last number."""
    match packet:
        case ErrorPacket(p=error):
            return FailedAttempt(error_from_stream(error), is_retryable=error.severity is ErrorSeverity.TRANSIENT)
        case ClosePacket():
            return connection_failed("the service closed the stream before its last packet")
        case _:
            raise InvalidMessageError("event stream", [_NO_NUMBER])
