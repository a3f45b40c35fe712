"""A JSON-RPC connection over a pair of byte streams: matches results to requests, and runs requests concurrently.

Notifications are handled in the order in which they arrive. Each request runs in its own task, so a slow one delays no
other. A malformed line gets one error reply; a batch gets one line of replies. It is deliberately *not* ACP-aware: what
a method means is decided by the handlers.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

from accord.core.rpc import (
    Id,
    LineSplitter,
    MalformedMessage,
    OversizedLine,
    RpcFailure,
    RpcMessage,
    RpcNotification,
    RpcRequest,
    RpcResult,
    error_line,
    notification_line,
    read_frames,
    request_line,
    result_line,
)
from accord.errors import RpcCode

CHUNK: Final = 256 * 1024
STALL_S: Final = 1.0
"""How often a connection whose peer does not read looks whether the peer has closed the input meanwhile."""
LOG: Final = logging.getLogger("accord.stdio")


class RpcError(Exception):
    """A JSON-RPC error, sent to a peer or received from one."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code: Final = code
        self.message: Final = message
        self.data: Final = data

    def dump(self) -> dict[str, Any]:
        """The error object."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        return error if self.data is None else {**error, "data": self.data}


class PeerGoneError(Exception):
    """The peer closed the connection before it replied."""


class Sink(Protocol):
    """Where bytes are written: asyncio's `StreamWriter`, or anything with the same two methods."""

    def write(self, data: bytes, /) -> None:
        """Accept these bytes."""
        ...

    async def drain(self) -> None:
        """Wait until more bytes can be accepted."""
        ...


OnRequest = Callable[[RpcRequest], Awaitable[Any]]
OnNotification = Callable[[RpcNotification], None]
Reply = Callable[[bytes], None]


async def _method_not_found(request: RpcRequest) -> Any:
    method = request.method
    raise RpcError(
        RpcCode.METHOD_NOT_FOUND, f"There is no method {method}" if len(method) <= 100 else "There is no such method"
    )


class _BatchReply:
    """Collects the replies to one batch, and writes them as one line when the last one is there."""

    def __init__(self, count: int, write: Reply) -> None:
        self._count: Final = count
        self._write: Final = write
        self._lines: Final[list[bytes]] = []

    def reply(self, line: bytes) -> None:
        """Add one reply."""
        self._lines.append(line.rstrip(b"\n"))
        if len(self._lines) == self._count:
            self._write(b"[" + b",".join(self._lines) + b"]\n")


class RpcConnection:
    """A connection to one peer.

    `on_request` returns the result of a request or raises `RpcError`; `on_notification` must not block. When the peer
    closes the connection, requests that still run have `grace_s` to finish, and their replies to be read.
    `is_input_over` says whether the peer has closed the input, also if there is more to be read.
    """

    def __init__(  # noqa: PLR0913 - the streams, and the handlers that are handed in
        self,
        reader: asyncio.StreamReader,
        sink: Sink,
        *,
        on_request: OnRequest = _method_not_found,
        on_notification: OnNotification = lambda _: None,
        grace_s: float = 0.0,
        is_input_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self.batches = False
        self._reader: Final = reader
        self._sink: Final = sink
        self._on_request: Final = on_request
        self._on_notification: Final = on_notification
        self._splitter: Final = LineSplitter()
        self._grace_s: Final = grace_s
        self._is_input_over: Final = is_input_over
        self._waiting: Final[dict[Id, asyncio.Future[bytes]]] = {}
        self._running: Final[dict[Id, asyncio.Task[None]]] = {}
        self._last_id = 0
        self._is_closed_by_peer = False
        self._is_over = False

    async def run(self) -> None:
        """Read until the peer closes the connection; cancel the requests that outlive the grace period."""
        try:
            while data := await self._reader.read(CHUNK):
                self._take_lines(self._splitter.feed(data))
                # Other tasks run between two chunks, and a peer that does not read is slowed down.
                if not await self._drain():
                    break
            self._take_lines(self._splitter.close())
            self._fail_waiting()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._grace_s):
                    await self._sink.drain()
                    if self._running:
                        await asyncio.wait(list(self._running.values()))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._is_over = True
            self._fail_waiting()
            running = list(self._running.values())
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def call(self, method: str, params: Any = None, *, cancel_line: Callable[[Id], bytes] | None = None) -> Any:
        """Send a request and return its result as plain values; raise the peer's `RpcError`, or `PeerGoneError`.

        If the caller is cancelled, the line that `cancel_line` makes for the request's id is sent to the peer.
        """
        if self._is_closed_by_peer:
            raise PeerGoneError
        self._last_id += 1
        request_id, waiting = self._last_id, asyncio.get_running_loop().create_future()
        self._waiting[request_id] = waiting
        try:
            await self.send(request_line(request_id, method, params))
            return _read_result(await waiting)
        except asyncio.CancelledError:
            if cancel_line is not None and not self._is_closed_by_peer:
                self._sink.write(cancel_line(request_id))
            raise
        finally:
            self._waiting.pop(request_id, None)

    async def notify(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        await self.send(notification_line(method, params))

    async def send(self, *pieces: bytes) -> None:
        """Send one or more complete lines, which may be in pieces: joining them would copy a long one."""
        for piece in pieces:
            self._sink.write(piece)
        await self._sink.drain()

    def cancel_request(self, request_id: Id) -> bool:
        """Cancel a running request of the peer; False if there is none with this id."""
        task = self._running.get(request_id)
        return task.cancel() if task is not None else False

    async def _drain(self) -> bool:
        """Wait while the peer reads too slowly; False if it has closed the input and does not read at all."""
        while True:
            try:
                async with asyncio.timeout(STALL_S):
                    await self._sink.drain()
                    return True
            except TimeoutError:
                if self._is_input_over():
                    return False

    def _take_lines(self, lines: list[bytes | OversizedLine]) -> None:
        # Removed one by one: a long line is not needed any more once its message has been copied out of it.
        lines.reverse()
        while lines:
            self._take_line(lines.pop())

    def _take_line(self, line: bytes | OversizedLine) -> None:
        reply = self._sink.write
        if isinstance(line, OversizedLine):
            message = f"The line is longer than {line.max_bytes} bytes"
            reply(error_line(line.id, {"code": RpcCode.INVALID_REQUEST, "message": message}))
            return
        frames = read_frames(line, batches=self.batches)
        # An array that is itself malformed gets one reply, not a batch of one.
        is_malformed = len(frames) == 1 and isinstance(frames[0], MalformedMessage)
        if self.batches and line.lstrip()[:1] == b"[" and not is_malformed:
            reply = _BatchReply(sum(isinstance(frame, RpcRequest | MalformedMessage) for frame in frames), reply).reply
        for frame in frames:
            self._take(frame, reply)

    def _take(self, frame: RpcMessage, reply: Reply) -> None:
        match frame:
            case RpcRequest():
                self._running[frame.id] = task = asyncio.create_task(self._answer(frame, reply))
                # Not the frame: a long line would stay in memory for as long as its request runs.
                task.add_done_callback(partial(self._end_request, frame.id, reply))
            case RpcNotification():
                try:
                    self._on_notification(frame)
                except Exception:  # a notification has no reply, and the next line must still be handled
                    LOG.exception("Handling a notification failed")
            case RpcResult() | RpcFailure():
                waiting = self._waiting.get(frame.id)
                if waiting is None or waiting.done():  # a reply that is no longer waited for
                    return
                if isinstance(frame, RpcResult):
                    waiting.set_result(frame.raw)
                else:
                    waiting.set_exception(_to_rpc_error(frame.value()))
            case MalformedMessage():
                self._take_malformed(frame, reply)

    def _take_malformed(self, frame: MalformedMessage, reply: Reply) -> None:
        waiting = None if frame.response_id is None else self._waiting.get(frame.response_id)
        if waiting is None or waiting.done():
            reply(error_line(frame.id, {"code": frame.code, "message": frame.message}))
        else:  # JSON-RPC has no reply to a response
            waiting.set_exception(RpcError(frame.code, frame.message))

    def _end_request(self, request_id: Id, reply: Reply, done: "asyncio.Task[None]") -> None:
        if self._running.get(request_id) is done:
            del self._running[request_id]
        if done.cancelled() and not self._is_over:  # it was cancelled before it started, and could not reply
            reply(_cancelled_line(request_id))

    async def _answer(self, request: RpcRequest, reply: Reply) -> None:
        request_id = request.id
        try:
            handling = self._on_request(request)
            del request  # its parameters may have megabytes, which only the handler needs
            line = result_line(request_id, await handling)
        except RpcError as error:
            line = error_line(request_id, error.dump())
        except asyncio.CancelledError:
            if self._is_over:
                raise
            line = _cancelled_line(request_id)
        except Exception:
            LOG.exception("Handling a request failed")
            line = error_line(request_id, {"code": RpcCode.INTERNAL_ERROR, "message": "Internal error"})
        reply(line)
        with suppress(ConnectionError, asyncio.CancelledError):  # the peer is gone, or it cancels what has its reply
            await self._sink.drain()

    def _fail_waiting(self) -> None:
        """Fail every call that still waits for a result: none will arrive."""
        self._is_closed_by_peer = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(PeerGoneError())


def _read_result(raw: bytes) -> Any:
    try:
        return RpcResult(None, raw).value()
    except (ValueError, RecursionError):  # not UTF-8, say: only the envelope was parsed
        raise RpcError(RpcCode.PARSE_ERROR, "The peer's result cannot be read") from None


def _cancelled_line(request_id: Id) -> bytes:
    return error_line(request_id, {"code": RpcCode.CANCELLED, "message": "The request was cancelled"})


def _to_rpc_error(error: Any) -> RpcError:
    """The peer's error object as an exception, however malformed it is."""
    if not isinstance(error, Mapping):
        return RpcError(RpcCode.INTERNAL_ERROR, "The peer's error is not an object", error)
    members: Mapping[str, Any] = error  # pyright: ignore[reportUnknownVariableType]
    code, message = members.get("code"), members.get("message")
    return RpcError(
        code if isinstance(code, int) else RpcCode.INTERNAL_ERROR,
        message if isinstance(message, str) else "The peer's error has no message",
        members.get("data"),
    )
