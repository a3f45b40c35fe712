"""What is asked of the tables: plain functions over a connection, the same on every engine.

They neither begin nor end a transaction: whoever calls them does, and a conflict that is raised here means that the
caller rolls back. They know nothing of threads, loops or files. Deleting is told by `erase.py`.

What every turn asks is built once, above the function that asks it: building costs more than SQLite's answer.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, RowMapping, bindparam, case, insert, literal, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite

from accord.errors import StoreConflictError
from accord.stores.schema import messages, packets, receipts, sessions, turns
from accord.stores.told import NO_SESSION, NOT_ITS_RECEIPT, NOT_NEXT, NOT_RUNNING, NOT_YOURS
from accord.wire.chat import ChatMessage
from accord.wire.client import ClientCapabilities
from accord.wire.session import PacketRecord, ReceiptRecord, SessionRecord, TurnRecord, TurnState

# One word apart, and SQLAlchemy has no common one: "insert, unless it is there".
_INSERT: Final[Mapping[str, Any]] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
_NEW_TURN: Final[Mapping[str, Any]] = {
    name: new(turns).on_conflict_do_nothing(index_elements=["request_id"]) for name, new in _INSERT.items()
}

_SESSION: Final = [sessions.c[name] for name in SessionRecord.model_fields]
_TURN: Final = [turns.c[name] for name in TurnRecord.model_fields]
_RECEIPT: Final = [receipts.c[name] for name in ReceiptRecord.model_fields]


@dataclass(frozen=True, slots=True)
class Append:
    """Packets to be added to one turn."""

    request_id: str
    first_seq: int
    bodies: Sequence[str]


def probe(connection: Connection) -> None:
    """Ask for nothing, and get it."""
    connection.execute(select(literal(1)))


def _put(new: Any) -> Any:
    return new.on_conflict_do_update(
        index_elements=["session_id"],
        set_={name: new.excluded[name] for name in ("agent", "capabilities", "negotiated", "updated_at")},
        where=sessions.c.owner == new.excluded.owner,
    )


_PUT: Final[Mapping[str, Any]] = {name: _put(new(sessions)) for name, new in _INSERT.items()}


def put_session(connection: Connection, session: SessionRecord) -> None:
    """Insert or renew a session, unless it is another owner's."""
    declared = session.capabilities
    row = {
        **{name: getattr(session, name) for name in ("session_id", "owner", "agent", "created_at", "updated_at")},
        "capabilities": None if declared is None else declared.to_json(),
        "negotiated": json.dumps(session.negotiated),
    }
    if connection.execute(_PUT[connection.dialect.name], row).rowcount != 1:
        raise StoreConflictError(NOT_YOURS)


_SESSION_OF: Final = select(*_SESSION).where(sessions.c.session_id == bindparam("of"))


def session(connection: Connection, session_id: str) -> SessionRecord | None:
    """The session of that id."""
    row = connection.execute(_SESSION_OF, {"of": session_id}).mappings().first()
    return None if row is None else _session(row)


def sessions_of(connection: Connection, owner: str, limit: int, after: SessionRecord | None) -> list[SessionRecord]:
    """A page of an owner's sessions, the newest first."""
    page = (sessions.c.created_at, sessions.c.session_id)
    asked = select(*_SESSION).where(sessions.c.owner == owner)
    if after is not None:
        asked = asked.where(tuple_(*page) < tuple_(literal(after.created_at, page[0].type), after.session_id))
    asked = asked.order_by(*(column.desc() for column in page)).limit(limit)
    return [_session(row) for row in connection.execute(asked).mappings()]


def begin_turn(connection: Connection, turn: TurnRecord) -> TurnRecord | None:
    """Insert a turn whose request id is new, else the turn that has it. A turn is always of its session's owner."""
    if not _touch(connection, turn.session_id, turn.owner, turn.created_at):
        raise StoreConflictError(NO_SESSION)
    if connection.execute(_NEW_TURN[connection.dialect.name], turn.model_dump()).rowcount == 1:
        return None
    return turn_of(connection, turn.request_id)


_TURN_OF: Final = select(*_TURN).where(turns.c.request_id == bindparam("of"))


def turn_of(connection: Connection, request_id: str) -> TurnRecord | None:
    """The turn of that request id."""
    row = connection.execute(_TURN_OF, {"of": request_id}).mappings().first()
    return None if row is None else TurnRecord(**row)


def unfinished(connection: Connection, before: datetime, limit: int) -> list[TurnRecord]:
    """Turns still running that began before then."""
    left = (turns.c.state == TurnState.RUNNING.value) & (turns.c.created_at < before)
    asked = select(*_TURN).where(left).order_by(turns.c.created_at, turns.c.request_id).limit(limit)
    return [TurnRecord(**row) for row in connection.execute(asked).mappings()]


_ADVANCE: Final = (
    update(turns)
    .where(turns.c.request_id == bindparam("of"), turns.c.state == TurnState.RUNNING.value)
    .where(turns.c.last_seq == bindparam("before"))
    .values(last_seq=bindparam("last"))
)
_KEEP: Final = insert(packets)


def append_packets(connection: Connection, appends: Sequence[Append]) -> None:
    """Add packets, where every append follows what its turn already has; one that does not makes all of them fail."""
    advances = [
        {"of": new.request_id, "before": new.first_seq - 1, "last": new.first_seq - 1 + len(new.bodies)}
        for new in appends
    ]
    # With several, only SQLite says how many rows were met; PostgreSQL is given one append at a time.
    if connection.execute(_ADVANCE, advances if len(advances) > 1 else advances[0]).rowcount != len(appends):
        raise StoreConflictError(NOT_NEXT)
    rows = [
        {"request_id": new.request_id, "seq": new.first_seq + number, "body": body}
        for new in appends
        for number, body in enumerate(new.bodies)
    ]
    if rows:
        connection.execute(_KEEP, rows)


_PACKETS_OF: Final = (
    select(packets.c.seq, packets.c.body)
    .where(packets.c.request_id == bindparam("of"), packets.c.seq > bindparam("after"))
    .order_by(packets.c.seq)
    .limit(bindparam("limit"))
)


def packets_of(connection: Connection, request_id: str, after_seq: int, limit: int) -> list[PacketRecord]:
    """The packets of a turn that follow a number."""
    found = connection.execute(_PACKETS_OF, {"of": request_id, "after": after_seq, "limit": limit})
    return [PacketRecord(seq=seq, body=body) for seq, body in found]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a turn ends, and what it leaves behind."""

    request_id: str
    state: TurnState
    ended_at: datetime
    messages: Sequence[ChatMessage]
    receipt: ReceiptRecord | None


# Held until the transaction ends; on SQLite the whole file is, anyway.
_HOLD: Final = select(sessions).where(sessions.c.session_id == bindparam("of")).with_for_update()
_END: Final = (
    update(turns)
    .where(turns.c.request_id == bindparam("of"), turns.c.state == TurnState.RUNNING.value)
    .values(state=bindparam("new_state"), ended_at=bindparam("at"))
)


def end_turn(connection: Connection, ending: Ending) -> bool:
    """End a running turn and add what it leaves; False, with nothing written, if its receipt comes too late."""
    turn, receipt = turn_of(connection, ending.request_id), ending.receipt
    if turn is None or turn.state is not TurnState.RUNNING:
        raise StoreConflictError(NOT_RUNNING)
    if receipt and (receipt.request_id, receipt.session_id) != (turn.request_id, turn.session_id):
        raise StoreConflictError(NOT_ITS_RECEIPT)
    row = connection.execute(_HOLD, {"of": turn.session_id}).mappings().one()
    if receipt and receipt.previous_hash != row["receipt_hash"]:
        return False
    over = {"of": turn.request_id, "new_state": ending.state.value, "at": ending.ended_at}
    if connection.execute(_END, over).rowcount != 1:
        raise StoreConflictError(NOT_RUNNING)
    _leave(connection, row, ending)
    return True


_SAY: Final = insert(messages)
_SEAL: Final = insert(receipts)
_GROWN: Final = ("updated_at", "message_count", "receipt_count", "receipt_hash")
_GROW: Final = (
    update(sessions)
    .where(sessions.c.session_id == bindparam("of"))
    .values({name: bindparam(f"new_{name}") for name in _GROWN})
)


def _leave(connection: Connection, session: RowMapping, ending: Ending) -> None:
    """Add a turn's messages and receipt to its session, whose row is held."""
    session_id, grown = session["session_id"], {name: session[name] for name in _GROWN}
    grown["updated_at"] = max(grown["updated_at"], ending.ended_at)
    if ending.messages:
        bodies = enumerate((message.to_json() for message in ending.messages), start=grown["message_count"] + 1)
        connection.execute(
            _SAY, [{"session_id": session_id, "position": place, "body": body} for place, body in bodies]
        )
        grown["message_count"] += len(ending.messages)
    if ending.receipt:
        grown["receipt_count"] += 1
        grown["receipt_hash"] = ending.receipt.hash
        connection.execute(_SEAL, {**ending.receipt.model_dump(), "position": grown["receipt_count"]})
    connection.execute(_GROW, {"of": session_id, **{f"new_{name}": value for name, value in grown.items()}})


_SAID: Final = (
    select(messages.c.body)
    .where(messages.c.session_id == bindparam("of"))
    .order_by(messages.c.position.desc())
    .limit(bindparam("limit"))
)


def history(connection: Connection, session_id: str, limit: int) -> list[ChatMessage]:
    """The last messages of a session, the oldest of them first."""
    last = connection.execute(_SAID, {"of": session_id, "limit": limit}).scalars().all()
    return [ChatMessage.parse(body) for body in reversed(last)]


_CHAIN: Final = select(sessions.c.receipt_hash).where(sessions.c.session_id == bindparam("of"))


def last_receipt_hash(connection: Connection, session_id: str) -> str | None:
    """The hash at the end of a session's chain."""
    return connection.execute(_CHAIN, {"of": session_id}).scalar_one_or_none()


def receipts_of(connection: Connection, session_id: str) -> list[ReceiptRecord]:
    """A session's receipts in the order of their chain."""
    asked = select(*_RECEIPT).where(receipts.c.session_id == session_id).order_by(receipts.c.position)
    return [ReceiptRecord(**row) for row in connection.execute(asked).mappings()]


def receipt_of(connection: Connection, request_id: str) -> ReceiptRecord | None:
    """The receipt of one turn."""
    row = connection.execute(select(*_RECEIPT).where(receipts.c.request_id == request_id)).mappings().first()
    return None if row is None else ReceiptRecord(**row)


_AT: Final = bindparam("at", type_=sessions.c.updated_at.type)
_TOUCH: Final = (
    update(sessions)
    .where(sessions.c.session_id == bindparam("of"), sessions.c.owner == bindparam("by"))
    .values(updated_at=case((sessions.c.updated_at < _AT, _AT), else_=sessions.c.updated_at))
)


def _touch(connection: Connection, session_id: str, owner: str, at: datetime) -> bool:
    """Whether the owner has such a session; it is then no older than this moment, and held until the end."""
    return connection.execute(_TOUCH, {"of": session_id, "by": owner, "at": at}).rowcount == 1


def _session(row: RowMapping) -> SessionRecord:
    fields: dict[str, Any] = {**row, "negotiated": json.loads(row["negotiated"])}
    if row["capabilities"] is not None:
        fields["capabilities"] = ClientCapabilities.parse(row["capabilities"])
    return SessionRecord(**fields)
