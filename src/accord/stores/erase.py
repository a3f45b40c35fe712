"""Deletion of whole sessions in short transactions, so that a running turn never waits for much of it.

A receipt names the one before it, so a session is kept with all of its receipts or not at all. Therefore a session is
first hidden, in one transaction: from then on nobody can read or use it, and its running turns are over. Then its rows
are deleted, a bounded amount in each transaction, and last the session itself. Whatever an interrupted deletion left
is still hidden, and the next deletion of any process goes on with it.

Items are not counted. Tokens go with their user, never by age.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from time import monotonic
from typing import Any, Final

from sqlalchemy import Column, Connection, Integer, Select, Table, bindparam, delete, func, literal, or_, select, update

from accord.errors import ErrorCode, RefusedError
from accord.stores.prepared import Prepared
from accord.stores.rules import BEING_DELETED
from accord.stores.schema import IS_DELETING, IS_RUNNING, items, messages, packets, receipts, sessions, tokens, turns
from accord.stores.transcripts import add_stored_bytes
from accord.wire.session import DeletionCounts, TurnState

HIDE_SESSIONS: Final = 200
STEP_S: Final = 0.01
STEP_BYTES: Final = 2 * 1024 * 1024
CHUNK_ROWS: Final = 500
CHUNK_PARENTS: Final = 50

_CHOSEN: Final = (sessions.c.session_id, sessions.c.owner, sessions.c.stored_bytes)


def delete_tokens(connection: Connection, owner: str) -> int:
    """Delete the tokens of an owner; gives how many."""
    return connection.execute(delete(tokens).where(tokens.c.user == owner)).rowcount


def hide_user(connection: Connection, owner: str) -> int:
    """Hide some sessions of an owner; gives how many, 0 if all are hidden."""
    chosen = select(*_CHOSEN).where(sessions.c.owner == owner, ~IS_DELETING)
    # Held in one order by everyone: nobody waits in a circle.
    return _hide(connection, chosen.order_by(sessions.c.created_at, sessions.c.session_id).with_for_update())


def hide_expired(connection: Connection, before: datetime) -> int:
    """Hide some sessions that nothing has happened in since then; gives how many, 0 if there is none."""
    chosen = select(*_CHOSEN).where(sessions.c.updated_at < before, ~IS_DELETING)
    # A session whose row another process holds is in use.
    return _hide(connection, chosen.order_by(sessions.c.updated_at).with_for_update(skip_locked=True))


def has_hidden(connection: Connection) -> bool:
    """Whether any session is hidden and still to be deleted."""
    return connection.execute(select(literal(1)).select_from(sessions).where(IS_DELETING).limit(1)).first() is not None


_DELETING: Final = Prepared(
    select(literal(1))
    .select_from(sessions)
    .where(IS_DELETING)
    .where(
        or_(
            sessions.c.session_id == bindparam("session"),
            sessions.c.session_id
            == select(turns.c.session_id).where(turns.c.request_id == bindparam("request")).scalar_subquery(),
        )
    )
)


def check_not_deleting(connection: Connection, session_id: str, request_id: str | None = None) -> None:
    """Raise our error if the session, or the one of this request, is being deleted: soon its id is free again."""
    if _DELETING.row(connection, {"session": session_id, "request": request_id}):
        raise RefusedError(BEING_DELETED, ErrorCode.UNAVAILABLE, {"retry_after": 1})


def _hide(connection: Connection, chosen: Select[Any, Any, Any]) -> int:
    rows = connection.execute(chosen.limit(HIDE_SESSIONS)).all()
    found = [session_id for session_id, _, _ in rows]
    connection.execute(update(sessions).where(sessions.c.session_id.in_(found)).values(deleting=1))
    # The process that runs such a turn finds out with its next packet.
    over = update(turns).where(turns.c.session_id.in_(found), IS_RUNNING).values(state=TurnState.FAILED.value)
    connection.execute(over)
    freed: dict[str, int] = {}
    for _, owner, stored in rows:
        freed[owner] = freed.get(owner, 0) + stored
    for owner, stored in sorted(freed.items()):
        add_stored_bytes(connection, owner, -stored)
    return len(found)


def delete_some(connection: Connection) -> tuple[DeletionCounts, bool]:
    """Delete rows of hidden sessions, as many as take a moment; and whether that was all."""
    until, erased = monotonic() + STEP_S, DeletionCounts()
    chunk = _Chunk(connection, STEP_BYTES)
    while True:
        # Held, so that two processes that delete take turns.
        hidden = select(sessions.c.session_id).where(IS_DELETING).order_by(sessions.c.session_id)
        doomed = connection.scalars(hidden.limit(CHUNK_PARENTS).with_for_update()).all()
        if not doomed:
            return erased, True
        chunk.rows_left = CHUNK_ROWS
        erased += chunk.delete_from(doomed)
        if chunk.bytes_left <= 0 or monotonic() >= until:
            return erased, False


class _Parts:
    """One table's rows that belong to a turn or a session: their keys from the last on, and their deletion."""

    def __init__(self, table: Table, parent: str, key: str) -> None:
        of, place = table.c[parent], table.c[key]
        self.last: Final = Prepared(
            select(place, func.length(table.c.body))
            .where(of == bindparam("of"))
            .order_by(place.desc())
            .limit(bindparam("limit", type_=Integer))
        )
        self.delete: Final = Prepared(delete(table).where(of == bindparam("of"), place >= bindparam("since")))


_PACKETS: Final = _Parts(packets, "request_id", "seq")
_ITEMS: Final = _Parts(items, "request_id", "item_id")
_MESSAGES: Final = _Parts(messages, "session_id", "position")
_RECEIPTS: Final = _Parts(receipts, "session_id", "position")


@dataclass(slots=True)
class _Chunk:
    """So many rows and bytes, to be deleted from several sessions or from a part of one."""

    connection: Connection
    bytes_left: int
    rows_left: int = 0

    def delete_from(self, doomed: Sequence[str]) -> DeletionCounts:
        """Delete from these sessions: what belongs to their turns, the turns, the rest, the sessions."""
        theirs = select(turns.c.request_id).where(turns.c.session_id.in_(doomed)).limit(CHUNK_PARENTS)
        ended = self.connection.scalars(theirs).all()
        if ended:
            gone = self._parts(_PACKETS, ended)
            self._parts(_ITEMS, ended)
            return DeletionCounts(packets=gone, turns=self._rows(turns.c.request_id, ended))
        said, sealed = self._parts(_MESSAGES, doomed), self._parts(_RECEIPTS, doomed)
        return DeletionCounts(messages=said, receipts=sealed, sessions=self._rows(sessions.c.session_id, doomed))

    def _parts(self, parts: _Parts, parents: Sequence[str]) -> int:
        """Delete rows of these parents until the chunk is full.

        From the last row on: somebody who still reads a turn finds it cut off, never with a hole.
        """
        count = 0
        for parent in parents:
            if self._is_full:
                break
            keys: list[object] = []
            found = parts.last.iterate(self.connection, {"of": parent, "limit": self.rows_left})
            with closing(found):
                for key, size in found:
                    keys.append(key)
                    self.rows_left, self.bytes_left = self.rows_left - 1, self.bytes_left - size
                    if self._is_full:
                        break
            if keys:
                parts.delete.met(self.connection, {"of": parent, "since": keys[-1]})
            count += len(keys)
        return count

    def _rows(self, key: Column[str], parents: Sequence[str]) -> int:
        """Delete the parents themselves, unless the chunk is full: then something of theirs may be left."""
        if self._is_full:
            return 0
        return self.connection.execute(delete(key.table).where(key.in_(parents))).rowcount

    @property
    def _is_full(self) -> bool:
        return self.rows_left <= 0 or self.bytes_left <= 0
