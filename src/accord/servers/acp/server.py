"""The methods of the ACP server, and serving them on standard input and output.

Each method is a function that returns its result or raises an error. Content is validated and turns are run by the
engine; framing and correlation are the connection's. All sessions belong to the user who started the process.
"""

import asyncio
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4

from accord.acp import schema_v1, schema_v2
from accord.acp.methods import Method
from accord.acp.schema_v1 import (
    CancelNotification,
    CancelRequestNotification,
    CloseSessionRequest,
    CloseSessionResponse,
    ListSessionsRequest,
    LoadSessionRequest,
    LoadSessionResponse,
    NewSessionRequest,
    NewSessionResponse,
    PromptResponse,
    ResumeSessionRequest,
    ResumeSessionResponse,
)
from accord.acp.schema_v2 import SessionState, StopReason
from accord.core.rpc import RpcNotification, RpcRequest
from accord.errors import InvalidMessageError, Problem, RpcCode
from accord.run import Run, Sessions, StoredRun
from accord.servers.acp.messages import (
    DEFAULT_EDITOR,
    ITEM_METHOD,
    STABLE,
    ClientHandshake,
    PromptParams,
    initialize_response,
    parse_prompt,
    read_initialize,
    read_prompt,
    stream_rpc_error,
    to_rpc_error,
)
from accord.servers.acp.permissions import PromptPermissions
from accord.servers.acp.replay import ReplayLimits, SessionReplay
from accord.servers.acp.sessions import ItemRequest, OpenSession, OpenSessions, list_page, load_item
from accord.servers.acp.updates import PromptUpdates, StableWriter
from accord.servers.service import tune_garbage_collector
from accord.stdio import RpcConnection, RpcError, is_hung_up, open_stdio
from accord.wire.request import AgentRequest, Identity, ServiceRequest, SessionContext

LOG: Final = logging.getLogger("accord.acp")
GRACE_S: Final = 1.0
"""How long running calls may go on after the client closed the input; clients kill an agent that stays much longer."""

NOT_INITIALIZED: Final = "Not initialized: call initialize first"
INITIALIZED: Final = "Already initialized: initialize is called once per connection"
NO_SESSION: Final = "There is no such session"
NO_MODES: Final = "This agent has no modes to choose from"
NO_OPTIONS: Final = "This agent has no options to set"
NO_LOGIN: Final = "This agent needs no authentication"
IGNORED_KEY: Final = "accord.ignored"
"""The key of `_meta` under which an answer lists the fields of the request that were not used."""

Handler = Callable[[bytes], Awaitable[Any]]
_OpeningRequest = (
    NewSessionRequest
    | LoadSessionRequest
    | ResumeSessionRequest
    | schema_v2.NewSessionRequest
    | schema_v2.ResumeSessionRequest
)
NOT_NEGOTIATED: Final = ClientHandshake(STABLE, DEFAULT_EDITOR)
"""The handshake before `initialize`."""


class _Prompt(NamedTuple):
    """A prompt that runs; `blocks` is its JSON as it was sent."""

    session: OpenSession
    blocks: bytes
    request_id: UUID
    writer: StableWriter
    updates: PromptUpdates
    permissions: PromptPermissions


class AcpServer:
    """The methods of one client's connection; `attach` the connection before it runs."""

    def __init__(self, sessions: Sessions, *, owner: str, version: str, cwd: str, replay: ReplayLimits) -> None:
        self._sessions: Final = sessions
        self._store: Final = sessions.store
        self._engine: Final = sessions.engine
        self._user: Final = Identity(id=owner, name=owner)
        self._version: Final = version
        self._cwd: Final = cwd
        self._replay_limits: Final = replay
        self._open: Final = OpenSessions()
        self._draft_turns: Final[set[asyncio.Task[None]]] = set()
        self._handshake = NOT_NEGOTIATED
        both: dict[str, Handler] = {
            Method.SESSION_NEW: self._new,
            Method.SESSION_LIST: self._list,
            Method.SESSION_CLOSE: self._close,
            Method.SESSION_SET_CONFIG_OPTION: _reject_with(NO_OPTIONS),
            ITEM_METHOD: self._item,
        }
        self._stable: Final[Mapping[str, Handler]] = both | {
            Method.AUTHENTICATE: _reject_with(NO_LOGIN),
            Method.SESSION_LOAD: self._load,
            Method.SESSION_RESUME: self._resume,
            Method.SESSION_PROMPT: self._prompt,
            Method.SESSION_SET_MODE: _reject_with(NO_MODES),
        }
        self._draft: Final[Mapping[str, Handler]] = both | {
            Method.AUTH_LOGIN: _reject_with(NO_LOGIN),
            Method.SESSION_RESUME: self._draft_resume,
            Method.SESSION_PROMPT: self._draft_prompt,
        }
        self._notices: Final[Mapping[str, Callable[[bytes], None]]] = {
            Method.SESSION_CANCEL: self._cancel,
            Method.CANCEL_REQUEST: self._cancel_request,
        }

    def attach(self, connection: RpcConnection) -> None:
        """Send updates and permission requests over this connection."""
        self._connection = connection

    async def on_call(self, call: RpcRequest) -> Any:
        """The result of a call; every failure is raised as `RpcError`."""
        method = call.method
        try:
            handling = self._find_handler(method)(call.raw or b"{}")
            del call  # a prompt may have megabytes, which only its handler needs
            return await handling
        except Exception as error:
            rpc_error = to_rpc_error(error)
            # A failed turn comes as an `RpcError`, and the engine has logged its cause already; a client may leave.
            if rpc_error.code == RpcCode.INTERNAL_ERROR and not isinstance(error, RpcError | ConnectionError):
                LOG.exception("The method %s failed", _shorten(method))
            raise rpc_error from None

    def on_notice(self, notice: RpcNotification) -> None:
        """Handle a notification; unknown ones are ignored."""
        handler = self._notices.get(notice.method)
        if handler is not None:
            # Deferred, so that a call received before the notification has begun and can be cancelled.
            asyncio.get_running_loop().call_soon(handler, notice.raw or b"{}")

    async def end(self, grace_s: float) -> None:
        """Wait this long for running draft turns, cancel the rest, and store how every turn ended."""
        if self._draft_turns:
            await asyncio.wait(self._draft_turns, timeout=grace_s)
        unfinished = list(self._draft_turns)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
        await self._sessions.drain(0)

    def _find_handler(self, method: str) -> Handler:
        if method == Method.INITIALIZE:
            return self._initialize
        known = self._draft if self._handshake.is_draft else self._stable
        is_negotiated = self._handshake is not NOT_NEGOTIATED
        if method not in known and (is_negotiated or method not in self._draft):
            raise RpcError(RpcCode.METHOD_NOT_FOUND, f"There is no method {_shorten(method)}")
        if not is_negotiated:
            raise RpcError(RpcCode.INVALID_REQUEST, NOT_INITIALIZED)
        return known[method]

    async def _initialize(self, raw: bytes) -> Any:
        if self._handshake is not NOT_NEGOTIATED:
            raise RpcError(RpcCode.INVALID_REQUEST, INITIALIZED)
        handshake = read_initialize(raw)
        declaration = self._engine.admission.validator.declaration
        response = initialize_response(handshake, self._engine.agent.name, self._version, declaration)
        self._handshake, self._connection.batches = handshake, handshake.is_draft
        return response

    async def _new(self, raw: bytes) -> Any:
        request = (schema_v2.NewSessionRequest if self._handshake.is_draft else NewSessionRequest).parse(raw)
        _check_directory(request.cwd)
        session = self._open.open(str(uuid4()), request.cwd)
        return NewSessionResponse(session_id=session.id, _meta=_ignored_fields(request))

    async def _load(self, raw: bytes) -> Any:
        request = LoadSessionRequest.parse(raw)
        await self._reopen(request.session_id, request.cwd)
        await self._replay(request.session_id)
        return LoadSessionResponse(_meta=_ignored_fields(request))

    async def _resume(self, raw: bytes) -> Any:
        request = ResumeSessionRequest.parse(raw)
        await self._reopen(request.session_id, request.cwd)
        return ResumeSessionResponse(_meta=_ignored_fields(request))

    async def _draft_resume(self, raw: bytes) -> Any:
        request = schema_v2.ResumeSessionRequest.parse(raw)
        if request.replay_from is not None and request.replay_from.type != "start":
            raise InvalidMessageError("ResumeSessionRequest", [Problem("replayFrom.type", "expected start")])
        session = await self._reopen(request.session_id, request.cwd)
        if request.replay_from is not None:
            await self._replay(session.id)
        state = SessionState.IDLE
        if session.prompt is not None:
            state = SessionState.REQUIRES_ACTION if session.open_requests else SessionState.RUNNING
        await self._connection.send(self._handshake.writer(session.id).state(state))
        return ResumeSessionResponse(_meta=_ignored_fields(request))

    async def _reopen(self, session_id: str, cwd: str) -> OpenSession:
        """Open a stored session; another user's session is reported as not found."""
        _check_directory(cwd)
        if (session := self._open.find(session_id)) is not None:
            return session
        stored = await self._store.session(session_id)
        if stored is None or stored.owner != self._user.id:
            raise RpcError(RpcCode.NOT_FOUND, NO_SESSION)
        return self._open.open(session_id, cwd)

    async def _replay(self, session_id: str) -> None:
        limits, send = self._replay_limits, self._connection.send
        await SessionReplay(self._sessions, session_id, self._handshake, limits, send).run()

    async def _list(self, raw: bytes) -> Any:
        def cwd_of(session_id: str) -> str:
            session = self._open.find(session_id)
            return self._cwd if session is None else session.cwd

        return await list_page(self._store, self._user.id, ListSessionsRequest.parse(raw), cwd_of)

    async def _close(self, raw: bytes) -> Any:
        await self._open.close(CloseSessionRequest.parse(raw).session_id)
        return CloseSessionResponse()

    async def _item(self, raw: bytes) -> Any:
        request = ItemRequest.parse(raw)
        return await load_item(self._sessions, self._open.require(request.session_id), request.item_id)

    async def _prompt(self, raw: bytes) -> Any:
        prompt = self._start_prompt(read_prompt(raw))
        del raw
        try:
            turn = await self._begin_turn(prompt)
            await self._send_updates(prompt, turn)
            stop = prompt.updates.stop_reason
            if rest := prompt.updates.ending(stop):
                await self._connection.send(rest)
        finally:
            prompt.session.end_prompt()
        if stop is StopReason.ERROR and prompt.updates.error is not None:
            raise stream_rpc_error(prompt.updates.error)
        return PromptResponse(stop_reason=schema_v1.StopReason(stop))

    async def _draft_prompt(self, raw: bytes) -> Any:
        prompt = self._start_prompt(read_prompt(raw))
        del raw
        try:
            turn = await self._begin_turn(prompt)
        except BaseException:
            prompt.session.end_prompt()
            raise
        # In the draft the response says that the prompt was accepted; updates report the turn and its end.
        task = asyncio.create_task(self._run_draft_turn(prompt, turn))
        self._draft_turns.add(task)
        task.add_done_callback(self._draft_turns.discard)
        return schema_v2.PromptResponse(message_id=str(prompt.request_id))

    def _start_prompt(self, params: PromptParams) -> _Prompt:
        session, request_id = self._open.require(params.session_id), uuid4()
        writer = self._handshake.writer(session.id)
        updates = PromptUpdates(writer, str(request_id))
        permissions = PromptPermissions(self._connection, session, writer, updates)
        session.start_prompt()
        return _Prompt(session, params.prompt, request_id, writer, updates, permissions)

    async def _begin_turn(self, prompt: _Prompt) -> Run | StoredRun:
        """Begin the turn of a prompt; raises the error of one that is refused. What is refused is not decided here."""
        parsed = parse_prompt(prompt.blocks, self._handshake.version)
        payload = AgentRequest(
            query=parsed.query, content=parsed.content or None, capabilities=self._handshake.capabilities
        )
        context = SessionContext(session_id=prompt.session.id, user=self._user)
        request = ServiceRequest(request_id=prompt.request_id, context=context, payload=payload)
        turn = await self._sessions.begin(request, sent=parsed.sent, keep_prompt=True, permits=prompt.permissions)
        if prompt.session.prompt is not None:
            prompt.session.prompt.set_turn(turn)
        return turn

    async def _send_updates(self, prompt: _Prompt, turn: Run | StoredRun) -> None:
        prompt.permissions.mark_sent(0)
        try:
            async with aclosing(self._sessions.read(turn)) as batches:
                async for batch in batches:
                    if lines := prompt.updates.lines([packet.body for packet in batch.packets]):
                        await self._connection.send(lines)
                    prompt.permissions.mark_sent(batch.made)
        finally:
            prompt.permissions.finish()

    async def _run_draft_turn(self, prompt: _Prompt, turn: Run | StoredRun) -> None:
        failure: RpcError | None = None
        writer, updates = prompt.writer, prompt.updates
        try:
            echo = writer.user_message(turn.request_id, prompt.blocks)
            await self._connection.send(writer.state(SessionState.RUNNING), *echo)
            await self._send_updates(prompt, turn)
        except ConnectionError:
            return
        except Exception as error:
            LOG.exception("The updates of a turn could not be sent")
            failure = to_rpc_error(error)
        finally:
            # Before the last line, because a client that reads it may send the next prompt at once.
            prompt.session.end_prompt()
        stop = StopReason.ERROR if failure else updates.stop_reason
        if stop is StopReason.ERROR and updates.error is not None:
            failure = stream_rpc_error(updates.error)
        last = updates.ending(stop) + writer.state(SessionState.IDLE, stop, failure.dump() if failure else None)
        with suppress(ConnectionError):
            await self._connection.send(last)

    def _cancel(self, raw: bytes) -> None:
        with suppress(InvalidMessageError):
            session = self._open.find(CancelNotification.parse(raw).session_id)
            if session is not None and session.prompt is not None:
                session.prompt.cancel()

    def _cancel_request(self, raw: bytes) -> None:
        with suppress(InvalidMessageError):
            self._connection.cancel_request(CancelRequestNotification.parse(raw).request_id)


def _reject_with(message: str) -> Handler:
    async def reject(_: bytes) -> Any:
        raise RpcError(RpcCode.INVALID_PARAMS, message)

    return reject


def _check_directory(cwd: str) -> None:
    if not (PurePosixPath(cwd).is_absolute() or PureWindowsPath(cwd).is_absolute()):
        raise InvalidMessageError("request", [Problem("cwd", "expected an absolute path")])


def _ignored_fields(request: _OpeningRequest) -> dict[str, Any] | None:
    """The `_meta` that lists the fields Accord does not use: its agents bring their own tools."""
    offered = {"mcpServers": request.mcp_servers, "additionalDirectories": request.additional_directories}
    ignored = [name for name, value in offered.items() if value]
    if not ignored:
        return None
    LOG.warning("Not used by this agent: %s", ", ".join(ignored))
    return {IGNORED_KEY: ignored}


def _shorten(method: str) -> str:
    return repr(method if len(method) <= 100 else method[:100] + "…")


async def serve_acp(sessions: Sessions, *, owner: str, version: str, replay: ReplayLimits | None = None) -> None:
    """Serve ACP on standard input and output until the input ends or SIGTERM arrives, then end every turn."""
    reader, sink = await open_stdio()
    replay = replay or ReplayLimits()
    server = AcpServer(sessions, owner=owner, version=version, cwd=str(Path.cwd()), replay=replay)
    connection = RpcConnection(
        reader,
        sink,
        on_request=server.on_call,
        on_notification=server.on_notice,
        grace_s=GRACE_S,
        is_input_over=lambda: is_hung_up(sys.stdin.fileno()),
    )
    server.attach(connection)
    tune_garbage_collector()
    running = asyncio.create_task(connection.run())
    with suppress(NotImplementedError):  # signal handlers are not available on every system
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    try:
        with suppress(asyncio.CancelledError):
            await running
    finally:
        await server.end(GRACE_S)
        # A client that has closed the input may not read the output any more.
        with suppress(ConnectionError, TimeoutError):
            await asyncio.wait_for(sink.finish(), GRACE_S)
