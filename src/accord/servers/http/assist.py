"""`POST /v1/assist`: one request in, one JSON answer or a stream of server-sent events out."""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import aclosing
from typing import Any, Final, TypeVar

from accord.engine import LiveTurn, StoredTurn
from accord.errors import ErrorCode, RefusedError, StoreError
from accord.servers.http.body import read_body, read_request
from accord.servers.http.exchange import (
    EVENT_STREAM,
    ClientGoneError,
    Exchange,
    HttpEndpoint,
    Receive,
    Send,
    client_address,
    to_accord_error,
    within,
)
from accord.servers.observability import REQUEST_ID, continuing_trace
from accord.servers.service import Service, begin_turn
from accord.wire.packet import ClosePacket, ErrorPacket
from accord.wire.problem import stream_error
from accord.wire.request import ServiceResponse
from accord.wire.routes import ASSIST_PATH
from accord.wire.session import PacketRecord

# Packets as server-sent events: one event a packet, its number as the id, a comment as the heartbeat. Pure.

HEARTBEAT: Final = b": still here\n\n"
MAX_ID: Final = 10**12
MAX_ID_DIGITS: Final = 100
"""Python refuses to read numbers of thousands of digits, and a client may send them."""


def as_events(packets: Iterable[PacketRecord]) -> bytes:
    """These packets as they go over the wire; JSON text holds no line end, so each is one line of data."""
    return "".join([f"id: {kept.seq}\ndata: {kept.body}\n\n" for kept in packets]).encode()


def as_comments(lines: Iterable[str]) -> bytes:
    """These lines as comments, which people see and clients skip."""
    return "".join([f": {line}\n\n" for line in lines]).encode()


def last_event_id(header: bytes | None) -> int:
    """The number of the last packet that the client has; 0 if it has none."""
    if header is None or not header.strip():
        return 0
    said = header.strip()
    if not said.isdigit() or len(said) > MAX_ID_DIGITS or int(said) > MAX_ID:
        raise RefusedError("Last-Event-ID should be the id of a packet", ErrorCode.INVALID_MESSAGE, {})
    return int(said)


# Answers one client with a turn: whole, or as server-sent events for as long as it listens.
#
# Whatever is ready goes out together. A comment keeps an idle stream open. A client that hangs up is noticed; one
# that does not read is cut off, and costs no more memory than its connection's buffer until then.

ResultT = TypeVar("ResultT")

ANSWERED_WITHIN_S: Final = 0.05
"""Most whole answers are there before it would be worth a task to watch whether their client still waits."""

STREAM_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"vary", b"Accept"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
]


async def answer_turn(
    service: Service, exchange: Exchange, turn: LiveTurn | StoredTurn, after: int | None, warnings: Sequence[str] = ()
) -> int:
    """Answer with the packets after this number, as they come; or, without a number, with all of it at once.

    Warnings about the request go into the metrics of a whole answer, and into comments at the start of a stream.
    """
    if after is None:
        response = await _whole(service, exchange, turn)
        if warnings and response.metrics is not None:
            response.metrics["warnings"] = list(warnings)
        return await exchange.answer(response)
    service.observer.stream_opened("sse")
    try:
        await run_while_connected(exchange.receive, _Stream(service, turn, exchange.send).run(after, warnings))
    except (ClientGoneError, OSError):
        raise ClientGoneError from None
    except Exception as error:  # noqa: BLE001
        # The answer has begun, so its status cannot be taken back; a client sees a stream that broke off, and resumes.
        to_accord_error(error)
        raise ClientGoneError from None
    finally:
        service.observer.stream_closed("sse")
    return 200


async def _whole(service: Service, exchange: Exchange, turn: LiveTurn | StoredTurn) -> ServiceResponse:
    if not turn.is_over:
        await asyncio.sleep(0)  # a turn that waits for nothing is over then, and nobody has to watch its client
    answer = service.sessions.collect(turn)
    return await (answer if turn.is_over else run_while_connected(exchange.receive, answer, ANSWERED_WITHIN_S))


class _Stream:
    def __init__(self, service: Service, turn: LiveTurn | StoredTurn, send: Send) -> None:
        self._settings: Final = service.settings
        self._turn: Final = turn
        self._send: Final = send
        self._loop: Final = asyncio.get_running_loop()
        self._sent_at = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._beating: asyncio.Task[None] | None = None

    async def run(self, after: int, warnings: Sequence[str]) -> None:
        await self._send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
        self._beat_later(self._settings.heartbeat_s)
        try:
            if warnings:
                await self._write(as_comments(f"warning: {warning}" for warning in warnings))
            try:
                async with aclosing(self._turn.batches(after)) as batches:
                    async for batch in batches:
                        await self._write(as_events(batch))
            except StoreError as error:
                # The stream breaks and says so, without an id: it can be resumed after the last packet that had one.
                told = [ErrorPacket(p=stream_error(to_accord_error(error))), ClosePacket()]
                await self._write("".join(f"data: {packet.to_json()}\n\n" for packet in told).encode())
            await self._write(b"", more=False)
        finally:
            self._stop_beating()

    async def _write(self, data: bytes, *, more: bool = True) -> None:
        try:
            sending = self._send({"type": "http.response.body", "body": data, "more_body": more})
            await within(self._settings.write_timeout_s, sending)
        except TimeoutError:
            raise ClientGoneError from None
        self._sent_at = self._loop.time()

    def _beat_later(self, seconds: float) -> None:
        self._timer = self._loop.call_later(seconds, self._beat)

    def _beat(self) -> None:
        """One timer, however many packets go by: it looks when the last of them went."""
        quiet_s = self._loop.time() - self._sent_at
        if quiet_s < self._settings.heartbeat_s:
            self._beat_later(self._settings.heartbeat_s - quiet_s)
            return
        if self._beating is None or self._beating.done():
            self._beating = self._loop.create_task(self._write(HEARTBEAT))
            self._beating.add_done_callback(_looked_at)
        self._beat_later(self._settings.heartbeat_s)

    def _stop_beating(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._beating is not None:
            self._beating.cancel()


def _looked_at(task: asyncio.Task[None]) -> None:
    """A heartbeat that nobody takes is the stream's to notice, not the log's."""
    if not task.cancelled():
        task.exception()


async def run_while_connected(
    receive: Receive, work: Coroutine[Any, Any, ResultT], watch_after_s: float = 0
) -> ResultT:
    """What the work gives, if the client waits for it; when it hangs up, the work is stopped."""
    watch = _Watch(receive, watch_after_s)
    try:
        return await work
    except asyncio.CancelledError:
        if watch.has_stopped_work():
            raise ClientGoneError from None
        raise
    finally:
        watch.end()


class _Watch:
    """Looks out for a client that hangs up, and then stops the task that it was begun in."""

    def __init__(self, receive: Receive, after_s: float) -> None:
        self._receive: Final = receive
        self._loop: Final = asyncio.get_running_loop()
        self._working: Final = asyncio.current_task()
        self._cancelled_before: Final = self._working.cancelling() if self._working else 0
        self._timer: Final = self._loop.call_later(after_s, self._begin)
        self._watching: asyncio.Task[None] | None = None
        self._is_gone = False

    def has_stopped_work(self) -> bool:
        """Whether the work was cancelled from here, and by nobody else as well."""
        return self._is_gone and self._working is not None and self._working.uncancel() <= self._cancelled_before

    def end(self) -> None:
        self._timer.cancel()
        if self._watching is not None:
            self._watching.remove_done_callback(self._stop_work)
            self._watching.cancel()

    def _begin(self) -> None:
        self._watching = self._loop.create_task(_wait_for_disconnect(self._receive))
        self._watching.add_done_callback(self._stop_work)

    def _stop_work(self, _: asyncio.Task[None]) -> None:
        if self._working is not None:
            self._is_gone = True
            self._working.cancel()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


# `POST /v1/assist`: one request in, one answer or a stream of packets out. The body is read and parsed once.
#
# What goes wrong before the first byte of an answer is a problem body with its status; after it, a packet of the
# stream.


def assist(service: Service) -> HttpEndpoint:
    """The address that takes requests."""

    async def post(exchange: Exchange) -> int:
        wanted = exchange.wanted_format()
        after = last_event_id(exchange.headers.get(b"last-event-id"))
        body = await read_body(exchange.receive, exchange.headers, service.settings)
        request, warnings = await read_request(body, service.settings)
        exchange.request_id = str(request.request_id)
        REQUEST_ID.set(exchange.request_id)
        with continuing_trace(exchange.scope["headers"]):
            turn = await begin_turn(service, exchange.caller, client_address(exchange.scope), request)
        return await answer_turn(service, exchange, turn, after if wanted == EVENT_STREAM else None, warnings)

    return HttpEndpoint(service, ASSIST_PATH, {"POST": post})
