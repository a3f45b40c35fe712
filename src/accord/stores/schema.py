"""The tables, the same on every engine; `migrations/` has the steps that lead to them.

Times are whole microseconds since 1970 and JSON is text, so that both engines return exactly what they were given.

On SQLite a table whose rows are small has no rowid and is its own index. One whose rows can be large has a rowid: to
compare keys SQLite would otherwise read whole rows, megabytes for each step of every search.
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    literal_column,
)

from accord.wire.session import SessionKind, StoredState


class TextSource(StrEnum):
    """What of its turn has the text of a message that does not hold it itself."""

    PROMPT = "prompt"
    PACKETS = "packets"


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Instant(TypeDecorator[datetime]):
    """A moment, stored as a number that sorts the same on every engine."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:  # noqa: ARG002
        """The number for a moment; a time without a zone raises TypeError."""
        return None if value is None else (value - _EPOCH) // _MICROSECOND

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """The moment for a number."""
        return None if value is None else _EPOCH + value * _MICROSECOND


class Day(TypeDecorator[date]):
    """A day, stored as ISO text, which sorts the same on every engine."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: date | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """The text of a day."""
        return None if value is None else value.isoformat()

    def process_result_value(self, value: str | None, dialect: Dialect) -> date | None:  # noqa: ARG002
        """The day of a text."""
        return None if value is None else date.fromisoformat(value)


# Ids are compared as bytes on both engines, so that pages have one order whatever the database's language.
ID: Final = Text().with_variant(Text(collation="C"), "postgresql")

METADATA: Final = MetaData(naming_convention={"pk": "pk_%(table_name)s", "fk": "fk_%(table_name)s"})

# A turn is written before its session: a known request id means that nothing else is to be written.
_LATER: Final[Mapping[str, Any]] = {"ondelete": "CASCADE", "deferrable": True, "initially": "DEFERRED"}

sessions: Final = Table(
    "sessions",
    METADATA,
    Column("session_id", ID, primary_key=True),
    Column("owner", ID, nullable=False),
    Column("agent", Text, nullable=False),
    Column("capabilities", Text),
    Column("negotiated", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Column("message_count", Integer, nullable=False, server_default="0"),
    Column("receipt_count", Integer, nullable=False, server_default="0"),
    Column("receipt_hash", Text),
    Column("stored_bytes", BigInteger, nullable=False, server_default="0"),
    Column("deleting", Integer, nullable=False, server_default="0"),
    Column("kind", Text, nullable=False, server_default=SessionKind.TURNS.value),
    # No second unique key here: PostgreSQL's "insert, or renew" can then fail when two put the same new session.
    Index("ix_sessions_page", "owner", "created_at", "session_id"),
    Index("ix_sessions_updated", "updated_at"),
)
# A session that is being deleted cannot be read or used; its rows are deleted step by step (`erase.py`).
IS_DELETING: Final = sessions.c.deleting == literal_column("1")
# Turns are kept for longer than calls.
HOLDS_CALLS: Final = sessions.c.kind != literal_column(f"'{SessionKind.TURNS.value}'")

# The bytes stored for each owner: packets, messages and receipts of turns that have ended.
usage: Final = Table(
    "usage",
    METADATA,
    Column("owner", ID, primary_key=True),
    Column("stored_bytes", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

turns: Final = Table(
    "turns",
    METADATA,
    Column("request_id", ID, primary_key=True),
    Column("session_id", ID, ForeignKey("sessions.session_id", **_LATER), nullable=False),
    Column("owner", ID, nullable=False),
    Column("request_digest", Text, nullable=False),
    Column("runner", ID, nullable=False),
    Column("state", Text, nullable=False),
    Column("last_seq", Integer, nullable=False, server_default="0"),
    Column("created_at", Instant, nullable=False),
    Column("ended_at", Instant),
    Column("capabilities", Text),
    Column("conversation_id", ID),
    # The next three are for the processes that share the database; `liveness.py` reads and writes them.
    Column("leased_at", Instant, nullable=False, server_default="0"),
    Column("read_at", Instant),
    Column("cancel_requested", Integer, nullable=False, server_default="0"),
    Column("stored_bytes", BigInteger, nullable=False, server_default="0"),
    # Counts the processes that were given this turn: what an earlier one still writes is refused.
    Column("epoch", Integer, nullable=False, server_default="0"),
    Column("prompt_bytes", Integer, nullable=False, server_default="0"),
    Column("digest_version", Integer),
    Column("receipt_position", Integer),
    Index("ix_turns_session", "session_id"),
    sqlite_with_rowid=False,
)
# A literal and not a parameter: only then does a database see that the partial index fits.
IS_RUNNING: Final = turns.c.state == literal_column(f"'{StoredState.RUNNING.value}'")

# What a worker needs to run a queued turn; deleted when the turn ends. `place` is the order among waiting turns, and
# NULL once a worker has the turn (`queue.py`).
work: Final = Table(
    "work",
    METADATA,
    Column("request_id", ID, ForeignKey("turns.request_id", ondelete="CASCADE"), primary_key=True),
    Column("owner", ID, nullable=False),
    Column("agent", ID, nullable=False),
    Column("request", Text, nullable=False),
    Column("streams", Integer, nullable=False),
    Column("may_restart", Integer, nullable=False),
    Column("trace", Text),
    Column("queued_at", Instant, nullable=False),
    Column("place", BigInteger),
)
IS_WAITING: Final = work.c.place.is_not(None)

# The last heartbeat of each process that runs turns, by the database's clock.
runners: Final = Table(
    "runners",
    METADATA,
    Column("runner", ID, primary_key=True),
    Column("seen_at", Instant, nullable=False),
    sqlite_with_rowid=False,
)

# The calls of backends that may be called only so many times at once: the first by `number` run, the others wait.
slots: Final = Table(
    "slots",
    METADATA,
    Column("backend", ID, primary_key=True),
    Column("slot_id", ID, primary_key=True),
    Column("holder", ID, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("taken_at", Instant, nullable=False),
    sqlite_with_rowid=False,
)

packets: Final = Table(
    "packets",
    METADATA,
    Column("request_id", ID, ForeignKey("turns.request_id", ondelete="CASCADE"), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
)

# What a client sent, as JSON in UTF-8: a list of content blocks. In parts, since SQLite copies a value several times.
prompts: Final = Table(
    "prompts",
    METADATA,
    Column("request_id", ID, ForeignKey("turns.request_id", ondelete="CASCADE"), primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("body", LargeBinary, nullable=False),
)

messages: Final = Table(
    "messages",
    METADATA,
    Column("session_id", ID, ForeignKey("sessions.session_id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("size", Integer, nullable=False),
    Column("body", Text, nullable=False),
    # Only of a named conversation, which may go on in several sessions.
    Column("conversation_id", ID),
    Column("added_at", Instant),
    # The turn that added it; and where its text is if that is long: `TextSource`, which is not in the body then.
    Column("request_id", ID),
    Column("text_in", Text),
)

receipts: Final = Table(
    "receipts",
    METADATA,
    Column("session_id", ID, ForeignKey("sessions.session_id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    # As `receipt_text.py` packs it. The id of its turn and the hashes are in it; `turns.receipt_position` finds it.
    Column("body", LargeBinary, nullable=False),
)

tokens: Final = Table(
    "tokens",
    METADATA,
    Column("token_id", ID, primary_key=True),
    Column("user", ID, nullable=False),
    Column("label", Text, nullable=False),
    Column("digest", ID, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant),
    Column("rules", Text),
    UniqueConstraint("digest", name="uq_tokens_digest"),
)

# At most one row: there was a token once, so callers need one, even if none is left. `tokens open` deletes it.
token_use: Final = Table(
    "token_use",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("since", Instant, nullable=False),
)

# What was used and what it cost. Rows are added up in place: one for each key, user, backend, model and day.
model_usage: Final = Table(
    "model_usage",
    METADATA,
    Column("key_id", ID, primary_key=True),
    Column("user", ID, primary_key=True),
    Column("backend", ID, primary_key=True),
    Column("model", ID, primary_key=True),
    Column("day", Day, primary_key=True),
    Column("requests", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cached_input_tokens", BigInteger, nullable=False),
    Column("cost_micro", BigInteger, nullable=False),
    Column("priced", BigInteger, nullable=False),
    Column("estimated", BigInteger, nullable=False, server_default="0"),
    Index("ix_model_usage_user", "user"),
    sqlite_with_rowid=False,
)

# What each process has reserved of the budgets of keys, for requests that it has not counted yet; and, with its request
# id as the holder, what is reserved for a turn of the queue until it has ended.
reservations: Final = Table(
    "reservations",
    METADATA,
    Column("key_id", ID, primary_key=True),
    Column("holder", ID, primary_key=True),
    Column("reserved_micro", BigInteger, nullable=False),
    Column("renewed_at", Instant, nullable=False),
    sqlite_with_rowid=False,
)

# Written by health checks, to test whether the storage can be written.
probes: Final = Table(
    "probes",
    METADATA,
    Column("probe", Integer, primary_key=True, autoincrement=False),
    Column("count", BigInteger, nullable=False),
)


@cache
def whole_schema() -> MetaData:
    """The tables with all their indexes, to create them or to compare them with a database.

    Not made with the tables: a condition of an index that names PostgreSQL loads its dialect, which SQLite does not
    need, and queries need no index here.
    """
    conversation = messages.c.conversation_id
    for name, columns, condition in (
        ("ix_sessions_deleting", (sessions.c.session_id,), IS_DELETING),
        ("ix_sessions_calls", (sessions.c.updated_at,), HOLDS_CALLS),
        ("ix_turns_running", (turns.c.created_at,), IS_RUNNING),
        ("ix_turns_running_owner", (turns.c.owner,), IS_RUNNING),
        ("ix_work_place", (work.c.agent, work.c.place), IS_WAITING),
        ("ix_work_owner", (work.c.agent, work.c.owner, work.c.place), IS_WAITING),
        ("ix_messages_conversation", (conversation, messages.c.added_at), conversation.is_not(None)),
    ):
        Index(name, *columns, sqlite_where=condition, postgresql_where=condition)
    return METADATA
