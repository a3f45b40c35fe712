"""The sessions that a client lists and has open, with the one prompt that may run in each."""

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from pydantic_core import from_json

from accord.engine import LiveTurn, StoredTurn
from accord.errors import ErrorCode, InvalidMessageError, Problem, RefusedError
from accord.ports import SessionStore
from accord.servers.acp.messages import INVALID_REQUEST, NOT_FOUND
from accord.stdio import RpcError
from accord.wire.acp.session import ListSessionsRequest, ListSessionsResponse, SessionInfo, SessionRequest
from accord.wire.conversation import ChatMessage, Role
from accord.wire.session import SessionRecord, is_id

# A page of a user's sessions, as ACP lists them. A cursor is opaque to clients and worth nothing to anybody else.
#
# The store does not keep in which directory a session was opened: one that is not open here is said to belong to the
# directory that the agent was started in, which is where its editor works.

PAGE: Final = 50
TITLE_CHARS: Final = 80
TITLE_FROM: Final = 200
"""How many messages back a title is looked for."""


class _Cursor(msgspec.Struct):
    created_at: Annotated[datetime, msgspec.Meta(tz=True)]
    session_id: str


async def list_page(
    store: SessionStore, owner: str, asked: ListSessionsRequest, cwd_of: Callable[[str], str]
) -> ListSessionsResponse:
    """The page that was asked for."""
    found = await store.sessions(owner, limit=PAGE, after=_read_cursor(asked.cursor, owner))
    listed = [record for record in found if asked.cwd is None or cwd_of(record.session_id) == asked.cwd]
    infos = [
        SessionInfo(
            session_id=record.session_id,
            cwd=cwd_of(record.session_id),
            title=title_of(await store.history(record.session_id, limit=TITLE_FROM)),
            updated_at=record.updated_at.isoformat(),
        )
        for record in listed
    ]
    return ListSessionsResponse(sessions=infos, next_cursor=_cursor(found[-1]) if len(found) == PAGE else None)


def title_of(history: Sequence[ChatMessage]) -> str | None:
    """The first line of what the user said first."""
    for said in history:
        if said.role is Role.USER and (words := said.content.strip()):
            line = words.splitlines()[0]
            return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1] + "…"
    return None


def _cursor(last: SessionRecord) -> str:
    written = msgspec.json.encode(_Cursor(last.created_at, last.session_id))
    return urlsafe_b64encode(written).decode()


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
        problem = Problem("cursor", "expected the nextCursor of a page before")
        raise InvalidMessageError("ListSessionsRequest", [problem]) from None


# The sessions that a client has open, and the one prompt that may run in each. What is said is not known here.

MAX_OPEN: Final = 1_000
UNKNOWN: Final = "No such session is open: begin one with session/new, or reopen one"
BUSY: Final = "A prompt is running in this session: wait for its end, or cancel it"
TOO_MANY: Final = f"{MAX_OPEN} sessions are open: close one first"


class Prompting:
    """A prompt on its way, from the moment it was taken."""

    def __init__(self) -> None:
        self.over: Final = asyncio.Event()
        self._turn: LiveTurn | StoredTurn | None = None
        self._is_cancelled = False

    @property
    def request_ids(self) -> list[str]:
        """What its turn is called in the store, if it has begun."""
        return [] if self._turn is None else [self._turn.request_id]

    def begun(self, turn: LiveTurn | StoredTurn) -> None:
        """Its turn has begun; a client that has cancelled it meanwhile is heard now."""
        self._turn = turn
        if self._is_cancelled:
            self.cancel()

    def cancel(self) -> None:
        """End it; its stream is closed properly."""
        self._is_cancelled = True
        if isinstance(self._turn, LiveTurn):
            self._turn.cancel()


class OpenSession:
    """One session. `asks` is how many permissions its client is asked for right now."""

    def __init__(self, session_id: str, cwd: str) -> None:
        self.id: Final = session_id
        self.cwd: Final = cwd
        self.prompting: Prompting | None = None
        self.asks = 0

    def take_prompt(self) -> Prompting:
        """Room for a prompt; raises our error while another one runs."""
        if self.prompting is not None:
            raise RpcError(INVALID_REQUEST, BUSY)
        self.prompting = Prompting()
        return self.prompting

    def prompt_over(self) -> None:
        """The prompt is answered."""
        if self.prompting is not None:
            self.prompting.over.set()
            self.prompting = None


class OpenSessions:
    """All that one client has open."""

    def __init__(self) -> None:
        self._sessions: Final[dict[str, OpenSession]] = {}

    def find(self, session_id: str) -> OpenSession | None:
        """The session of that id, if it is open."""
        return self._sessions.get(session_id)

    def named(self, session_id: str) -> OpenSession:
        """The session of that id; raises our error if it is not open."""
        session = self._sessions.get(session_id)
        if session is None:
            raise RpcError(NOT_FOUND, UNKNOWN)
        return session

    def open(self, session_id: str, cwd: str) -> OpenSession:
        """Open a session; one that is open stays as it is."""
        session = self._sessions.get(session_id)
        if session is not None:
            return session
        if len(self._sessions) >= MAX_OPEN:
            raise RpcError(INVALID_REQUEST, TOO_MANY)
        session = self._sessions[session_id] = OpenSession(session_id, cwd)
        return session

    async def close(self, session_id: str) -> None:
        """Close a session once what runs in it has ended; one that is not open is closed already."""
        session = self._sessions.get(session_id)
        if session is None:
            return
        if (prompting := session.prompting) is not None:
            prompting.cancel()
            await prompting.over.wait()
        self._sessions.pop(session_id, None)


# What could not be shown and was kept, for a client that asks for it: `_accord/item`, a method of our own.
#
# ACP leaves methods that begin with an underscore to whoever speaks it. An item is named as the notice in the text
# names it. A client of ACP knows sessions, not requests, so the latest turn of the session that kept such an item is
# meant.

ITEM_METHOD: Final = "_accord/item"
NO_ITEM: Final = "No turn of this session keeps such an item"


class ItemRequest(SessionRequest, frozen=True):
    """Asks for one item."""

    item_id: str


async def kept_item(store: SessionStore, session: OpenSession, item_id: str) -> dict[str, Any]:
    """The event that was kept under this id; raises our error if there is none."""
    running = [] if session.prompting is None else session.prompting.request_ids
    ended = [record.request_id for record in await store.receipts(session.id)]
    for request_id in (*running, *reversed(ended)):
        if (kept := await store.item(request_id, item_id)) is not None:
            return {"item": from_json(kept)}
    raise RefusedError(NO_ITEM, ErrorCode.NOT_FOUND, {})
