"""Statements on prompts, messages and receipts, and on the bytes stored for each user.

Bytes are counted when a turn ends, and subtracted when its session is deleted. A session that is being deleted has no
messages and receipts.
"""

from collections.abc import Sequence
from io import BytesIO
from typing import Any, Final

import msgspec
from sqlalchemy import (
    BigInteger,
    BindParameter,
    Column,
    ColumnElement,
    Connection,
    Integer,
    LargeBinary,
    and_,
    bindparam,
    cast,
    func,
    insert,
    select,
)

from accord.acp.content import prompt_text
from accord.ports import StoredTotal
from accord.stores.prepared import PreparedStatement, Row, by_engine, values_of
from accord.stores.receipt_text import unpack
from accord.stores.schema import IS_DELETING, TextSource, messages, packets, prompts, receipts, sessions, turns, usage
from accord.wire.conversation import ChatMessage, Transcript
from accord.wire.packet import DeltaPacket, StreamPacket
from accord.wire.session import ReceiptRecord, RunRecord, SessionKind


def _add(new: Any) -> Any:
    row = new(usage).values(values_of(usage))
    total = usage.c.stored_bytes + row.excluded.stored_bytes
    return row.on_conflict_do_update(index_elements=["owner"], set_={"stored_bytes": total})


_ADD: Final = by_engine(_add)
_STORED: Final = PreparedStatement(select(usage.c.stored_bytes).where(usage.c.owner == bindparam("of")))


def add_stored_bytes(connection: Connection, owner: str, count: int) -> None:
    """Add to the bytes stored for this user; a negative number subtracts."""
    _ADD.rowcount(connection, {"owner": owner, "stored_bytes": count})


def stored_bytes_of(connection: Connection, owner: str) -> int:
    """The number of bytes stored for this user."""
    row = _STORED.first(connection, {"of": owner})
    return row[0] if row else 0


_STORED_TOTALS: Final = PreparedStatement(
    select(
        sessions.c.kind,
        func.count(),
        cast(func.sum(sessions.c.stored_bytes), BigInteger),
        func.min(sessions.c.created_at, type_=sessions.c.created_at.type),
    )
    .where(~IS_DELETING)
    .group_by(sessions.c.kind)
    .order_by(sessions.c.kind)
)


def stored_totals(connection: Connection) -> list[StoredTotal]:
    """What the sessions hold, by kind."""
    return [StoredTotal(SessionKind(kind), *totals) for kind, *totals in _STORED_TOTALS.rows(connection, {})]


PROMPT_PART_BYTES: Final = 256 * 1024
_ADD_PROMPT: Final = PreparedStatement(insert(prompts).values(values_of(prompts)))
_PROMPT_OF: Final = PreparedStatement(
    select(prompts.c.body).where(prompts.c.request_id == bindparam("of")).order_by(prompts.c.part)
)
_PACKETS_OF: Final = PreparedStatement(
    select(packets.c.body).where(packets.c.request_id == bindparam("of")).order_by(packets.c.seq)
)


def insert_prompt(connection: Connection, request_id: str, prompt: bytes) -> None:
    """Store the prompt of a turn."""
    for part, start in enumerate(range(0, len(prompt), PROMPT_PART_BYTES)):
        body = prompt[start : start + PROMPT_PART_BYTES]
        _ADD_PROMPT.rowcount(connection, {"request_id": request_id, "part": part, "body": body})


def prompt_of(connection: Connection, request_id: str) -> bytes:
    """The prompt that is stored with a turn; empty if none is."""
    whole = BytesIO()  # joining all parts would take the memory of a long prompt twice
    for (body,) in _PROMPT_OF.iterate(connection, {"of": request_id}):
        whole.write(body)
    return whole.getvalue()


_OF: Final[BindParameter[str]] = bindparam("of")


def _last_messages(*which: ColumnElement[bool], order: Sequence[Column[Any]]) -> PreparedStatement:
    """Select the last of these messages that fit. Sizes alone decide: bodies that do not fit are not read."""
    last = (
        select(messages.c.session_id, messages.c.position, messages.c.added_at, messages.c.size)
        .join_from(messages, sessions, messages.c.session_id == sessions.c.session_id)
        .where(*which, ~IS_DELETING)
        .order_by(*(column.desc() for column in order))
        .limit(bindparam("limit", type_=Integer))
        .subquery()
    )
    newest_first = [last.c[column.name].desc() for column in order]
    total = func.sum(last.c.size).over(order_by=newest_first).label("total")
    fitting = select(last.c.session_id, last.c.position, total).subquery()
    return PreparedStatement(
        select(messages.c.body, messages.c.request_id, messages.c.text_in)
        .join(
            fitting,
            and_(messages.c.session_id == fitting.c.session_id, messages.c.position == fitting.c.position),
        )
        .where(fitting.c.total <= bindparam("bytes", type_=BigInteger))
        .order_by(*order)
    )


_SESSION_HISTORY: Final = _last_messages(messages.c.session_id == _OF, order=[messages.c.position])
_OWN_HISTORY: Final = _last_messages(
    messages.c.session_id == _OF, messages.c.conversation_id.is_(None), order=[messages.c.position]
)
_NAMED_HISTORY: Final = _last_messages(
    messages.c.conversation_id == bindparam("conversation"),
    sessions.c.owner == bindparam("owner"),
    order=[messages.c.added_at, messages.c.session_id, messages.c.position],
)


def history_of(connection: Connection, session_id: str, limit: int, max_bytes: int) -> Sequence[ChatMessage]:
    """The last messages of a session that fit, whole, the oldest of them first."""
    return _transcript(connection, _SESSION_HISTORY, {"of": session_id, "limit": limit, "bytes": max_bytes})


def conversation_of(connection: Connection, turn: RunRecord, limit: int, max_bytes: int) -> Sequence[ChatMessage]:
    """The last messages of this turn's conversation that fit: a named one's in any session, else its session's own."""
    values: dict[str, Any] = {"limit": limit, "bytes": max_bytes}
    if turn.conversation_id is None:
        return _transcript(connection, _OWN_HISTORY, {**values, "of": turn.session_id})
    of = {"conversation": turn.conversation_id, "owner": turn.owner}
    return _transcript(connection, _NAMED_HISTORY, {**values, **of})


def messages_of(connection: Connection, session_id: str, limit: int, max_bytes: int) -> dict[str, list[ChatMessage]]:
    """The same messages, by the turn that added them; without those of earlier versions, which do not name it."""
    found: dict[str, list[ChatMessage]] = {}
    for row in _SESSION_HISTORY.rows(connection, {"of": session_id, "limit": limit, "bytes": max_bytes}):
        if row[1] is not None:
            found.setdefault(row[1], []).append(ChatMessage.parse(_body(connection, row)))
    return found


def _transcript(connection: Connection, query: PreparedStatement, values: dict[str, Any]) -> Sequence[ChatMessage]:
    if not values["limit"]:
        return []
    return Transcript([_body(connection, row) for row in query.rows(connection, values)])


def _body(connection: Connection, row: Row) -> str:
    """The JSON of a message, whose text may be elsewhere."""
    body, request_id, text_in = row
    if text_in is None:
        return body
    if text_in == TextSource.PROMPT:
        text = prompt_text(msgspec.json.decode(prompt_of(connection, request_id)))
    else:
        made = (StreamPacket.parse(packet) for (packet,) in _PACKETS_OF.rows(connection, {"of": request_id}))
        text = "".join([packet.p for packet in made if isinstance(packet, DeltaPacket)])
    return ChatMessage.parse(body).model_copy(update={"content": text}).to_json()


_LAST_HASH: Final = PreparedStatement(select(sessions.c.receipt_hash).where(sessions.c.session_id == _OF, ~IS_DELETING))


def last_receipt_hash(connection: Connection, session_id: str) -> str | None:
    """The hash of the session's last receipt."""
    row = _LAST_HASH.first(connection, {"of": session_id})
    return row[0] if row else None


_RECEIPTS: Final = (
    # The cast makes no difference, but for what someone has written into SQLite's file as text.
    select(receipts.c.session_id, cast(receipts.c.body, LargeBinary))
    .join_from(receipts, sessions, receipts.c.session_id == sessions.c.session_id)
    .where(~IS_DELETING)
)
_RECEIPTS_OF: Final = PreparedStatement(
    _RECEIPTS.where(
        receipts.c.session_id == _OF,
        # The positions of a chain have no gaps, and a page by position costs the same wherever it is.
        receipts.c.position > bindparam("after", type_=Integer),
        receipts.c.position <= bindparam("to", type_=Integer),
    ).order_by(receipts.c.position)
)
_LAST_POSITION: Final = 2**31 - 1
_RECEIPT_OF: Final = PreparedStatement(
    _RECEIPTS.join(
        turns, and_(turns.c.session_id == receipts.c.session_id, turns.c.receipt_position == receipts.c.position)
    ).where(turns.c.request_id == _OF)
)


def receipts_of(connection: Connection, session_id: str, after: int, limit: int | None) -> list[ReceiptRecord]:
    """A session's receipts in the order of their chain, or a page of them."""
    to = _LAST_POSITION if limit is None else after + limit
    return [_receipt(row) for row in _RECEIPTS_OF.rows(connection, {"of": session_id, "after": after, "to": to})]


def receipt_of(connection: Connection, request_id: str) -> ReceiptRecord | None:
    """The receipt of one turn."""
    row = _RECEIPT_OF.first(connection, {"of": request_id})
    return None if row is None else _receipt(row)


class _ReceiptLinks(msgspec.Struct):
    """The members of a receipt that name its turn, itself and the receipt before it."""

    request_id: str = ""
    hash: str = ""
    previous: str | None = None


_read_links: Final = msgspec.json.Decoder(_ReceiptLinks).decode


def _receipt(row: Row) -> ReceiptRecord:
    session_id, body = row[0], unpack(row[1])
    try:
        links = _read_links(body)
    except msgspec.MsgspecError:  # someone has changed it
        links = _ReceiptLinks()
    return ReceiptRecord(
        request_id=links.request_id,
        session_id=session_id,
        body=body,
        hash=links.hash,
        previous_hash=links.previous,
    )
