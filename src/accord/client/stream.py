"""Reads one turn as it happens, packet by packet, over as many connections as it takes.

Packets are numbered from 1. What comes twice is dropped, and what is missing is asked for again, so that whoever reads
gets every packet once and in order. Before the first packet the question itself is repeated, which its id makes safe;
after it only the rest is asked for: a service that has forgotten the turn says so, instead of running it again and
continuing with the words of another answer.
"""

from collections import deque
from collections.abc import AsyncIterator
from typing import Final, NoReturn, Self, cast

from aiohttp import ClientResponse

from accord.client.connection import EVENT_STREAM, HttpRequest, ServiceConnection, next_piece
from accord.client.failure import Attempts, Setback, setback_of_connection
from accord.client.settings import ClientSettings
from accord.core.sse import EventDecoder, ServerEvent
from accord.errors import ErrorSeverity, InvalidMessageError, Problem, UsageError
from accord.wire.packet import AnyPacket, ClosePacket, DeltaPacket, ErrorPacket, StreamError, StreamPacket
from accord.wire.problem import error_from_stream
from accord.wire.routes import ASSIST_PATH, REQUEST_PATH, fill_path

LAST_BYTES_S: Final = 0.5
"""How long the end of an answer is waited for after the last packet, so that its connection can be used again."""

MAX_DIGITS: Final = 18

_NO_NUMBER: Final = Problem("id", "the number of the packet, counted from 1")


class Stream:
    """One turn. `async for` gives its packets and raises the error that ends it; reading on after a break goes on.

    `packets()` gives an error as the packet it is, `text()` gives the words alone. `async with` or `aclose` ends it.
    """

    def __init__(
        self,
        connection: ServiceConnection,
        settings: ClientSettings,
        request_id: str,
        *,
        body: bytes | None,
        after: int = 0,
    ) -> None:
        self.request_id: Final = request_id
        # The number of the last packet that came: another stream can go on from there.
        self.last_id = after
        self.is_over = False
        self._connection: Final = connection
        self._settings: Final = settings
        self._body: Final = body
        self._attempts: Final = Attempts(settings)
        self._ready: Final[deque[AnyPacket]] = deque()
        self._answer: ClientResponse | None = None
        self._decoder = EventDecoder(max_event_bytes=settings.max_event_bytes)
        self._beats_heard = 0
        self._setback: Setback | None = None
        self._failure: InvalidMessageError | None = None
        self._is_closed = False
        self._is_read = False

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
        """The words alone; raises the error that ends the stream."""
        async for packet in self:
            if isinstance(packet, DeltaPacket):
                yield packet.p

    def taken(self) -> AnyPacket | None:
        """The next of the packets that have come, if there is one."""
        return self._ready.popleft() if self._ready else None

    async def arrive(self) -> None:
        """Wait until there is a packet to take, or until the stream is over."""
        if self._is_read:
            raise UsageError("This stream is being read by somebody else")
        self._is_read = True
        try:
            await self._fill()
        except BaseException:
            self._hang_up()
            raise
        finally:
            self._is_read = False

    async def fail(self, told: StreamError) -> NoReturn:
        """Raise the error that ended this stream; nothing more is waited for."""
        self._hang_up()
        raise error_from_stream(told)

    async def cancel(self) -> None:
        """Have the service stop this turn; its stream then ends with `TurnCancelledError`."""
        await self._connection.fetch(HttpRequest("DELETE", self._path))

    async def aclose(self) -> None:
        """Stop reading. Whether the turn goes on is the service's to decide."""
        self._is_closed = True
        self._hang_up()

    @property
    def _path(self) -> str:
        return fill_path(REQUEST_PATH, request_id=self.request_id)

    async def _next(self) -> AnyPacket | None:
        if not self._ready:
            await self.arrive()
        return self.taken()

    async def _fill(self) -> None:
        while not self._ready and not self.is_over:
            if self._failure is not None:
                raise self._failure
            if self._is_closed:
                raise UsageError("This stream is closed")
            if self._setback is None:
                self._setback = await self._step()
            # What came before a break is handed over before the wait for the next attempt.
            if self._setback is not None and not self._ready:
                setback, self._setback = self._setback, None
                await self._attempts.wait_after(setback)
        if not self._ready:
            await self._finish()

    async def _step(self) -> Setback | None:
        """Connect if need be and read a piece; says what broke, if anything did, and then the connection is gone."""
        setback = await self._read()
        if setback is not None:
            self._hang_up()
        return setback

    async def _read(self) -> Setback | None:
        if self._answer is None:
            opened = await self._connection.open_stream(self._call())
            if isinstance(opened, Setback):
                return opened
            self._answer, self._beats_heard = opened, 0
            self._decoder = EventDecoder(max_event_bytes=self._settings.max_event_bytes)
        piece = await next_piece(self._answer, self._settings.idle_s)
        if isinstance(piece, Setback):
            return piece
        return self._take(piece) if piece else setback_of_connection("the stream ended before its last packet")

    def _call(self) -> HttpRequest:
        after = self.last_id or None
        if self._body is not None and after is None:
            return HttpRequest("POST", ASSIST_PATH, self._body, EVENT_STREAM)
        return HttpRequest("GET", self._path, None, EVENT_STREAM, after)

    def _take(self, piece: bytes) -> Setback | None:
        try:
            for event in self._decoder.feed(piece):
                if self.is_over:
                    break
                if setback := self._take_event(event):
                    return setback
        except InvalidMessageError as error:
            # It would be said again: trying again helps nobody. What came before it is handed over first.
            self._failure = error
            self._hang_up()
        if self._decoder.beats > self._beats_heard:
            self._beats_heard = self._decoder.beats
            self._attempts.start_again()
        return None

    def _take_event(self, event: ServerEvent) -> Setback | None:
        if event.id is None:
            return _end_of_connection(StreamPacket.parse(event.data))
        number = _number_of(event)
        if number <= self.last_id:
            return None
        if number > self.last_id + 1:
            return setback_of_connection(f"packet {self.last_id + 1} is missing from the stream")
        packet = cast("AnyPacket", StreamPacket.parse(event.data))
        self.last_id = number
        self._ready.append(packet)
        self._attempts.start_again()
        self.is_over = isinstance(packet, ClosePacket)
        return None

    async def _finish(self) -> None:
        """Read the end of the answer, if it comes soon, which frees its connection for the next question."""
        if self._answer is not None:
            await next_piece(self._answer, LAST_BYTES_S)
        self._hang_up()

    def _hang_up(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            self._connection.hang_up(answer)


def _end_of_connection(packet: StreamPacket) -> Setback:
    """What a packet without a number means: the connection ends, not the turn, which goes on after the last number."""
    match packet:
        case ErrorPacket(p=told):
            return Setback(error_from_stream(told), is_passing=told.severity is ErrorSeverity.TRANSIENT)
        case ClosePacket():
            return setback_of_connection("the service closed the stream before its last packet")
        case _:
            raise InvalidMessageError("event stream", [_NO_NUMBER])


def _number_of(event: ServerEvent) -> int:
    told = event.id or ""
    if not told.isascii() or not told.isdigit() or len(told) > MAX_DIGITS:
        raise InvalidMessageError("event stream", [_NO_NUMBER])
    return int(told)
