"""A conversation with a started agent in which anything may be said and everything that comes back is noted.

Unlike `stdio.Connection` it answers no broken line and drops none: noise, replies that nobody waits for and updates are
kept for the checks. Every wait is bounded. What is good or bad is not known here.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from accord.acp_tools.inspect.replies import ECHOES, Answered, Gone, Refused, Reply, Silent, shorten
from accord.core.rpc import (
    Id,
    LineSplitter,
    MalformedMessage,
    OversizedLine,
    RpcFailure,
    RpcNotification,
    RpcRequest,
    RpcResult,
    error_line,
    notification_line,
    read_frames,
    request_line,
    result_line,
)
from accord.stdio import Peer

CHUNK: Final = 256 * 1024
KEPT: Final = 1_000
METHOD_NOT_FOUND: Final = -32601
AGENTS_OWN: Final = frozenset({"initialize", "session/new", "session/prompt"})
"""What only agents are asked: a program that asks for it sends back what it was sent."""


class Talk:
    """One running agent and what it said so far."""

    def __init__(self, peer: Peer, timeout_s: float) -> None:
        self.peer: Final = peer
        self.timeout_s: Final = timeout_s
        self.noise: Final[list[str]] = []
        self.states: Final[list[Mapping[str, Any]]] = []
        """The updates that tell whether a turn still runs, which only the draft has."""
        self.strays: Final[list[RpcResult | RpcFailure]] = []
        """Replies to nothing that was asked: those to broken lines, or with an id that is not ours."""
        self.nameless: Final[list[RpcFailure]] = []
        """Those of them that have no id, not even null: only after a broken line is it known what they answer."""
        self.was_misled = False
        """It was sent a broken line."""
        self.session: str | None = None
        self.is_tired = False
        """A call is still unanswered: whoever needs a rested agent should start another."""
        self.was_dismissed = False
        """Its input was closed on purpose, so that it may well have ended."""
        self._waiting: Final[dict[Id, asyncio.Future[Reply]]] = {}
        self._moved: Final = asyncio.Event()
        self._last_id = 100
        self._is_over = False
        self.reading: Final = asyncio.create_task(self._read())

    @property
    def is_alive(self) -> bool:
        """Whether the agent still runs and listens."""
        return not self._is_over and self.peer.process.returncode is None

    async def call(self, method: str, params: Any = None, *, wait_s: float | None = None) -> Reply:
        """What becomes of a call."""
        own = self.next_id()
        return await self.exchange(request_line(own, method, params), own, wait_s=wait_s)

    async def exchange(self, line: bytes, own: Id, *, wait_s: float | None = None) -> Reply:
        """What becomes of this line, which is a call of this id."""
        waiting = self.expect(own)
        await self.send(line)
        return await self.reply(waiting, own, wait_s=wait_s)

    def next_id(self) -> int:
        """An id that was not used yet."""
        self._last_id += 1
        return self._last_id

    def expect(self, own: Id) -> "asyncio.Future[Reply]":
        """Listen for the reply to this id from now on."""
        self._waiting[own] = asyncio.get_running_loop().create_future()
        return self._waiting[own]

    async def reply(self, waiting: "asyncio.Future[Reply]", own: Id, *, wait_s: float | None = None) -> Reply:
        """The reply that is waited for, or that none came."""
        seconds = self.timeout_s if wait_s is None else wait_s
        if self._is_over and not waiting.done():
            return await self._gone()
        try:
            return await asyncio.wait_for(asyncio.shield(waiting), seconds)
        except TimeoutError:
            self.is_tired = True
            return Silent(seconds)
        finally:
            self._waiting.pop(own, None)

    async def send(self, data: bytes) -> None:
        """Send bytes as they are; an agent that is gone or does not read is noticed by who waits for its reply."""
        with suppress(ConnectionError, TimeoutError, RuntimeError):
            self.peer.stdin.write(data)
            await asyncio.wait_for(self.peer.stdin.drain(), self.timeout_s)

    async def notify(self, method: str, params: Any = None) -> None:
        """Tell the agent something."""
        await self.send(notification_line(method, params))

    async def moved_within(self, seconds: float) -> bool:
        """Whether the agent says anything within this time."""
        self._moved.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._moved.wait(), seconds)
        return self._moved.is_set()

    async def state_within(self, since: int, seconds: float) -> Reply:
        """How the turn ended (the draft says so in an update), looking at the states from the given one on."""
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            if ended := _turn_end(self.states[since:]):
                return ended
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0 or self._is_over:
                return await self._gone() if self._is_over else Silent(seconds)
            await self.moved_within(left)

    async def ended_within(self, seconds: float) -> bool:
        """Whether the agent ends by itself once its input is closed."""
        self.was_dismissed = True
        self.peer.stdin.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(self.peer.process.wait(), seconds)
        return self.peer.process.returncode is not None

    async def end(self) -> None:
        """End the agent and everything that it started."""
        try:
            await self.peer.end()
        finally:
            self.reading.cancel()
            await asyncio.gather(self.reading, return_exceptions=True)

    async def _read(self) -> None:
        splitter = LineSplitter()
        with suppress(ConnectionError):
            while data := await self.peer.stdout.read(CHUNK):
                for line in splitter.feed(data):
                    await self._take(line)
                self._moved.set()
            for line in splitter.close():
                await self._take(line)
        gone = await self._gone()
        self._is_over = True
        self._moved.set()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_result(gone)

    async def _gone(self) -> Gone:
        """It closed its output; a moment later its exit status is known, if it ended."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.peer.process.wait(), 1.0)
        return Gone(self.peer.process.returncode)

    async def _take(self, line: bytes | OversizedLine) -> None:
        if isinstance(line, OversizedLine):
            self._note(f"a line longer than {line.max_bytes} bytes")
            return
        for frame in read_frames(line):
            match frame:
                case RpcResult() | RpcFailure():
                    self._settle(frame)
                case RpcNotification():
                    self._update(frame)
                case RpcRequest():
                    await self._serve(frame)
                case MalformedMessage():
                    self._take_broken(line)

    def _take_broken(self, line: bytes) -> None:
        failure = _nameless_failure(line) if self.was_misled else None
        if failure is None:
            self._note(line.decode(errors="replace"))
        else:
            self.strays.append(failure)
            self.nameless.append(failure)

    def _note(self, text: str) -> None:
        if len(self.noise) < KEPT:
            self.noise.append(shorten(text))

    def _settle(self, frame: RpcResult | RpcFailure) -> None:
        waiting = self._waiting.get(frame.id)
        if waiting is None or waiting.done():
            self.strays.append(frame)
        else:
            waiting.set_result(as_reply(frame))

    def _update(self, notice: RpcNotification) -> None:
        params = notice.value()
        if notice.method != "session/update" or not isinstance(params, Mapping):
            return
        update: Any = params.get("update")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if isinstance(update, Mapping) and update.get("sessionUpdate") == "state_update":  # pyright: ignore[reportUnknownMemberType]
            self.states.append(update)  # pyright: ignore[reportUnknownArgumentType]

    async def _serve(self, call: RpcRequest) -> None:
        """An inspector allows nothing and has nothing to offer."""
        waiting = self._waiting.get(call.id)
        if call.method in AGENTS_OWN and waiting is not None and not waiting.done():
            waiting.set_result(Refused(None, ECHOES))
        elif call.method == "session/request_permission":
            await self.send(result_line(call.id, {"outcome": {"outcome": "cancelled"}}))
        else:
            await self.send(error_line(call.id, {"code": METHOD_NOT_FOUND, "message": "Not offered by the inspector"}))


def _turn_end(states: Sequence[Mapping[str, Any]]) -> Answered | None:
    """The idle state that ends a turn; one that follows no work and gives no reason is only a snapshot."""
    has_run = False
    for state in states:
        if state.get("state") != "idle":
            has_run = True
        elif has_run or state.get("stopReason") is not None:
            return Answered({"stopReason": state.get("stopReason")})
    return None


def _nameless_failure(line: bytes) -> RpcFailure | None:
    """The error that this line tells without saying whom: JSON-RPC wants an id, null if it cannot be known."""
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict) or "id" in told or "method" in told or not isinstance(told.get("error"), dict):  # pyright: ignore[reportUnknownMemberType]
        return None
    return RpcFailure(None, json.dumps(told["error"]).encode())


def as_reply(frame: RpcResult | RpcFailure) -> Answered | Refused:
    """The reply that this frame is, whatever its error looks like."""
    if isinstance(frame, RpcResult):
        return Answered(frame.value())
    error = frame.value()
    if not isinstance(error, Mapping):
        return Refused(None, "the error is no object")
    code: Any = error.get("code")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    message: Any = error.get("message")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    said = message if isinstance(message, str) else ""
    # "Internal error" alone helps nobody; many agents put the reason into the data.
    details = _details(error.get("data"))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    return Refused(code if isinstance(code, int) else None, f"{said} ({details})" if details else said)


def _details(data: Any) -> str | None:
    if isinstance(data, Mapping):
        data = data.get("details")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return shorten(data) if isinstance(data, str) else None
