"""What is deleted, and counted: a user's data, and sessions that nobody has used for long. Whole sessions only.

A receipt names the one before it, so a session is kept with all of its receipts or not at all. Items are not counted:
the schema has them go with their turns. Tokens go with their user, never by age.
"""

from datetime import datetime

from sqlalchemy import ColumnElement, Connection, Delete, delete, select

from accord.stores.schema import messages, packets, receipts, sessions, tokens, turns
from accord.wire.session import Erased


def delete_user(connection: Connection, owner: str, limit: int) -> Erased:
    """Delete the tokens of an owner and up to `limit` sessions, with everything in them."""
    revoked = connection.execute(delete(tokens).where(tokens.c.user == owner)).rowcount
    return _erase(connection, sessions.c.owner == owner, limit) + Erased(tokens=revoked)


def expire(connection: Connection, before: datetime, limit: int) -> Erased:
    """Delete up to `limit` sessions that nothing has happened in since then."""
    return _erase(connection, sessions.c.updated_at < before, limit)


def _erase(connection: Connection, chosen: ColumnElement[bool], limit: int) -> Erased:
    # Held first: a turn that is about to begin or end in one of them waits, and then finds it gone.
    held = select(sessions.c.session_id).where(chosen).order_by(sessions.c.session_id).limit(limit).with_for_update()
    doomed = connection.execute(held).scalars().all()
    theirs = select(turns.c.request_id).where(turns.c.session_id.in_(doomed))

    def count(statement: Delete) -> int:
        return connection.execute(statement).rowcount

    return Erased(
        packets=count(delete(packets).where(packets.c.request_id.in_(theirs))),
        messages=count(delete(messages).where(messages.c.session_id.in_(doomed))),
        receipts=count(delete(receipts).where(receipts.c.session_id.in_(doomed))),
        turns=count(delete(turns).where(turns.c.session_id.in_(doomed))),
        sessions=count(delete(sessions).where(sessions.c.session_id.in_(doomed))),
    )
