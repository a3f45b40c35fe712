"""Sizes, sessions that are deleted step by step, health probes; on SQLite, rowids for tables with large rows."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add columns and two tables; SQLite copies three tables, since a table cannot be given a rowid."""
    op.add_column("turns", sa.Column("stored_bytes", sa.BigInteger, nullable=False, server_default="0"))
    if op.get_bind().dialect.name == "sqlite":
        _copy_tables()
    else:
        for column in _new_session_columns():
            op.add_column("sessions", column)
        op.add_column("messages", sa.Column("size", sa.Integer))
        op.execute("UPDATE messages SET size = octet_length(body)")
        op.alter_column("messages", "size", nullable=False)
    is_deleting = sa.text("deleting = 1")
    op.create_index(
        "ix_sessions_deleting", "sessions", ["session_id"], sqlite_where=is_deleting, postgresql_where=is_deleting
    )
    op.create_table(
        "usage",
        sa.Column("owner", ID, nullable=False),
        sa.Column("stored_bytes", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("owner", name="pk_usage"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "probes",
        sa.Column("probe", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("probe", name="pk_probes"),
    )


def _new_session_columns() -> tuple[sa.Column[int], sa.Column[int]]:
    return (
        sa.Column("stored_bytes", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("deleting", sa.Integer, nullable=False, server_default="0"),
    )


def _copy_tables() -> None:
    """Replace three tables by copies with rowids. Foreign keys are off meanwhile, or dropping would cascade."""
    kept = "session_id, owner, agent, capabilities, negotiated, created_at, updated_at"
    op.create_table(
        "new_sessions",
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
        *_new_session_columns(),
        sa.PrimaryKeyConstraint("session_id", name="pk_sessions"),
    )
    _replace("sessions", f"{kept}, message_count, receipt_count, receipt_hash")
    op.create_index("ix_sessions_page", "sessions", ["owner", "created_at", "session_id"])
    op.create_index("ix_sessions_updated", "sessions", ["updated_at"])
    op.create_table(
        "new_packets",
        sa.Column("request_id", ID, nullable=False),
        sa.Column("seq", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("request_id", "seq", name="pk_packets"),
        sa.ForeignKeyConstraint(["request_id"], ["turns.request_id"], name="fk_packets", ondelete="CASCADE"),
    )
    _replace("packets", "request_id, seq, body")
    op.create_table(
        "new_messages",
        sa.Column("session_id", ID, nullable=False),
        sa.Column("position", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("session_id", "position", name="pk_messages"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.session_id"], name="fk_messages", ondelete="CASCADE"),
    )
    _replace("messages", "session_id, position, body", size="length(CAST(body AS BLOB))")


def _replace(table: str, columns: str, **computed: str) -> None:
    """Move the rows of a table to its copy, which then takes its name."""
    into, values = ", ".join([columns, *computed]), ", ".join([columns, *computed.values()])
    op.execute(f"INSERT INTO new_{table} ({into}) SELECT {values} FROM {table}")  # noqa: S608 - words of this file
    op.drop_table(table)
    op.rename_table(f"new_{table}", table)
