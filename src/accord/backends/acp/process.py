"""One running ACP agent: its handshake, its sessions and answers, and how it ended."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from pydantic import ValidationError

from accord.backends.acp.answer import Listening, end_of, exit_failure, failure_of, usage_of
from accord.backends.acp.permissions import AgentPermissions
from accord.core.output.insertion import estimate_chars
from accord.core.rpc import RpcNotification
from accord.errors import BackendError
from accord.stdio import Peer, PeerGoneError, PeerStartError, RpcConnection, RpcError, start_peer
from accord.version import package_version
from accord.wire.acp.content import ContentBlock
from accord.wire.acp.initialize import AgentCapabilities, Implementation, InitializeRequest, InitializeResponse
from accord.wire.acp.rpc import Method
from accord.wire.acp.session import (
    CancelNotification,
    CloseSessionRequest,
    NewSessionRequest,
    NewSessionResponse,
    PromptRequest,
    PromptResponse,
)
from accord.wire.acp.update import SessionNotification, SessionUpdate, UsageUpdate
from accord.wire.work import AnyPiece, EndPiece, TextPiece, ThinkingPiece, WorkPiece

# One answer of an agent: a session of its own, its prompt, and what is heard of it until it ends or is given up.
#
# Knows sessions, not processes: whoever runs the agent sends for it and ends the agent if a turn cannot be ended.

MAX_HELD_CHARS: Final = 64 * 1024 * 1024
BRIEF_S: Final = 0.5


class Line(Protocol):
    """What a turn needs of the agent that it runs on."""

    async def call(self, method: str, params: Any) -> Any:
        """The agent's answer, or `BackendError`."""
        ...

    async def notify(self, method: str, params: Any) -> None:
        """Tell the agent something."""
        ...

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run something on the side."""
        ...

    def forget(self, session_id: str) -> None:
        """Hear no more of a session."""
        ...

    async def end(self) -> None:
        """End the agent."""
        ...


class Turn:
    """A prompt that is being answered."""

    def __init__(self, line: Line, session_id: str, blocks: Sequence[ContentBlock], *, cancel_s: float) -> None:
        self.session_id: Final = session_id
        self._line: Final = line
        self._cancel_s: Final = cancel_s
        self._heard: Final[asyncio.Queue[AnyPiece | BackendError]] = asyncio.Queue()
        self._held = 0
        self._listening: Final = Listening()
        self._usage: dict[str, Any] = {}
        self._prompt: Final = line.spawn(self._ask(blocks))

    def hear(self, update: SessionUpdate) -> None:
        """Take what the agent tells; it waits here until it is read."""
        if isinstance(update, UsageUpdate):
            self._usage = usage_of(update)
        piece = self._listening.piece_of(update)
        if piece is None or self._held > MAX_HELD_CHARS:
            return
        self._held += _length(piece)
        if self._held > MAX_HELD_CHARS:
            self._heard.put_nowait(BackendError("The agent answers faster than the answer is read"))
            return
        self._heard.put_nowait(piece)

    async def next(self) -> AnyPiece:
        """The next piece; an `EndPiece` is the last. Raises `BackendError` where the agent failed."""
        piece = await self._heard.get()
        if isinstance(piece, BackendError):
            raise piece
        self._held -= _length(piece)
        return piece

    async def close(self) -> None:
        """Give the answer up if it is not over: the agent is told at once, and waited for briefly.

        The agent has longer than that to end its turn, and is ended itself if it does not.
        """
        if self._prompt.done():
            self._line.forget(self.session_id)
            return
        await asyncio.wait({self._line.spawn(self._wind_down())}, timeout=BRIEF_S)

    async def _ask(self, blocks: Sequence[ContentBlock]) -> None:
        self._heard.put_nowait(await self._end(blocks))

    async def _end(self, blocks: Sequence[ContentBlock]) -> EndPiece | BackendError:
        prompt = PromptRequest(session_id=self.session_id, prompt=list(blocks))
        try:
            told = await self._line.call(Method.SESSION_PROMPT, prompt)
            return end_of(PromptResponse.model_validate(told), self._usage)
        except BackendError as error:
            return error
        except ValidationError:
            return BackendError("The agent ended its turn without a stop reason of the protocol", retryable=False)

    async def _wind_down(self) -> None:
        # An agent that does not read holds up the notice, and must not hold up the deadline.
        self._line.spawn(self._line.notify(Method.SESSION_CANCEL, CancelNotification(session_id=self.session_id)))
        await asyncio.wait({self._prompt}, timeout=self._cancel_s)
        if not self._prompt.done():
            await self._line.end()
        self._line.forget(self.session_id)


def _length(piece: AnyPiece) -> int:
    if isinstance(piece, WorkPiece):
        return estimate_chars(piece.event, MAX_HELD_CHARS)
    return len(piece.text) if isinstance(piece, TextPiece | ThinkingPiece) else 0


# One running agent, from its start to its end: the handshake, its turns, what it asks, how it died.
#
# A task of its own lives as long as the agent does and ends it whatever happens, so that an event loop that closes
# leaves no process behind. Whether and when another agent is started is not decided here.

PROTOCOL_VERSION: Final = 1
LOG: Final = logging.getLogger("accord.backends.acp")


@dataclass(frozen=True, slots=True)
class Launch:
    """How an agent is started, and what it is allowed."""

    command: Sequence[str]
    cwd: str
    environ: Mapping[str, str] | None = None
    permissions: AgentPermissions = field(default_factory=AgentPermissions)


@dataclass(frozen=True, slots=True)
class Timing:
    """How long an agent may take to begin and to stop; who waits, and who knows the time."""

    start_s: float = 30.0
    cancel_s: float = 5.0
    wait: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic


class AgentProcess:
    """An agent that is being started, runs, or is over. It belongs to the event loop that it was made in."""

    def __init__(self, name: str, launch: Launch, timing: Timing, *, pause_s: float) -> None:
        self.loop: Final = asyncio.get_running_loop()
        self.is_over = False
        self.has_crashed = False
        self._is_ending = False
        self.ended_at = 0.0
        self.capabilities = AgentCapabilities()
        self._name: Final = name
        self._launch: Final = launch
        self._timing: Final = timing
        self._peer: Peer | None = None
        self._turns: Final[dict[str, Turn]] = {}
        self._tasks: Final[set[asyncio.Task[Any]]] = set()
        self._connected: Final[asyncio.Future[RpcConnection]] = self.loop.create_future()
        self._status: Final[asyncio.Future[int | None]] = self.loop.create_future()
        self._life: Final = asyncio.create_task(self._live(pause_s))
        self._greeting: Final = self.spawn(self._greet())

    @property
    def stderr(self) -> str:
        """The end of what it said on standard error."""
        return self._peer.stderr if self._peer is not None else ""

    async def ready(self) -> None:
        """Return once the agent has introduced itself; raise `BackendError` if it does not."""
        # Several may wait for one handshake: that one of them gives up is not the others' concern.
        await asyncio.shield(self._greeting)

    async def begin(self, blocks: Sequence[ContentBlock]) -> Turn:
        """A session of its own with this prompt in it."""
        told = await self.call(Method.SESSION_NEW, NewSessionRequest(cwd=self._launch.cwd), self._timing.start_s)
        try:
            session_id = NewSessionResponse.model_validate(told).session_id
        except ValidationError as error:
            raise BackendError("The agent opened a session without an id", retryable=False) from error
        if session_id in self._turns:
            raise BackendError("The agent gave two sessions one id", retryable=False)
        self._turns[session_id] = turn = Turn(self, session_id, blocks, cancel_s=self._timing.cancel_s)
        return turn

    async def call(self, method: str, params: Any, within_s: float | None = None) -> Any:
        """The agent's answer; raises `BackendError` if it fails, dies, or takes longer than it may."""
        try:
            connection = await asyncio.shield(self._connected)
            async with asyncio.timeout(within_s):
                return await connection.call(method, params)
        except TimeoutError as error:
            self.spawn(self.end())
            raise BackendError(f"The agent did not answer {method} within {within_s:g} s") from error
        except RpcError as error:
            LOG.warning("%s: %s failed with %s: %s", self._name, method, error.code, error.message)
            raise failure_of(error.code, error.data) from error
        except (PeerGoneError, ConnectionError) as error:
            raise exit_failure(await asyncio.shield(self._status)) from error

    async def notify(self, method: str, params: Any) -> None:
        """Tell the agent something; an agent that is gone needs no telling."""
        connection = await asyncio.shield(self._connected)
        try:
            await connection.notify(method, params)
        except ConnectionError:
            return

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run something on the side for as long as the agent lives."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def forget(self, session_id: str) -> None:
        """Hear no more of a session, and let the agent free it if it can."""
        if self._turns.pop(session_id, None) is None or self.is_over:
            return
        if self.capabilities.session_capabilities.close is not None:
            self.spawn(self.call(Method.SESSION_CLOSE, CloseSessionRequest(session_id=session_id)))

    async def end(self) -> None:
        """End the agent, politely if it listens; returns when it is gone."""
        self.is_over = True
        if not self._is_ending:  # a second cancellation would cut the ending short
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
            self._fail(exit_failure(None))

    async def _run(self) -> None:
        launch = self._launch
        self._peer = peer = await start_peer(launch.command, environ=launch.environ, cwd=launch.cwd)
        try:
            connection = RpcConnection(
                peer.stdout, peer.stdin, on_request=launch.permissions.answer, on_notification=self._hear
            )
            self._connected.set_result(connection)
            await connection.run()
        finally:
            self._is_ending = True
            status = await _ended(peer)
            self._status.set_result(status)
            if not self.is_over:
                LOG.warning("%s: the agent ended with status %s; it last said:\n%s", self._name, status, peer.stderr)

    def _fail(self, error: BackendError) -> None:
        if not self._connected.done():
            self._connected.set_exception(error)
            self._connected.exception()  # whoever asks is told; that nobody asks is no mistake
        if not self._status.done():
            self._status.set_result(None)

    async def _greet(self) -> None:
        request = InitializeRequest(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=self._launch.permissions.client_capabilities(),
            client_info=Implementation(name="accord", version=package_version()),
        )
        told = await self.call(Method.INITIALIZE, request, self._timing.start_s)
        try:
            response = InitializeResponse.model_validate(told)
        except ValidationError as error:
            self.spawn(self.end())
            raise BackendError("The agent's answer to initialize is malformed", retryable=False) from error
        if response.protocol_version != PROTOCOL_VERSION:
            self.spawn(self.end())
            spoken = response.protocol_version
            raise BackendError(f"The agent speaks protocol version {spoken}, not {PROTOCOL_VERSION}", retryable=False)
        self.capabilities = response.agent_capabilities

    def _hear(self, notice: RpcNotification) -> None:
        if notice.method != Method.SESSION_UPDATE:
            return
        try:
            told = SessionNotification.model_validate_json(notice.raw or b"{}")
        except ValidationError:
            LOG.warning("%s: a session update is malformed and was left out", self._name)
            return
        turn = self._turns.get(told.session_id)
        if turn is not None:
            turn.hear(told.update)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # told to whoever waits for it; what runs on the side has nobody


async def _ended(peer: Peer) -> int:
    """The exit status, once the program is gone: an event loop that closes meanwhile cancels this, and has to wait."""
    while True:
        try:
            return await peer.end()
        except asyncio.CancelledError:
            continue  # ending takes a few seconds at most, and begins again where it was
