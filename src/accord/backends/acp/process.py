"""One running ACP agent: its start and handshake, one session for each answer, and how it ended.

A task lives as long as the agent and ends the process whatever happens, so that an event loop that closes leaves no
process behind. Whether another agent is started is decided in `backend.py`.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from accord.acp.methods import Method
from accord.acp.schema_parts import ContentBlock
from accord.acp.schema_v1 import (
    AgentCapabilities,
    CancelNotification,
    CloseSessionRequest,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    NewSessionRequest,
    NewSessionResponse,
    PromptRequest,
    PromptResponse,
    SessionNotification,
    SessionUpdate,
    UsageUpdate,
)
from accord.backends.acp.answer import UpdateReader, agent_error, end_piece, exit_error, usage_counts
from accord.backends.acp.permissions import AgentPermissions
from accord.core.output.insertion import estimate_chars
from accord.core.rpc import RpcNotification
from accord.errors import BackendError
from accord.stdio import Peer, PeerGoneError, PeerStartError, RpcConnection, RpcError, start_peer
from accord.version import package_version
from accord.wire.work import AnyPiece, TextPiece, ThinkingPiece, WorkPiece

LOG: Final = logging.getLogger("accord.backends.acp")
PROTOCOL_VERSION: Final = 1
MAX_BUFFERED_CHARS: Final = 64 * 1024 * 1024
CLOSE_WAIT_S: Final = 0.5
"""How long closing an answer waits for the agent to end its turn."""


@dataclass(frozen=True, slots=True)
class AgentLaunch:
    """How an agent is started, and what it is allowed."""

    command: Sequence[str]
    cwd: str
    environ: Mapping[str, str] | None = None
    permissions: AgentPermissions = field(default_factory=AgentPermissions)


@dataclass(frozen=True, slots=True)
class AgentTiming:
    """How long an agent may take to start and to cancel a turn; the clock and the sleep to use."""

    start_s: float = 30.0
    cancel_s: float = 5.0
    wait: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic


class AgentProcess:
    """An agent that is starting, running or over. It belongs to the event loop that it was made in."""

    def __init__(self, name: str, launch: AgentLaunch, timing: AgentTiming, *, pause_s: float) -> None:
        self.loop: Final = asyncio.get_running_loop()
        self.is_over = False
        self.has_crashed = False
        self._is_ending = False
        self.ended_at = 0.0
        self.capabilities = AgentCapabilities()
        self._name: Final = name
        self._launch: Final = launch
        self._timing: Final = timing
        self._turns: Final[dict[str, AgentTurn]] = {}
        self._tasks: Final[set[asyncio.Task[Any]]] = set()
        self._connected: Final[asyncio.Future[RpcConnection]] = self.loop.create_future()
        self._status: Final[asyncio.Future[int | None]] = self.loop.create_future()
        self._life: Final = asyncio.create_task(self._live(pause_s))
        self._handshake: Final = self.spawn(self._initialize())

    async def ready(self) -> None:
        """Return once the handshake is done; raise `BackendError` if it fails."""
        # Several callers may wait for one handshake; one that is cancelled must not cancel it for the others.
        await asyncio.shield(self._handshake)

    async def begin(self, blocks: Sequence[ContentBlock]) -> "AgentTurn":
        """Open a session and send this prompt in it."""
        result = await self.call(Method.SESSION_NEW, NewSessionRequest(cwd=self._launch.cwd), self._timing.start_s)
        try:
            session_id = NewSessionResponse.model_validate(result).session_id
        except ValidationError as error:
            raise BackendError("The agent opened a session without an id", retryable=False) from error
        if session_id in self._turns:
            raise BackendError("The agent gave two sessions one id", retryable=False)
        self._turns[session_id] = turn = AgentTurn(self, session_id, blocks, cancel_s=self._timing.cancel_s)
        return turn

    async def call(self, method: str, params: Any, within_s: float | None = None) -> Any:
        """Return the agent's result; raise `BackendError` if it fails, ends, or takes too long."""
        try:
            connection = await asyncio.shield(self._connected)
            async with asyncio.timeout(within_s):
                return await connection.call(method, params)
        except TimeoutError as error:
            self.spawn(self.end())
            raise BackendError(f"The agent did not answer {method} within {within_s:g} s") from error
        except RpcError as error:
            LOG.warning("%s: %s failed with %s: %s", self._name, method, error.code, error.message)
            raise agent_error(error.code, error.data) from error
        except (PeerGoneError, ConnectionError) as error:
            raise exit_error(await asyncio.shield(self._status)) from error

    async def notify(self, method: str, params: Any) -> None:
        """Send a notification; an agent that is gone does not need it."""
        connection = await asyncio.shield(self._connected)
        with suppress(ConnectionError):
            await connection.notify(method, params)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a task in the background."""
        task = asyncio.create_task(work)
        self._tasks.add(task)

        def finished(task: asyncio.Task[Any]) -> None:
            self._tasks.discard(task)
            if not task.cancelled():
                task.exception()  # retrieved, so that asyncio does not log it; callers that await the task get it

        task.add_done_callback(finished)
        return task

    def forget(self, session_id: str) -> None:
        """Ignore further updates of a session, and close it at the agent if it can."""
        if self._turns.pop(session_id, None) is None or self.is_over:
            return
        if self.capabilities.session_capabilities.close is not None:
            self.spawn(self.call(Method.SESSION_CLOSE, CloseSessionRequest(session_id=session_id)))

    async def end(self) -> None:
        """End the agent, and return when it is gone."""
        self.is_over = True
        if not self._is_ending:  # a second cancellation would interrupt the ending
            self._is_ending = True
            self._life.cancel()
        await asyncio.wait({self._life})

    async def _live(self, pause_s: float) -> None:
        try:
            if pause_s > 0:
                await self._timing.wait(pause_s)
            await self._run()
        except PeerStartError as error:
            LOG.warning("%s: %s", self._name, error)
            self._fail(BackendError("The agent cannot be started", retryable=False))
        finally:
            self.has_crashed = not self.is_over
            self.is_over = True
            self.ended_at = self._timing.clock()
            self._fail(exit_error(None))

    async def _run(self) -> None:
        launch = self._launch
        peer = await start_peer(launch.command, environ=launch.environ, cwd=launch.cwd)
        try:
            connection = RpcConnection(
                peer.stdout, peer.stdin, on_request=launch.permissions.answer, on_notification=self._read_notification
            )
            self._connected.set_result(connection)
            await connection.run()
        finally:
            self._is_ending = True
            status = await _end_process(peer)
            self._status.set_result(status)
            if not self.is_over:
                LOG.warning("%s: the agent ended with status %s; its stderr:\n%s", self._name, status, peer.stderr)

    def _fail(self, error: BackendError) -> None:
        if not self._connected.done():
            self._connected.set_exception(error)
            self._connected.exception()  # retrieved: it is no error that nothing waits for the connection
        if not self._status.done():
            self._status.set_result(None)

    async def _initialize(self) -> None:
        request = InitializeRequest(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=self._launch.permissions.client_capabilities(),
            client_info=Implementation(name="accord", version=package_version()),
        )
        result = await self.call(Method.INITIALIZE, request, self._timing.start_s)
        try:
            response = InitializeResponse.model_validate(result)
        except ValidationError as error:
            self.spawn(self.end())
            raise BackendError("The agent's answer to initialize is malformed", retryable=False) from error
        if (spoken := response.protocol_version) != PROTOCOL_VERSION:
            self.spawn(self.end())
            raise BackendError(f"The agent speaks protocol version {spoken}, not {PROTOCOL_VERSION}", retryable=False)
        self.capabilities = response.agent_capabilities

    def _read_notification(self, notice: RpcNotification) -> None:
        if notice.method != Method.SESSION_UPDATE:
            return
        try:
            notification = SessionNotification.model_validate_json(notice.raw or b"{}")
        except ValidationError:
            LOG.warning("%s: a malformed session update was ignored", self._name)
            return
        turn = self._turns.get(notification.session_id)
        if turn is not None:
            turn.add(notification.update)


async def _end_process(peer: Peer) -> int:
    """End the process and return its exit status, even if the task is cancelled meanwhile by a closing event loop."""
    while True:
        try:
            return await peer.end()
        except asyncio.CancelledError:
            continue  # ending takes a few seconds at most, and continues where it was


class AgentTurn:
    """One prompt and its answer, in a session of its own."""

    def __init__(
        self, process: AgentProcess, session_id: str, blocks: Sequence[ContentBlock], *, cancel_s: float
    ) -> None:
        self.session_id: Final = session_id
        self._process: Final = process
        self._cancel_s: Final = cancel_s
        self._pieces: Final[asyncio.Queue[AnyPiece | BackendError]] = asyncio.Queue()
        self._buffered_chars = 0
        self._reader: Final = UpdateReader()
        self._usage: dict[str, Any] = {}
        self._prompt: Final = process.spawn(self._send_prompt(blocks))

    def add(self, update: SessionUpdate) -> None:
        """Buffer an update of the agent until it is read."""
        if isinstance(update, UsageUpdate):
            self._usage = usage_counts(update)
        piece = self._reader.read(update)
        if piece is None or self._buffered_chars > MAX_BUFFERED_CHARS:
            return
        self._buffered_chars += _char_count(piece)
        if self._buffered_chars > MAX_BUFFERED_CHARS:
            self._pieces.put_nowait(BackendError("The agent answers faster than the answer is read"))
            return
        self._pieces.put_nowait(piece)

    async def next(self) -> AnyPiece:
        """Return the next piece, an `EndPiece` last; raise `BackendError` if the agent fails."""
        piece = await self._pieces.get()
        if isinstance(piece, BackendError):
            raise piece
        self._buffered_chars -= _char_count(piece)
        return piece

    async def close(self) -> None:
        """Cancel the turn if it is not over, and wait for that for `CLOSE_WAIT_S` at most.

        In the background the agent has `cancel_s` to end its turn; an agent that does not is ended.
        """
        if self._prompt.done():
            self._process.forget(self.session_id)
            return
        await asyncio.wait({self._process.spawn(self._cancel())}, timeout=CLOSE_WAIT_S)

    async def _send_prompt(self, blocks: Sequence[ContentBlock]) -> None:
        prompt = PromptRequest(session_id=self.session_id, prompt=list(blocks))
        try:
            result = await self._process.call(Method.SESSION_PROMPT, prompt)
            last = end_piece(PromptResponse.model_validate(result), self._usage)
        except BackendError as error:
            last = error
        except ValidationError:
            last = BackendError("The agent ended its turn without a stop reason of the protocol", retryable=False)
        self._pieces.put_nowait(last)

    async def _cancel(self) -> None:
        process, session_id = self._process, self.session_id
        # In a task of its own: an agent that does not read blocks the notification, which must not delay the deadline.
        process.spawn(process.notify(Method.SESSION_CANCEL, CancelNotification(session_id=session_id)))
        await asyncio.wait({self._prompt}, timeout=self._cancel_s)
        if not self._prompt.done():
            await process.end()
        process.forget(session_id)


def _char_count(piece: AnyPiece) -> int:
    if isinstance(piece, WorkPiece):
        return estimate_chars(piece.event, MAX_BUFFERED_CHARS)
    return len(piece.text) if isinstance(piece, TextPiece | ThinkingPiece) else 0
