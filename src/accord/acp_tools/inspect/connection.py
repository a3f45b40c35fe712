"""A connection to one running agent, for sending anything and recording everything that comes back.

Unlike `stdio.RpcConnection` it answers no broken line and drops nothing: every line, noise, unsolicited replies and
updates are kept for the checks. Every wait has a time limit. What is right or wrong is decided in `replies`, and for
every single message in `conduct`.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, cast

from accord.acp_tools.inspect.client import InspectorClient, RefusedRequest
from accord.acp_tools.inspect.conduct import Conduct
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
from accord.wire.inspection import LineSender

CHUNK: Final = 256 * 1024
GRACE_S: Final = 0.5
"""How long an agent may take to exit once it is not needed any more; whether it exits at all is a check of its own."""
MAX_NOISE_LINES: Final = 1_000
MAX_LOGGED_LINES: Final = 10_000
MAX_LOGGED_BYTES: Final = 4_000
"""How much of a line the log keeps."""
AGENT_METHODS: Final = frozenset({"initialize", "session/new", "session/prompt"})
"""Methods that only clients call: a program that calls them echoes its input."""


Update = Mapping[str, Any]


class AgentConnection:
    """One running agent and what it has sent so far."""

    def __init__(self, peer: Peer, timeout_s: float, client: InspectorClient | None = None) -> None:
        self.peer: Final = peer
        self.timeout_s: Final = timeout_s
        self.client: Final = client or InspectorClient()
        self.conduct: Final = Conduct(self.client.capabilities)
        self.log: Final[list[tuple[LineSender, bytes]]] = []
        """The lines of both sides, in the order in which they were sent or received."""
        self.noise: Final[list[str]] = []
        """Lines on stdout that are not messages."""
        self.updates: Final[list[tuple[str, Update]]] = []
        """The updates received, each with its session."""
        self.updates_before: Final[dict[Id, int]] = {}
        """How many updates had been received when each call was answered."""
        self.unsolicited: Final[list[RpcResult | RpcFailure]] = []
        """Replies that match no pending call: those to broken lines, or with an id that was never sent."""
        self.errors_without_id: Final[list[RpcFailure]] = []
        """The unsolicited errors that have no id, not even null; recorded only after a broken line was sent."""
        self.got_broken_line = False
        self.is_busy = False
        """A call is still unanswered, so a check that needs an idle agent should start another one."""
        self.is_input_closed = False
        """The input was closed on purpose, so the agent may have exited."""
        self._pending: Final[dict[Id, asyncio.Future[Reply]]] = {}
        self._answering: Final[set[asyncio.Task[None]]] = set()
        self._received: Final = asyncio.Event()
        self._last_id = 100
        self._is_over = False
        self.reading: Final = asyncio.create_task(self._read())

    @property
    def is_alive(self) -> bool:
        """Whether the agent still runs and has not closed its output."""
        return not self._is_over and self.peer.process.returncode is None

    async def call(self, method: str, params: Any = None, *, wait_s: float | None = None) -> Reply:
        """Call a method and return the reply."""
        call_id = self.next_id()
        return await self.exchange(request_line(call_id, method, params), call_id, wait_s=wait_s)

    async def exchange(self, line: bytes, call_id: Id, *, wait_s: float | None = None) -> Reply:
        """Send this line, which is a call with this id, and return the reply."""
        pending = self.expect(call_id)
        await self.send(line)
        return await self.reply(pending, call_id, wait_s=wait_s)

    def next_id(self) -> int:
        """An id that was not used yet."""
        self._last_id += 1
        return self._last_id

    def expect(self, call_id: Id) -> "asyncio.Future[Reply]":
        """Register a call id; the future receives the reply."""
        self._pending[call_id] = asyncio.get_running_loop().create_future()
        return self._pending[call_id]

    async def reply(self, pending: "asyncio.Future[Reply]", call_id: Id, *, wait_s: float | None = None) -> Reply:
        """Wait for an expected reply; `Silent` or `Gone` if none comes."""
        seconds = self.timeout_s if wait_s is None else wait_s
        if self._is_over and not pending.done():
            return await self._gone()
        try:
            return await asyncio.wait_for(asyncio.shield(pending), seconds)
        except TimeoutError:
            self.is_busy = True
            return Silent(seconds)
        finally:
            self._pending.pop(call_id, None)

    async def send(self, data: bytes, *, piece_of: bytes | None = None) -> None:
        """Send bytes as they are; that an agent is gone or does not read shows in the missing reply.

        The first piece of a line is sent with the whole line as `piece_of`, and the others with nothing as that.
        """
        self._record_sent(data if piece_of is None else piece_of)
        with suppress(ConnectionError, TimeoutError, RuntimeError):
            self.peer.stdin.write(data)
            await asyncio.wait_for(self.peer.stdin.drain(), self.timeout_s)

    async def notify(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        await self.send(notification_line(method, params))

    async def turn_end_within(self, session: str, since: int, seconds: float) -> Reply:
        """How the turn of a session ended (the draft reports it in an update), looking at updates from `since` on."""
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            updates = [update for updated, update in self.updates[since:] if updated == session]
            if ended := find_turn_end([update for update in updates if update.get("sessionUpdate") == "state_update"]):
                return ended
            left = deadline - asyncio.get_running_loop().time()
            if self._is_over:
                return await self._gone()
            if left <= 0:
                return Silent(seconds)
            await self.received_within(left)

    async def exits_within(self, seconds: float) -> bool:
        """Close the input; whether the agent exits by itself within this time."""
        self.is_input_closed = True
        self.peer.stdin.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(self.peer.process.wait(), seconds)
        return self.peer.process.returncode is not None

    async def end(self) -> None:
        """End the agent and every process that it started."""
        try:
            await self.peer.end(GRACE_S)
        finally:
            self.reading.cancel()
            await self.client.close()  # before the wait: an answer may wait for a command in a terminal
            await asyncio.gather(self.reading, *self._answering, return_exceptions=True)
            self.conduct.close()

    async def received_within(self, seconds: float) -> None:
        """Wait until the agent has sent something more, or has ended."""
        self._received.clear()
        if not self._is_over:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._received.wait(), seconds)

    async def _read(self) -> None:
        splitter = LineSplitter()
        with suppress(ConnectionError):
            while data := await self.peer.stdout.read(CHUNK):
                for line in splitter.feed(data):
                    self._handle_line(line)
                self._received.set()
            for line in splitter.close():
                self._handle_line(line)
        gone = await self._gone()
        self._is_over = True
        self._received.set()
        for pending in self._pending.values():
            if not pending.done():
                pending.set_result(gone)

    async def _gone(self) -> Gone:
        """The agent closed its output; its exit status is known a moment later, if it exited."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.peer.process.wait(), 1.0)
        return Gone(self.peer.process.returncode)

    def _handle_line(self, line: bytes | OversizedLine) -> None:
        if isinstance(line, OversizedLine):
            self._add_noise(f"a line longer than {line.max_bytes} bytes")
            return
        number = self._log(LineSender.AGENT, line)
        for frame in read_frames(line, batches=self.conduct.version >= 2):
            if isinstance(frame, MalformedMessage):
                self._record_broken(line)
                continue
            if isinstance(frame, RpcRequest) and self._is_echo(frame):
                continue
            self.conduct.received(frame, number)
            self._handle_frame(frame)

    def _handle_frame(self, frame: RpcRequest | RpcNotification | RpcResult | RpcFailure) -> None:
        match frame:
            case RpcResult() | RpcFailure():
                pending = self._pending.get(frame.id)
                if pending is None or pending.done():
                    self.unsolicited.append(frame)
                else:
                    self.updates_before[frame.id] = len(self.updates)
                    pending.set_result(to_reply(frame))
            case RpcNotification():
                self._record_update(frame)
            case RpcRequest():
                # Not awaited: a terminal may take long, and the agent goes on sending meanwhile.
                task = asyncio.create_task(self._answer(frame))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)

    def _log(self, sender: LineSender, line: bytes) -> int:
        """Add a line to the log and return its number."""
        if len(self.log) < MAX_LOGGED_LINES:
            self.log.append((sender, line[:MAX_LOGGED_BYTES]))
        return len(self.log) - 1

    def _record_sent(self, data: bytes) -> None:
        for line in data.splitlines():
            if not line.strip():
                continue
            number = self._log(LineSender.CLIENT, line)
            for frame in read_frames(line):
                if isinstance(frame, RpcRequest | RpcNotification):
                    self.conduct.sent(frame, number)

    def _record_broken(self, line: bytes) -> None:
        failure = _error_without_id(line) if self.got_broken_line else None
        if failure is None:
            self._add_noise(line.decode(errors="replace"))
        else:
            self.unsolicited.append(failure)
            self.errors_without_id.append(failure)

    def _add_noise(self, text: str) -> None:
        if len(self.noise) < MAX_NOISE_LINES:
            self.noise.append(shorten(text))

    def _record_update(self, notice: RpcNotification) -> None:
        try:
            params = notice.value()
        except (ValueError, RecursionError):
            return
        if notice.method != "session/update" or not isinstance(params, Mapping):
            return
        members = cast("Mapping[str, Any]", params)
        session, update = members.get("sessionId"), members.get("update")
        if isinstance(session, str) and isinstance(update, Mapping):
            self.updates.append((session, cast("Update", update)))

    def _is_echo(self, call: RpcRequest) -> bool:
        """Whether the agent sent a request of the inspector back, which then counts as its reply."""
        pending = self._pending.get(call.id)
        if call.method not in AGENT_METHODS or pending is None or pending.done():
            return False
        pending.set_result(Refused(None, ECHOES))
        return True

    async def _answer(self, call: RpcRequest) -> None:
        answer = await self.client.answer(call)
        if isinstance(answer, RefusedRequest):
            await self.send(error_line(call.id, {"code": answer.code, "message": answer.message}))
        else:
            await self.send(result_line(call.id, answer))


def find_turn_end(states: Sequence[Mapping[str, Any]]) -> Answered | None:
    """The idle state that ends a turn; an idle state without a reason, before any other state, is only a snapshot."""
    has_run = False
    for state in states:
        if state.get("state") != "idle":
            has_run = True
        elif has_run or state.get("stopReason") is not None:
            return Answered({"stopReason": state.get("stopReason")})
    return None


def _error_without_id(line: bytes) -> RpcFailure | None:
    """The error in this line if it has no id at all: JSON-RPC requires one, null if it cannot be known."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or "id" in message or "method" in message:
        return None
    error: Any = message.get("error")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return RpcFailure(None, json.dumps(error).encode()) if isinstance(error, dict) else None


def to_reply(frame: RpcResult | RpcFailure) -> Answered | Refused:
    """The reply in this frame; an error may have any shape."""
    if isinstance(frame, RpcResult):
        return Answered(frame.value())
    error = frame.value()
    if not isinstance(error, Mapping):
        return Refused(None, "the error is not an object")
    members: Mapping[str, Any] = error  # pyright: ignore[reportUnknownVariableType]
    code, message, details = members.get("code"), members.get("message"), members.get("data")
    text = message if isinstance(message, str) else ""
    # Many agents send only "Internal error" as the message and put the reason into the data.
    if isinstance(details, Mapping):
        details = details.get("details")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if isinstance(details, str) and (reason := shorten(details)):
        text = f"{text} ({reason})"
    return Refused(code if isinstance(code, int) else None, text)
