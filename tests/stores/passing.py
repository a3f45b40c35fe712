"""Let time pass for a store without waiting: its stored times become older."""

from sqlalchemy import Connection, text

from accord.ports import SessionStore
from accord.stores.sql import SqlStore

STAMPS = (
    "turns.leased_at",
    "turns.read_at",
    "runners.seen_at",
    "slots.taken_at",
    "work.queued_at",
    "reservations.renewed_at",
)


async def let_pass(store: SessionStore, seconds: float) -> None:
    """Make everything that the store has stamped so much older."""
    assert isinstance(store, SqlStore)
    await store.write(_make_older, seconds)


def _make_older(connection: Connection, seconds: float) -> None:
    for stamp in STAMPS:
        table, column = stamp.split(".")
        connection.execute(text(f"UPDATE {table} SET {column} = {column} - {int(seconds * 1e6)}"))  # noqa: S608
