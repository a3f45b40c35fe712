"""Sessions, their turns, what belongs to those, and tokens."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the first eight tables."""
    op.create_table(
        "sessions",
        sa.Column("session_id", ID, nullable=False),
        sa.Column("owner", ID, nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("capabilities", sa.Text),
        sa.Column("negotiated", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("message_count", sa.Integer, nullable=False, server_default="0"),
        sa.Column("receipt_count", sa.Integer, nullable=False, server_default="0"),
        sa.Column("receipt_hash", sa.Text),
        sa.PrimaryKeyConstraint("session_id", name="pk_sessions"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_sessions_page", "sessions", ["owner", "created_at", "session_id"])
    op.create_index("ix_sessions_updated", "sessions", ["updated_at"])
    op.create_table(
        "turns",
        sa.Column("request_id", ID, nullable=False),
        sa.Column("session_id", ID, nullable=False),
        sa.Column("owner", ID, nullable=False),
        sa.Column("request_digest", sa.Text, nullable=False),
        sa.Column("runner", ID, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("last_seq", sa.Integer, nullable=False, server_default="0"),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("ended_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("request_id", name="pk_turns"),
        sa.ForeignKeyConstraint(
            ["session_id"],
            ["sessions.session_id"],
            name="fk_turns",
            ondelete="CASCADE",
            deferrable=True,
            initially="DEFERRED",
        ),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_turns_session", "turns", ["session_id"])
    is_running = sa.text("state = 'running'")
    op.create_index("ix_turns_running", "turns", ["created_at"], sqlite_where=is_running, postgresql_where=is_running)
    op.create_table(
        "runners",
        sa.Column("runner", ID, nullable=False),
        sa.Column("seen_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("runner", name="pk_runners"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "packets",
        sa.Column("request_id", ID, nullable=False),
        sa.Column("seq", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("request_id", "seq", name="pk_packets"),
        sa.ForeignKeyConstraint(["request_id"], ["turns.request_id"], name="fk_packets", ondelete="CASCADE"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "items",
        sa.Column("request_id", ID, nullable=False),
        sa.Column("item_id", ID, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("request_id", "item_id", name="pk_items"),
        sa.ForeignKeyConstraint(["request_id"], ["turns.request_id"], name="fk_items", ondelete="CASCADE"),
    )
    op.create_table(
        "messages",
        sa.Column("session_id", ID, nullable=False),
        sa.Column("position", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("session_id", "position", name="pk_messages"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.session_id"], name="fk_messages", ondelete="CASCADE"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "receipts",
        sa.Column("session_id", ID, nullable=False),
        sa.Column("position", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("request_id", ID, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("previous_hash", sa.Text),
        sa.PrimaryKeyConstraint("session_id", "position", name="pk_receipts"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.session_id"], name="fk_receipts", ondelete="CASCADE"),
        sa.UniqueConstraint("request_id", name="uq_receipts_request"),
    )
    op.create_table(
        "tokens",
        sa.Column("token_id", ID, nullable=False),
        sa.Column("user", ID, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("digest", ID, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("token_id", name="pk_tokens"),
        sa.UniqueConstraint("digest", name="uq_tokens_digest"),
    )
