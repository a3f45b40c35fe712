"""Deletion of whole sessions in short transactions, so that a running turn never waits for much of it.

A receipt names the one before it, so a session is deleted with all of its receipts. Therefore a session is first
hidden, in one transaction: from then on it cannot be read or used, and its running turns are over. Then its rows are
deleted, a limited amount in each transaction, and last the session itself. What an interrupted deletion left is still
hidden, and the next deletion of any process continues with it.

Tokens go with their user, never by age.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from time import monotonic
from typing import Any, Final

from sqlalchemy import Column, Connection, Integer, Select, Table, bindparam, delete, func, literal, or_, select, update

from accord.errors import ErrorCode, RefusedError
from accord.stores.prepared import PreparedStatement
from accord.stores.rules import BEING_DELETED
from accord.stores.schema import (
    HOLDS_CALLS,
    IS_DELETING,
    IS_RUNNING,
    messages,
    packets,
    prompts,
    receipts,
    sessions,
    tokens,
    turns,
)
from accord.stores.transcripts import add_stored_bytes
from accord.wire.session import DeletionCounts, StoredState

HIDE_SESSIONS: Final = 200
STEP_S: Final = 0.01
STEP_BYTES: Final = 2 * 1024 * 1024
CHUNK_ROWS: Final = 500
CHUNK_PARENTS: Final = 50

_COLUMNS: Final = (sessions.c.session_id, sessions.c.owner, sessions.c.stored_bytes)


def delete_tokens(connection: Connection, owner: str) -> int:
    """Delete the tokens of an owner; returns how many."""
    return connection.execute(delete(tokens).where(tokens.c.user == owner)).rowcount


def hide_user(connection: Connection, owner: str) -> int:
    """Hide some sessions of an owner; returns how many, 0 if all are hidden."""
    chosen = select(*_COLUMNS).where(sessions.c.owner == owner, ~IS_DELETING)
    # All transactions lock rows in one order, so that there is no deadlock.
    return _hide(connection, chosen.order_by(sessions.c.created_at, sessions.c.session_id).with_for_update())


def hide_expired(connection: Connection, before: tuple[datetime, datetime]) -> int:
    """Hide some sessions of turns, or else of calls, that were not used since then; returns how many."""
    for holds, since in zip((~HOLDS_CALLS, HOLDS_CALLS), before, strict=True):
        chosen = select(*_COLUMNS).where(sessions.c.updated_at < since, holds, ~IS_DELETING)
        # A session whose row another process has locked is in use.
        if hidden := _hide(connection, chosen.order_by(sessions.c.updated_at).with_for_update(skip_locked=True)):
            return hidden
    return 0


def has_hidden(connection: Connection) -> bool:
    """Whether any session is hidden and still to be deleted."""
    return connection.execute(select(literal(1)).select_from(sessions).where(IS_DELETING).limit(1)).first() is not None


_DELETING: Final = PreparedStatement(
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
    """Raise `RefusedError` if the session, or that of this request, is being deleted; its id is free again soon."""
    if _DELETING.first(connection, {"session": session_id, "request": request_id}):
        raise RefusedError(BEING_DELETED, ErrorCode.UNAVAILABLE, {"retry_after": 1})


def _hide(connection: Connection, chosen: Select[Any, Any, Any]) -> int:
    rows = connection.execute(chosen.limit(HIDE_SESSIONS)).all()
    found = [session_id for session_id, _, _ in rows]
    connection.execute(update(sessions).where(sessions.c.session_id.in_(found)).values(deleting=1))
    # The process that runs such a turn notices it with its next packet.
    over = update(turns).where(turns.c.session_id.in_(found), IS_RUNNING).values(state=StoredState.FAILED.value)
    connection.execute(over)
    freed: dict[str, int] = {}
    for _, owner, stored in rows:
        freed[owner] = freed.get(owner, 0) + stored
    for owner, stored in sorted(freed.items()):
        add_stored_bytes(connection, owner, -stored)
    return len(found)


def delete_some(connection: Connection) -> tuple[DeletionCounts, bool]:
    """Delete rows of hidden sessions for about `STEP_S`; returns the counts, and whether all are deleted."""
    until, deleted = monotonic() + STEP_S, DeletionCounts()
    chunk = _DeletionChunk(connection, STEP_BYTES)
    while True:
        # Locked, so that two processes do not delete at the same time.
        hidden = select(sessions.c.session_id).where(IS_DELETING).order_by(sessions.c.session_id)
        hidden = connection.scalars(hidden.limit(CHUNK_PARENTS).with_for_update()).all()
        if not hidden:
            return deleted, True
        chunk.rows_left = CHUNK_ROWS
        deleted += chunk.delete_from(hidden)
        if chunk.bytes_left <= 0 or monotonic() >= until:
            return deleted, False


class _ChildRows:
    """The rows of one table that belong to a turn or a session: find the last ones, and delete them."""

    def __init__(self, table: Table, parent: str, key: str) -> None:
        of, place = table.c[parent], table.c[key]
        self.last: Final = PreparedStatement(
            select(place, func.length(table.c.body))
            .where(of == bindparam("of"))
            .order_by(place.desc())
            .limit(bindparam("limit", type_=Integer))
        )
        self.delete: Final = PreparedStatement(delete(table).where(of == bindparam("of"), place >= bindparam("since")))


_PACKETS: Final = _ChildRows(packets, "request_id", "seq")
_PROMPTS: Final = _ChildRows(prompts, "request_id", "part")
_MESSAGES: Final = _ChildRows(messages, "session_id", "position")
_RECEIPTS: Final = _ChildRows(receipts, "session_id", "position")


@dataclass(slots=True)
class _DeletionChunk:
    """Deletes up to so many rows and bytes, from several sessions or from a part of one."""

    connection: Connection
    bytes_left: int
    rows_left: int = 0

    def delete_from(self, hidden: Sequence[str]) -> DeletionCounts:
        """Delete from these sessions: what belongs to their turns, the turns, the rest, the sessions."""
        found = select(turns.c.request_id, turns.c.last_seq, turns.c.prompt_bytes)
        ended = self.connection.execute(found.where(turns.c.session_id.in_(hidden)).limit(CHUNK_PARENTS)).all()
        if ended:
            # Most calls have neither.
            gone = self._parts(_PACKETS, [each.request_id for each in ended if each.last_seq])
            self._parts(_PROMPTS, [each.request_id for each in ended if each.prompt_bytes])
            return DeletionCounts(
                packets=gone, turns=self._rows(turns.c.request_id, [each.request_id for each in ended])
            )
        message_count, receipt_count = self._parts(_MESSAGES, hidden), self._parts(_RECEIPTS, hidden)
        return DeletionCounts(
            messages=message_count, receipts=receipt_count, sessions=self._rows(sessions.c.session_id, hidden)
        )

    def _parts(self, parts: _ChildRows, parents: Sequence[str]) -> int:
        """Delete rows of these parents until the chunk is full.

        From the last row on: a client that still reads a turn finds it cut off, never with a gap.
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
                parts.delete.rowcount(self.connection, {"of": parent, "since": keys[-1]})
            count += len(keys)
        return count

    def _rows(self, key: Column[str], parents: Sequence[str]) -> int:
        """Delete the parents themselves, unless the chunk is full: then they may still have rows."""
        if self._is_full:
            return 0
        return self.connection.execute(delete(key.table).where(key.in_(parents))).rowcount

    @property
    def _is_full(self) -> bool:
        return self.rows_left <= 0 or self.bytes_left <= 0
