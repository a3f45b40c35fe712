"""Let time pass for a store without waiting: its stored times become older, by its own clock."""

from time import monotonic

from sqlalchemy import Connection, text

from accord.ports import SessionStore
from accord.stores.memory import MemoryStore
from accord.stores.sql import SqlStore

STAMPS = (
    "turns.leased_at",
    "turns.read_at",
    "runners.seen_at",
    "slots.taken_at",
    "work.queued_at",
    "reservations.renewed_at",
)


class MovableClock:
    """The clock of a memory store."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return monotonic() + self.ahead_s


class AgeingMemoryStore(MemoryStore):
    """A memory store whose clock can be moved on."""

    def __init__(self) -> None:
        self.clock = MovableClock()
        super().__init__(self.clock)


async def let_pass(store: SessionStore, seconds: float) -> None:
    """Make everything that the store has stamped so much older."""
    if isinstance(store, AgeingMemoryStore):
        store.clock.ahead_s += seconds
    else:
        assert isinstance(store, SqlStore)
        await store.write(_make_older, seconds)


def _make_older(connection: Connection, seconds: float) -> None:
    for stamp in STAMPS:
        table, column = stamp.split(".")
        connection.execute(text(f"UPDATE {table} SET {column} = {column} - {int(seconds * 1e6)}"))  # noqa: S608
