"""Statements on sessions, turns and packets: plain functions over a connection, the same on every engine.

The caller begins and ends the transaction, and rolls back if a conflict is raised here. Deletion is in `erase.py`.

On PostgreSQL several transactions run at the same time. One that locks both a session's row and a row of a turn that
others can see locks the session's first, here and in `erase.py`, so that there is no deadlock.
"""

import json
import sqlite3
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import asdict, replace
from sqlalchemy import (
    ARRAY,
    BigInteger,
    Connection,
    Integer,
    Text,
    and_,
    bindparam,
    case,
    cast,
    delete,
    func,
    insert,
    literal,
    literal_column,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.exc import IntegrityError

from accord.errors import StoreConflictError
from accord.ports import PacketBatch, RunEnd, RunStart, SessionRuns, WholeRun
from accord.stores.erase import check_not_deleting
from accord.stores.prepared import BulkInsert, PreparedStatement, Row, by_engine, database_now, values_of
from accord.stores.receipt_text import pack
from accord.stores.rules import (
    KNOWN_REQUEST,
    NO_SESSION,
    NOT_ITS_EPOCH,
    NOT_ITS_RECEIPT,
    NOT_ITS_SESSION,
    NOT_NEXT,
    NOT_RUNNING,
    NOT_YOURS,
    check_chain,
    check_quota,
    json_size,
    stored_size,
)
from accord.stores.schema import IS_DELETING, IS_RUNNING, TextSource, messages, packets, receipts, sessions, turns
from accord.stores.transcripts import add_stored_bytes, conversation_of, insert_prompt, stored_bytes_of
from accord.stores.work import remove_work
from accord.wire.conversation import ChatMessage, Role
from accord.wire.request import ClientCapabilities
from accord.wire.session import PacketRecord, ReceiptRecord, RunRecord, SessionKind, SessionRecord, StoredState

LONG_TEXT: Final = 64 * 1024
"""From so many characters on, a message refers to the text of its turn instead of holding it."""

_SESSION: Final = [sessions.c[name] for name in SessionRecord.__struct_fields__]
TURN_COLUMNS: Final = [turns.c[name] for name in RunRecord.__struct_fields__]


_SESSION_OF: Final = PreparedStatement(select(*_SESSION).where(sessions.c.session_id == bindparam("of"), ~IS_DELETING))


def session_of(connection: Connection, session_id: str) -> SessionRecord | None:
    """The session of that id."""
    row = _SESSION_OF.first(connection, {"of": session_id})
    return None if row is None else _session(row)


def sessions_of(connection: Connection, owner: str, limit: int, after: SessionRecord | None) -> list[SessionRecord]:
    """A page of an owner's sessions, the newest first."""
    page = (sessions.c.created_at, sessions.c.session_id)
    query = select(*_SESSION).where(sessions.c.owner == owner, ~IS_DELETING)
    if after is not None:
        query = query.where(tuple_(*page) < tuple_(literal(after.created_at, page[0].type), after.session_id))
    query = query.order_by(*(column.desc() for column in page)).limit(limit)
    return [_session(row) for row in connection.execute(query)]


def _session(row: Row) -> SessionRecord:
    fields: dict[str, Any] = dict(zip(SessionRecord.__struct_fields__, row, strict=True))
    fields["negotiated"] = json.loads(fields["negotiated"])
    fields["capabilities"] = _declared(fields["capabilities"])
    fields["kind"] = SessionKind(fields["kind"])
    return SessionRecord(**fields)


def _declared(body: str | None) -> ClientCapabilities | None:
    return None if body is None else ClientCapabilities.parse(body)


def _declaration_text(declared: ClientCapabilities | None) -> str | None:
    return None if declared is None else declared.to_json()


def _upsert_session(new: Any) -> Any:
    excluded = new.excluded
    return new.on_conflict_do_update(
        index_elements=["session_id"],
        set_={
            "agent": excluded.agent,
            "capabilities": excluded.capabilities,
            "negotiated": excluded.negotiated,
            "updated_at": case(
                (excluded.updated_at > sessions.c.updated_at, excluded.updated_at), else_=sessions.c.updated_at
            ),
        },
        where=and_(sessions.c.owner == excluded.owner, sessions.c.kind == excluded.kind, ~IS_DELETING),
    )


_TURN_VALUES: Final = {**values_of(turns, *RunRecord.__struct_fields__), "leased_at": database_now()}
_ADD_TURN: Final = by_engine(
    lambda new: new(turns).values(_TURN_VALUES).on_conflict_do_nothing(index_elements=["request_id"])
)
_UPSERT_SESSION: Final = by_engine(
    lambda new: _upsert_session(new(sessions).values(values_of(sessions, *SessionRecord.__struct_fields__))).returning(
        sessions.c.created_at, sessions.c.updated_at, sessions.c.message_count, sessions.c.receipt_hash
    )
)


def _turn_row(turn: RunRecord) -> dict[str, Any]:
    return {**asdict(turn), "state": turn.state.value, "capabilities": _declaration_text(turn.capabilities)}


def begin_turn(  # noqa: PLR0913, PLR0917 - the turn, and what limits it
    connection: Connection,
    session: SessionRecord,
    turn: RunRecord,
    history: tuple[int, int],
    quota_bytes: int | None,
    prompt: bytes = b"",
) -> RunStart:
    """Insert a turn with a new request id, and insert or update its session; else return the existing turn."""
    if (turn.session_id, turn.owner) != (session.session_id, session.owner):
        raise StoreConflictError(NOT_ITS_SESSION)
    row = _turn_row(turn)
    # A turn that is deleted between the two statements is new after all.
    for _ in range(2):
        if _ADD_TURN.rowcount(connection, row):
            insert_prompt(connection, turn.request_id, prompt)
            return _start_session(connection, session, turn, history, quota_bytes)
        if known := turn_of(connection, turn.request_id):
            stored = session_of(connection, known.session_id)
            if stored is None:
                raise StoreConflictError(NO_SESSION)
            return RunStart(stored, known)
    check_not_deleting(connection, session.session_id, turn.request_id)
    raise StoreConflictError(NO_SESSION)


def _start_session(
    connection: Connection,
    session: SessionRecord,
    turn: RunRecord,
    history: tuple[int, int],
    quota_bytes: int | None,
) -> RunStart:
    """Insert or update the session of a turn that was just inserted; returns what a new turn needs."""
    if quota_bytes is not None:
        check_quota(stored_bytes_of(connection, session.owner), quota_bytes)
    texts = {
        "capabilities": _declaration_text(session.capabilities),
        "negotiated": json.dumps(session.negotiated),
        "kind": session.kind.value,
    }
    row = _UPSERT_SESSION.first(connection, {**asdict(session), **texts})
    if row is None:
        check_not_deleting(connection, session.session_id)
        raise StoreConflictError(NOT_YOURS)
    created_at, updated_at, message_count, last_hash = row
    limit, max_bytes = history
    if turn.conversation_id is None:
        limit = min(limit, message_count)  # a new session has none, which saves the query
    last = conversation_of(connection, turn, limit, max_bytes)
    return RunStart(replace(session, created_at=created_at, updated_at=updated_at), None, last, last_hash)


_LAST_TURNS: Final = PreparedStatement(
    select(*TURN_COLUMNS, (turns.c.stored_bytes + turns.c.prompt_bytes).label("size"))
    .join_from(turns, sessions, turns.c.session_id == sessions.c.session_id)
    .where(turns.c.session_id == bindparam("of"), ~IS_DELETING)
    .order_by(turns.c.created_at.desc(), turns.c.request_id.desc())
    .limit(bindparam("limit", type_=Integer))
)
_TURN_COUNT: Final = PreparedStatement(select(func.count()).where(turns.c.session_id == bindparam("of")))


def session_turns(connection: Connection, session_id: str, limit: int) -> SessionRuns:
    """The last turns of a session."""
    found = _LAST_TURNS.rows(connection, {"of": session_id, "limit": limit})
    total = _TURN_COUNT.rows(connection, {"of": session_id})[0][0]
    return SessionRuns(total, [(turn_record(row[:-1]), row[-1]) for row in reversed(found)])


_TURN_OF: Final = PreparedStatement(
    select(*TURN_COLUMNS)
    .join_from(turns, sessions, turns.c.session_id == sessions.c.session_id)
    .where(turns.c.request_id == bindparam("of"), ~IS_DELETING)
)


def turn_of(connection: Connection, request_id: str) -> RunRecord | None:
    """The turn of that request id."""
    row = _TURN_OF.first(connection, {"of": request_id})
    return None if row is None else turn_record(row)


def turn_record(row: Row) -> RunRecord:
    """The record of a row of `TURN_COLUMNS`."""
    fields: dict[str, Any] = dict(zip(RunRecord.__struct_fields__, row, strict=True))
    fields["state"] = StoredState(fields["state"])
    fields["capabilities"] = _declared(fields["capabilities"])
    return RunRecord(**fields)


_ADDED: Final = bindparam("added", type_=Integer)
_STORED: Final = bindparam("stored", type_=BigInteger)
_EPOCH: Final = turns.c.epoch == bindparam("of_epoch", type_=Integer)
_ADVANCING: Final = (
    update(turns)
    .where(turns.c.request_id == bindparam("of"), IS_RUNNING, _EPOCH)
    .where(or_(literal_column("0") == _ADDED, turns.c.last_seq == bindparam("before")))
    .values(last_seq=turns.c.last_seq + _ADDED, stored_bytes=turns.c.stored_bytes + _STORED)
)
_ADVANCE: Final = PreparedStatement(_ADVANCING)
_ADD_PACKET: Final = PreparedStatement(insert(packets).values(values_of(packets)))

# For PostgreSQL, all packets with one statement instead of one for each, and together with the update of their turn.
_BODIES: Final = (
    func.unnest(bindparam("bodies", type_=ARRAY(Text)))
    .table_valued("body", with_ordinality="place", name="bodies")
    .render_derived()
)
_NUMBERED: Final = select(
    bindparam("of", type_=packets.c.request_id.type),
    bindparam("before", type_=Integer) + cast(_BODIES.c.place, Integer),
    _BODIES.c.body,
)
_ADVANCED: Final = _ADVANCING.returning(turns.c.request_id).cte("advanced")
_ADD_PACKETS: Final = PreparedStatement(insert(packets).from_select([*packets.c.keys()], _NUMBERED))
_APPEND: Final = PreparedStatement(
    insert(packets).from_select([*packets.c.keys()], _NUMBERED.where(select(_ADVANCED.c.request_id).exists()))
)


def append_packets(connection: Connection, new: PacketBatch) -> None:
    """Add packets that follow those of their turn."""
    added = {"added": len(new.packets), "stored": stored_size(*new.packets), "of_epoch": new.epoch}
    values = {"of": new.request_id, "before": new.first_seq - 1, **added}
    if connection.dialect.name == "postgresql" and new.packets:
        if not _APPEND.rowcount(connection, {**values, "bodies": list(new.packets)}):
            raise StoreConflictError(NOT_NEXT)
        return
    if not _ADVANCE.rowcount(connection, values):
        raise StoreConflictError(NOT_NEXT)
    _insert_packets(connection, new)


def _insert_packets(connection: Connection, new: PacketBatch) -> None:
    of, before = new.request_id, new.first_seq - 1
    if connection.dialect.name == "postgresql":
        if new.packets:
            _ADD_PACKETS.rowcount(connection, {"of": of, "before": before, "bodies": list(new.packets)})
        return
    numbered = enumerate(new.packets, start=new.first_seq)
    _ADD_PACKET.execute_many(connection, [{"request_id": of, "seq": seq, "body": body} for seq, body in numbered])


_SELECT_PACKETS: Final = (
    select(packets.c.seq, packets.c.body)
    .where(packets.c.request_id == bindparam("of"), packets.c.seq > bindparam("after"))
    .order_by(packets.c.seq)
    .limit(bindparam("limit", type_=Integer))
)
_PACKETS_OF: Final = PreparedStatement(_SELECT_PACKETS)
_PACKETS_THAT_FIT: Final = PreparedStatement(
    _SELECT_PACKETS.join(turns, turns.c.request_id == packets.c.request_id).where(
        turns.c.stored_bytes <= bindparam("bytes", type_=BigInteger)
    )
)


def packets_of(
    connection: Connection, request_id: str, after_seq: int, limit: int, max_bytes: int | None
) -> list[PacketRecord]:
    """The packets of a turn that follow a number; none if more than `max_bytes` is stored of it."""
    values = {"of": request_id, "after": after_seq, "limit": limit}
    if max_bytes is None:
        found = _PACKETS_OF.rows(connection, values)
    else:
        found = _PACKETS_THAT_FIT.rows(connection, {**values, "bytes": max_bytes})
    return [PacketRecord(seq=seq, body=body) for seq, body in found]


# Locks the session until the transaction ends; on SQLite the whole file is locked anyway.
_LOCK_TURN: Final = PreparedStatement(
    select(
        turns.c.state,
        turns.c.last_seq,
        turns.c.stored_bytes,
        turns.c.prompt_bytes,
        turns.c.conversation_id,
        turns.c.epoch,
        sessions.c.session_id,
        sessions.c.owner,
        sessions.c.message_count,
        sessions.c.receipt_count,
        sessions.c.receipt_hash,
    )
    .join_from(turns, sessions, turns.c.session_id == sessions.c.session_id)
    .where(turns.c.request_id == bindparam("of"))
    .with_for_update(of=sessions)
)


class _LockedRun(NamedTuple):
    """A turn that is about to end, and its locked session."""

    state: str
    last_seq: int
    stored: int
    prompt_bytes: int
    conversation_id: str | None
    epoch: int
    session_id: str
    owner: str
    message_count: int
    receipt_count: int
    last_hash: str | None


_END: Final = PreparedStatement(
    update(turns)
    .where(turns.c.request_id == bindparam("of"), IS_RUNNING, _EPOCH, turns.c.last_seq == bindparam("before"))
    .values(
        state=bindparam("new_state"),
        ended_at=bindparam("at"),
        last_seq=bindparam("last"),
        stored_bytes=turns.c.stored_bytes + _STORED,
        receipt_position=bindparam("receipt_position", type_=Integer),
    )
)


def end_turn(connection: Connection, ending: RunEnd) -> bool:
    """End a running turn with its messages and receipt; False, with nothing written, if the receipt comes too late."""
    last, receipt = ending.last, ending.receipt
    row = _LOCK_TURN.first(connection, {"of": last.request_id})
    if row is None or row[0] != StoredState.RUNNING.value:
        raise StoreConflictError(NOT_RUNNING)
    locked = _LockedRun(*row)
    if locked.epoch != last.epoch:
        raise StoreConflictError(NOT_ITS_EPOCH)
    if receipt and (receipt.request_id, receipt.session_id) != (last.request_id, locked.session_id):
        raise StoreConflictError(NOT_ITS_RECEIPT)
    if receipt and receipt.previous_hash != locked.last_hash:
        return False
    if last.packets and last.first_seq != locked.last_seq + 1:
        raise StoreConflictError(NOT_NEXT)
    position = locked.receipt_count + 1 if receipt else None
    over = {"of": last.request_id, "before": locked.last_seq, "last": locked.last_seq + len(last.packets)}
    over |= {"of_epoch": last.epoch, "stored": stored_size(*last.packets)}
    states = {"new_state": ending.state.value, "at": ending.ended_at, "receipt_position": position}
    if not _END.rowcount(connection, {**over, **states}):
        raise StoreConflictError(NOT_RUNNING)  # another process was faster
    if locked.epoch:
        remove_work(connection, last.request_id)
    _insert_packets(connection, last)
    add_stored_bytes(connection, locked.owner, _append_transcript(connection, locked, ending))
    return True


_ADD_MESSAGE: Final = PreparedStatement(insert(messages).values(values_of(messages)))
_ADD_RECEIPT: Final = PreparedStatement(insert(receipts).values(values_of(receipts)))
_AT: Final = bindparam("at", type_=sessions.c.updated_at.type)
_UPDATE_SESSION: Final = PreparedStatement(
    update(sessions)
    .where(sessions.c.session_id == bindparam("of"))
    .values(
        updated_at=case((sessions.c.updated_at < _AT, _AT), else_=sessions.c.updated_at),
        message_count=sessions.c.message_count + bindparam("messages", type_=Integer),
        receipt_count=sessions.c.receipt_count + bindparam("receipts", type_=Integer),
        stored_bytes=sessions.c.stored_bytes + _STORED,
        receipt_hash=func.coalesce(bindparam("last_hash", type_=sessions.c.receipt_hash.type), sessions.c.receipt_hash),
    )
)


def _append_transcript(connection: Connection, locked: _LockedRun, ending: RunEnd) -> int:
    """Add a turn's messages and receipt to its locked session; returns how many bytes the turn takes in all."""
    rows = [_message_row(message, locked, ending) for message in ending.messages]
    bodies = [row["body"] for row in rows]
    _ADD_MESSAGE.execute_many(
        connection, [{**row, "position": place} for place, row in enumerate(rows, start=locked.message_count + 1)]
    )
    receipt = ending.receipt
    if receipt:
        _ADD_RECEIPT.rowcount(connection, _receipt_row(receipt, locked.receipt_count + 1))
        bodies.append(receipt.body)
    stored = locked.stored + locked.prompt_bytes + stored_size(*ending.last.packets, *bodies)
    added = {"messages": len(rows), "receipts": int(receipt is not None), "last_hash": receipt and receipt.hash}
    _UPDATE_SESSION.rowcount(connection, {"of": locked.session_id, "at": ending.ended_at, "stored": stored, **added})
    return stored


def _receipt_row(receipt: ReceiptRecord, position: int) -> dict[str, Any]:
    return {"session_id": receipt.session_id, "position": position, "body": pack(receipt.body)}


def _message_row(message: ChatMessage, locked: _LockedRun, ending: RunEnd) -> dict[str, Any]:
    """The row of a message without its position. Long text that its turn has anyway is not stored a second time."""
    name, body, text_in = locked.conversation_id, message, None
    size_outside = 0
    if len(message.content) >= LONG_TEXT:
        if message.role is Role.USER and locked.prompt_bytes:
            text_in = TextSource.PROMPT.value
        # Of a turn that did not run to its end, or that several workers ran, packets may have another text.
        elif message.role is Role.ASSISTANT and ending.state is StoredState.DONE and locked.epoch <= 1:
            text_in = TextSource.PACKETS.value
    if text_in is not None:
        body = message.model_copy(update={"content": ""})
        size_outside = json_size(message.content)
    text = body.to_json()
    return {
        "session_id": locked.session_id,
        "conversation_id": name,
        "added_at": name and ending.ended_at,
        "request_id": ending.last.request_id,
        "text_in": text_in,
        "size": stored_size(text) + size_outside,
        "body": text,
    }


# Of a turn that is over, no process needs a lease.
_ADD_WHOLE_TURNS: Final = BulkInsert(turns, *RunRecord.__struct_fields__, "stored_bytes", "receipt_position")
_REMOVE_RUNNING: Final = PreparedStatement(
    delete(turns).where(turns.c.request_id == bindparam("of"), IS_RUNNING, turns.c.runner == bindparam("by"))
)
_ADD_WHOLE_PACKETS: Final = BulkInsert(packets)
_ADD_RECEIPTS: Final = BulkInsert(receipts)
_LOCK_SESSION: Final = PreparedStatement(
    select(sessions.c.receipt_count, sessions.c.receipt_hash)
    .where(sessions.c.session_id == bindparam("of"))
    .with_for_update()
)


def add_turns(connection: Connection, session: SessionRecord, added: Sequence[WholeRun]) -> None:
    """Insert runs of one session, those that are over with their packets and receipts."""
    texts = {
        "capabilities": _declaration_text(session.capabilities),
        "negotiated": json.dumps(session.negotiated),
        "kind": session.kind.value,
    }
    if _UPSERT_SESSION.first(connection, {**asdict(session), **texts}) is None:
        check_not_deleting(connection, session.session_id)
        raise StoreConflictError(NOT_YOURS)
    row = _LOCK_SESSION.first(connection, {"of": session.session_id})
    receipt_count, last_hash = row or (0, None)
    check_chain(session, added, last_hash)
    _REMOVE_RUNNING.execute_many(
        connection, [{"of": each.turn.request_id, "by": each.runner} for each in added if each.runner]
    )
    for each in added:
        if each.receipt is None and not _ADD_TURN.rowcount(connection, _turn_row(each.turn)):
            raise StoreConflictError(KNOWN_REQUEST)
    ended = [(each, each.receipt) for each in added if each.receipt is not None]
    sizes = [stored_size(*each.packets, receipt.body) for each, receipt in ended]
    rows = [
        {**_turn_row(each.turn), "stored_bytes": size, "receipt_position": place}
        for place, ((each, _), size) in enumerate(zip(ended, sizes, strict=True), start=receipt_count + 1)
    ]
    try:
        _ADD_WHOLE_TURNS.execute(connection, rows)
    except (IntegrityError, sqlite3.IntegrityError):
        raise StoreConflictError(KNOWN_REQUEST) from None
    _ADD_WHOLE_PACKETS.execute(
        connection,
        [
            {"request_id": each.turn.request_id, "seq": seq, "body": body}
            for each, _ in ended
            for seq, body in enumerate(each.packets, start=1)
        ],
    )
    _ADD_RECEIPTS.execute(
        connection, [_receipt_row(each, place) for place, (_, each) in enumerate(ended, start=receipt_count + 1)]
    )
    stored, last = sum(sizes), ended[-1][1].hash if ended else None
    counts = {"messages": 0, "receipts": len(ended), "last_hash": last, "stored": stored}
    _UPDATE_SESSION.rowcount(connection, {"of": session.session_id, "at": session.updated_at, **counts})
    add_stored_bytes(connection, session.owner, stored)
