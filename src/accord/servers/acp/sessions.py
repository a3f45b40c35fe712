"""The sessions of one client: those that it has open, each with at most one running prompt, and those in the store.

The store does not keep the directory that a session was opened in. A session that is not open is listed under the
directory of this process, which is the one its editor works in.
"""

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from accord.acp.base import AcpMessage
from accord.acp.schema_v1 import ListSessionsRequest, ListSessionsResponse, SessionInfo
from accord.errors import ErrorCode, InvalidMessageError, Problem, RefusedError, RpcCode
from accord.ports import SessionStore
from accord.run import Run, Sessions, StoredRun
from accord.stdio import RpcError
from accord.wire.conversation import ChatMessage, Role
from accord.wire.session import SessionRecord, is_id

PAGE: Final = 50
TITLE_CHARS: Final = 80
TITLE_HISTORY: Final = 200
"""How many messages are searched for a title."""


class _Cursor(msgspec.Struct):
    created_at: Annotated[datetime, msgspec.Meta(tz=True)]
    session_id: str


async def list_page(
    store: SessionStore, owner: str, request: ListSessionsRequest, cwd_of: Callable[[str], str]
) -> ListSessionsResponse:
    """The requested page of the owner's sessions, the newest first."""
    found = await store.sessions(owner, limit=PAGE, after=_read_cursor(request.cursor, owner))
    listed = [record for record in found if request.cwd is None or cwd_of(record.session_id) == request.cwd]
    infos = [
        SessionInfo(
            session_id=record.session_id,
            cwd=cwd_of(record.session_id),
            title=title_of(await store.history(record.session_id, limit=TITLE_HISTORY)),
            updated_at=record.updated_at.isoformat(),
        )
        for record in listed
    ]
    cursor = None
    if len(found) == PAGE:
        last = _Cursor(found[-1].created_at, found[-1].session_id)
        cursor = urlsafe_b64encode(msgspec.json.encode(last)).decode()
    return ListSessionsResponse(sessions=infos, next_cursor=cursor)


def title_of(history: Sequence[ChatMessage]) -> str | None:
    """The first line of the first message of the user, shortened."""
    for message in history:
        if message.role is Role.USER and (text := message.content.strip()):
            line = text.splitlines()[0]
            return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1] + "…"
    return None


def _read_cursor(cursor: str | None, owner: str) -> SessionRecord | None:
    if cursor is None:
        return None
    try:
        read = msgspec.json.decode(urlsafe_b64decode(cursor.encode()), type=_Cursor)
        at = read.created_at
        if not is_id(read.session_id):
            raise ValueError
        return SessionRecord(session_id=read.session_id, owner=owner, agent="", created_at=at, updated_at=at)
    except ValueError:
        problem = Problem("cursor", "expected the nextCursor of an earlier page")
        raise InvalidMessageError("ListSessionsRequest", [problem]) from None


MAX_OPEN: Final = 1_000
NOT_OPEN: Final = "This session is not open: call session/new, session/load or session/resume first"
BUSY: Final = "A prompt is running in this session: wait until it ends, or cancel it"
TOO_MANY: Final = f"{MAX_OPEN} sessions are open: close one first"


class RunningPrompt:
    """A prompt from its acceptance to its end; its turn may begin later, and it can be cancelled before that."""

    def __init__(self) -> None:
        self.ended: Final = asyncio.Event()
        self._turn: Run | StoredRun | None = None
        self._is_cancelled = False

    @property
    def request_ids(self) -> list[str]:
        """The id of its turn in the store, if the turn has begun."""
        return [] if self._turn is None else [self._turn.request_id]

    def set_turn(self, turn: Run | StoredRun) -> None:
        """Note that its turn has begun; a cancellation that came earlier takes effect now."""
        self._turn = turn
        if self._is_cancelled:
            self.cancel()

    def cancel(self) -> None:
        """Cancel the turn, or mark it to be cancelled when it begins."""
        self._is_cancelled = True
        # Only a live turn runs in this process.
        if isinstance(self._turn, Run):
            self._turn.cancel()


class OpenSession:
    """One open session; `open_requests` counts the permission requests that the client has not answered yet."""

    def __init__(self, session_id: str, cwd: str) -> None:
        self.id: Final = session_id
        self.cwd: Final = cwd
        self.prompt: RunningPrompt | None = None
        self.open_requests = 0

    def start_prompt(self) -> RunningPrompt:
        """Begin a prompt; raises `RpcError` while another one runs."""
        if self.prompt is not None:
            raise RpcError(RpcCode.INVALID_REQUEST, BUSY)
        self.prompt = RunningPrompt()
        return self.prompt

    def end_prompt(self) -> None:
        """Note that the prompt has ended."""
        if self.prompt is not None:
            self.prompt.ended.set()
            self.prompt = None


class OpenSessions:
    """The sessions that one client has open."""

    def __init__(self) -> None:
        self._sessions: Final[dict[str, OpenSession]] = {}

    def find(self, session_id: str) -> OpenSession | None:
        """The session of that id, if it is open."""
        return self._sessions.get(session_id)

    def require(self, session_id: str) -> OpenSession:
        """The session of that id; raises `RpcError` if it is not open."""
        session = self._sessions.get(session_id)
        if session is None:
            raise RpcError(RpcCode.NOT_FOUND, NOT_OPEN)
        return session

    def open(self, session_id: str, cwd: str) -> OpenSession:
        """Open a session; one that is already open is returned unchanged."""
        session = self._sessions.get(session_id)
        if session is not None:
            return session
        if len(self._sessions) >= MAX_OPEN:
            raise RpcError(RpcCode.INVALID_REQUEST, TOO_MANY)
        session = self._sessions[session_id] = OpenSession(session_id, cwd)
        return session

    async def close(self, session_id: str) -> None:
        """Cancel the running prompt, wait for its end, and close the session; does nothing if it is not open."""
        session = self._sessions.get(session_id)
        if session is None:
            return
        if (prompt := session.prompt) is not None:
            prompt.cancel()
            await prompt.ended.wait()
        self._sessions.pop(session_id, None)


NO_ITEM: Final = "No turn of this session has an event of this id"


class ItemRequest(AcpMessage, frozen=True):
    """The parameters of `_accord/item`."""

    session_id: str
    item_id: str


async def load_item(sessions: Sessions, session: OpenSession, item_id: str) -> dict[str, Any]:
    """The event of this id, as the agent made it; raises `RefusedError` if there is none.

    An ACP client knows sessions but not request ids, so the latest turn that has such an event is used.
    """
    running = [] if session.prompt is None else session.prompt.request_ids
    ended = [record.request_id for record in await sessions.store.receipts(session.id)]
    for request_id in (*running, *reversed(ended)):
        if (event := await sessions.item(request_id, item_id)) is not None:
            return {"item": event}
    raise RefusedError(NO_ITEM, ErrorCode.NOT_FOUND, {})
