"""A JSON-RPC connection over any pair of byte streams: correlates calls and answers, and runs calls side by side.

Notices are handled in the order in which they come, and at once; a call runs in a task of its own, so that a slow one
holds up nobody. A broken line costs one reply, a batch one line of them. What methods mean is the handlers' business.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
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
INTERNAL_ERROR: Final = -32603
LOG: Final = logging.getLogger("accord.stdio")


class RpcError(Exception):
    """An error that a peer is told, or that a peer told us."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code: Final = code
        self.message: Final = message
        self.data: Final = data

    def dump(self) -> dict[str, Any]:
        """The error object."""
        told: dict[str, Any] = {"code": self.code, "message": self.message}
        return told if self.data is None else {**told, "data": self.data}


class PeerGoneError(Exception):
    """The peer ended the connection before it answered."""


class Sink(Protocol):
    """Where bytes go: asyncio's `StreamWriter`, or something like it."""

    def write(self, data: bytes, /) -> None:
        """Take these bytes."""
        ...

    async def drain(self) -> None:
        """Wait until more can be taken."""
        ...


OnCall = Callable[[RpcRequest], Awaitable[Any]]
OnNotice = Callable[[RpcNotification], None]
Reply = Callable[[bytes], None]


async def _refuse(call: RpcRequest) -> Any:
    raise RpcError(
        -32601, f"There is no method {call.method}" if len(call.method) <= 100 else "There is no such method"
    )


class _Batch:
    """The replies to one batch, which go out together when the last of them is there."""

    def __init__(self, count: int, write: Reply) -> None:
        self._missing = count
        self._write: Final = write
        self._lines: Final[list[bytes]] = []

    def reply(self, line: bytes) -> None:
        """Take one of them."""
        self._lines.append(line.rstrip(b"\n"))
        if len(self._lines) == self._missing:
            self._write(b"[" + b",".join(self._lines) + b"]\n")


class RpcConnection:
    """One peer. `on_call` gives the result of a call or raises `RpcError`; `on_notice` must not wait.

    When the peer ends the connection, calls that still run have `grace_s` to be answered.
    """

    def __init__(  # noqa: PLR0913 - both ends, and what is done with what comes
        self,
        reader: asyncio.StreamReader,
        sink: Sink,
        *,
        on_call: OnCall = _refuse,
        on_notice: OnNotice = lambda _: None,
        splitter: LineSplitter | None = None,
        grace_s: float = 0.0,
    ) -> None:
        self.batches = False
        self._reader: Final = reader
        self._sink: Final = sink
        self._on_call: Final = on_call
        self._on_notice: Final = on_notice
        self._splitter: Final = splitter or LineSplitter()
        self._grace_s: Final = grace_s
        self._waiting: Final[dict[Id, asyncio.Future[bytes]]] = {}
        self._running: Final[dict[Id, asyncio.Task[None]]] = {}
        self._last_id = 0
        self._is_deaf = False
        self._is_over = False

    async def run(self) -> None:
        """Take what comes until the peer ends the connection; calls that outlive the grace are then cancelled."""
        try:
            while data := await self._reader.read(CHUNK):
                for line in self._splitter.feed(data):
                    self._take_line(line)
                # Others run between two chunks, and a peer that does not read slows down what it sends.
                await self._sink.drain()
            for line in self._splitter.close():
                self._take_line(line)
            self._hear_no_more()
            await self._sink.drain()
            if self._grace_s and self._running:
                await asyncio.wait(list(self._running.values()), timeout=self._grace_s)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            await self._end()

    async def call(self, method: str, params: Any = None, *, given_up: Callable[[Id], bytes] | None = None) -> Any:
        """The peer's answer to this call, as plain values; raises what it tells, or `PeerGoneError`.

        If whoever waits for it is cancelled, the peer is told so with the line that `given_up` makes for the call's id.
        """
        if self._is_deaf:
            raise PeerGoneError
        self._last_id += 1
        own, waiting = self._last_id, asyncio.get_running_loop().create_future()
        self._waiting[own] = waiting
        try:
            await self.send(request_line(own, method, params))
            return RpcResult(own, await waiting).value()
        except asyncio.CancelledError:
            if given_up is not None and not self._is_deaf:
                self._sink.write(given_up(own))
            raise
        finally:
            self._waiting.pop(own, None)

    async def notify(self, method: str, params: Any = None) -> None:
        """Tell the peer something."""
        await self.send(notification_line(method, params))

    async def send(self, line: bytes) -> None:
        """Send one line that is made already."""
        self._sink.write(line)
        await self._sink.drain()

    def cancel_call(self, own: Id) -> bool:
        """Stop answering a call of the peer's; False if there is none of that id."""
        task = self._running.get(own)
        return task.cancel() if task is not None else False

    def _take_line(self, line: bytes | OversizedLine) -> None:
        if isinstance(line, OversizedLine):
            told = MalformedMessage(None, RpcCode.INVALID_REQUEST, f"The line is longer than {line.max_bytes} bytes")
            self._take(told, self._sink.write)
            return
        frames = read_frames(line, batches=self.batches)
        reply = self._sink.write
        if self.batches and line.lstrip()[:1] == b"[" and not _is_no_batch(frames):
            reply = _Batch(sum(isinstance(frame, RpcRequest | MalformedMessage) for frame in frames), reply).reply
        for frame in frames:
            self._take(frame, reply)

    def _take(self, frame: RpcMessage, reply: Reply) -> None:
        match frame:
            case RpcRequest():
                self._running[frame.id] = task = asyncio.create_task(self._answer(frame, reply))
                task.add_done_callback(lambda done: self._forget(frame.id, done))
            case RpcNotification():
                self._hear(frame)
            case RpcResult():
                if (waiting := self._waiting.get(frame.id)) is not None and not waiting.done():
                    waiting.set_result(frame.raw)
            case RpcFailure():
                if (waiting := self._waiting.get(frame.id)) is not None and not waiting.done():
                    waiting.set_exception(_told(frame.value()))
            case MalformedMessage():
                reply(error_line(frame.id, {"code": frame.code, "message": frame.message}))

    def _hear(self, notice: RpcNotification) -> None:
        try:
            self._on_notice(notice)
        except Exception:
            # Nobody waits for an answer, and the next line is not to blame.
            LOG.exception("A notice could not be handled")

    def _forget(self, own: Id, done: "asyncio.Task[None]") -> None:
        if self._running.get(own) is done:
            del self._running[own]

    async def _answer(self, call: RpcRequest, reply: Reply) -> None:
        try:
            line = result_line(call.id, await self._on_call(call))
        except RpcError as error:
            line = error_line(call.id, error.dump())
        except asyncio.CancelledError:
            if self._is_over:
                raise
            line = error_line(call.id, {"code": -32800, "message": "The request was cancelled"})
        except Exception:
            LOG.exception("A call could not be answered")
            line = error_line(call.id, {"code": INTERNAL_ERROR, "message": "Something failed inside"})
        reply(line)
        with suppress(ConnectionError):  # whoever asked is gone
            await self._sink.drain()

    def _hear_no_more(self) -> None:
        """Nothing will be answered any more, and nobody should wait for it."""
        self._is_deaf = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(PeerGoneError())

    async def _end(self) -> None:
        self._is_over = True
        self._hear_no_more()
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _is_no_batch(frames: list[RpcMessage]) -> bool:
    """Whether the array itself was broken: that is one reply, not a batch of one."""
    return len(frames) == 1 and isinstance(frames[0], MalformedMessage)


def _told(error: Any) -> RpcError:
    """The peer's error, whatever it looks like."""
    if not isinstance(error, Mapping):
        return RpcError(INTERNAL_ERROR, "The peer's error is no object", error)
    members: Mapping[str, Any] = error  # pyright: ignore[reportUnknownVariableType]
    code, message = members.get("code"), members.get("message")
    return RpcError(
        code if isinstance(code, int) else INTERNAL_ERROR,
        message if isinstance(message, str) else "The peer's error says nothing",
        members.get("data"),
    )
