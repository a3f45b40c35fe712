"""The ACP server: each method as a function that answers or raises, served on standard input and output."""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final
from uuid import UUID, uuid4

from accord.core.rpc import Call, Notice
from accord.engine import LiveTurn, Sessions, StoredTurn
from accord.errors import ErrorCode, InvalidMessageError, Problem
from accord.servers.acp.handshake import Agreed, agree, introduce
from accord.servers.acp.messages import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOT_FOUND,
    Asked,
    broken_stream,
    read_prompt,
    split_prompt,
    told_error,
)
from accord.servers.acp.permits import TurnPermits
from accord.servers.acp.sessions import ITEM_METHOD, ItemRequest, OpenSession, OpenSessions, kept_item, list_page
from accord.servers.acp.updates import TurnUpdates, echo_line, replay_lines, state_line, stopped_line
from accord.servers.http.serve import tune_garbage_collector
from accord.stdio import RpcConnection, RpcError, open_stdio
from accord.wire.acp.draft_update import SessionState
from accord.wire.acp.rpc import Method
from accord.wire.acp.session import (
    CancelNotification,
    CancelRequestNotification,
    CloseSessionRequest,
    CloseSessionResponse,
    DraftNewSessionRequest,
    DraftNewSessionResponse,
    DraftPromptResponse,
    DraftResumeSessionRequest,
    DraftResumeSessionResponse,
    ListSessionsRequest,
    LoadSessionRequest,
    LoadSessionResponse,
    NewSessionRequest,
    NewSessionResponse,
    PromptResponse,
    ResumeSessionResponse,
    StopReason,
)
from accord.wire.request import AgentRequest, Identity, ServiceRequest, SessionContext

# The methods of an ACP agent: each gives its answer or raises an error that is told. It pumps, it does not decide.
#
# What is running is found by session; whose sessions they are is the user's who started the process. How lines travel
# is the connection's business.

LOG: Final = logging.getLogger("accord.acp")
REPLAYED: Final = 2_000
REPLAYED_BYTES: Final = 16 * 1024 * 1024
"""How many messages of a session are told again, the last ones."""

INITIALIZE_FIRST: Final = "Nothing was agreed yet: say initialize first"
INITIALIZED: Final = "The handshake is over: initialize is said once"
NO_SESSION: Final = "There is no such session"
NO_MODES: Final = "This agent has no modes to choose from"
NO_OPTIONS: Final = "This agent has no options to set"
NO_LOGIN: Final = "This agent asks nobody to authenticate"
IGNORED: Final = "accord.ignored"

Answers = Callable[[bytes], Awaitable[Any]]


class Door:
    """One client's way to the agent. `attach` the connection before it runs."""

    def __init__(self, sessions: Sessions, *, owner: str, version: str, cwd: str) -> None:
        self._sessions: Final = sessions
        self._store: Final = sessions.store
        self._engine: Final = sessions.engine
        self._user: Final = Identity(id=owner, name=owner)
        self._version: Final = version
        self._cwd: Final = cwd
        self._open: Final = OpenSessions()
        self._telling: Final[set[asyncio.Task[None]]] = set()
        self._agreed: Agreed | None = None
        both: dict[str, Answers] = {
            Method.SESSION_LIST: self._list,
            Method.SESSION_CLOSE: self._close,
            Method.SESSION_SET_CONFIG_OPTION: _refusing(NO_OPTIONS),
            ITEM_METHOD: self._item,
        }
        self._stable: Final[Mapping[str, Answers]] = both | {
            Method.AUTHENTICATE: _refusing(NO_LOGIN),
            Method.SESSION_NEW: self._new,
            Method.SESSION_LOAD: self._load,
            Method.SESSION_RESUME: self._resume,
            Method.SESSION_PROMPT: self._prompt,
            Method.SESSION_SET_MODE: _refusing(NO_MODES),
        }
        self._draft: Final[Mapping[str, Answers]] = both | {
            Method.AUTH_LOGIN: _refusing(NO_LOGIN),
            Method.SESSION_NEW: self._draft_new,
            Method.SESSION_RESUME: self._draft_resume,
            Method.SESSION_PROMPT: self._draft_prompt,
        }

    def attach(self, connection: RpcConnection) -> None:
        """Speak over this connection."""
        self._connection = connection

    async def answer(self, call: Call) -> Any:
        """The result of a call; raises `RpcError`, and nothing else."""
        try:
            return await self._answers(call.method)(call.raw or b"{}")
        except Exception as error:
            told = told_error(error)
            # The failure of a turn comes as an `RpcError`; its own log lines say why.
            if told.code == -32603 and not isinstance(error, RpcError):
                LOG.exception("A call of %s failed", _shortened(call.method))
            raise told from None

    def hear(self, notice: Notice) -> None:
        """Take a notice; one that is not known is nobody's."""
        known: dict[str, Callable[[bytes], None]] = {
            Method.SESSION_CANCEL: self._cancel,
            Method.CANCEL_REQUEST: self._cancel_request,
        }
        heard = known.get(notice.method)
        if heard is not None:
            # Not at once: a call that came before it has begun then, and can be cancelled.
            asyncio.get_running_loop().call_soon(heard, notice.raw or b"{}")

    async def end(self, grace_s: float) -> None:
        """Let what is still being told end, for so long; then stop it, and keep how every turn ended."""
        if self._telling:
            await asyncio.wait(self._telling, timeout=grace_s)
        left = list(self._telling)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self._sessions.drain(0)

    def _answers(self, method: str) -> Answers:
        if method == Method.INITIALIZE:
            return self._initialize
        known = self._stable if self._agreed is None or not self._agreed.is_draft else self._draft
        if method not in known and (self._agreed is not None or method not in self._draft):
            raise RpcError(METHOD_NOT_FOUND, f"There is no method {_shortened(method)}")
        if self._agreed is None:
            raise RpcError(INVALID_REQUEST, INITIALIZE_FIRST)
        return known[method]

    async def _initialize(self, raw: bytes) -> Any:
        if self._agreed is not None:
            raise RpcError(INVALID_REQUEST, INITIALIZED)
        agreed = agree(raw)
        takes = self._engine.validator.declaration
        answer = introduce(agreed, self._engine.agent.name, self._version, takes)
        self._agreed, self._connection.batches = agreed, agreed.is_draft
        return answer

    async def _new(self, raw: bytes) -> Any:
        asked = NewSessionRequest.parse(raw)
        session = self._begin(asked.cwd)
        return NewSessionResponse(session_id=session.id, _meta=_ignored(asked))

    async def _draft_new(self, raw: bytes) -> Any:
        asked = DraftNewSessionRequest.parse(raw)
        session = self._begin(asked.cwd)
        return DraftNewSessionResponse(session_id=session.id, _meta=_ignored(asked))

    def _begin(self, cwd: str) -> OpenSession:
        _check_directory(cwd)
        return self._open.open(str(uuid4()), cwd)

    async def _load(self, raw: bytes) -> Any:
        asked = LoadSessionRequest.parse(raw)
        await self._reopen(asked.session_id, asked.cwd)
        await self._replay(asked.session_id, is_draft=False)
        return LoadSessionResponse(_meta=_ignored(asked))

    async def _resume(self, raw: bytes) -> Any:
        asked = LoadSessionRequest.parse(raw)
        await self._reopen(asked.session_id, asked.cwd)
        return ResumeSessionResponse(_meta=_ignored(asked))

    async def _draft_resume(self, raw: bytes) -> Any:
        asked = DraftResumeSessionRequest.parse(raw)
        if asked.replay_from is not None and asked.replay_from.type != "start":
            raise InvalidMessageError("ResumeSessionRequest", [Problem("replayFrom.type", "expected start")])
        session = await self._reopen(asked.session_id, asked.cwd)
        if asked.replay_from is not None:
            await self._replay(session.id, is_draft=True)
        await self._connection.send(state_line(session.id, _state_of(session)))
        return DraftResumeSessionResponse(_meta=_ignored(asked))

    async def _reopen(self, session_id: str, cwd: str) -> OpenSession:
        """The session, if it is this user's; a stranger's is none."""
        _check_directory(cwd)
        if (session := self._open.find(session_id)) is not None:
            return session
        kept = await self._store.session(session_id)
        if kept is None or kept.owner != self._user.id:
            raise RpcError(NOT_FOUND, NO_SESSION)
        return self._open.open(session_id, cwd)

    async def _replay(self, session_id: str, *, is_draft: bool) -> None:
        history = await self._store.history(session_id, limit=REPLAYED, max_bytes=REPLAYED_BYTES)
        if lines := replay_lines(session_id, history, is_draft=is_draft):
            await self._connection.send(lines)

    async def _list(self, raw: bytes) -> Any:
        asked = ListSessionsRequest.parse(raw)
        return await list_page(self._store, self._user.id, asked, self._directory)

    def _directory(self, session_id: str) -> str:
        session = self._open.find(session_id)
        return self._cwd if session is None else session.cwd

    async def _close(self, raw: bytes) -> Any:
        await self._open.close(CloseSessionRequest.parse(raw).session_id)
        return CloseSessionResponse()

    async def _item(self, raw: bytes) -> Any:
        asked = ItemRequest.parse(raw)
        return await kept_item(self._store, self._open.named(asked.session_id), asked.item_id)

    async def _prompt(self, raw: bytes) -> Any:
        session, asked = await self._admit(raw)
        own = uuid4()
        updates = TurnUpdates(session.id, str(own), is_draft=False)
        permits = TurnPermits(self._connection, session, updates, is_draft=False)
        try:
            await self._tell(updates, await self._begin_turn(session, asked, own, permits), permits)
            stop = _stopped(updates)
            if rest := updates.ending(stop):
                await self._connection.send(rest)
        finally:
            session.prompt_over()
        if stop is StopReason.ERROR and updates.error is not None:
            raise broken_stream(updates.error)
        return PromptResponse.trusted(stop_reason=stop)

    async def _draft_prompt(self, raw: bytes) -> Any:
        session, asked = await self._admit(raw)
        own = uuid4()
        updates = TurnUpdates(session.id, str(own), is_draft=True)
        permits = TurnPermits(self._connection, session, updates, is_draft=True)
        try:
            turn = await self._begin_turn(session, asked, own, permits)
        except BaseException:
            session.prompt_over()
            raise
        # The answer says that the prompt was taken; how it goes on is told beside it.
        telling = asyncio.create_task(self._tell_draft(session, asked, updates, turn, permits))
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)
        return DraftPromptResponse(message_id=str(own))

    async def _admit(self, raw: bytes) -> tuple[OpenSession, Asked]:
        """A prompt that may come in, with its session taken; raises the error that says why not."""
        asked = read_prompt(raw)
        session = self._open.named(asked.session_id)
        refused = self._engine.validator.validate_json(asked.prompt).error
        if refused is not None:
            await self._keep_refusal(session, asked)
            raise RpcError(**refused)
        session.take_prompt()
        return session, asked

    async def _keep_refusal(self, session: OpenSession, asked: Asked) -> None:
        """Run the turn that refuses this prompt: it leaves a receipt, as by every door. What is malformed is none."""
        with suppress(InvalidMessageError):
            turn = await self._sessions.begin(self._request(session, asked, uuid4()))
            async with aclosing(turn.batches()) as batches:
                async for _ in batches:
                    pass

    async def _begin_turn(
        self, session: OpenSession, asked: Asked, own: UUID, permits: TurnPermits
    ) -> LiveTurn | StoredTurn:
        turn = await self._sessions.begin(self._request(session, asked, own), permits=permits)
        if session.prompting is not None:
            session.prompting.begun(turn)
        return turn

    def _request(self, session: OpenSession, asked: Asked, own: UUID) -> ServiceRequest:
        query, content = split_prompt(asked.prompt)
        capabilities = None if self._agreed is None else self._agreed.capabilities
        payload = AgentRequest.trusted(query=query, content=content or None, capabilities=capabilities)
        context = SessionContext.trusted(session_id=session.id, user=self._user)
        return ServiceRequest.trusted(request_id=own, context=context, payload=payload)

    async def _tell(self, updates: TurnUpdates, turn: LiveTurn | StoredTurn, permits: TurnPermits) -> None:
        permits.told(0)
        try:
            async with aclosing(turn.batches()) as batches:
                async for batch in batches:
                    if lines := updates.lines([kept.body for kept in batch]):
                        await self._connection.send(lines)
                    permits.told(batch[-1].seq)
        finally:
            permits.over()

    async def _tell_draft(
        self,
        session: OpenSession,
        asked: Asked,
        updates: TurnUpdates,
        turn: LiveTurn | StoredTurn,
        permits: TurnPermits,
    ) -> None:
        failure: RpcError | None = None
        try:
            await self._connection.send(state_line(session.id) + echo_line(session.id, turn.request_id, asked.prompt))
            await self._tell(updates, turn, permits)
        except ConnectionError:
            return
        except Exception as error:
            LOG.exception("A turn could not be told")
            failure = told_error(error)
        finally:
            # Before the last line: whoever reads it may prompt again.
            session.prompt_over()
        with suppress(ConnectionError):
            await self._connection.send(_last_lines(session.id, updates, failure))

    def _cancel(self, raw: bytes) -> None:
        with suppress(InvalidMessageError):
            session = self._open.find(CancelNotification.parse(raw).session_id)
            if session is not None and session.prompting is not None:
                session.prompting.cancel()

    def _cancel_request(self, raw: bytes) -> None:
        with suppress(InvalidMessageError):
            self._connection.cancel_call(CancelRequestNotification.parse(raw).request_id)


def _last_lines(session_id: str, updates: TurnUpdates, failure: RpcError | None) -> bytes:
    stop = StopReason.ERROR if failure else _stopped(updates)
    if stop is StopReason.ERROR and updates.error is not None:
        failure = broken_stream(updates.error)
    return updates.ending(stop) + stopped_line(session_id, stop, failure.dump() if failure else None)


def _state_of(session: OpenSession) -> SessionState:
    if session.prompting is None:
        return SessionState.IDLE
    return SessionState.REQUIRES_ACTION if session.asks else SessionState.RUNNING


def _stopped(updates: TurnUpdates) -> StopReason:
    if updates.error is None:
        return StopReason.END_TURN
    return StopReason.CANCELLED if updates.error.code == ErrorCode.CANCELLED else StopReason.ERROR


def _refusing(told: str) -> Answers:
    async def refuse(_: bytes) -> Any:
        raise RpcError(INVALID_PARAMS, told)

    return refuse


def _check_directory(cwd: str) -> None:
    if not (PurePosixPath(cwd).is_absolute() or PureWindowsPath(cwd).is_absolute()):
        raise InvalidMessageError("request", [Problem("cwd", "expected an absolute path")])


def _ignored(asked: NewSessionRequest | DraftNewSessionRequest) -> dict[str, Any] | None:
    """What of a request comes to nothing, said in its answer: an Accord agent brings its own tools."""
    offered = {"mcpServers": asked.mcp_servers, "additionalDirectories": asked.additional_directories}
    ignored = [name for name, given in offered.items() if given]
    if not ignored:
        return None
    LOG.warning("Not used by this agent: %s", ", ".join(ignored))
    return {IGNORED: ignored}


def _shortened(method: str) -> str:
    return repr(method if len(method) <= 100 else method[:100] + "…")


# Serves a door on this process's own standard input and output, until the client goes or a signal comes.

GRACE_S: Final = 1.0
"""How long what is asked has to be answered when the client has said its last; clients kill who stays longer."""


async def serve_acp(sessions: Sessions, *, owner: str, version: str) -> None:
    """Speak ACP until the input ends; every turn is ended properly then."""
    reader, sink = await open_stdio()
    door = Door(sessions, owner=owner, version=version, cwd=str(Path.cwd()))
    connection = RpcConnection(reader, sink, on_call=door.answer, on_notice=door.hear, grace_s=GRACE_S)
    door.attach(connection)
    tune_garbage_collector()
    running = asyncio.create_task(connection.run())
    _stop_on_signal(running)
    try:
        with suppress(asyncio.CancelledError):
            await running
    finally:
        await door.end(GRACE_S)
        with suppress(ConnectionError):
            await sink.finish()


def _stop_on_signal(running: "asyncio.Task[None]") -> None:
    with suppress(NotImplementedError):  # not on every system
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
