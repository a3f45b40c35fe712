"""A page of a user's sessions, as ACP lists them. A cursor is opaque to clients and worth nothing to anybody else.

The store does not keep in which directory a session was opened: one that is not open here is said to belong to the
directory that the agent was started in, which is where its editor works.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Final

import msgspec

from accord.errors import InvalidMessageError, Problem
from accord.ports import SessionStore
from accord.wire.acp.session import ListSessionsRequest, ListSessionsResponse, SessionInfo
from accord.wire.chat import ChatMessage, Role
from accord.wire.session import SessionRecord, is_id

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
