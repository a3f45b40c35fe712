"""What is asked of the tables: plain functions over a connection, the same on every engine.

They neither begin nor end a transaction: whoever calls them does, and a conflict that is raised here means that the
caller rolls back. They know nothing of threads, loops or files. Deleting is told by `erase.py`.

Where several transactions meet, as they do on PostgreSQL, whoever needs both a session's row and a row of a turn that
others can see holds the session's first. `erase.py` does so too: nobody waits in a circle.
"""

import json
from datetime import datetime
from typing import Any, Final, NamedTuple

from msgspec.structs import asdict, replace
from sqlalchemy import (
    BigInteger,
    Connection,
    Integer,
    and_,
    bindparam,
    case,
    func,
    insert,
    literal,
    literal_column,
    or_,
    select,
    tuple_,
    update,
)

from accord.errors import StoreConflictError
from accord.ports import PacketBatch, TurnEnd, TurnStart
from accord.stores.erase import check_not_deleting
from accord.stores.prepared import Prepared, Row, by_engine, database_now, overwriting, values_of
from accord.stores.rules import (
    NO_SESSION,
    NOT_ITS_RECEIPT,
    NOT_ITS_SESSION,
    NOT_NEXT,
    NOT_RUNNING,
    NOT_YOURS,
    check_quota,
    stored_size,
)
from accord.stores.schema import IS_DELETING, IS_RUNNING, items, messages, packets, receipts, sessions, turns
from accord.stores.transcripts import add_stored_bytes, history_of, stored_bytes_of
from accord.wire.request import ClientCapabilities
from accord.wire.session import PacketRecord, SessionRecord, TurnRecord, TurnState

_SESSION: Final = [sessions.c[name] for name in SessionRecord.__struct_fields__]
TURN_COLUMNS: Final = [turns.c[name] for name in TurnRecord.__struct_fields__]


# Sessions


_SESSION_OF: Final = Prepared(select(*_SESSION).where(sessions.c.session_id == bindparam("of"), ~IS_DELETING))


def session_of(connection: Connection, session_id: str) -> SessionRecord | None:
    """The session of that id."""
    row = _SESSION_OF.row(connection, {"of": session_id})
    return None if row is None else _session(row)


def sessions_of(connection: Connection, owner: str, limit: int, after: SessionRecord | None) -> list[SessionRecord]:
    """A page of an owner's sessions, the newest first."""
    page = (sessions.c.created_at, sessions.c.session_id)
    asked = select(*_SESSION).where(sessions.c.owner == owner, ~IS_DELETING)
    if after is not None:
        asked = asked.where(tuple_(*page) < tuple_(literal(after.created_at, page[0].type), after.session_id))
    asked = asked.order_by(*(column.desc() for column in page)).limit(limit)
    return [_session(row) for row in connection.execute(asked)]


def _session(row: Row) -> SessionRecord:
    fields: dict[str, Any] = dict(zip(SessionRecord.__struct_fields__, row, strict=True))
    fields["negotiated"] = json.loads(fields["negotiated"])
    fields["capabilities"] = _declared(fields["capabilities"])
    return SessionRecord(**fields)


def _declared(body: str | None) -> ClientCapabilities | None:
    return None if body is None else ClientCapabilities.parse(body)


# The beginning of a turn


def _renew(new: Any) -> Any:
    said = new.excluded
    return new.on_conflict_do_update(
        index_elements=["session_id"],
        set_={
            "agent": said.agent,
            "capabilities": func.coalesce(said.capabilities, sessions.c.capabilities),
            "negotiated": case((said.capabilities.is_(None), sessions.c.negotiated), else_=said.negotiated),
            "updated_at": case((said.updated_at > sessions.c.updated_at, said.updated_at), else_=sessions.c.updated_at),
        },
        where=and_(sessions.c.owner == said.owner, ~IS_DELETING),
    )


_BEGUN: Final = {**values_of(turns, *TurnRecord.__struct_fields__), "leased_at": database_now()}
_NEW_TURN: Final = by_engine(
    lambda new: new(turns).values(_BEGUN).on_conflict_do_nothing(index_elements=["request_id"])
)
_KEPT: Final = [sessions.c[name] for name in ("created_at", "updated_at", "capabilities", "negotiated")]
_PUT: Final = by_engine(
    lambda new: _renew(new(sessions).values(values_of(sessions, *SessionRecord.__struct_fields__))).returning(
        *_KEPT, sessions.c.message_count, sessions.c.receipt_hash
    )
)


def begin_turn(
    connection: Connection,
    session: SessionRecord,
    turn: TurnRecord,
    history: tuple[int, int],
    quota_bytes: int | None,
) -> TurnStart:
    """Insert a turn whose request id is new, and insert or renew its session; else the turn that has that id."""
    if (turn.session_id, turn.owner) != (session.session_id, session.owner):
        raise StoreConflictError(NOT_ITS_SESSION)
    row = {**asdict(turn), "state": turn.state.value}
    # One that is deleted between the two questions is new after all.
    for _ in range(2):
        if _NEW_TURN.met(connection, row):
            return _begun(connection, session, history, quota_bytes)
        if known := turn_of(connection, turn.request_id):
            return TurnStart(_must_be(session_of(connection, known.session_id)), known)
    check_not_deleting(connection, session.session_id, turn.request_id)
    raise StoreConflictError(NO_SESSION)


def _begun(
    connection: Connection, session: SessionRecord, history: tuple[int, int], quota_bytes: int | None
) -> TurnStart:
    """Insert or renew the session of a turn that was just inserted; what a new turn has to know."""
    if quota_bytes is not None:
        check_quota(stored_bytes_of(connection, session.owner), quota_bytes)
    row = _PUT.row(connection, {**asdict(session), **_as_text(session)})
    if row is None:
        check_not_deleting(connection, session.session_id)
        raise StoreConflictError(NOT_YOURS)
    *kept, said, chain = row
    limit, max_bytes = history
    last = history_of(connection, session.session_id, min(limit, said), max_bytes)
    return TurnStart(_renewed(session, *kept), None, last, chain)


def _must_be(found: SessionRecord | None) -> SessionRecord:
    if found is None:
        raise StoreConflictError(NO_SESSION)
    return found


def _renewed(
    session: SessionRecord, created_at: datetime, updated_at: datetime, capabilities: str | None, negotiated: str
) -> SessionRecord:
    """The session as it is kept: what was said of it now, and what it was before where nothing was said."""
    kept: dict[str, Any] = {"created_at": created_at, "updated_at": updated_at}
    if session.capabilities is None:
        kept |= {"capabilities": _declared(capabilities), "negotiated": json.loads(negotiated)}
    return replace(session, **kept)


def _as_text(session: SessionRecord) -> dict[str, str | None]:
    declared = session.capabilities
    return {
        "capabilities": None if declared is None else declared.to_json(),
        "negotiated": json.dumps(session.negotiated),
    }


# Turns


_TURN_OF: Final = Prepared(
    select(*TURN_COLUMNS)
    .join_from(turns, sessions, turns.c.session_id == sessions.c.session_id)
    .where(turns.c.request_id == bindparam("of"), ~IS_DELETING)
)


def turn_of(connection: Connection, request_id: str) -> TurnRecord | None:
    """The turn of that request id."""
    row = _TURN_OF.row(connection, {"of": request_id})
    return None if row is None else turn_record(row)


def turn_record(row: Row) -> TurnRecord:
    """The record of a row of `TURN_COLUMNS`."""
    fields: dict[str, Any] = dict(zip(TurnRecord.__struct_fields__, row, strict=True))
    fields["state"] = TurnState(fields["state"])
    return TurnRecord(**fields)


# Packets and items


_ADDED: Final = bindparam("added", type_=Integer)
_STORED: Final = bindparam("stored", type_=BigInteger)
_ADVANCE: Final = Prepared(
    update(turns)
    .where(turns.c.request_id == bindparam("of"), IS_RUNNING)
    .where(or_(literal_column("0") == _ADDED, turns.c.last_seq == bindparam("before")))
    .values(last_seq=turns.c.last_seq + _ADDED, stored_bytes=turns.c.stored_bytes + _STORED)
)
_KEEP: Final = Prepared(insert(packets).values(values_of(packets)))
_KEEP_ITEM: Final = overwriting(items)


def append_packets(connection: Connection, new: PacketBatch) -> None:
    """Add packets that follow what their turn already has, and items."""
    added = {"added": len(new.packets), "stored": stored_size(*new.packets, *new.items.values())}
    if not _ADVANCE.met(connection, {"of": new.request_id, "before": new.first_seq - 1, **added}):
        raise StoreConflictError(NOT_NEXT)
    _keep(connection, new)


def _keep(connection: Connection, new: PacketBatch) -> None:
    numbered = enumerate(new.packets, start=new.first_seq)
    of = new.request_id
    _KEEP.each(connection, [{"request_id": of, "seq": seq, "body": body} for seq, body in numbered])
    kept = [{"request_id": of, "item_id": item_id, "body": body} for item_id, body in new.items.items()]
    _KEEP_ITEM.each(connection, kept)


_PACKETS_OF: Final = Prepared(
    select(packets.c.seq, packets.c.body)
    .where(packets.c.request_id == bindparam("of"), packets.c.seq > bindparam("after"))
    .order_by(packets.c.seq)
    .limit(bindparam("limit", type_=Integer))
)


def packets_of(connection: Connection, request_id: str, after_seq: int, limit: int) -> list[PacketRecord]:
    """The packets of a turn that follow a number."""
    found = _PACKETS_OF.rows(connection, {"of": request_id, "after": after_seq, "limit": limit})
    return [PacketRecord(seq=seq, body=body) for seq, body in found]


_ITEM: Final = Prepared(
    select(items.c.body).where(items.c.request_id == bindparam("of"), items.c.item_id == bindparam("item"))
)


def item(connection: Connection, request_id: str, item_id: str) -> str | None:
    """What was kept under this id of a turn."""
    row = _ITEM.row(connection, {"of": request_id, "item": item_id})
    return row[0] if row else None


# The end of a turn


# The session is held until the transaction ends; on SQLite the whole file is, anyway.
_HOLD: Final = Prepared(
    select(
        turns.c.state,
        turns.c.last_seq,
        turns.c.stored_bytes,
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


class _Held(NamedTuple):
    """A turn that is about to end, and its session."""

    state: str
    last_seq: int
    stored: int
    session_id: str
    owner: str
    said: int
    sealed: int
    chain: str | None


_END: Final = Prepared(
    update(turns)
    .where(turns.c.request_id == bindparam("of"), IS_RUNNING, turns.c.last_seq == bindparam("before"))
    .values(state=bindparam("new_state"), ended_at=bindparam("at"), last_seq=bindparam("last"))
)


def end_turn(connection: Connection, ending: TurnEnd) -> bool:
    """End a running turn and add what it leaves; False, with nothing written, if its receipt comes too late."""
    last, receipt = ending.last, ending.receipt
    row = _HOLD.row(connection, {"of": last.request_id})
    if row is None or row[0] != TurnState.RUNNING.value:
        raise StoreConflictError(NOT_RUNNING)
    held = _Held(*row)
    if receipt and (receipt.request_id, receipt.session_id) != (last.request_id, held.session_id):
        raise StoreConflictError(NOT_ITS_RECEIPT)
    if receipt and receipt.previous_hash != held.chain:
        return False
    if last.packets and last.first_seq != held.last_seq + 1:
        raise StoreConflictError(NOT_NEXT)
    over = {"of": last.request_id, "before": held.last_seq, "last": held.last_seq + len(last.packets)}
    if not _END.met(connection, {**over, "new_state": ending.state.value, "at": ending.ended_at}):
        raise StoreConflictError(NOT_RUNNING)  # another process was faster
    _keep(connection, last)
    add_stored_bytes(connection, held.owner, _leave(connection, held, ending))
    return True


_SAY: Final = Prepared(insert(messages).values(values_of(messages)))
_SEAL: Final = Prepared(insert(receipts).values(values_of(receipts)))
_AT: Final = bindparam("at", type_=sessions.c.updated_at.type)
_GROW: Final = Prepared(
    update(sessions)
    .where(sessions.c.session_id == bindparam("of"))
    .values(
        updated_at=case((sessions.c.updated_at < _AT, _AT), else_=sessions.c.updated_at),
        message_count=sessions.c.message_count + bindparam("said", type_=Integer),
        receipt_count=sessions.c.receipt_count + bindparam("sealed", type_=Integer),
        stored_bytes=sessions.c.stored_bytes + _STORED,
        receipt_hash=func.coalesce(bindparam("chain", type_=sessions.c.receipt_hash.type), sessions.c.receipt_hash),
    )
)


def _leave(connection: Connection, held: _Held, ending: TurnEnd) -> int:
    """Add a turn's messages and receipt to those that its session, whose row is held, already has.

    Gives how many bytes are stored of the turn in all.
    """
    bodies = [message.to_json() for message in ending.messages]
    rows = [{"session_id": held.session_id, "size": stored_size(body), "body": body} for body in bodies]
    _SAY.each(connection, [{**row, "position": place} for place, row in enumerate(rows, start=held.said + 1)])
    receipt = ending.receipt
    if receipt:
        _SEAL.met(connection, {**asdict(receipt), "position": held.sealed + 1})
        bodies.append(receipt.body)
    stored = held.stored + stored_size(*ending.last.packets, *ending.last.items.values(), *bodies)
    grown = {"said": len(rows), "sealed": int(receipt is not None), "chain": receipt and receipt.hash}
    _GROW.met(connection, {"of": held.session_id, "at": ending.ended_at, "stored": stored, **grown})
    return stored
