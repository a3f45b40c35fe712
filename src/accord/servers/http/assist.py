"""`POST /v1/assist`: one request in, one JSON answer or a stream of server-sent events out.

A failure before the first byte of the answer is a problem body with its status; after it, a packet of the stream. In a
stream each packet is one event, its number is the event's id, and a comment is the heartbeat. Packets that are ready at
the same time are sent together. A client that disconnects is noticed; one that does not read is disconnected, and until
then costs no more memory than its connection's buffer.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterable, Sequence
from contextlib import aclosing
from typing import Any, Final, TypeVar

from accord.errors import ErrorCode, RefusedError, StoreError
from accord.run import Reader, Run, StoredRun, ViewBatch
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
from accord.wire.routes import ASSIST_PATH, CAPABILITIES_HEADER
from accord.wire.session import PacketRecord

ResultT = TypeVar("ResultT")

HEARTBEAT: Final = b": still here\n\n"
MAX_ID: Final = 10**12
MAX_ID_DIGITS: Final = 100
"""Python refuses to parse numbers of thousands of digits, and a client may send them."""
WATCH_AFTER_S: Final = 0.05
"""Most JSON answers are ready before it is worth a task to watch for a disconnect of their client."""
STREAM_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"vary", b"Accept"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
]


def assist_endpoint(service: Service) -> HttpEndpoint:
    """The endpoint that starts turns."""

    async def post(exchange: Exchange) -> int:
        chosen = exchange.choose_format()
        after = parse_last_event_id(exchange.headers.get(b"last-event-id"))
        body = await read_body(exchange.receive, exchange.headers, service.settings)
        request, warnings, sent = await read_request(body, service.settings)
        if exchange.declares_reader():
            warnings = [*warnings, f"{CAPABILITIES_HEADER} is ignored here; declare them in payload.capabilities"]
        request_id = exchange.request_id = str(request.request_id)
        REQUEST_ID.set(request_id)

        def on_start() -> None:
            exchange.started_turn = request_id
            service.observer.turn_started(request_id)

        streams = chosen == EVENT_STREAM
        with continuing_trace(exchange.scope["headers"]):
            address = client_address(exchange.scope)
            turn = await begin_turn(
                service,
                exchange.caller,
                address,
                request,
                sent=sent,
                streams=streams,
                on_start=on_start,
                trace=exchange.trace_context,
            )
        return await answer_turn(service, exchange, turn, after if streams else None, warnings=warnings)

    return HttpEndpoint(service, ASSIST_PATH, {"POST": post})


async def answer_turn(  # noqa: PLR0913 - a turn, and how much of it is sent in which form
    service: Service,
    exchange: Exchange,
    turn: Run | StoredRun,
    after: int | None,
    *,
    reader: Reader | None = None,
    warnings: Sequence[str] = (),
) -> int:
    """Stream the packets after this number; without a number, answer with the whole turn as JSON.

    Without a reader of its own, in the view of the client that sent the request. Warnings about the request go into the
    metrics of a JSON answer, and into comments at the start of a stream.
    """
    if after is None:
        if not turn.is_over:
            await asyncio.sleep(0)  # a turn that waits for nothing is over then, and its client need not be watched
        collecting = service.sessions.collect(turn, reader)
        if not turn.is_over:
            collecting = run_while_connected(exchange.receive, collecting, WATCH_AFTER_S)
        response = await collecting
        if warnings and response.metrics is not None:
            response.metrics["warnings"] = list(warnings)
        return await exchange.answer(response)
    service.observer.stream_opened("sse")
    try:
        batches = service.sessions.read(turn, after, reader)
        await run_while_connected(exchange.receive, _EventStream(service, batches, exchange.send).run(warnings))
    except (ClientGoneError, OSError):
        raise ClientGoneError from None
    except Exception as error:  # noqa: BLE001
        # The status is sent and cannot be changed: the client sees a broken stream, and resumes it.
        to_accord_error(error)  # for its log line
        raise ClientGoneError from None
    finally:
        service.observer.stream_closed("sse")
    return 200


def encode_events(packets: Iterable[PacketRecord]) -> bytes:
    """Packets as server-sent events. JSON text contains no line end, so each is one line of data."""
    return "".join([f"id: {record.seq}\ndata: {record.body}\n\n" for record in packets]).encode()


def parse_last_event_id(header: bytes | None) -> int:
    """The number of the last packet that the client has; 0 without a header."""
    if header is None or not header.strip():
        return 0
    text = header.strip()
    if not text.isdigit() or len(text) > MAX_ID_DIGITS or int(text) > MAX_ID:
        message = "Last-Event-ID is not the id of a packet; send the number of the last packet, or no such header"
        raise RefusedError(message, ErrorCode.INVALID_MESSAGE, {})
    return int(text)


class _EventStream:
    """Sends one turn as server-sent events, with heartbeats while it is silent."""

    def __init__(self, service: Service, batches: AsyncGenerator[ViewBatch, None], send: Send) -> None:
        self._settings: Final = service.settings
        self._batches: Final = batches
        self._send: Final = send
        self._loop: Final = asyncio.get_running_loop()
        self._sent_at = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._heartbeat: asyncio.Task[None] | None = None

    async def run(self, warnings: Sequence[str]) -> None:
        await self._send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
        self._timer = self._loop.call_later(self._settings.heartbeat_s, self._beat)
        try:
            if warnings:
                await self._write("".join(f": warning: {warning}\n\n" for warning in warnings).encode())
            try:
                async with aclosing(self._batches) as batches:
                    async for batch in batches:
                        if batch.packets:
                            await self._write(encode_events(batch.packets))
            except StoreError as error:
                # These have no id: the client resumes after the last packet that had one.
                packets = [ErrorPacket(p=stream_error(to_accord_error(error))), ClosePacket()]
                await self._write("".join(f"data: {packet.to_json()}\n\n" for packet in packets).encode())
            await self._write(b"", more=False)
        finally:
            self._timer.cancel()
            if self._heartbeat is not None:
                self._heartbeat.cancel()

    async def _write(self, data: bytes, *, more: bool = True) -> None:
        try:
            sending = self._send({"type": "http.response.body", "body": data, "more_body": more})
            await within(self._settings.write_timeout_s, sending)
        except TimeoutError:
            raise ClientGoneError from None
        self._sent_at = self._loop.time()

    def _beat(self) -> None:
        """Send a heartbeat if the stream was silent for long enough. One timer serves any number of packets."""
        wait_s = self._settings.heartbeat_s
        silent_s = self._loop.time() - self._sent_at
        if silent_s < wait_s:
            wait_s -= silent_s
        elif self._heartbeat is None or self._heartbeat.done():
            self._heartbeat = self._loop.create_task(self._write(HEARTBEAT))
            # The stream itself notices a client that does not read; without this asyncio would log the exception.
            self._heartbeat.add_done_callback(lambda task: task.cancelled() or task.exception())
        self._timer = self._loop.call_later(wait_s, self._beat)


async def run_while_connected(
    receive: Receive, work: Coroutine[Any, Any, ResultT], watch_after_s: float = 0
) -> ResultT:
    """Return the result of this work; raises `ClientGoneError` and cancels it if the client disconnects first."""
    watch = _DisconnectWatch(receive, watch_after_s)
    try:
        return await work
    except asyncio.CancelledError:
        if watch.has_cancelled_work():
            raise ClientGoneError from None
        raise
    finally:
        watch.end()


class _DisconnectWatch:
    """Waits for a disconnect in a task of its own, and then cancels the task in which it was created."""

    def __init__(self, receive: Receive, after_s: float) -> None:
        self._receive: Final = receive
        self._loop: Final = asyncio.get_running_loop()
        self._worker: Final = asyncio.current_task()
        self._cancelled_before: Final = self._worker.cancelling() if self._worker else 0
        self._timer: Final = self._loop.call_later(after_s, self._begin)
        self._watcher: asyncio.Task[None] | None = None
        self._is_gone = False

    def has_cancelled_work(self) -> bool:
        """Whether the work was cancelled from here, and from nowhere else as well."""
        return self._is_gone and self._worker is not None and self._worker.uncancel() <= self._cancelled_before

    def end(self) -> None:
        self._timer.cancel()
        if self._watcher is not None:
            self._watcher.remove_done_callback(self._cancel_work)
            self._watcher.cancel()

    def _begin(self) -> None:
        self._watcher = self._loop.create_task(_wait_for_disconnect(self._receive))
        self._watcher.add_done_callback(self._cancel_work)

    def _cancel_work(self, _: asyncio.Task[None]) -> None:
        if self._worker is not None:
            self._is_gone = True
            self._worker.cancel()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
