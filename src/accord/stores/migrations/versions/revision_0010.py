"""What sessions hold, versions of request digests, reservations of budgets, and how much usage is estimated."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the columns and the table. A session of calls is known by its agent and its id; it may hold responses."""
    op.add_column("sessions", sa.Column("kind", sa.Text, nullable=False, server_default="turns"))
    op.execute(
        "UPDATE sessions SET kind = 'calls' WHERE agent = 'model-api' AND session_id LIKE 'api-%' AND message_count = 0"
    )
    is_expiring = sa.text("kind <> 'turns'")
    op.create_index(
        "ix_sessions_calls", "sessions", ["updated_at"], sqlite_where=is_expiring, postgresql_where=is_expiring
    )
    op.add_column("turns", sa.Column("digest_version", sa.Integer))
    op.create_table(
        "reservations",
        sa.Column("key_id", ID, nullable=False),
        sa.Column("holder", ID, nullable=False),
        sa.Column("reserved_micro", sa.BigInteger, nullable=False),
        sa.Column("renewed_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("key_id", "holder", name="pk_reservations"),
        sqlite_with_rowid=False,
    )
    op.add_column("model_usage", sa.Column("estimated", sa.BigInteger, nullable=False, server_default="0"))
