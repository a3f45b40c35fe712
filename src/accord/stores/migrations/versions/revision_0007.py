"""Queued turns: the work that waits for a worker, and the epoch that refuses writes of an earlier worker."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the column, the table and indexes on what runs or waits."""
    op.add_column("turns", sa.Column("epoch", sa.Integer, nullable=False, server_default="0"))
    op.create_table(
        "work",
        sa.Column("request_id", ID, nullable=False),
        sa.Column("owner", ID, nullable=False),
        sa.Column("agent", ID, nullable=False),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("streams", sa.Integer, nullable=False),
        sa.Column("may_restart", sa.Integer, nullable=False),
        sa.Column("trace", sa.Text),
        sa.Column("queued_at", sa.BigInteger, nullable=False),
        sa.Column("place", sa.BigInteger),
        sa.PrimaryKeyConstraint("request_id", name="pk_work"),
        sa.ForeignKeyConstraint(["request_id"], ["turns.request_id"], name="fk_work", ondelete="CASCADE"),
    )
    for name, table, columns, condition in (
        ("ix_turns_running_owner", "turns", ["owner"], "state = 'running'"),
        ("ix_work_place", "work", ["agent", "place"], "place IS NOT NULL"),
        ("ix_work_owner", "work", ["agent", "owner", "place"], "place IS NOT NULL"),
    ):
        where = sa.text(condition)
        op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)
